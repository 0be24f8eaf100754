"""Starting points: their scale, their randomness, their refusals."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from onlinegcp.errors import DataError
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import get_loss
from onlinegcp.slices import Slice
from onlinegcp.static import starts

SHAPES = [(5,), (1, 7), (4, 3), (3, 1, 5), (2, 3, 2, 3)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("nonnegative", [True, False])
def test_a_random_start_has_the_norm_asked_for(shape, nonnegative):
    rng = np.random.default_rng(0)
    factors = starts.random_start(shape, 3, rng, nonnegative=nonnegative, norm=7.0)
    assert [a.shape for a in factors] == [(n, 3) for n in shape]
    assert np.linalg.norm(KTensor(None, factors).full()) == pytest.approx(7.0)
    assert all((a > 0).all() for a in factors) == nonnegative


def test_a_random_start_is_the_same_for_the_same_seed_only():
    first, again, other = (
        starts.random_start((4, 5), 2, starts.start_generator(seed, number))
        for seed, number in [(3, 0), (3, 0), (3, 1)]
    )
    assert all(map(np.array_equal, first, again))
    assert not np.array_equal(first[0], other[0])


def test_start_norm_fills_in_missing_cells_and_minds_the_link():
    data = np.full((4, 5), 3.0)
    holes = data.copy()
    holes[:2] = np.nan
    whole = np.linalg.norm(data)
    assert starts.start_norm(Slice.dense(data)) == pytest.approx(whole)
    assert starts.start_norm(Slice.dense(holes)) == pytest.approx(whole)
    counts = Slice.dense(1000.0 * data)
    assert starts.start_norm(counts, get_loss("poisson")) == pytest.approx(1000.0 * whole)
    assert starts.start_norm(counts, get_loss("poisson_log")) == pytest.approx(np.sqrt(20.0))
    assert starts.start_norm(Slice.dense(0.0 * data)) > 0.0


def test_more_starts_never_give_a_worse_answer():
    def fit(rng):
        return SimpleNamespace(objective=rng.random())

    found = [starts.best_of(n, fit, seed=5).objective for n in range(1, 8)]
    assert found == sorted(found, reverse=True)
    assert found[-1] < found[0]


def test_a_start_that_ended_in_nan_never_wins():
    def fits(*objectives):
        remaining = iter(objectives)
        return lambda rng: SimpleNamespace(objective=next(remaining))

    assert starts.best_of(3, fits(np.nan, 2.0, 3.0)).objective == 2.0
    assert starts.best_of(3, fits(2.0, np.nan, 3.0)).objective == 2.0


@pytest.mark.parametrize("n_starts", [0, -1, 1.5, "3", None, True])
def test_the_number_of_starts_is_a_positive_integer(n_starts):
    with pytest.raises(DataError, match="n_starts"):
        starts.best_of(n_starts, lambda rng: SimpleNamespace(objective=0.0))


@pytest.mark.parametrize("seed", [-1, 0.5, "a", None])
def test_a_seed_is_an_integer_not_below_zero(seed):
    with pytest.raises(DataError, match="seed"):
        starts.best_of(1, lambda rng: SimpleNamespace(objective=0.0), seed)


@pytest.mark.parametrize("rank", [0, -3, 2.5, 2.0, "2", None, True, 10_001, np.nan])
def test_a_rank_that_is_no_sensible_integer_is_refused(rank):
    with pytest.raises(DataError, match=r"rank must be .*, but got"):
        starts.check_rank(rank, (1000, 1000, 1000))


def test_a_rank_beyond_what_any_tensor_of_the_shape_needs_is_refused():
    assert starts.check_rank(np.int64(6), (2, 3, 50)) == 6
    with pytest.raises(DataError, match=r"at most 6 .*\(2, 3, 50\)"):
        starts.check_rank(7, (2, 3, 50))
    assert starts.check_rank(1, (9,)) == 1
    with pytest.raises(DataError, match="at most 1"):
        starts.check_rank(2, (9,))


@pytest.mark.parametrize("shape", SHAPES)
def test_balancing_keeps_the_model_and_evens_the_lengths(shape):
    rng = np.random.default_rng(3)
    model = KTensor([2.0, -3.0, 0.0], [rng.standard_normal((n, 3)) for n in shape])
    factors = starts.balance(model.weights, model.factors)
    np.testing.assert_allclose(KTensor(None, factors).full(), model.full(), atol=1e-12)
    lengths = np.array([np.linalg.norm(a, axis=0) for a in factors])
    np.testing.assert_allclose(lengths, np.broadcast_to(lengths[0], lengths.shape), atol=1e-12)


def test_a_given_start_is_checked_and_never_changed():
    factors = [np.array([[1.0], [0.0]]), np.array([[2.0], [3.0], [4.0]])]
    model = KTensor([2.0], factors)
    start = starts.start_from(model, (2, 3), 1, 0.25)
    assert min(a.min() for a in start) == 0.25
    start[0][:] = 9.0
    assert model.factors[0][1, 0] == 0.0
    with pytest.raises(DataError, match=r"shape \(2, 4\) and rank 1, but has shape \(2, 3\)"):
        starts.start_from(model, (2, 4), 1, 0.0)
    with pytest.raises(DataError, match="rank 2, but has"):
        starts.start_from(model, (2, 3), 2, 0.0)
    with pytest.raises(DataError, match="negative"):
        starts.start_from(KTensor([-2.0], factors), (2, 3), 1, 0.0)
