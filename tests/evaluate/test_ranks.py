"""Which rank to use: the rank that made the data is found, and more is not better."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.errors import DataError
from onlinegcp.evaluate.ranks import (
    RankStudy,
    rank_grid,
    recommend,
    study_ranks,
)
from onlinegcp.slices import Slice


def poisson_stream(rank, n_slices=24, shape=(17, 13), seed=0, volume=30.0):
    rng = np.random.default_rng(seed)
    a, b = (rng.gamma(0.4, 1.0, (n, rank)) for n in shape)
    rows = rng.gamma(2.0, volume, (n_slices, rank))
    return [Slice.dense(rng.poisson((a * row) @ b.T).astype(float)) for row in rows]


@pytest.mark.parametrize(
    ("most", "ranks"), [(1, (1,)), (2, (1, 2)), (5, (1, 2, 3, 4, 5)), (7, (1, 2, 3, 4, 6, 7))]
)
def test_the_grid_ends_with_the_largest_rank(most, ranks):
    assert rank_grid(most) == ranks


def test_no_rank_below_one_is_tried():
    with pytest.raises(DataError, match="at least 1"):
        rank_grid(0)


@pytest.mark.slow
@pytest.mark.parametrize("rank", [1, 3])
def test_the_rank_of_the_data_is_recommended(rank):
    study = study_ranks(poisson_stream(rank), range(1, 6), "poisson", warm_start=8)
    assert study.recommended == rank
    assert study.stability[rank - 1] > 0.9
    assert f"Use rank {rank}" in study.advice
    # Beyond the truth the held-out loss does not fall, unlike that of fitted weights.
    assert study.mean_losses[4] > study.mean_losses[rank - 1] - 1e-3


def test_a_slice_that_cannot_be_halved_is_judged_as_a_whole():
    rng = np.random.default_rng(0)
    stream = [Slice.dense(rng.poisson(9.0, (1, 1)).astype(float)) for _ in range(8)]
    assert study_ranks(stream, [1], "poisson", warm_start=4).recommended == 1


def test_the_smallest_rank_within_the_noise_is_recommended():
    noise = np.random.default_rng(0).normal(0, 1, (4, 50))
    level = np.array([5.0, 1.02, 1.0, 1.5])[:, None]
    assert recommend([1, 2, 4, 8], level + 0.2 * noise) == (4, 2)
    assert recommend([1, 2, 4, 8], level + 0.0 * noise) == (4, 4)
    # What all slices share does not blur the comparison.
    shared = np.random.default_rng(1).normal(0, 100, 50)
    assert recommend([1, 2, 4, 8], level + 0.2 * noise + shared) == (4, 2)


@pytest.mark.parametrize(
    ("stability", "words"),
    [
        ([1.0, 0.95, 0.9], ["same patterns", "0.95"]),
        ([1.0, 0.5, 0.4], ["agree only by 0.50", "up to rank 1 they are the same"]),
        ([0.7, 0.5, 0.4], ["with care."]),
    ],
)
def test_the_advice_tells_how_far_to_trust_the_patterns(stability, words):
    losses = np.array([[5.0, 5.0], [1.0, 1.2], [1.1, 1.0]])
    study = RankStudy((1, 2, 3), losses, np.array(stability), 10.0, 3, 2)
    assert study.advice.startswith("Use rank 2: it predicts as well as rank 3")
    for word in words:
        assert word in study.advice
    figure = study.figure()
    assert list(figure.data[0].x) == [1, 2, 3]
    assert figure.data[0].y == pytest.approx(losses.mean(axis=1) / 10)


def test_the_advice_says_when_the_largest_rank_tried_is_the_best():
    losses = np.array([[5.0, 5.0], [3.0, 3.2], [1.1, 1.0]])
    largest = RankStudy((1, 2, 3), losses, np.ones(3), 10.0, 3, 3)
    assert "a larger one may do better" in largest.advice
    inner = RankStudy((1, 2, 3), losses[[0, 2, 1]], np.ones(3), 10.0, 2, 2)
    assert "larger" not in inner.advice


def test_too_few_slices_are_refused():
    with pytest.raises(DataError, match="two slices beyond"):
        study_ranks(poisson_stream(1, 5), [1], "poisson", warm_start=4)
