"""CP-Stream against stacked least-squares problems that are built cell by cell."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.errors import DataError
from onlinegcp.ktensor import KTensor
from onlinegcp.slices import Slice
from onlinegcp.solvers.least_squares import solve_weights
from onlinegcp.streaming import CPStream
from onlinegcp.streaming.row_sparse import compress
from reference_outputs import stored

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


def bounded_least_squares_by_admm(matrix, right, rows):
    """The authors' inner loop, written down plainly."""
    step, dual = np.trace(matrix) / len(matrix), np.zeros_like(rows)
    for _ in range(25):
        free = np.linalg.solve(
            matrix + step * np.eye(len(matrix)), (right + step * (rows + dual)).T
        )
        before, rows = rows, free.T - dual
        rows = rows / np.maximum(1.0, np.linalg.norm(rows, axis=0))
        dual = dual + rows - free.T
        near = np.sum((rows - free.T) ** 2) <= 0.07 * np.sum(rows**2)
        if near and np.sum((rows - before) ** 2) <= 0.07 * np.sum(dual**2):
            break
    return rows


def test_the_authors_numbers_after_every_slice():
    """splatt-stream, one pass. Its first slice is weighed with products of a start that is scaled
    only afterwards, so that slice is done here and the stream begins with the second."""
    data, theirs = stored("inputs")["X"], stored("cpstream")
    raw = [theirs["start_raw_A"], theirs["start_raw_B"]]
    a, b = (f / np.linalg.norm(f, axis=0) for f in raw)
    grams = [f.T @ f for f in raw]
    x = data[..., 0]
    s = np.linalg.solve(grams[0] * grams[1] + 0.01 * np.eye(3), np.sum((x @ b) * a, axis=0))
    a = bounded_least_squares_by_admm(grams[1] * np.outer(s, s), x @ b * s, a)
    b = bounded_least_squares_by_admm((a.T @ a) * np.outer(s, s), x.T @ a * s, b)
    np.testing.assert_allclose(s, theirs["passes1_S"][0], rtol=1e-8)
    model = CPStream(
        3,
        forget=0.95,
        ridge=0.01,
        max_passes=1,
        column_bound=True,
        inner_passes=25,
        inner_tolerance=0.07,
        init=KTensor(None, [a, b, s[None]]),
    )
    for t in range(1, 14):
        model.partial_fit(Slice.dense(data[..., t]))
        np.testing.assert_allclose(model.weights_, theirs["passes1_S"][t], rtol=1e-8, atol=1e-9)
    for ours, name in zip(model.factors_, "AB", strict=True):  # nine printed digits
        error = np.linalg.norm(ours - theirs[f"passes1_{name}"])
        assert error < 1e-9 * np.linalg.norm(ours)
    assert model.n_slices_ == 14


def test_columns_stay_within_the_bound_and_reach_the_constrained_minimum():
    init = start()
    x = 3.0 * np.random.default_rng(1).normal(size=SHAPE)
    options = {"max_passes": 1, "forget": 0.5, "init": init}
    model = CPStream(RANK, column_bound=True, inner_passes=5000, inner_tolerance=1e-24, **options)
    model.partial_fit(Slice.dense(x))
    assert max(np.linalg.norm(a, axis=0).max() for a in model.factors_) <= 1 + 1e-12
    # The last mode: no small move within the bound lowers the stacked squared error.
    *old, rows = [np.asarray(a) for a in init.factors]
    s, factors = model.weights_, [a.copy() for a in model.factors_]

    def error(last):
        total = np.sum((x - KTensor(s, [*factors[:-1], last]).full()) ** 2)
        for h, row in enumerate(rows, 1):
            model_gap = KTensor(row, old).full() - KTensor(row, [*factors[:-1], last]).full()
            total += 0.5 ** (PAST + 1 - h) * np.sum(model_gap**2)
        return total

    rng, best = np.random.default_rng(2), error(factors[-1])
    for size in (1e-3, 1e-2, 0.1):
        for _ in range(50):
            moved = factors[-1] + size * rng.normal(size=factors[-1].shape)
            moved /= np.maximum(1.0, np.linalg.norm(moved, axis=0))
            assert error(moved) >= best - 1e-9 * best


@pytest.mark.parametrize("column_bound", [False, True])
def test_rows_without_data_may_be_left_to_stand_ins(column_bound):
    """A sparse slice touches few rows of long modes; as an array it touches all."""
    rng = np.random.default_rng(0)
    shape = (60, 50, 4)
    factors = [rng.normal(size=(n, RANK)) for n in shape]
    factors = [a / np.linalg.norm(a, axis=0) for a in factors]
    init = KTensor(None, [*factors, rng.random((3, RANK))])
    columns = 7 * rng.integers(0, 6, 30), 3 * rng.integers(0, 5, 30), rng.integers(0, 4, 30)
    index = np.column_stack(columns)
    sparse = [Slice(index, rng.random(30), shape) for _ in range(3)]
    assert compress(sparse[0], factors)[0].size < sparse[0].size / 10
    options = {"init": init, "column_bound": column_bound}
    few = CPStream(RANK, **options).fit(sparse)
    all_rows = CPStream(RANK, **options).fit([x.to_dense() for x in sparse])
    for a, b in zip(few.factors_, all_rows.factors_, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_modes_may_grow():
    rng = np.random.default_rng(4)
    factors = [rng.random((n, RANK)) for n in (12, 10)]
    model = CPStream(RANK, init_slices=6, forget=0.8)
    for t in range(60):
        n = 8 if t < 20 else 12
        row = 0.5 + rng.random(RANK)
        model.partial_fit(Slice.dense(factors[0][:n] * row @ factors[1].T))
    assert [len(a) for a in model.factors_] == [12, 10]
    # New rows are tied to zeros, what the past slices held in them, until those are forgotten.
    assert model.last_.prequential < 1e-3 * model.last_.norm_squared
