"""Which rank to use: the rank that made the data is found, and more is not better."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.errors import DataError
from onlinegcp.evaluate.ranks import (
    RankStudy,
    _held_out_loss,
    _rows_of,
    rank_grid,
    recommend,
    study_ranks,
)
from onlinegcp.slices import Slice
from onlinegcp.solvers.objective import slice_loss
from onlinegcp.streaming import OnlineGCP


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


def test_weights_come_from_the_other_half_only():
    slices = poisson_stream(2, 9)
    model = OnlineGCP(2, "poisson", init_slices=8)
    for x in slices[:8]:
        model.partial_fit(x)
    x = slices[8]
    first = np.random.default_rng(5).permutation(17) < 8
    # An oracle by brute force: the smaller tensors as such, weights by long gradient descent.
    total = 0.0
    for seen in (first, ~first):
        cells = x.to_dense()
        basis = [model.factors_[0][seen], model.factors_[1]]
        weights = _best_weights(cells[seen], *basis)
        rest = Slice.dense(cells[~seen])
        loss = model.loss_
        total += slice_loss(rest, [model.factors_[0][~seen], model.factors_[1]], weights, loss)
    assert _held_out_loss(model, 5, x) == pytest.approx(total, rel=1e-6)


def _best_weights(cells, a, b):
    """Maximum likelihood by the multiplicative updates of Lee and Seung."""
    columns = np.einsum("ir,jr->rij", a, b)
    weights = np.full(a.shape[1], cells.sum() / columns.sum())
    for _ in range(3_000):
        ratio = cells / np.maximum(np.tensordot(weights, columns, 1), 1e-300)
        weights = weights * (columns * ratio).sum(axis=(1, 2)) / columns.sum(axis=(1, 2))
    return weights


@pytest.mark.parametrize("unlisted", ["zero", "missing"])
def test_rows_of_a_slice_are_those_of_its_array(unlisted):
    rng = np.random.default_rng(0)
    cells = rng.poisson(0.7, (7, 1, 5)).astype(float)
    x = Slice(np.argwhere(cells), cells[cells > 0], cells.shape, unlisted=unlisted)
    rows = np.array([True, False, True, False, False, True, True])
    np.testing.assert_array_equal(_rows_of(x, 0, rows).to_dense(), x.to_dense()[rows])


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
