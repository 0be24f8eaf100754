"""Least-squares pieces for one slice: products with the factors, and the weights in one solve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import scipy.linalg
import scipy.optimize
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs

from onlinegcp.kernels import get_kernels
from onlinegcp.kernels.auto.arguments import ByRow
from onlinegcp.kernels.auto.fisher_sums import model_values, row_sums, weight_sums
from onlinegcp.kernels.layout import Blocks, pad_vector, stack_factors
from onlinegcp.kernels.static.mttkrp import dense_mttkrp
from onlinegcp.kernels.tracking.columns import TINY
from onlinegcp.slices import Slice

FloatArray: TypeAlias = NDArray[np.float64]


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


def error_slopes(
    x: Slice, factors: Sequence[FloatArray], weights: FloatArray, modes: Sequence[int]
) -> list[FloatArray]:
    """E_(k) Z_k diag(s) for each of several modes, E = x - m on the observed cells."""
    if x.n_observed == x.size:
        outer = np.outer(weights, weights)
        return [
            weighted_mttkrp(x, factors, weights, k) - factors[k] @ (gram(factors, skip=k) * outer)
            for k in modes
        ]
    blocks, padded = stack_factors(factors), pad_vector(weights)
    error = _error(x, blocks, padded)
    slopes, _ = get_kernels("cpu").scatter_gradient(blocks, padded, x.index, error, modes)
    return [np.ascontiguousarray(slopes.views()[k]) for k in modes]


def row_systems(
    x: Slice,
    factors: Sequence[FloatArray],
    weights: FloatArray,
    mode: int,
    *,
    diagonal: bool = False,
) -> tuple[FloatArray, FloatArray]:
    """N'N and N'(x - m) over the listed cells of every row of a mode, N the weighted other rows.

    Parameters
    ----------
    x
        A slice with missing cells; in one without, all rows share N'N.
    factors, weights
        The model m of the slice.
    mode
        The mode.
    diagonal
        Only the diagonals of N'N.

    Returns
    -------
    matrices, slopes
        (I_k, R, R), or (I_k, R) where only diagonals were asked for; and (I_k, R).
    """
    blocks, rank = stack_factors(factors), len(weights)
    rows, column = x.shape[mode], x.index[:, mode]
    order = np.argsort(column, kind="stable")
    starts = np.zeros(rows + 1, dtype=np.int64)
    np.cumsum(np.bincount(column, minlength=rows), out=starts[1:])
    padded = pad_vector(weights)
    slopes = np.zeros((rows, blocks.width))
    matrices = np.zeros((rows, blocks.width, 1 if diagonal else blocks.width))
    row_sums(
        blocks.data,
        blocks.offsets,
        x.index,
        padded,
        _error(x, blocks, padded),
        np.ones(x.n_listed),
        mode,
        ByRow(order, starts),
        slopes,
        matrices,
    )
    shown = matrices[:, :rank, 0] if diagonal else matrices[:, :rank, :rank]
    return shown, slopes[:, :rank]


def solve_normal(matrix: FloatArray, right: FloatArray) -> FloatArray:
    """right @ inverse(matrix) for a symmetric positive semidefinite matrix (R, R)."""
    ridge = TINY * max(float(np.trace(matrix)) / len(matrix), np.finfo(float).tiny)
    regular = matrix + ridge * np.eye(len(matrix))
    # Not SciPy's own functions, which take longer to look at their arguments than to solve.
    factor, failed = dpotrf(regular, clean=False)
    if failed:
        return np.asarray(right @ np.linalg.pinv(matrix, hermitian=True))
    return np.asarray(dpotrs(factor, right.T)[0].T)


def solve_rows(matrices: FloatArray, rights: FloatArray) -> FloatArray:
    """One solve per row: (I, R, R) and (I, R) to (I, R)."""
    try:
        return np.asarray(np.linalg.solve(matrices, rights[..., None])[..., 0], np.float64)
    except np.linalg.LinAlgError:
        # A row of which nothing is known, or nothing any more: it stays where it is.
        identity = np.eye(matrices.shape[-1])
        sizes = np.trace(matrices, axis1=1, axis2=2) / len(identity)
        spare = TINY * sizes + np.finfo(float).tiny / TINY
        return solve_rows(matrices + spare[:, None, None] * identity, rights)


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
    if x.n_observed < x.size:
        matrix, right = _listed_sums(x, factors)
    else:
        matrix, right = gram(factors), cross_products(x, factors)
    matrix = matrix + 0.5 * penalty * np.eye(factors[0].shape[1])
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


def _listed_sums(x: Slice, factors: Sequence[FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Z'Z and Z'x over the listed cells, in one pass."""
    blocks, rank = stack_factors(factors), factors[0].shape[1]
    right, lower = np.empty(blocks.width), np.empty((blocks.width, blocks.width))
    ones = np.ones(x.n_listed)
    weight_sums(blocks.data, blocks.offsets, x.index, x.value, ones, right, lower)
    half = np.tril(lower[:rank, :rank], -1)
    return half + half.T + np.diag(np.diagonal(lower)[:rank]), right[:rank]


def _error(x: Slice, blocks: Blocks, weights: FloatArray) -> FloatArray:
    """x - m at the listed cells."""
    error = np.empty(x.n_listed)
    model_values(blocks.data, blocks.offsets, x.index, weights, error)
    return np.subtract(x.value, error, out=error)
