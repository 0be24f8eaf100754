"""What rows show alone, against the normal distribution conditioned on all other rows."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.kernels.common import learn_common, without_common

PRIOR, LARGEST = 20.0, 4.0


def some_moves(n: int, scale: list[float], seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    found = np.linalg.qr(rng.normal(size=(n, len(scale))))[0].T.copy()
    alone = np.stack([rng.uniform(5.0, 60.0, n), np.full(n, 40.0)])
    return found, np.array(scale), alone


@pytest.mark.parametrize("scale", [[2.0], [3.0, 1.5, 0.7], [2.0, 0.0, 1.0, 0.0, 0.5, 0.1]])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_row_is_what_all_others_leave_of_it(scale: list[float], seed: int) -> None:
    n, rng = 12, np.random.default_rng(seed + 10)
    found, sizes, alone = some_moves(n, scale, seed)
    surprise = rng.uniform(-3.0, 3.0, n)
    heavy = rng.random(n) < 0.8
    left = np.empty((2, n))
    without_common(found, sizes, alone, PRIOR, surprise, heavy, LARGEST, left)
    loads = (found * sizes[:, None]).T
    own = (alone[0] + PRIOR) / (alone[1] + PRIOR)
    covariance = loads @ loads.T + np.diag(own)
    for i in range(n):
        others = heavy & (np.arange(n) != i)
        told = covariance[i, others] @ np.linalg.solve(
            covariance[np.ix_(others, others)], surprise[others]
        )
        expected = surprise[i] - told if heavy[i] else 0.0
        assert left[0, i] == pytest.approx(expected, abs=1e-10)
        assert left[1, i] == pytest.approx(expected / np.sqrt(own[i]), abs=1e-10)


def test_one_row_far_out_does_not_move_the_others_far() -> None:
    found, sizes, alone = some_moves(12, [2.0], 0)
    surprise, heavy = np.zeros(12), np.ones(12, dtype=bool)
    odd, odder = np.empty((2, 12)), np.empty((2, 12))
    for value, left in ((LARGEST, odd), (100.0, odder)):
        surprise[3] = value
        without_common(found, sizes, alone, PRIOR, surprise, heavy, LARGEST, left)
    rest = np.arange(12) != 3
    assert np.array_equal(odd[:, rest], odder[:, rest])
    assert odder[0, 3] == pytest.approx(odd[0, 3] + 96.0)


def learned(draws: np.ndarray, moves: int) -> tuple[np.ndarray, np.ndarray]:
    n = draws.shape[1]
    sums, alone, scale = np.zeros((moves, n)), np.zeros((2, n)), np.zeros(moves)
    found = np.cos(np.outer(np.arange(1, moves + 1), np.arange(1, n + 1)))
    heavy, slices = np.ones(n, dtype=bool), 0.0
    for z in draws:
        keep = 1.0 - 1.0 / min(200.0, slices + 1.5)
        slices = min(200.0, slices + 1.0)
        left = np.stack([z, z])
        learn_common(
            sums, found, scale, alone, z, heavy, left, 10.0, keep, slices + 0.5, float(n)
        )  # fmt: skip
    return found, scale


def test_directions_are_those_of_the_covariance() -> None:
    rng = np.random.default_rng(0)
    found, sizes, _ = some_moves(20, [3.0, 2.0], 5)
    draws = rng.normal(size=(600, 2)) * sizes @ found + rng.normal(size=(600, 20))
    seen, scale = learned(draws, 4)
    assert np.allclose(seen @ seen.T, np.eye(4), atol=1e-9)
    cosines = np.linalg.svd(seen[:2] @ found.T)[1]
    assert cosines.min() > 0.95
    assert np.allclose(np.sort(scale[:2])[::-1], sizes, rtol=0.25)
    assert (scale[2:] < 0.7).all()


def test_rows_of_mere_noise_have_nothing_in_common() -> None:
    draws = np.random.default_rng(1).normal(size=(800, 40))
    assert (learned(draws, 6)[1] < 0.7).all()


def test_few_rows_make_no_moves_and_no_nan() -> None:
    draws = np.random.default_rng(2).normal(size=(100, 3))
    found, scale = learned(draws, 6)
    assert np.isfinite(found).all()
    assert (scale == 0.0).all()
