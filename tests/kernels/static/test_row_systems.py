"""Row systems against dense least squares and NumPy's own factorisations."""

from __future__ import annotations

import numpy as np
import pytest

import kernel_twins
from onlinegcp.kernels.layout import stack_factors
from onlinegcp.kernels.static.fibres import group_rows
from onlinegcp.kernels.static.row_systems import (
    ROW_CHUNK,
    cholesky,
    row_cuts,
    solve_factored,
    solve_least_squares_rows,
)


def cells(shape, density, seed=0):
    rng = np.random.default_rng(seed)
    index = np.ascontiguousarray(np.argwhere(rng.random(shape) < density), dtype=np.int32)
    return index, rng.normal(size=len(index))


def random_factors(shape, rank, seed=1):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n, rank)) for n in shape]


def squared_error(index, value, factors, mode, rows):
    terms = np.ones((len(value), rows.shape[1]))
    for j, factor in enumerate(factors):
        terms *= (rows if j == mode else factor)[index[:, j]]
    return np.sum((value - terms.sum(axis=1)) ** 2)


@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize(
    ("shape", "density", "rank"),
    [
        ((7, 11, 5), 0.8, 3),
        ((6, 13), 0.9, 2),
        ((5, 4, 3, 6), 0.7, 6),
        ((1, 90, 7), 0.9, 5),
        ((3, 1, 40), 1.0, 1),
        ((9,), 0.6, 1),
        ((4, 5, 3), 0.0, 2),
    ],
    ids=str,
)
def test_rows_equal_dense_least_squares(shape, density, rank, ridge):
    index, value = cells(shape, density)
    factors = random_factors(shape, rank)
    blocks = stack_factors(factors)
    for mode, groups in enumerate(group_rows(index, value, shape)):
        rows, rest = solve_least_squares_rows(groups, blocks, ridge=ridge)
        expected = kernel_twins.least_squares_rows(index, value, factors, mode, ridge)
        # Rows with barely enough cells are known to the square root of rounding only, but the
        # error they leave is not.
        np.testing.assert_allclose(rows, expected, rtol=1e-3, atol=1e-8)
        scale = 1 + value @ value
        error = squared_error(index, value, factors, mode, rows)
        best = squared_error(index, value, factors, mode, expected)
        assert error + ridge * np.sum(rows**2) <= best + ridge * np.sum(expected**2) + 1e-9 * scale
        assert rest + value @ value == pytest.approx(error, abs=1e-10 * scale)


def test_a_row_with_too_few_cells_moves_to_the_nearest_exact_fit():
    shape, rank = (3, 6), 4
    index = np.array([[0, 0], [0, 3], [2, 5]], dtype=np.int32)
    value = np.array([1.0, -2.0, 3.0])
    factors = random_factors(shape, rank)
    rows, rest = solve_least_squares_rows(
        group_rows(index, value, shape)[0], stack_factors(factors)
    )
    fitted = np.sum(rows[index[:, 0]] * factors[1][index[:, 1]], axis=1)
    np.testing.assert_allclose(fitted, value, atol=1e-9)
    assert rest == pytest.approx(-value @ value)
    # The step lies in the span of the observed basis rows: no movement across it.
    step = rows[0] - factors[0][0]
    basis = factors[1][[0, 3]]
    inside = basis.T @ np.linalg.lstsq(basis.T, step, rcond=None)[0]
    np.testing.assert_allclose(inside, step, atol=1e-3)
    np.testing.assert_array_equal(rows[1], 0.0)


def test_threads_do_not_change_a_bit():
    shape = (60, 40, 10)
    index, value = cells(shape, 0.7)
    blocks = stack_factors(random_factors(shape, 5))
    for groups in group_rows(index, value, shape):
        one, rest = solve_least_squares_rows(groups, blocks)
        two, same = solve_least_squares_rows(groups, blocks, n_jobs=2)
        np.testing.assert_array_equal(one, two)
        assert rest == same


@pytest.mark.parametrize("counts", [[], [0, 0], [5 * ROW_CHUNK], [ROW_CHUNK] * 3, [1] * 10_000])
def test_cuts_cover_all_rows_without_overlap(counts):
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    cuts = row_cuts(starts)
    assert cuts[0] == 0
    assert cuts[-1] == len(counts)
    assert (np.diff(cuts) > 0).all()


@pytest.mark.parametrize("n", [1, 2, 7, 20])
def test_factored_systems_are_solved(n):
    rng = np.random.default_rng(n)
    root = rng.normal(size=(n, n + 2))
    matrix = root @ root.T
    right = rng.normal(size=n)
    factor, solution = matrix.copy(), right.copy()
    assert cholesky(factor, n)
    np.testing.assert_allclose(np.tril(factor), np.linalg.cholesky(matrix), rtol=1e-9, atol=1e-12)
    solve_factored(factor, solution, n)
    np.testing.assert_allclose(matrix @ solution, right, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan])
def test_indefinite_systems_are_reported(bad):
    assert not cholesky(np.array([[1.0, 0.0], [0.0, bad]]), 2)
