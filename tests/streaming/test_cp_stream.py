"""CP-Stream against stacked least-squares problems that are built cell by cell."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.errors import DataError
from onlinegcp.ktensor import KTensor
from onlinegcp.slices import Slice
from onlinegcp.solvers.least_squares import solve_weights
from onlinegcp.streaming import CPStream

SHAPE, RANK, PAST = (5, 4, 3), 2, 4


def start(seed=0, past=PAST):
    """A model with unit columns and the weights of some past slices."""
    rng = np.random.default_rng(seed)
    factors = [rng.normal(size=(n, RANK)) for n in SHAPE]
    factors = [a / np.linalg.norm(a, axis=0) for a in factors]
    return KTensor(None, [*factors, rng.normal(size=(past, RANK))])


def unfolded_design(factors, weights, mode):
    """Rows of A_mode are regressed on these columns: the model with A_mode left out."""
    others = [a for j, a in enumerate(factors) if j != mode]
    columns = [KTensor(weights * np.eye(RANK)[r], others).full().reshape(-1) for r in range(RANK)]
    return np.stack(columns, axis=1)


def unfold(array, mode):
    return np.moveaxis(array, mode, 0).reshape(array.shape[mode], -1)


def stacked_update(x, factors, old, s, past_rows, past_counts, mode):
    """The mode's best rows for the slice and the weighted pseudo-slices of the old model."""
    designs, targets = [unfolded_design(factors, s, mode)], [unfold(x, mode)]
    for row, count in zip(past_rows, past_counts, strict=True):
        designs.append(np.sqrt(count) * unfolded_design(factors, row, mode))
        targets.append(np.sqrt(count) * unfold(KTensor(row, old).full(), mode))
    solution = np.linalg.lstsq(np.vstack(designs), np.hstack(targets).T, rcond=None)[0]
    return solution.T


def dense_model(model):
    return model.to_ktensor().full()


@pytest.mark.parametrize("forget", [0.0, 0.6, 1.0])
def test_one_pass_solves_the_stacked_problem_mode_by_mode(forget):
    """methods.md 2.4 (i) and (ii): forget = 0 is one sweep of alternating least squares."""
    init = start()
    *old, rows = [np.asarray(a) for a in init.factors]
    x = np.random.default_rng(1).normal(size=SHAPE)
    model = CPStream(RANK, forget=forget, max_passes=1, tolerance=0.0, init=init)
    model.partial_fit(Slice.dense(x))

    s = solve_weights(Slice.dense(x), old)
    counts = [forget ** (PAST + 1 - h) for h in range(1, PAST + 1)]
    factors = [a.copy() for a in old]
    for mode in range(3):
        factors[mode] = stacked_update(x, factors, old, s, rows, counts, mode)
    np.testing.assert_allclose(dense_model(model), KTensor(s, factors).full(), rtol=1e-7)


def test_many_passes_reach_a_minimum_of_the_whole_objective():
    init, forget = start(), 0.7
    *old, rows = [np.asarray(a) for a in init.factors]
    x = np.random.default_rng(1).normal(size=SHAPE)
    model = CPStream(RANK, forget=forget, max_passes=600, tolerance=1e-13, init=init)
    model.partial_fit(Slice.dense(x))
    s = solve_weights(Slice.dense(x), old)
    # All scale in the first mode; the other weights of the model are those of the old scale.
    factors = [a.copy() for a in model.factors_]
    factors[0] = factors[0] * (model.weights_ / s)

    def objective(flat):
        parts = np.split(flat, np.cumsum([a.size for a in factors])[:-1])
        blocks = [p.reshape(a.shape) for p, a in zip(parts, factors, strict=True)]
        total = np.sum((x - KTensor(s, blocks).full()) ** 2)
        for h, row in enumerate(rows, 1):
            gap = KTensor(row, old).full() - KTensor(row, blocks).full()
            total += forget ** (PAST + 1 - h) * np.sum(gap**2)
        return total

    flat = np.concatenate([a.ravel() for a in factors])
    for i in range(len(flat)):
        step = np.zeros_like(flat)
        step[i] = 1e-5
        slope = (objective(flat + step) - objective(flat - step)) / 2e-5
        assert abs(slope) < 1e-4


def test_past_weighs_what_its_slices_weighed():
    """G = sum_h forget^(t-h) s_h s_h', in the scale of the present columns."""
    init, forget = start(), 0.7
    model = CPStream(RANK, forget=forget, init=init, max_passes=1)
    rng = np.random.default_rng(2)
    model.partial_fit(Slice.dense(rng.normal(size=SHAPE)))
    scale = model.weights_ / solve_weights(
        Slice.dense(np.random.default_rng(2).normal(size=SHAPE)),
        [np.asarray(a) for a in init.factors[:-1]],
    )
    rows = np.vstack([np.asarray(init.factors[-1]) * scale, model.weights_])
    expected = sum(forget ** (PAST + 1 - h) * np.outer(row, row) for h, row in enumerate(rows, 1))
    np.testing.assert_allclose(model.get_state()["state"].arrays["past"], expected, rtol=1e-9)
    for a in model.factors_:
        np.testing.assert_allclose(np.linalg.norm(a, axis=0), 1.0)


def test_a_noiseless_stream_is_a_fixed_point():
    """methods.md 2.4 (iii)."""
    init = start()
    *factors, _ = [np.asarray(a) for a in init.factors]
    model = CPStream(RANK, init=init)
    rng = np.random.default_rng(3)
    for _ in range(5):
        model.partial_fit(Slice.dense(KTensor(rng.normal(size=RANK), factors).full()))
        assert model.last_.prequential < 1e-16
    for a, b in zip(model.factors_, factors, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8)


def test_ridge_shrinks_the_weights():
    x = Slice.dense(np.random.default_rng(1).normal(size=SHAPE))
    weights = [CPStream(RANK, ridge=r, init=start()).partial_fit(x).transform(x) for r in (0, 5.0)]
    assert np.linalg.norm(weights[1]) < np.linalg.norm(weights[0])


def test_nonnegative_models_stay_nonnegative_and_learn():
    rng = np.random.default_rng(4)
    factors = [rng.random((n, RANK)) for n in SHAPE]
    slices = [Slice.dense(KTensor(rng.random(RANK), factors).full()) for _ in range(14)]
    model = CPStream(RANK, nonnegative=True, init_slices=6, forget=0.9).fit(slices)
    assert min(a.min() for a in model.factors_) >= 0.0
    assert model.weights_.min() >= 0.0
    assert model.last_.prequential < 1e-2 * slices[-1].norm_squared


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"forget": -0.1}, "forget"),
        ({"forget": 1.1}, "forget"),
        ({"ridge": -1.0}, "ridge"),
        ({"tolerance": np.inf}, "tolerance"),
        ({"max_passes": 0}, "max_passes"),
        ({"max_passes": 2.5}, "max_passes"),
    ],
)
def test_options_out_of_range_are_refused(options, word):
    with pytest.raises(DataError, match=word):
        CPStream(RANK, **options).partial_fit(Slice.dense(np.ones(SHAPE)))
