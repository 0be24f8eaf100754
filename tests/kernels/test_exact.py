"""Exact sums agree with dense NumPy sums and with finite differences, on every road."""

from __future__ import annotations

import tracemalloc
from functools import partial

import numpy as np
import pytest

from onlinegcp.kernels import exact
from onlinegcp.kernels.exact import exact_gradient, exact_objective, zero_polynomial
from onlinegcp.losses import LOSS_NAMES, Loss, get_loss
from onlinegcp.slices import Slice

SHAPES = [(1,), (7,), (1, 5), (5, 3), (4, 1, 3), (3, 5, 2), (2, 3, 1, 5)]
LETTERS = "abcde"


def data_for(loss, shape, rng):
    """Random data in the loss' domain with about half zeros where zeros are allowed."""
    if loss.domain == "binary":
        return (rng.random(shape) < 0.5).astype(float)
    if loss.domain == "real":
        return rng.standard_normal(shape) * (rng.random(shape) < 0.5)
    counts = rng.poisson(1.0, shape).astype(float)
    return counts if loss.zero_shape is not None else counts + 1.0


def model_for(shape, rank, rng):
    return [rng.random((n, rank)) + 0.1 for n in shape], rng.random(rank) + 0.1


def full(factors, weights):
    terms = ",".join(f"{LETTERS[k]}r" for k in range(len(factors)))
    return np.einsum(f"{terms},r->{LETTERS[: len(factors)]}", *factors, weights)


def slices_of(data, loss, rng):
    """The same data as a dense slice, a sparse one, and one with a third of it missing."""
    holes = np.where(rng.random(data.shape) < 1 / 3, np.nan, data)
    found = {"dense": Slice.dense(data), "missing": Slice.dense(holes)}
    if loss.zero_shape is not None:
        found["sparse"] = Slice(np.argwhere(data), data[data != 0], data.shape)
    return found


def dense_loss(x, factors, weights, loss):
    """Oracle: every cell of the multiplied-out model, missing ones left out."""
    data, model = x.to_dense(), full(factors, weights)
    seen = ~np.isnan(data)
    return float(loss.value(data[seen], model[seen]).sum())


def difference(function, array, h=1e-6):
    """Central differences of a function of nothing, one entry of `array` at a time."""
    slope = np.empty_like(array)
    for i in np.ndindex(array.shape):
        kept = array[i]
        array[i] = kept + h
        above = function()
        array[i] = kept - h
        slope[i] = (above - function()) / (2 * h)
        array[i] = kept
    return slope


@pytest.fixture(params=[1 << 17, 40], ids=["one box", "many boxes"])
def _box_budget(request, monkeypatch):
    monkeypatch.setattr(exact, "BOX_BUDGET", request.param)
    monkeypatch.setattr(exact, "CHUNK", request.param)


@pytest.mark.usefixtures("_box_budget")
@pytest.mark.parametrize("name", LOSS_NAMES)
def test_objective_is_the_dense_sum_over_observed_cells(name):
    rng = np.random.default_rng(1)
    loss = get_loss(name)
    for shape in SHAPES:
        factors, weights = model_for(shape, 3, rng)
        for kind, x in slices_of(data_for(loss, shape, rng), loss, rng).items():
            expected = dense_loss(x, factors, weights, loss)
            found = exact_objective(x, factors, weights, loss)
            np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11, err_msg=kind)


@pytest.mark.usefixtures("_box_budget")
@pytest.mark.parametrize("name", LOSS_NAMES)
def test_gradient_is_the_finite_difference_of_the_dense_sum(name):
    rng = np.random.default_rng(2)
    loss = get_loss(name)
    for shape in [(7,), (4, 3), (3, 1, 4), (2, 3, 2, 2)]:
        factors, weights = model_for(shape, 2, rng)
        for kind, x in slices_of(data_for(loss, shape, rng), loss, rng).items():
            found = exact_gradient(x, factors, weights, loss)
            arrays, slopes = (weights, *factors), (found.weights, *found.factors)
            for array, slope in zip(arrays, slopes, strict=True):
                expected = difference(partial(dense_loss, x, factors, weights, loss), array)
                scale = 1.0 + np.abs(expected).max()
                np.testing.assert_allclose(slope, expected, atol=2e-7 * scale, err_msg=kind)


@pytest.mark.parametrize("kind", ["dense", "sparse", "missing"])
@pytest.mark.parametrize("name", ["gaussian", "poisson", "bernoulli_odds"])
def test_only_the_wanted_gradients_are_computed(name, kind):
    rng = np.random.default_rng(3)
    loss, shape = get_loss(name), (3, 5, 2, 3)
    x = slices_of((rng.random(shape) < 0.4).astype(float), loss, rng)[kind]
    factors, weights = model_for(shape, 4, rng)
    everything = exact_gradient(x, factors, weights, loss)
    for modes in ((), (0,), (3,), (1, 2)):
        part = exact_gradient(x, factors, weights, loss, modes=modes, with_weights=False)
        assert part.weights is None
        assert part.value == pytest.approx(everything.value, rel=1e-14)
        for k in range(4):
            if k in modes:
                np.testing.assert_allclose(part.factors[k], everything.factors[k], rtol=1e-12)
            else:
                assert part.factors[k] is None
    weights_only = exact_gradient(x, factors, weights, loss, modes=())
    np.testing.assert_allclose(weights_only.weights, everything.weights, rtol=1e-12)


@pytest.mark.parametrize("name", ["gaussian", "poisson", "bernoulli_logit", "huber"])
@pytest.mark.parametrize("unlisted", ["zero", "missing"])
def test_a_slice_with_nothing_listed_is_all_zeros_or_all_missing(name, unlisted):
    rng = np.random.default_rng(4)
    loss, shape = get_loss(name), (4, 1, 3)
    factors, weights = model_for(shape, 2, rng)
    x = Slice(np.empty((0, 3), dtype=int), [], shape, unlisted=unlisted)
    found = exact_gradient(x, factors, weights, loss)
    if unlisted == "missing":
        assert found.value == 0.0
        assert not any(slope.any() for slope in (*found.factors, found.weights))
    else:
        zeros = exact_gradient(Slice.dense(np.zeros(shape)), factors, weights, loss)
        assert found.value == pytest.approx(zeros.value, rel=1e-12)
        for a, b in zip(found.factors, zeros.factors, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)


def test_a_users_loss_takes_every_road():
    rng = np.random.default_rng(5)
    shape = (5, 4, 3)
    factors, weights = model_for(shape, 3, rng)
    for zero_shape in ("unknown", "quadratic"):
        loss = Loss(
            "shifted",
            value=lambda x, m: 3.0 * (m - x) ** 2 + m + 2.0,
            deriv=lambda x, m: 6.0 * (m - x) + 1.0,
            zero_shape=zero_shape,
        )
        for x in slices_of(data_for(loss, shape, rng), loss, rng).values():
            expected = dense_loss(x, factors, weights, loss)
            assert exact_objective(x, factors, weights, loss) == pytest.approx(expected, rel=1e-12)
            slope = exact_gradient(x, factors, weights, loss).factors[1]
            expected = difference(partial(dense_loss, x, factors, weights, loss), factors[1])
            np.testing.assert_allclose(slope, expected, rtol=1e-6, atol=1e-6)


def test_closed_forms_reproduce_the_loss_of_a_zero():
    m = np.linspace(0.0, 9.0, 20)
    for name in LOSS_NAMES:
        loss = get_loss(name, b=2.0) if name == "beta" else get_loss(name)
        if loss.zero_shape in ("linear", "quadratic"):
            a, b, c = zero_polynomial(loss)
            np.testing.assert_allclose(a + b * m + c * m * m, loss.value(0.0, m), atol=1e-9)


def test_poisson_zeros_are_counted_where_no_array_could_hold_the_cells():
    shape, loss = (2_000_000, 2_000_000, 100_000), get_loss("poisson")
    factors = [np.full((n, 2), 1.0 / n) for n in shape]
    x = Slice(np.array([[5, 6, 7]]), [3.0], shape)
    # Columns sum to one, so that the model's total is the sum of the weights.
    value = exact_objective(x, factors, np.array([4.0e17, 2.0e17]), loss)
    assert value == pytest.approx(6.0e17 - 3.0 * np.log(6.0e17 / x.size + loss.eps), rel=1e-12)


def test_inputs_stay_untouched_and_runs_repeat_bit_for_bit():
    rng = np.random.default_rng(6)
    shape, loss = (13, 11, 7), get_loss("bernoulli_odds")
    x = slices_of((rng.random(shape) < 0.2).astype(float), loss, rng)["sparse"]
    factors, weights = model_for(shape, 5, rng)
    before = [a.copy() for a in (*factors, weights)]
    for a in (*factors, weights):
        a.flags.writeable = False
    first, second = (exact_gradient(x, factors, weights, loss) for _ in range(2))
    assert first.value == second.value
    assert all(map(np.array_equal, first.factors, second.factors))
    assert all(map(np.array_equal, before, (*factors, weights)))


@pytest.mark.parametrize("shape", [(10, 100_000, 10), (1_000_000, 8), (3, 3, 500_000), (200,) * 3])
def test_temporaries_stay_small_for_any_shape(shape):
    loss, rank = get_loss("bernoulli_logit"), 8
    factors = [np.full((n, rank), 0.1) for n in shape]
    x = Slice(np.zeros((1, len(shape)), dtype=int), [1.0], shape)
    tracemalloc.start()
    value = exact_objective(x, factors, np.ones(rank), loss)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    m = rank * 0.1 ** len(shape)
    assert value == pytest.approx(x.size * np.log1p(np.exp(m)) - m, rel=1e-9)
    # The listed road stacks the factors once; everything else is a box and its temporaries.
    assert peak < 32e6 + sum(a.nbytes for a in factors)
