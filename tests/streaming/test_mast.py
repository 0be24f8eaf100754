"""MAST: planted streams whose modes all grow, and the objective that a step minimises."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.errors import DataError
from onlinegcp.evaluate import factor_match
from onlinegcp.ktensor import KTensor
from onlinegcp.slices import Slice
from onlinegcp.streaming import MAST

RANK = 2


def start(shape=(6, 5), past=4, seed=0):
    rng = np.random.default_rng(seed)
    factors = [rng.normal(size=(n, RANK)) for n in shape]
    return KTensor(None, [*factors, rng.normal(size=(past, RANK))])


def growing(missing=0.0, n=60, noise=0.05, seed=0):
    rng = np.random.default_rng(seed)
    factors = [rng.normal(size=(k, 3)) for k in (24, 20)]
    for t in range(n):
        rows = [min(24, 14 + t // 5), min(20, 12 + t // 6)]
        parts = [a[:k] for a, k in zip(factors, rows, strict=True)]
        clean = KTensor(rng.normal(size=3), parts).full()
        x = clean + noise * rng.normal(size=clean.shape)
        x[rng.random(clean.shape) < missing] = np.nan
        yield Slice.dense(x), clean, parts


@pytest.mark.slow
@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_all_modes_may_grow(missing):
    model = MAST(3, init_slices=8, init_starts=2)
    stream = list(growing(missing))
    for x, _, _ in stream:
        model.partial_fit(x)
    x, clean, parts = stream[-1]
    assert [len(a) for a in model.factors_] == [len(a) for a in parts]
    assert factor_match(model.factors_, parts) > 0.999
    filled = model.inverse_transform(model.transform(x))
    assert np.linalg.norm(filled - clean) < 0.03 * np.linalg.norm(clean)


@pytest.mark.slow
def test_rows_are_tied_only_to_the_past_that_had_them():
    """With everything told apart, late rows are as good as early ones; joined, they are not."""
    errors = {}
    for epochs in (16, 1):
        model = MAST(3, init_slices=8, init_starts=2, max_epochs=epochs)
        stream = list(growing())
        for x, _, _ in stream:
            model.partial_fit(x)
        x, clean, _ = stream[-1]
        assert len(model.get_state()["state"].arrays["past"]) <= epochs
        filled = model.inverse_transform(model.transform(x))
        errors[epochs] = np.linalg.norm(filled - clean)
    assert errors[16] < 0.5 * errors[1]


def objective(x, seen, old, new, s, past_old, past_new, shapes, forget):
    """Squared error of the slice and of every epoch's pseudo-slices, built cell by cell."""
    total = np.sum(((x - KTensor(s, new).full()) * seen) ** 2)
    for shape, rows_old, rows_new in zip(shapes, past_old, past_new, strict=True):
        cut = [a[:n] for a, n in zip(old, shape, strict=True)]
        now = [a[:n] for a, n in zip(new, shape, strict=True)]
        for before, after in zip(rows_old, rows_new, strict=True):
            total += forget * np.sum(
                (KTensor(before, cut).full() - KTensor(after, now).full()) ** 2
            )
    return total


def test_many_passes_reach_a_minimum_of_the_objective():
    """Without the nuclear norm, for a slice with new rows in both modes."""
    init, forget = start(), 0.7
    rng = np.random.default_rng(1)
    x = rng.normal(size=(8, 6))
    model = MAST(RANK, forget=forget, nuclear=0.0, max_passes=4000, tolerance=1e-13)
    model.start_from(init, [Slice.dense(np.zeros((6, 5)))] * 4)  # of which only the rows count
    before = [np.vstack([a, np.zeros((n - len(a), RANK))])
              for a, n in zip(init.factors[:2], x.shape, strict=True)]  # fmt: skip
    decayed = sum(forget ** (4 - h) * np.outer(r, r) for h, r in enumerate(init.factors[2], 1))
    triangle = np.linalg.cholesky(decayed).T
    model.partial_fit(Slice.dense(x))
    state = model.get_state()["state"]
    new, s = [a.copy() for a in state.factors], state.weights
    # The past after the step, in the coordinates of the triangle: best rows given the factors.
    cut = [a[:n] for a, n in zip(new, (6, 5), strict=True)]
    old = [a[:n] for a, n in zip(before, (6, 5), strict=True)]
    cross = (old[0].T @ cut[0]) * (old[1].T @ cut[1])
    own = (cut[0].T @ cut[0]) * (cut[1].T @ cut[1])
    moved = triangle @ cross @ np.linalg.inv(own)
    np.testing.assert_allclose(state.arrays["past"][0], forget * moved.T @ moved, rtol=1e-4)
    shapes = [(6, 5)]

    def value(flat):
        parts = [flat[:16].reshape(8, 2), flat[16:28].reshape(6, 2)]
        return objective(
            x,
            1.0,
            before,
            parts,
            flat[28:30],
            [triangle],
            [flat[30:].reshape(2, 2)],
            shapes,
            forget,
        )

    flat = np.concatenate([new[0].ravel(), new[1].ravel(), s, moved.ravel()])
    for i in range(len(flat)):
        step = np.zeros_like(flat)
        step[i] = 1e-5
        assert abs(value(flat + step) - value(flat - step)) / 2e-5 < 2e-2


def test_what_the_old_factors_explain_leaves_them_alone():
    """No growth, no nuclear norm: the old model is a fixed point (methods.md 2.7)."""
    init = start()
    model = MAST(RANK, nuclear=0.0, init=init)
    rng = np.random.default_rng(3)
    for _ in range(4):
        model.partial_fit(Slice.dense(KTensor(rng.normal(size=RANK), init.factors[:2]).full()))
    for a, b in zip(model.factors_, init.factors, strict=False):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)


@pytest.mark.slow
def test_a_heavy_nuclear_norm_removes_components():
    x = Slice.dense(KTensor(None, [np.ones((6, 1)), np.ones((5, 1))]).full())
    models = {}
    for weight in (0.0, 1.0):
        model = MAST(RANK, nuclear=weight, max_passes=500, tolerance=0.0, init=start(past=1))
        for _ in range(15):
            model.partial_fit(x)
        models[weight] = np.linalg.svd(model.factors_[0], compute_uv=False)
    assert models[1.0][1] / models[1.0][0] < models[0.0][1] / models[0.0][0]


@pytest.mark.parametrize(
    ("options", "word"),
    [({"nuclear": -1.0}, "nuclear"), ({"nuclear": "x"}, "nuclear"), ({"max_epochs": 0}, "max_ep")],
)
def test_options_out_of_range_are_refused(options, word):
    with pytest.raises(DataError, match=word):
        MAST(RANK, **options).partial_fit(Slice.dense(np.ones((3, 4))))
