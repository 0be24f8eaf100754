"""Least-squares pieces against explicitly built design matrices."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize

from onlinegcp.ktensor import KTensor
from onlinegcp.slices import Slice
from onlinegcp.solvers.least_squares import (
    bounded_least_squares,
    cross_products,
    error_slopes,
    gram,
    row_systems,
    solve_normal,
    solve_rows,
    solve_weights,
    weighted_mttkrp,
)

SHAPES = [(5,), (7, 1), (4, 3, 5)]


def problem(shape, rank=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=shape), [rng.normal(size=(n, rank)) for n in shape]


def as_cells(array, kind):
    """The same data as a dense slice, a list with zeros left out, or one with holes."""
    rng = np.random.default_rng(1)
    array = np.where(rng.random(array.shape) < 0.4, 0.0, array)
    if kind == "dense":
        return Slice.dense(array)
    if kind == "sparse":
        return Slice(np.argwhere(array != 0), array[array != 0], array.shape)
    return Slice.dense(np.where(rng.random(array.shape) < 0.3, np.nan, array))


def design(x, factors):
    """One row per observed cell, one column per component: that component's value there."""
    rank = factors[0].shape[1]
    units = [KTensor(np.eye(rank)[r], factors).full() for r in range(rank)]
    seen = ~np.isnan(x.to_dense())
    return np.stack([unit[seen] for unit in units], axis=1), x.to_dense()[seen]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["dense", "sparse", "holes"])
def test_weights_solve_the_explicit_regression(shape, kind):
    array, factors = problem(shape)
    x = as_cells(array, kind)
    matrix, target = design(x, factors)
    if np.linalg.matrix_rank(matrix) < 3:
        pytest.skip("too few cells to determine three weights")
    expected = np.linalg.lstsq(matrix, target, rcond=None)[0]
    np.testing.assert_allclose(solve_weights(x, factors), expected, rtol=1e-7)


@pytest.mark.parametrize("kind", ["dense", "sparse", "holes"])
def test_penalty_is_mu_half_times_the_squared_norm(kind):
    array, factors = problem((4, 3, 5))
    x = as_cells(array, kind)
    matrix, target = design(x, factors)
    found = solve_weights(x, factors, penalty=0.7)

    def objective(s):
        return np.sum((target - matrix @ s) ** 2) + 0.5 * 0.7 * np.sum(s**2)

    slopes = scipy.optimize.approx_fprime(found, objective, 1e-6)
    assert np.abs(slopes).max() < 1e-4


@pytest.mark.parametrize("lower", [0.0, -0.1, 0.2])
def test_bounded_weights_are_the_best_above_the_bound(lower):
    array, factors = problem((4, 3, 5))
    x = as_cells(array, "holes")
    matrix, target = design(x, factors)
    expected = scipy.optimize.lsq_linear(matrix, target, (lower, np.inf), tol=1e-14).x
    found = solve_weights(x, factors, lower=lower)
    assert found.min() >= lower
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_products_equal_dense_contractions(shape, kind):
    array, factors = problem(shape)
    x = as_cells(array, kind)
    weights = np.array([2.0, -1.0, 0.5])
    letters = "abc"[: len(shape)]
    for k in range(len(shape)):
        others = [f"{letters[j]}r" for j in range(len(shape)) if j != k]
        inputs = ",".join([letters, *others, "r"])
        kept = [factors[j] for j in range(len(shape)) if j != k]
        expected = np.einsum(f"{inputs}->{letters[k]}r", x.to_dense(), *kept, weights)
        found = weighted_mttkrp(x, factors, weights, k)
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    expected = [KTensor(np.eye(3)[r], factors).inner(x) for r in range(3)]
    np.testing.assert_allclose(cross_products(x, factors), expected, rtol=1e-10, atol=1e-12)


def test_gram_is_the_product_of_all_components_over_all_cells():
    _, factors = problem((4, 3, 5))
    complete = Slice(np.empty((0, 3), dtype=int), [], (4, 3, 5))
    matrix, _ = design(complete, factors)
    np.testing.assert_allclose(gram(factors), matrix.T @ matrix, rtol=1e-10)
    np.testing.assert_allclose(
        gram(factors, skip=1), gram([factors[0], np.eye(3)[:1] * 0 + 1.0, factors[2]]), rtol=1e-12
    )


def test_weights_of_many_observed_cells_are_summed_in_blocks():
    rng = np.random.default_rng(0)
    array = rng.normal(size=(61, 53))
    array[rng.random(array.shape) < 0.2] = np.nan
    factors = [rng.normal(size=(n, 2)) for n in array.shape]
    x = Slice.dense(array)
    assert x.n_listed > 2 * 1024
    matrix, target = design(x, factors)
    expected = np.linalg.lstsq(matrix, target, rcond=None)[0]
    np.testing.assert_allclose(solve_weights(x, factors), expected, rtol=1e-9)


def test_an_empty_slice_has_weights_zero():
    _, factors = problem((4, 3))
    for unlisted in ("zero", "missing"):
        x = Slice(np.empty((0, 2), dtype=int), [], (4, 3), unlisted=unlisted)
        np.testing.assert_allclose(solve_weights(x, factors), 0.0, atol=1e-12)


def test_singular_systems_are_solved_without_large_numbers():
    """Two equal components: any split explains the data, a huge one is useless."""
    rng = np.random.default_rng(0)
    a, b = rng.random((5, 1)), rng.random((4, 1))
    factors = [np.hstack([a, a]), np.hstack([b, b])]
    x = Slice.dense(3.0 * a @ b.T)
    weights = solve_weights(x, factors)
    assert weights.sum() == pytest.approx(3.0, rel=1e-6)
    assert np.abs(weights).max() < 100.0
    np.testing.assert_allclose(solve_normal(np.zeros((2, 2)), np.zeros((3, 2))), 0.0)
    np.testing.assert_allclose(bounded_least_squares(np.zeros((2, 2)), np.zeros(2), 0.0), 0.0)


def test_solve_normal_divides_from_the_right():
    rng = np.random.default_rng(2)
    root = rng.normal(size=(3, 3))
    matrix, right = root @ root.T + np.eye(3), rng.normal(size=(5, 3))
    np.testing.assert_allclose(solve_normal(matrix, right) @ matrix, right, rtol=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("diagonal", [False, True])
def test_row_systems_are_the_normal_equations_of_every_row(shape, diagonal):
    array, factors = problem(shape)
    x, s = as_cells(array, "holes"), np.array([1.0, -0.5, 2.0])
    whole = x.to_dense()
    error = whole - KTensor(s, factors).full()
    for mode, n in enumerate(shape):
        matrices, slopes = row_systems(x, factors, s, mode, diagonal=diagonal)
        others = [a if k != mode else np.ones((n, 3)) for k, a in enumerate(factors)]
        columns = np.stack([KTensor(np.eye(3)[r] * s, others).full() for r in range(3)], axis=-1)
        for i in range(n):
            seen = ~np.isnan(np.take(whole, i, axis=mode))
            rows = np.take(columns, i, axis=mode)[seen]
            expected = rows.T @ rows
            np.testing.assert_allclose(matrices[i], np.diag(expected) if diagonal else expected)
            np.testing.assert_allclose(
                slopes[i], rows.T @ np.take(error, i, axis=mode)[seen], atol=1e-12
            )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["dense", "sparse", "holes"])
def test_error_slopes_are_minus_half_the_gradient_of_the_squared_error(shape, kind):
    array, factors = problem(shape)
    x, s, h = as_cells(array, kind), np.array([1.0, -0.5, 2.0]), 1e-5
    found = error_slopes(x, factors, s, range(len(shape)))

    def squared(at):
        return np.nansum((x.to_dense() - KTensor(s, at).full()) ** 2)

    for mode, slopes in enumerate(found):
        for cell in np.ndindex(*slopes.shape):
            steps = []
            for sign in (1, -1):
                moved = [a.copy() for a in factors]
                moved[mode][cell] += sign * h
                steps.append(squared(moved))
            assert slopes[cell] == pytest.approx(-(steps[0] - steps[1]) / (4 * h), abs=1e-5)


def test_a_row_of_which_nothing_is_known_does_not_stop_the_others():
    matrices = np.stack([np.eye(2), np.zeros((2, 2)), np.diag([1.0, 0.0])])
    rights = np.array([[1.0, 2.0], [0.0, 0.0], [3.0, 0.0]])
    np.testing.assert_allclose(solve_rows(matrices, rights), rights, rtol=1e-9)
