"""The pieces of RLST's compiled step against dense NumPy."""

import numpy as np
import pytest

from onlinegcp.kernels.tracking import recursion
from onlinegcp.kernels.tracking.columns import lines_of, to_columns

SHAPES = [(5, 3), (3, 2, 4)]


def problem(shape, rank=2, seed=0):
    rng = np.random.default_rng(seed)
    factors = [rng.standard_normal((n, rank)) for n in shape]
    written = np.ones((1, rank))
    for a in factors:
        written = (written[:, None, :] * a[None, :, :]).reshape(-1, rank)
    block, offsets = to_columns(factors)
    x = rng.standard_normal(int(np.prod(shape)))
    return written, x, block, offsets, lines_of(offsets, 0, len(shape) - 1)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_squared_error_is_that_of_the_model_written_out(shape):
    written, x, block, offsets, rows = problem(shape)
    weights = np.array([0.7, -1.3])
    found = recursion.squared_error(x, block, offsets, rows, weights)
    assert found == pytest.approx(np.sum((x - written @ weights) ** 2), rel=1e-12)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_weights_are_those_of_least_squares(shape):
    written, x, block, offsets, rows = problem(shape)
    out = np.empty((2, 1))
    recursion.least_squares_weights(x, block, offsets, rows, out)
    np.testing.assert_allclose(out[:, 0], np.linalg.lstsq(written, x)[0], rtol=1e-9)


@pytest.mark.parametrize(("share", "fade"), [(1.0, 1.0), (1.0, 0.8), (-0.5, 1.0)])
def test_counting_a_slice_is_counting_it_in_the_data_themselves(share, fade):
    """D holds what was seen times the weights; its pseudo-inverse and the basis follow from it."""
    rng = np.random.default_rng(3)
    rank, cells = 2, 9
    slices, held = rng.standard_normal((6, cells)), rng.standard_normal((6, rank))
    data, sums = slices.T @ held, held.T @ held
    x, s = slices[0], held[0]
    old = (np.linalg.inv(sums) @ data.T, np.linalg.pinv(data), sums, np.linalg.inv(sums))
    seen = np.empty(rank)
    recursion.weigh(old[1], sums, x, seen, np.empty(rank))
    np.testing.assert_allclose(seen, np.linalg.pinv(data) @ x, rtol=1e-10)

    new = [np.empty((rank, cells)), np.empty((rank, cells)), np.empty((rank, rank))]
    new.append(np.empty((rank, rank)))
    scratch = [np.empty(cells) for _ in range(3)]
    far = recursion.count(*map(np.ascontiguousarray, old), x, seen, s, share, fade, *new, *scratch)
    assert far < recursion.DRIFT

    data = fade * data + share * np.outer(x, s)
    sums = fade * sums + share * np.outer(s, s)
    expected = (np.linalg.inv(sums) @ data.T, np.linalg.pinv(data), sums, np.linalg.inv(sums))
    for mine, theirs in zip(new, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(seen, np.linalg.pinv(data) @ x, rtol=1e-8)
