"""Least-squares pieces for one slice: products with the factors, and the weights in one solve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import scipy.linalg
import scipy.optimize
from numpy.typing import NDArray

from onlinegcp.kernels import get_kernels
from onlinegcp.kernels.layout import pad_vector, stack_factors
from onlinegcp.kernels.static.mttkrp import dense_mttkrp
from onlinegcp.slices import Slice

FloatArray: TypeAlias = NDArray[np.float64]

# Rows of the Khatri-Rao product formed at a time: the block stays in the second-level cache.
BLOCK = 1024
# Relative ridge that keeps a singular normal matrix (duplicate or dead components) solvable.
TINY = 1e-12


def weighted_mttkrp(
    x: Slice, factors: Sequence[FloatArray], weights: FloatArray, mode: int
) -> FloatArray:
    """X_(k) Z_k diag(s): the slice against all factors but one, listed cells only."""
    if x.array is not None:
        return np.asarray(dense_mttkrp(x.array, factors, mode) * weights)
    # The slope of sum x m with respect to one factor.
    slopes, _ = get_kernels("cpu").scatter_gradient(
        stack_factors(factors), pad_vector(weights), x.index, x.value, (mode,)
    )
    return np.ascontiguousarray(slopes.views()[mode])


def cross_products(x: Slice, factors: Sequence[FloatArray]) -> FloatArray:
    """Z'x over the listed cells: one number per component."""
    if x.array is not None:
        return np.asarray(np.sum(dense_mttkrp(x.array, factors, 0) * factors[0], axis=0))
    rank = factors[0].shape[1]
    _, slopes = get_kernels("cpu").scatter_gradient(
        stack_factors(factors), pad_vector(np.ones(rank)), x.index, x.value, ()
    )
    return np.array(slopes[:rank])


def gram(factors: Sequence[FloatArray], *, skip: int | None = None) -> FloatArray:
    """Z'Z over all cells, from the factors' own products; `skip` leaves one mode out."""
    product = np.ones((factors[0].shape[1],) * 2)
    for k, a in enumerate(factors):
        if k != skip:
            product *= a.T @ a
    return product


def observed_gram(x: Slice, factors: Sequence[FloatArray]) -> FloatArray:
    """Z'Z over the observed cells."""
    if x.unlisted == "zero" or x.n_listed == x.size:
        return gram(factors)
    total = np.zeros((factors[0].shape[1],) * 2)
    for start in range(0, x.n_listed, BLOCK):
        rows = _rows(x, factors, start)
        total += rows.T @ rows
    return total


def solve_normal(matrix: FloatArray, right: FloatArray) -> FloatArray:
    """right @ inverse(matrix) for a symmetric positive semidefinite matrix (R, R)."""
    ridge = TINY * max(float(np.trace(matrix)) / len(matrix), np.finfo(float).tiny)
    regular = matrix + ridge * np.eye(len(matrix))
    try:
        factor = scipy.linalg.cho_factor(regular, check_finite=False)
    except np.linalg.LinAlgError:
        return np.asarray(right @ np.linalg.pinv(matrix, hermitian=True))
    return np.asarray(scipy.linalg.cho_solve(factor, right.T, check_finite=False).T)


def solve_weights(
    x: Slice, factors: Sequence[FloatArray], *, penalty: float = 0.0, lower: float = -np.inf
) -> FloatArray:
    """Weights that minimise sum (x - m)^2 + penalty / 2 |s|^2, in one solve.

    Parameters
    ----------
    x
        The slice; missing cells do not count.
    factors
        Factor matrices, held fixed.
    penalty
        mu of the paper.
    lower
        Bound on the weights, -inf or a finite number.
    """
    matrix = observed_gram(x, factors) + 0.5 * penalty * np.eye(factors[0].shape[1])
    right = cross_products(x, factors)
    if lower == -np.inf:
        return solve_normal(matrix, right)
    return bounded_least_squares(matrix, right, lower)


def bounded_least_squares(matrix: FloatArray, right: FloatArray, lower: float) -> FloatArray:
    """Minimise s'Ms / 2 - b's over s >= lower, for a positive semidefinite M."""
    ridge = TINY * max(float(np.trace(matrix)) / len(matrix), np.finfo(float).tiny)
    upper = np.linalg.cholesky(matrix + ridge * np.eye(len(matrix))).T
    # |U s - U'^-1 b|^2 has the same minimiser; shifted so that the bound is zero.
    target = scipy.linalg.solve_triangular(
        upper, right - matrix @ np.full(len(right), lower), trans="T"
    )
    return np.asarray(scipy.optimize.nnls(upper, target)[0] + lower)


def _rows(x: Slice, factors: Sequence[FloatArray], start: int) -> FloatArray:
    """Products of the factor rows that a block of listed cells touches."""
    index = x.index[start : start + BLOCK]
    rows = factors[0][index[:, 0]].copy()
    for k in range(1, len(factors)):
        rows *= factors[k][index[:, k]]
    return rows
