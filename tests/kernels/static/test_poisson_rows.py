"""Row solves for counts against SciPy's bounded optimiser and the optimality conditions."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy.optimize import minimize

import kernel_twins
from count_tensors import counts, padded, shares
from onlinegcp.kernels.layout import stack_factors
from onlinegcp.kernels.static import poisson_rows as module
from onlinegcp.kernels.static.fibres import group_rows
from onlinegcp.kernels.static.poisson_rows import descend_rows, poisson_log_sum

SOLVERS = {"newton": descend_rows, "quasi_newton": partial(descend_rows, memory=3)}
SHAPES = [(6, 5, 4), (5, 9), (1, 11, 3), (7, 1, 5), (3, 4, 2, 5)]


def ones(rank):
    return padded(np.ones((1, rank)))


def objective(index, value, factors, mode, rows, cost):
    basis = np.ones((len(value), rows.shape[1]))
    for j, factor in enumerate(factors):
        if j != mode:
            basis *= factor[index[:, j]]
    m = np.sum(rows[index[:, mode]] * basis, axis=1)
    return np.sum(rows * cost) - value @ np.log(np.maximum(m, 1e-10))


def solve(solver, groups, blocks, rows, cost, **options):
    """Repeat passes of a solver until no row moves."""
    for _ in range(200):
        report = solver(groups, blocks, rows, cost, tolerance=1e-9, **options)
        if report.steps == 0:
            return report
    raise AssertionError(f"violation is still {report.kkt}")


@pytest.mark.slow  # SciPy takes most of it
@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_solution_meets_the_optimality_conditions_and_beats_scipy(shape, name):
    rank = 3
    index, value = counts(shape, 0.7)
    factors = shares(shape, rank)
    blocks = stack_factors(factors)
    for mode, groups in enumerate(group_rows(index, value, shape)):
        start = factors[mode] * 10.0
        rows = padded(start)
        report = solve(SOLVERS[name], groups, blocks, rows, ones(rank))
        found = rows[:, :rank]
        slope = 1.0 - kernel_twins.poisson_phi(index, value, factors, mode, found)
        assert np.abs(np.minimum(found, slope)).max() <= 2e-9
        assert report.kkt <= 1e-9
        assert (found >= 0).all()
        assert not rows[:, rank:].any()

        def cost_and_slope(flat, mode=mode, start=start):
            b = flat.reshape(start.shape)
            g = 1.0 - kernel_twins.poisson_phi(index, value, factors, mode, b)
            return objective(index, value, factors, mode, b, 1.0), g.ravel()

        best = minimize(
            cost_and_slope,
            start.ravel(),
            jac=True,
            method="L-BFGS-B",
            bounds=[(0, None)] * start.size,
            options={"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-10},
        )
        ours = objective(index, value, factors, mode, found, 1.0)
        assert ours <= best.fun + 1e-8 * abs(best.fun)


@pytest.mark.parametrize("name", SOLVERS)
def test_objective_never_rises(name):
    shape, rank = (8, 7, 6), 4
    index, value = counts(shape, 0.5)
    factors = shares(shape, rank)
    blocks = stack_factors(factors)
    groups = group_rows(index, value, shape)[0]
    # A start a million times too small and one a million times too large.
    for scale in (1e-6, 1.0, 1e6):
        rows = padded(factors[0] * scale)
        last = np.inf
        for _ in range(8):
            SOLVERS[name](groups, blocks, rows, ones(rank), tolerance=1e-9, max_steps=1)
            now = objective(index, value, factors, 0, rows[:, :rank], 1.0)
            assert now <= last + 1e-11 * abs(now)
            last = now


@pytest.mark.parametrize("name", SOLVERS)
def test_total_of_every_row_is_matched(name):
    shape, rank = (6, 5, 4), 2
    index, value = counts(shape, 0.6)
    factors = shares(shape, rank)
    rows = padded(factors[1] * 7.0)
    solve(
        SOLVERS[name], group_rows(index, value, shape)[1], stack_factors(factors), rows, ones(rank)
    )
    expected = np.bincount(index[:, 1], weights=value, minlength=5)
    np.testing.assert_allclose(rows.sum(axis=1), expected, rtol=1e-7)


@pytest.mark.parametrize("name", SOLVERS)
def test_costs_may_differ_by_row_and_component(name):
    shape, rank = (4, 5, 3), 2
    index, value = counts(shape, 0.8)
    factors = shares(shape, rank)
    cost = np.random.default_rng(3).uniform(0.2, 2.0, (4, rank))
    rows = padded(factors[0] * 5.0)
    groups = group_rows(index, value, shape)[0]
    solve(SOLVERS[name], groups, stack_factors(factors), rows, padded(cost))
    slope = cost - kernel_twins.poisson_phi(index, value, factors, 0, rows[:, :rank])
    assert np.abs(np.minimum(rows[:, :rank], slope)).max() <= 2e-9


@pytest.mark.parametrize("name", SOLVERS)
def test_rows_without_counts_become_zero_and_zero_entries_can_grow(name):
    index = np.array([[0, 0], [2, 1]], dtype=np.int32)
    value = np.array([5.0, 2.0])
    factors = [np.full((3, 2), 1 / 3), np.array([[0.5, 0.2], [0.5, 0.8]])]
    groups = group_rows(index, value, (3, 2))[0]
    rows = padded(np.array([[0.0, 4.0], [1.0, 1.0], [3.0, 0.0]]))
    first = SOLVERS[name](groups, stack_factors(factors), rows, ones(2), tolerance=1e-9)
    assert first.kkt >= 1.0
    solve(SOLVERS[name], groups, stack_factors(factors), rows, ones(2))
    # Each row puts all its counts on the component with the larger share at its one cell.
    np.testing.assert_allclose(rows[:, :2], [[5, 0], [0, 0], [0, 2]], atol=1e-7)


@pytest.mark.parametrize("name", SOLVERS)
def test_rows_longer_than_the_kept_basis_give_the_same_answer(name):
    width = 4
    length = module.BASIS_NUMBERS // width + 37
    rng = np.random.default_rng(0)
    value = rng.poisson(3.0, length).astype(float)
    index = np.stack([np.zeros(length), np.arange(length)], axis=1).astype(np.int32)
    factors = [np.ones((1, 2)), rng.gamma(0.5, size=(length, 2)) + 1e-6]
    factors[1] /= factors[1].sum(axis=0)
    rows = padded(np.array([[1.0, 1.0]]))
    report = SOLVERS[name](
        group_rows(index, value, (1, length))[0],
        stack_factors(factors),
        rows,
        ones(2),
        tolerance=1e-8,
        max_steps=60,
    )
    slope = 1.0 - kernel_twins.poisson_phi(index, value, factors, 0, rows[:, :2])
    assert report.steps > 0
    assert np.abs(np.minimum(rows[:, :2], slope)).max() <= 1e-7


@pytest.mark.parametrize("name", SOLVERS)
def test_threads_do_not_change_a_bit(name):
    shape, rank = (40, 30, 20), 3
    index, value = counts(shape, 0.8)
    factors = shares(shape, rank)
    blocks = stack_factors(factors)
    groups = group_rows(index, value, shape)[1]
    results = []
    for n_jobs in (1, 2, 3):
        rows = padded(factors[1] * 100.0)
        report = SOLVERS[name](groups, blocks, rows, ones(rank), tolerance=1e-6, n_jobs=n_jobs)
        results.append((rows, report))
        log_sum = poisson_log_sum(groups, blocks, rows, n_jobs=n_jobs)
        assert log_sum == poisson_log_sum(groups, blocks, rows)
    for rows, report in results[1:]:
        np.testing.assert_array_equal(rows, results[0][0])
        assert report == results[0][1]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_log_sum_equals_numpy(shape):
    index, value = counts(shape, 0.6)
    factors = shares(shape, 3)
    blocks = stack_factors(factors)
    expected = -objective(index, value, factors, 0, factors[0] * 9.0, 0.0)
    for mode, groups in enumerate(group_rows(index, value, shape)):
        found = poisson_log_sum(groups, blocks, padded(factors[mode] * 9.0))
        assert found == pytest.approx(expected, rel=1e-12)


def test_log_sum_of_impossible_counts_is_finite():
    index, value = np.array([[0, 0]], dtype=np.int32), np.array([2.0])
    blocks = stack_factors([np.ones((1, 1)), np.ones((1, 1))])
    groups = group_rows(index, value, (1, 1))[0]
    found = poisson_log_sum(groups, blocks, padded(np.zeros((1, 1))))
    assert found == pytest.approx(2.0 * (np.log(1e-10) - 1.0))
