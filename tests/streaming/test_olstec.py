"""OLSTEC against its author's numbers, against accumulated normal equations, and on his demo."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.errors import DataError
from onlinegcp.ktensor import KTensor
from onlinegcp.slices import Slice
from onlinegcp.streaming import OLSTEC
from reference_outputs import gap, stored


def slices_of(data, mask=None):
    """Slices of an array with time last, NaN where the mask is 0."""
    full = data if mask is None else np.where(mask > 0, data, np.nan)
    return [Slice.dense(np.ascontiguousarray(full[..., t])) for t in range(full.shape[-1])]


@pytest.mark.parametrize("kind", ["full", "masked"])
def test_authors_numbers_after_every_slice(kind):
    given, theirs = stored("inputs"), stored("olstec")
    name = f"olstec_{kind}_default"
    forget, ridge = theirs[f"{name}_lambda_mu"][0]
    model = OLSTEC(
        3,
        forget=forget,
        ridge=ridge,
        weight_ridge=forget,
        init=KTensor(None, [given["A0"], given["B0"]]),
    )
    for t, x in enumerate(slices_of(given["X"], given["W"] if kind == "masked" else None)):
        model.partial_fit(x)
        factors = [theirs[f"{name}_{mode}"][:, :, t] for mode in "AB"]
        assert gap(model, factors, theirs[f"{name}_C"][t]) < 1e-9


def stream(shape, n, share, rank=2, seed=0):
    rng = np.random.default_rng(seed)
    factors = [rng.normal(size=(k, rank)) for k in shape]
    for _ in range(n):
        x = KTensor(rng.normal(size=rank), factors).full() + 0.1 * rng.normal(size=shape)
        yield np.where(rng.random(shape) < share, x, np.nan)


def by_the_row(arrays, init, forget, ridge, weight_ridge, diagonal):
    """The recursion as published, cell by cell: no sum is shared between rows."""
    rank = init.rank
    factors = [a.copy() for a in init.factors]
    past = [np.tile(0.01 * np.eye(rank), (len(a), 1, 1)) for a in factors]

    def weights_of(x):
        cells = np.argwhere(~np.isnan(x))
        z = np.prod([a[cells[:, k]] for k, a in enumerate(factors)], axis=0)
        values = x[tuple(cells.T)]
        return np.linalg.solve(z.T @ z + weight_ridge * np.eye(rank), z.T @ values)

    for x in arrays:
        s = weights_of(x)
        for k in range(x.ndim):
            pull = ridge * (1.0 - forget)
            for i in range(len(factors[k])):
                part = np.take(x, i, axis=k)
                cells = np.argwhere(~np.isnan(part))
                others = [a for j, a in enumerate(factors) if j != k]
                n = np.tile(s, (len(cells), 1))
                for j, a in enumerate(others):
                    n = n * a[cells[:, j]]
                values = part[tuple(cells.T)]
                seen = n.T @ n + pull * np.eye(rank)
                past[k][i] = forget * past[k][i] + (np.diag(np.diag(seen)) if diagonal else seen)
                row = factors[k][i]
                right = n.T @ (values - n @ row) - pull * row
                factors[k][i] = row + np.linalg.solve(past[k][i], right)
    return KTensor(weights_of(x), factors).full()


@pytest.mark.parametrize("form", ["full", "simplified"])
@pytest.mark.parametrize(("shape", "share"), [((6, 5), 0.6), ((4, 3, 5), 0.5), ((4, 3, 5), 1.1)])
def test_any_number_of_modes_follows_the_explicit_recursion(form, shape, share):
    rng = np.random.default_rng(1)
    init = KTensor(None, [rng.normal(size=(k, 2)) for k in shape])
    arrays = list(stream(shape, 9, share))
    model = OLSTEC(2, forget=0.8, ridge=0.05, weight_ridge=1e-3, form=form, init=init)
    model.partial_fit([Slice.dense(x) for x in arrays])
    expected = by_the_row(arrays, init, 0.8, 0.05, 1e-3, form == "simplified")
    np.testing.assert_allclose(model.to_ktensor().full(), expected, rtol=1e-8, atol=1e-8)


def test_complete_slices_share_one_matrix_until_gaps_come():
    rng = np.random.default_rng(1)
    init = KTensor(None, [rng.normal(size=(k, 2)) for k in (6, 5)])
    arrays = [*stream((6, 5), 3, 1.1), *stream((6, 5), 3, 0.6)]
    model = OLSTEC(2, weight_ridge=1e-3, init=init)
    model.partial_fit([Slice.dense(x) for x in arrays[:3]])
    assert model.get_state()["state"].arrays["past0"].shape == (1, 2, 2)
    model.partial_fit([Slice.dense(x) for x in arrays[3:]])
    assert model.get_state()["state"].arrays["past0"].shape == (6, 2, 2)
    expected = by_the_row(arrays, init, 0.7, 0.1, 1e-3, diagonal=False)
    np.testing.assert_allclose(model.to_ktensor().full(), expected, rtol=1e-8, atol=1e-8)


def test_a_warm_start_fills_the_matrices():
    """As if its slices had been learned with the factors it came to."""
    arrays = list(stream((6, 5), 4, 0.7))
    rng = np.random.default_rng(1)
    factors, rows = [rng.normal(size=(k, 2)) for k in (6, 5)], rng.normal(size=(4, 2))
    model = OLSTEC(2, forget=0.6).start_from(
        KTensor(None, [*factors, rows]), [Slice.dense(x) for x in arrays]
    )
    past = model.get_state()["state"].arrays["past0"]
    for i in range(6):
        expected = 0.01 * 0.6**4 * np.eye(2)
        for t, x in enumerate(arrays):
            n = (factors[1] * rows[t])[~np.isnan(x[i])]
            expected += 0.6 ** (3 - t) * n.T @ n
        np.testing.assert_allclose(past[i], expected)


def test_rows_that_are_never_seen_stay_finite():
    x = np.full((4, 3), np.nan)
    x[0] = 1.0
    for form in ("full", "simplified"):
        model = OLSTEC(2, forget=1e-3, ridge=0.0, form=form, init_slices=1)
        model.partial_fit([np.ones((4, 3))])
        model.partial_fit([Slice.dense(x)] * 150)
        assert all(np.all(np.isfinite(a)) for a in model.factors_)


def test_matrices_beyond_the_limit_are_refused():
    x = Slice([[0, 0]], [1.0], (10**6, 5))
    with pytest.raises(DataError, match="OLSTEC may hold 1,073,741,824 bytes"):
        OLSTEC(30).partial_fit(x)
    for option, value in (("forget", 0.0), ("ridge", -1.0), ("form", "half"), ("state_limit", 0)):
        with pytest.raises(DataError, match=option):
            OLSTEC(2, **{option: value}).partial_fit([np.ones((4, 3))])


@pytest.mark.slow
@pytest.mark.parametrize("seed", [11, 12, 13])
def test_demo_of_the_author(seed):
    """100 x 100 x 200, rank 5, 10 % observed: his code ends between 0.004 and 0.007."""
    rng = np.random.default_rng(seed)
    shape, rank, n = (100, 100), 5, 200
    factors = [rng.normal(size=(k, rank)) for k in shape]
    start = [rng.normal(size=(k, rank)) for k in shape]
    model = OLSTEC(rank, init=KTensor(None, start))
    for _ in range(n):
        x = KTensor(rng.normal(size=rank), factors).full()
        noise = rng.normal(size=shape)
        x += 1e-4 * np.linalg.norm(x) / np.linalg.norm(noise) * noise
        model.partial_fit(Slice.dense(np.where(rng.random(shape) < 0.1, x, np.nan)))
    error = np.linalg.norm(model.to_ktensor().full() - x) / np.linalg.norm(x)
    assert error <= 0.008
