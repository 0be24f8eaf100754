"""The study of the first slices: planted ranks, one path, few passes."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

from onlinegcp.losses import get_loss
from onlinegcp.slices import Slice, stack
from onlinegcp.streaming.rank_study import (
    grown,
    most_told_apart,
    smallest_as_good,
    study_path,
)
from onlinegcp.streaming.warm_start import short_fit
from planted_ranks import planted


def study(name, slices, most=20):
    loss = get_loss(name)
    return study_path(slices, loss, lower=loss.lower, most=most, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("rank", [3, 8])
@pytest.mark.parametrize("name", ["gaussian", "poisson"])
def test_planted_ranks_are_found(name, rank):
    found = [study(name, planted(name, rank, 10, seed)).rank for seed in range(3)]
    assert sum(abs(one - rank) <= 1 for one in found) >= 2


def test_the_path_is_nested_and_ends_when_nothing_is_gained():
    path = study("poisson", planted("poisson", 2, 10, 0), most=30)
    assert path.rank == 2
    assert path.ranks[:3] == (1, 2, 3)
    assert max(path.ranks) < 10
    assert len(path.losses) == len(path.ranks)


@pytest.mark.parametrize(("rank", "first"), [(2, (1, 2, 3)), (5, (1, 2, 3))])
def test_a_path_may_begin_below_a_model_that_is_known(rank, first):
    loss, slices = get_loss("poisson"), planted("poisson", 3, 20, 0)
    known = short_fit(stack(slices), rank, loss, 0.0, seed=0)
    path = study_path(slices, loss, lower=0.0, most=30, seed=0, known=known)
    assert path.ranks[:3] == first
    assert path.rank == 3
    assert path.best.rank in path.ranks


@pytest.mark.parametrize(("shape", "count"), [((24, 3), 10), ((40, 30), 10), ((3, 2), 50)])
def test_components_up_to_the_largest_rank_are_told_apart(shape, count):
    """Kruskal ranks of random factors: the sum of them is what the condition asks for."""
    rank = most_told_apart(shape, count)
    assert kruskal((*shape, count), rank) >= 2 * rank + 2
    assert kruskal((*shape, count), rank + 1) < 2 * (rank + 1) + 2


def kruskal(sizes, rank):
    rng = np.random.default_rng(0)
    return sum(np.linalg.matrix_rank(rng.standard_normal((n, rank))) for n in sizes)


@pytest.mark.parametrize(("shape", "count"), [((6, 5, 4), 8), ((2, 9, 3, 2), 4), ((3, 21, 6), 5)])
def test_modes_taken_together_tell_more_components_apart(shape, count):
    """Where the components are unique, none can move a little and leave the slices as they are."""
    rank, sizes = most_told_apart(shape, count), (*shape, count)
    rng = np.random.default_rng(0)
    factors = [rng.standard_normal((n, rank)) for n in sizes]
    moves = []
    for mode, n in enumerate(sizes):
        for r, row in np.ndindex(rank, n):
            vectors = [a[:, r] for a in factors]
            vectors[mode] = np.eye(n)[row]
            moves.append(reduce(np.multiply.outer, vectors).ravel())
    # But for the scale that the vectors of a component share out among them.
    assert np.linalg.matrix_rank(np.array(moves)) == rank * (sum(sizes) - len(sizes) + 1)
    # Each mode by itself says less.
    assert kruskal(sizes, rank) < 2 * rank + len(sizes) - 1


def test_slices_of_one_mode_carry_as_many_components_as_span_them():
    assert most_told_apart((5, 1), 4) == 4
    assert most_told_apart((5, 1), 40) == 5


def test_no_rank_above_the_largest_is_tried():
    path = study("poisson", planted("poisson", 5, 10, 0), most=3)
    assert path.ranks == (1, 2, 3)


@pytest.mark.parametrize("n_slices", [1, 2, 3])
def test_few_slices_are_enough_for_an_answer(n_slices):
    assert study("poisson", planted("poisson", 2, n_slices, 0)).rank >= 1


def test_slices_without_data_get_one_component():
    empty = [Slice(np.empty((0, 2), np.int64), np.empty(0), (4, 3)) for _ in range(6)]
    assert study("poisson", empty).rank == 1
    assert study("gaussian", empty).rank == 1


def test_the_smallest_rank_within_one_standard_error_is_taken():
    noise = np.random.default_rng(0).normal(0.0, 0.2, (3, 40))
    losses = np.array([2.0, 1.01, 1.0])[:, None] + noise - noise.mean(axis=1, keepdims=True)
    assert smallest_as_good([1, 4, 9], losses) == 4
    assert smallest_as_good([1, 4, 9], np.array([[2.0] * 5, [1.1] * 5, [1.0] * 5])) == 9
    absurd = np.array([[2.0, np.nan], [1.0, -np.inf]])
    assert smallest_as_good([1, 4], absurd) == 4
    assert smallest_as_good([1, 4], absurd[:, 1:]) == 1


def test_new_components_explain_what_is_left():
    rng = np.random.default_rng(0)
    columns = [rng.gamma(0.3, 1.0, (n, 2)) for n in (12, 9, 6)]
    x = Slice.dense(rng.poisson(30 * np.einsum("ir,jr,kr->ijk", *columns)).astype(float))
    loss = get_loss("poisson")
    one = short_fit(x, 1, loss, 0.0)
    two = grown(x, one, 2, loss, 0.0, 0)
    assert two.rank == 2

    def lost(model):
        m = model.full()
        return float((m - x.to_dense() * np.log(m + 1e-10)).sum())

    assert lost(two) < lost(one)


def test_a_path_that_begins_with_too_many_components_goes_on_below():
    """Eight known where three are: two ranks below that is as good as any, and so half is tried."""
    loss, slices = get_loss("poisson"), planted("poisson", 3, 40, 0)
    known = short_fit(stack(slices), 8, loss, 0.0, seed=0)
    path = study_path(slices, loss, lower=0.0, most=30, seed=0, known=known)
    assert path.rank == path.best.rank == 3
    assert list(path.ranks) == sorted(set(path.ranks))
    assert path.ranks[0] <= 3
    assert 6 in path.ranks
