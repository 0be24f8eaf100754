"""Blocks of slices in one call: the same bits, records and refusals as slice by slice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from onlinegcp.errors import DataError
from onlinegcp.ktensor import KTensor
from onlinegcp.slices import Slice
from onlinegcp.solvers.objective import slice_loss
from onlinegcp.streaming import ACP, METHODS, RLST, acp, admission, keeping, rlst
from onlinegcp.streaming.showing import PAST
from onlinegcp.streaming.walking import within_reach

SHAPE = (6, 5, 4)


def stream(n, seed=0):
    rng = np.random.default_rng(seed)
    factors = [rng.normal(size=(k, 2)) for k in SHAPE]
    arrays = []
    for _ in range(n):
        factors = [0.99 * a + 0.01 * rng.normal(size=a.shape) for a in factors]
        arrays.append(KTensor(rng.normal(size=2), factors).full() + 0.01 * rng.normal(size=SHAPE))
    return factors, arrays, rng


def of_all_kinds(arrays, rng):
    """Dense slices, lists of cells beside zeros, lists with gaps, and one without any cell."""
    slices = []
    for t, x in enumerate(arrays):
        kept = rng.random(x.shape) < (0.0 if t == 7 else 0.7 if t % 2 else 0.3)
        cells = np.argwhere(kept), x[kept], x.shape
        forms = Slice.dense(x), Slice(*cells), Slice(*cells, unlisted="missing")
        slices.append(forms[rng.integers(3)] if t != 7 else forms[2])
    return slices


@pytest.mark.parametrize("variant", ["acp", "rolcp"])
def test_a_block_of_slices_of_all_kinds_is_what_they_are_one_by_one(variant):
    factors, arrays, rng = stream(40)
    slices = of_all_kinds(arrays, rng)
    init = KTensor(None, factors)
    together = ACP(2, init=init, variant=variant).partial_fit(slices)
    alone = ACP(2, init=init, variant=variant)
    for x in slices:
        alone.partial_fit(x)
    assert same(together, alone)


def test_a_block_goes_through_repairs_of_its_inverses(monkeypatch):
    """Fading blows rounding errors up: after some hundred slices inverses are made anew."""
    rng, repaired = np.random.default_rng(42), []
    factors, rows = [rng.normal(size=(12, 6)) for _ in range(2)], rng.normal(size=(12, 6))
    start = KTensor(None, [*factors, rows]), [KTensor(row, factors).full() for row in rows]
    slices = []
    for _ in range(300):
        factors = [0.999 * a + 0.001 * rng.normal(size=a.shape) for a in factors]
        slices.append(Slice.dense(KTensor(rng.normal(size=6), factors).full()))
    repair = rlst._repaired
    monkeypatch.setattr(rlst, "_repaired", lambda state: repaired.append(1) or repair(state))
    together = RLST(6).start_from(*start).partial_fit(slices)
    assert repaired
    alone = RLST(6).start_from(*start)
    for x in slices:
        alone.partial_fit(x)
    assert same(together, alone)
    arrays = together.get_state()["state"].arrays
    products = arrays["sums"] @ arrays["basis"]
    np.testing.assert_allclose(arrays["inverse"] @ products.T, np.eye(6), atol=1e-6)
    np.testing.assert_allclose(arrays["sums"] @ arrays["inverse_sums"], np.eye(6), atol=1e-6)


@pytest.mark.parametrize("variant", ["acp", "rolcp"])
def test_large_dense_slices_are_learned_by_matrix_products_and_say_the_same(variant, monkeypatch):
    factors, arrays, rng = stream(20)
    init, slices = KTensor(None, factors), of_all_kinds(arrays, rng)
    small = ACP(2, init=init, variant=variant).partial_fit(slices)
    monkeypatch.setattr(acp, "LARGE", 1)
    large = ACP(2, init=init, variant=variant).partial_fit(slices)
    np.testing.assert_allclose(large.to_ktensor().full(), small.to_ktensor().full(), rtol=1e-9)
    assert large.last_.prequential == pytest.approx(small.last_.prequential, rel=1e-9)


@pytest.mark.parametrize("name", [n for n, method in METHODS.items() if method.walks])
def test_records_tell_losses_of_their_own_slices(name):
    factors, arrays, rng = stream(14)
    slices = [Slice.dense(x) for x in arrays]
    if METHODS[name].takes_missing:
        slices = of_all_kinds(arrays, rng)
    model = METHODS[name](2, init=KTensor(None, factors))
    model.partial_fit(slices[:5])
    for x in slices[5:]:
        before, weights = model.factors_, model.transform(x)
        model.partial_fit(x)
        expected = slice_loss(x, before, weights, model.loss_)
        assert model.last_.prequential == pytest.approx(expected, rel=1e-9, abs=1e-12)
        local = slice_loss(x, model.factors_, model.weights_, model.loss_)
        assert model.last_.local == pytest.approx(local, rel=1e-9, abs=1e-12)
        sums = np.prod([np.abs(a).sum(axis=0) for a in model.factors_], axis=0)
        held = model.weights_ * sums if x.n_observed else np.full(2, np.nan)
        np.testing.assert_allclose(model._past[-1], held, rtol=1e-12)


def test_a_slice_in_the_midst_that_cannot_be_learned_undoes_the_block(monkeypatch):
    for module in (admission, keeping):
        monkeypatch.setattr(module, "LARGEST", 1e300)
    rng = np.random.default_rng(0)
    init = KTensor(None, [rng.normal(size=(k, 2)) for k in (6, 5)])
    slices = [Slice.dense(rng.normal(size=(6, 5))) for _ in range(5)]
    large = slices[3].array.copy()
    large[2, 1] = 1e200
    model = ACP(2, init=init).partial_fit(slices[:2])
    before = model.get_state()
    with pytest.raises(DataError, match=r"with the slice the model .* 1e\+200 in cell \(2, 1\)"):
        model.partial_fit([slices[2], Slice.dense(large), slices[4]])
    assert model.n_slices_ == 2
    assert model.last_ == before["last"]
    assert all(
        np.array_equal(a, b) for a, b in zip(model.factors_, before["state"].factors, strict=True)
    )
    model.partial_fit(slices[2:])
    assert same(model, ACP(2, init=init).partial_fit(slices))


def test_a_call_ends_where_a_model_is_looked_at():
    model, x = ACP(2), Slice.dense(np.ones((3, 2)))
    for seen, reach in ((0, 1), (1, 1), (3, 1), (5, 3), (700, PAST)):
        model.n_slices_ = seen
        assert len(within_reach(model, [x] * 1000, 0)) == reach
        assert len(within_reach(model, [x] * 1000, 999)) == 1
    huge = Slice([[0, 0]], [1.0], (10**4, 10**4))
    assert len(within_reach(model, [huge] * 3, 1)) == 1


def same(first, second):
    """Whether two models hold the same bits, and tell the same of the last slice."""
    ours, theirs = first.get_state(), second.get_state()
    states = ours["state"], theirs["state"]
    arrays = [
        [*state.factors, state.weights, state.mean_weights, *map(state.arrays.get, state.arrays)]
        for state in states
    ]
    told = [replace(model.last_, seconds={}) for model in (first, second)]
    pairs = [*zip(*arrays, strict=True), (first._past, second._past)]
    return told[0] == told[1] and all(np.array_equal(a, b, equal_nan=True) for a, b in pairs)
