"""RLST against its authors' numbers, its own pseudo-inverses, and their demo."""

from __future__ import annotations

import numpy as np
import pytest

from drifting_stream import demo_error
from onlinegcp.errors import DataError
from onlinegcp.ktensor import KTensor
from onlinegcp.slices import Slice
from onlinegcp.streaming import RLST
from reference_outputs import gap, stored


def started(model):
    """A model at the start of the authors' runs, and the slices that follow."""
    given, theirs = stored("inputs"), stored("rlst")
    slices = [Slice.dense(np.ascontiguousarray(given["Xd"][:, :, t])) for t in range(30)]
    init = KTensor(None, [given["Ainit"], given["Binit"], theirs["B0s"]])
    return model.start_from(init, slices[:10]), slices[10:]


@pytest.mark.parametrize(
    ("name", "options"),
    [("exp_90_0", {}), ("exp_90_1", {"repeats": 1}), ("trunc_90_0", {"window": 8})],
)
def test_authors_numbers_after_every_slice(name, options):
    theirs = stored("rlst")
    model, slices = started(RLST(3, forget=0.9, **options))
    for t, x in enumerate(slices):
        model.partial_fit(x)
        factors = [theirs[f"rlst_{name}_{mode}"][:, :, t] for mode in "AB"]
        assert gap(model, factors, theirs[f"rlst_{name}_b"][t]) < 1e-9
    arrays = model.get_state()["state"].arrays
    np.testing.assert_allclose(arrays["sums"], theirs[f"rlst_{name}_P"], rtol=1e-9)
    np.testing.assert_allclose(arrays["inverse_sums"], theirs[f"rlst_{name}_Q"], rtol=1e-9)
    # Their cells run through the first mode first.
    inverse = arrays["inverse"].reshape(3, 6, 5).transpose(0, 2, 1).reshape(3, 30)
    np.testing.assert_allclose(inverse, theirs[f"rlst_{name}_Z"], rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("window", [None, 7])
@pytest.mark.parametrize("forget", [0.8, 1.0])
def test_the_recursion_is_the_weighted_least_squares_solution(forget, window):
    """Basis and weights against plain sums and solves.

    A slice comes in with its weights from before it was counted and leaves with those from after,
    and the first slices count alike, as in the authors' code.
    """
    rng = np.random.default_rng(0)
    shape, rank = (4, 3, 2), 2
    factors = [rng.normal(size=(k, rank)) for k in shape]
    rows = rng.normal(size=(7, rank))
    data = [KTensor(r, factors).full() + 0.1 * rng.normal(size=shape) for r in rows]
    model = RLST(rank, forget=forget, window=window)
    model.start_from(KTensor(None, [*factors, rows]), [Slice.dense(x) for x in data])
    kept = [(x.reshape(-1), row) for x, row in zip(data, rows, strict=True)]
    products, sums = sum(np.outer(s, x) for x, s in kept), rows.T @ rows
    for _ in range(12):
        x = KTensor(rng.normal(size=rank), factors).full() + 0.1 * rng.normal(size=shape)
        model.partial_fit(Slice.dense(x))
        x = x.reshape(-1)
        s = np.linalg.lstsq(np.linalg.solve(sums, products).T, x, rcond=None)[0]
        products, sums = forget * products + np.outer(s, x), forget * sums + np.outer(s, s)
        if window is not None:
            gone, row = kept[-window]
            products = products - forget**window * np.outer(row, gone)
            sums = sums - forget**window * np.outer(row, row)
        basis = np.linalg.solve(sums, products)
        kept.append((x, np.linalg.lstsq(basis.T, x, rcond=None)[0]))
        found = model.get_state()["state"].arrays["basis"]
        np.testing.assert_allclose(found, basis, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(model.weights_, kept[-1][1], rtol=1e-7, atol=1e-9)


def test_inverses_stay_inverses():
    model, slices = started(RLST(3, forget=0.9))
    for x in slices * 5:
        model.partial_fit(x)
    arrays = model.get_state()["state"].arrays
    products = arrays["sums"] @ arrays["basis"]
    np.testing.assert_allclose(arrays["inverse"] @ products.T, np.eye(3), atol=1e-9)
    np.testing.assert_allclose(arrays["sums"] @ arrays["inverse_sums"], np.eye(3), atol=1e-9)


@pytest.mark.slow
def test_a_silent_component_keeps_its_pattern():
    """Nothing is left of it in the sums after 1,000 slices; then it is heard again."""
    rng = np.random.default_rng(0)
    factors = [np.linalg.qr(rng.normal(size=(k, 2)))[0] for k in (6, 5)]
    rows = rng.normal(size=(12, 2))
    first = [Slice.dense(KTensor(row, factors).full()) for row in rows]
    model = RLST(2, forget=0.9).start_from(KTensor(None, [*factors, rows]), first)
    for _ in range(1000):
        model.partial_fit(Slice.dense(KTensor([rng.normal(), 0.0], factors).full()))
    x = Slice.dense(KTensor([1.0, 2.0], factors).full())
    gap = KTensor(model.transform(x), model.factors_).full() - x.array
    assert np.linalg.norm(gap) < 1e-6


def test_more_components_than_slices_at_the_start_are_learned():
    rng = np.random.default_rng(0)
    factors = [rng.normal(size=(k, 4)) for k in (8, 7)]
    slices = [Slice.dense(KTensor(rng.normal(size=4), factors).full()) for _ in range(60)]
    model = RLST(4, init=KTensor(None, factors)).partial_fit(slices[:20])
    assert model.last_.local < 1e-10 * model.last_.norm_squared
    few = RLST(4, init_slices=2).fit(slices)
    assert few.last_.local < 0.5 * few.last_.norm_squared


def test_a_taxi_slice_is_refused_before_it_takes_gigabytes():
    x = Slice([[0, 0, 0]], [1.0], (263, 263, 24))
    with pytest.raises(DataError, match=r"RLST may hold 1,073,741,824 bytes") as caught:
        RLST(50).partial_fit(x)
    assert "needs 1,3" in str(caught.value)
    assert "OnlineGCP" in str(caught.value)
    assert "SDT" in str(caught.value)  # half as much
    with pytest.raises(DataError, match="window"):
        RLST(2, window=1).partial_fit([np.ones((4, 3))])


@pytest.mark.slow
@pytest.mark.parametrize(("drift", "theirs"), [(1e-3, 0.005), (1e-2, 0.17)])
def test_demo_of_the_authors(drift, theirs):
    assert np.mean([demo_error(RLST(8), drift, seed=seed) for seed in (21, 22, 23)]) <= theirs
