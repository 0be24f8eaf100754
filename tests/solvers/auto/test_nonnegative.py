"""Nonnegative least squares over many rows: the optimum of scipy's active sets, zeros exact."""

import numpy as np
import pytest
import scipy.optimize

from onlinegcp.solvers.auto import nonnegative


def problem(rows, rank, seed, alike=0.0):
    """Systems from random designs; with `alike` near 1 the columns almost coincide."""
    rng = np.random.default_rng(seed)
    design = rng.standard_normal((4 * rank, rank))
    design = (1.0 - alike) * design + alike * rng.standard_normal((4 * rank, 1))
    data = rng.standard_normal((rows, 4 * rank))
    return design, data, design.T @ design, data @ design


@pytest.mark.parametrize(
    ("rows", "rank", "alike"),
    [(0, 3, 0.0), (1, 1, 0.0), (1, 5, 0.9), (50, 13, 0.0), (50, 13, 0.99), (3, 67, 0.5)],
)  # fmt: skip
def test_every_row_agrees_with_scipys_active_sets(rows, rank, alike):
    design, data, system, right = problem(rows, rank, 1, alike)
    found = nonnegative.solve_rows(system, right, np.zeros((rows, rank)))
    assert (found >= 0.0).all()
    for row, x in zip(found, data, strict=True):
        best = scipy.optimize.nnls(design, x)[0]
        np.testing.assert_allclose(row, best, atol=1e-8 * (1.0 + best.max()))
        np.testing.assert_array_equal(row == 0.0, best == 0.0)


def test_the_start_does_not_matter():
    _, _, system, right = problem(20, 8, 2)
    from_zero = nonnegative.solve_rows(system, right, np.zeros((20, 8)))
    from_ones = nonnegative.solve_rows(system, right, np.ones((20, 8)))
    np.testing.assert_allclose(from_zero, from_ones, atol=1e-12)


def test_rows_that_need_no_bound_take_the_plain_solution():
    _, _, system, _ = problem(1, 6, 3)
    truth = np.random.default_rng(0).random((4, 6)) + 0.1
    found = nonnegative.solve_rows(system, truth @ system, np.zeros((4, 6)))
    np.testing.assert_allclose(found, truth, rtol=1e-9)


def test_a_row_that_is_stopped_early_is_still_nonnegative_and_better_than_its_start(monkeypatch):
    monkeypatch.setattr(nonnegative, "ROUNDS", 1)
    monkeypatch.setattr(nonnegative, "SWEEPS", 1)
    _, _, system, right = problem(30, 12, 4, 0.9)
    start = np.ones((30, 12))
    found = nonnegative.solve_rows(system, right, start)

    def objective(at):
        return 0.5 * np.einsum("ir,rc,ic->i", at, system, at) - np.einsum("ir,ir->i", right, at)

    assert (found >= 0.0).all()
    assert (objective(found) < objective(start)).all()


def test_only_free_entries_are_solved_for():
    _, _, system, right = problem(9, 5, 5)
    free = np.random.default_rng(1).random((9, 5)) < 0.6
    free[0], free[1] = True, False
    found = nonnegative.solve_free(system, right, free)
    assert (found[~free] == 0.0).all()
    for row, b, mask in zip(found, right, free, strict=True):
        expected = np.linalg.solve(system[np.ix_(mask, mask)], b[mask])
        np.testing.assert_allclose(row[mask], expected, atol=1e-12)


@pytest.mark.parametrize("copies", [1, 2])
def test_one_vector_agrees_with_lbfgs_even_with_equal_columns(copies):
    design, data, _, _ = problem(1, 6, 6)
    design = np.tile(design, (1, copies))
    system = design.T @ design + 1e-10 * np.eye(design.shape[1])
    right = design.T @ data[0]
    found = nonnegative.solve_vector(system, right)

    def objective(s):
        return 0.5 * s @ system @ s - right @ s, system @ s - right

    best = scipy.optimize.minimize(
        objective, np.ones(len(right)), jac=True, method="L-BFGS-B",
        bounds=[(0.0, None)] * len(right), options={"ftol": 1e-15, "gtol": 1e-12},
    ).fun  # fmt: skip
    assert objective(found)[0] <= best + 1e-9 * abs(best)
    assert (found >= 0.0).all()
    assert (found == 0.0).any()


def test_a_matrix_that_rounding_made_indefinite_is_solved_all_the_same():
    ones = np.ones((3, 3))
    ones[0, 0] -= 1e-15
    found = nonnegative.solve_vector(ones - 1e-14 * np.eye(3), np.array([1.0, 1.0, 1.0]))
    assert (found >= 0.0).all()
    assert found.sum() == pytest.approx(1.0, rel=1e-6)
