"""The compiled kernels against the NumPy ones: same draws, same sums up to rounding."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.errors import DataError
from onlinegcp.kernels.layout import pad_vector, stack_factors
from onlinegcp.kernels.sgd import cpu, reference
from onlinegcp.kernels.sgd.plan import (
    ADAGRAD,
    ADAM,
    AMSGRAD,
    CELL_ALL,
    CELL_RANDOM,
    LISTED_ALL,
    LISTED_RANDOM,
    SGD,
    VALUE_ARRAY,
    VALUE_LISTED,
    VALUE_LOOKUP,
    ZERO_ALL,
    ZERO_REJECT,
    ZERO_SELECT,
    FoldedHistory,
    Moments,
    Plan,
    Problem,
    Stratum,
)
from onlinegcp.losses import LOSS_NAMES, get_loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.sgd.engines import ArrayEngine

# Relative to the largest number of a result.
TOLERANCE = 1e-11

SHAPES = [(11,), (5, 6), (1, 7), (4, 5, 3), (3, 1, 4, 2), (2, 3, 2, 2, 2)]
RANKS = [1, 4, 7, 20, 33]


def sparse_slice(shape, density=0.3, seed=0, values=(1.0, 2.0, 3.0)):
    rng = np.random.default_rng(seed)
    mask = rng.random(shape) < density
    mask.flat[0] = True
    mask.flat[-1] = False
    return Slice(np.argwhere(mask), rng.choice(values, int(mask.sum())), shape)


def model(shape, rank, seed=0):
    rng = np.random.default_rng(seed)
    blocks = stack_factors([rng.random((n, rank)) + 0.1 for n in shape])
    return blocks, pad_vector(rng.random(rank) + 0.1)


def plans(x):
    n, zeros = x.n_listed, x.size - x.n_listed
    listed = Stratum(LISTED_ALL, n, 1.0, VALUE_LISTED)
    return {
        "stratified": Plan((listed, Stratum(ZERO_REJECT, 300, zeros / 300))),
        "drawn": Plan((Stratum(LISTED_RANDOM, 7, n / 7, VALUE_LISTED),)),
        "not spread": Plan((Stratum(LISTED_RANDOM, 7, n / 7, VALUE_LISTED, spread=False),)),
        "semi": Plan(
            (
                Stratum(LISTED_RANDOM, 7, n / 7, VALUE_LISTED, corrected=True),
                Stratum(CELL_RANDOM, 20, x.size / 20),
            )
        ),
        "uniform": Plan((Stratum(CELL_RANDOM, 40, x.size / 40, VALUE_LOOKUP),)),
        "all": Plan((listed, Stratum(ZERO_ALL, zeros, 1.0))),
        "selected": Plan((Stratum(ZERO_SELECT, 9, zeros / 9),)),
        "boxes": Plan((Stratum(CELL_ALL, x.size, 1.0, VALUE_LOOKUP),)),
        "one": Plan((Stratum(ZERO_REJECT, 1, 1.0),)),
        "nothing": Plan(()),
    }


def close(a, b):
    scale = max(1.0, float(np.abs(b).max())) if np.size(b) else 1.0
    np.testing.assert_allclose(a, b, rtol=0, atol=TOLERANCE * scale)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", list(plans(sparse_slice((5, 6)))))
def test_draws_are_the_same_bit_for_bit(shape, name, weighted):
    x = sparse_slice(shape)
    plan = plans(x)[name]
    row_weights = np.arange(1.0, shape[-1] + 1.0) if weighted else None
    for key in (0, 12345, 2**64 - 1):
        a, b = (
            module.draw_sample(module.prepare_cells(x, plan), plan, key, row_weights)
            for module in (cpu, reference)
        )
        np.testing.assert_array_equal(a.index, b.index)
        np.testing.assert_array_equal(a.value, b.value)
        np.testing.assert_array_equal(a.weight, b.weight)
        assert a.corrected == b.corrected


@pytest.mark.parametrize("shape", [(100_000, 100_000, 1_000), (2**31 - 1, 2**31 - 1, 2), (2**31,)])
def test_draws_are_the_same_in_slices_with_more_than_two_to_the_31_cells(shape):
    shape = tuple(min(n, 2**31 - 1) for n in shape)
    rng = np.random.default_rng(0)
    index = np.stack([rng.integers(0, n, 500) for n in shape], axis=1)
    x = Slice(index, np.arange(1.0, 501.0), shape)
    for plan in (
        Plan((Stratum(ZERO_REJECT, 500, 1.0),)),
        Plan((Stratum(CELL_RANDOM, 500, 1.0, VALUE_LOOKUP, spread=False),)),
    ):
        a, b = (
            module.draw_sample(module.prepare_cells(x, plan), plan, 7)
            for module in (cpu, reference)
        )
        np.testing.assert_array_equal(a.index, b.index)
        np.testing.assert_array_equal(a.value, b.value)
        assert (a.index.max(axis=0) >= 0.9 * (np.array(shape) - 1)).all()


def test_dense_arrays_are_read_in_place():
    x = Slice.dense(np.random.default_rng(0).random((4, 5, 2)))
    for plan in (
        Plan((Stratum(CELL_RANDOM, 33, 1.0, VALUE_ARRAY),)),
        Plan((Stratum(CELL_ALL, 40, 1.0, VALUE_ARRAY),)),
    ):
        a = cpu.draw_sample(cpu.prepare_cells(x, plan), plan, 3)
        np.testing.assert_array_equal(a.value, x.array[tuple(a.index.T)])
        b = reference.draw_sample(reference.prepare_cells(x, plan), plan, 3)
        np.testing.assert_array_equal(a.index, b.index)


@pytest.mark.parametrize("rank", [*RANKS, 256])
@pytest.mark.parametrize("shape", SHAPES)
def test_model_values_and_gradients_agree(shape, rank):
    blocks, weights = model(shape, rank)
    rng = np.random.default_rng(1)
    index = np.stack([rng.integers(0, n, 50) for n in shape], axis=1)
    y = rng.standard_normal(50)
    close(
        cpu.model_values(blocks, weights, index),
        reference.model_values(blocks, weights, index),
    )
    for modes in (None, (0,), (len(shape) - 1,), ()):
        a, aw = cpu.scatter_gradient(blocks, weights, index, y, modes)
        b, bw = reference.scatter_gradient(blocks, weights, index, y, modes)
        close(a.data, b.data)
        close(aw, bw)


@pytest.mark.parametrize("n", [0, 1])
def test_samples_of_none_and_one(n):
    blocks, weights = model((4, 3), 5)
    index, y = np.zeros((n, 2), np.int32), np.ones(n)
    assert cpu.model_values(blocks, weights, index).shape == (n,)
    gradient, _ = cpu.scatter_gradient(blocks, weights, index, y)
    assert bool(gradient.data.any()) == bool(n)


@pytest.mark.parametrize("rank", [1, 5, 12, 20, 50, 64])
@pytest.mark.parametrize("shape", [(7,), (1, 37), (5, 70, 3)])
def test_history_gradients_agree(shape, rank):
    blocks, _ = model(shape, rank)
    old, _ = model(shape, rank, seed=1)
    S = np.cov(np.random.default_rng(2).random((rank, 9))).reshape(rank, rank)
    modes = range(len(shape))
    close(
        cpu.history_gradient(blocks, old, S, modes).data,
        reference.history_gradient(blocks, old, S, modes).data,
    )


def run(module, x, plan, *, kind=ADAM, rank=5, n_jobs=1, iterations=3, **options):
    blocks, weights = model(x.shape, rank)
    old, _ = model(x.shape, rank, seed=1)
    rng = np.random.default_rng(2)
    rows = rng.random((4, rank))
    settings = {
        "modes": tuple(range(x.ndim)),
        "update_weights": False,
        "code": get_loss("poisson").code,
        "lower": 1e-3,
        "ridge": 0.1,
        "weight_ridge": 0.2,
        "history": FoldedHistory(rows.T @ rows, old, np.arange(x.ndim) * 0.3),
    } | options
    problem = Problem(blocks, weights, **settings)
    cells = module.prepare_cells(x, plan)
    if module is cpu:
        engine = cpu.SgdEngine(problem, cells, plan, cells, plan, n_jobs)
    else:
        (loss,) = (loss for loss in map(get_loss, LOSS_NAMES) if loss.code == problem.code)
        engine = ArrayEngine(module, problem, loss, (cells, plan), (cells, plan))
    moments = Moments.zeros(blocks, kind)
    engine.epoch(moments, kind, 1e-3, (0.9, 0.999, 1e-8), 99, 4, iterations)
    return blocks, weights, moments, engine.objective(5)


def agree(a, b):
    close(a[0].data, b[0].data)
    close(a[1], b[1])
    assert a[2].taken == b[2].taken
    # The objective sums products of many terms: a hundred times the tolerance of one.
    assert a[3] == pytest.approx(b[3], rel=100 * TOLERANCE)


@pytest.mark.parametrize("kind", [SGD, ADAM, ADAGRAD, AMSGRAD])
@pytest.mark.parametrize("shape", SHAPES)
def test_epochs_agree_for_every_step_and_shape(shape, kind):
    x = sparse_slice(shape)
    plan = plans(x)["stratified"]
    options = {"kind": kind, "update_weights": True}
    agree(run(cpu, x, plan, **options), run(reference, x, plan, **options))


@pytest.mark.parametrize("name", list(plans(sparse_slice((5, 6)))))
@pytest.mark.parametrize("shape", [(5, 6), (4, 5, 3), (3, 1, 4, 2)])
def test_epochs_agree_for_every_plan_with_row_weights(shape, name):
    x = sparse_slice(shape)
    plan = plans(x)[name]
    row_weights = np.linspace(0.5, 2.0, shape[-1])
    agree(*(run(module, x, plan, row_weights=row_weights) for module in (cpu, reference)))


@pytest.mark.parametrize("modes", [(), (0,), (1,), (0, 2)])
@pytest.mark.parametrize("update_weights", [False, True])
def test_only_the_blocks_asked_for_move(modes, update_weights):
    x = sparse_slice((4, 5, 3))
    plan = plans(x)["stratified"]
    options = {"modes": modes, "update_weights": update_weights}
    a, b = (run(module, x, plan, **options) for module in (cpu, reference))
    agree(a, b)
    start, weights = model((4, 5, 3), 5)
    moved = [not np.array_equal(v, w) for v, w in zip(a[0].views(), start.views(), strict=True)]
    assert moved == [k in modes for k in range(3)]
    assert np.array_equal(a[1], weights) != update_weights


@pytest.mark.parametrize("rank", RANKS)
def test_padding_stays_zero_even_with_a_positive_bound(rank):
    x = sparse_slice((5, 6))
    blocks, weights, moments, _ = run(
        cpu, x, plans(x)["stratified"], rank=rank, lower=0.2, update_weights=True
    )
    for array in (blocks.data, moments.u, moments.v, weights[None]):
        assert not array[:, rank:].any()
    assert blocks.data[:, :rank].min() >= 0.2


@pytest.mark.parametrize("name", LOSS_NAMES)
def test_epochs_agree_for_every_loss(name):
    loss = get_loss(name)
    zero = loss.zero_shape is not None
    candidates = [value for value in (0.0, 0.5, 1.0, 2.0, 3.0) if _fits(loss, value)]
    rng = np.random.default_rng(0)
    x = sparse_slice((5, 4, 3), values=[v for v in candidates if v] or candidates)
    if not zero:
        x = Slice.dense(rng.choice(candidates, (5, 4, 3)))
    plan = plans(x)["semi"] if zero else Plan((Stratum(CELL_RANDOM, 50, 1.2, VALUE_ARRAY),))
    options = {"code": loss.code, "parameter": loss.parameter, "update_weights": True}
    agree(run(cpu, x, plan, **options), run(reference, x, plan, **options))


def _fits(loss, value):
    try:
        loss.check(np.array([value]))
    except DataError:
        return False
    return True


@pytest.mark.parametrize("apart", [0, 1 << 21])
@pytest.mark.parametrize("name", ["stratified", "semi", "all"])
def test_results_repeat_bit_for_bit_on_any_number_of_threads(monkeypatch, name, apart):
    monkeypatch.setattr(cpu.sgd_threads, "WORK_EACH", 1)
    monkeypatch.setattr(cpu.sgd_threads, "MOST_APART", apart)
    x = sparse_slice((14, 15, 3))
    plan = plans(x)[name]
    first, *others = (
        run(cpu, x, plan, n_jobs=n, rank=21, update_weights=True) for n in (1, 1, 2, 3, 9)
    )
    for other in others:
        np.testing.assert_array_equal(first[0].data, other[0].data)
        np.testing.assert_array_equal(first[1], other[1])
        np.testing.assert_array_equal(first[2].v, other[2].v)
        assert first[3] == other[3]


def test_epochs_cut_in_two_are_the_same_as_one():
    x = sparse_slice((5, 6))
    plan = plans(x)["stratified"]
    whole = run(cpu, x, plan, iterations=6)
    blocks, weights = model(x.shape, 5)
    old, _ = model(x.shape, 5, seed=1)
    rows = np.random.default_rng(2).random((4, 5))
    history = FoldedHistory(rows.T @ rows, old, np.arange(2) * 0.3)
    problem = Problem(blocks, weights, (0, 1), False, 1, 0.0, 1e-3, 0.1, 0.2, history)
    moments = Moments.zeros(blocks, ADAM)
    for first in (4, 7):
        cells = cpu.prepare_cells(x, plan)
        engine = cpu.SgdEngine(problem, cells, plan, cells, plan)
        engine.epoch(moments, ADAM, 1e-3, (0.9, 0.999, 1e-8), 99, first, 3)
    np.testing.assert_array_equal(blocks.data, whole[0].data)


def test_a_diverging_solve_shows_nan_instead_of_hiding_it():
    x = sparse_slice((5, 6))
    blocks, weights = model(x.shape, 5)
    blocks.data[0, 0] = np.nan
    plan = plans(x)["all"]
    cells = cpu.prepare_cells(x, plan)
    engine = cpu.SgdEngine(Problem(blocks, weights, (0, 1), False, 0), cells, plan, cells, plan)
    assert np.isnan(engine.objective(0))
    engine.epoch(Moments.zeros(blocks, SGD), SGD, 1e-3, (0.9, 0.999, 1e-8), 0, 0, 1)
    assert np.isnan(blocks.data[0, 0])


def test_an_iteration_gets_as_many_threads_as_its_work_is_worth():
    crew_for, each = cpu.sgd_threads.crew_for, cpu.sgd_threads.WORK_EACH
    assert [crew_for(16, work) for work in (0, 2 * each - 1, 2 * each, 40 * each)] == [1, 1, 2, 16]
    assert crew_for(1, 40 * each) == 1
