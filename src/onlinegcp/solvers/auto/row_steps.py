"""One small symmetric matrix (or diagonal) per row: products, and damped solves."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.sums import verbs

Array = NDArray[Any]

# Added to a row's diagonal, as a share of itself and of its mean: equal components need it.
RELATIVE_RIDGE = 1e-8
TRACE_RIDGE = 1e-10
ROWS = 16  # whose matrices are solved in one call: 16 of width 52 are 350 kB


def times(matrices: Array, vectors: Array) -> Array:
    """Each row's matrix (or diagonal) times its vector."""
    if matrices.shape[2] == 1:
        return np.asarray(matrices[:, :, 0] * vectors)
    return np.asarray(np.einsum("irc,ic->ir", matrices, vectors))


def solve_damped(system: Array, hold: Array, right: Array, held: Array, rank: int) -> Array:
    """Solve (system + hold + ridge) step = right row by row.

    Parameters
    ----------
    system
        Matrices (n, width, width) or diagonals (n, width, 1).
    hold
        Added to every diagonal (width,).
    right
        Right-hand sides (n, width).
    held
        Entries whose step is zero (n, width).
    rank
        Columns in use; the step of the padding is zero, too.
    """
    width = right.shape[1]
    fixed = held.copy()
    fixed[:, rank:] = True
    if system.shape[2] == 1:
        diagonal = system[:, :, 0] + hold
        ridge = TRACE_RIDGE * diagonal.mean(axis=1, keepdims=True) + 1e-300
        damped = diagonal * (1.0 + RELATIVE_RIDGE) + ridge
        return np.asarray(np.where(fixed, 0.0, right / damped))
    found = np.empty(right.shape)

    def some(first: int, last: int) -> None:
        here = slice(first, last)
        found[here] = _solve_rows(system[here], hold, right[here], fixed[here], rank)

    edges = [*range(0, len(right), ROWS), len(right)]
    verbs.rows(some, list(pairwise(edges)), len(right) * width**3 / 3)
    return found


def _solve_rows(system: Array, hold: Array, right: Array, fixed: Array, rank: int) -> Array:
    matrix = system.copy()
    where = np.arange(right.shape[1])
    diagonal = matrix[:, where, where] + hold
    ridge = TRACE_RIDGE * diagonal.sum(axis=1, keepdims=True) / rank + 1e-300
    matrix[:, where, where] = diagonal * (1.0 + RELATIVE_RIDGE) + ridge
    matrix[fixed] = 0.0
    matrix.transpose(0, 2, 1)[fixed] = 0.0
    unit = np.maximum(diagonal.max(axis=1, keepdims=True), 1e-300)
    matrix[:, where, where] = np.where(fixed, unit, matrix[:, where, where])
    return np.asarray(np.linalg.solve(matrix, np.where(fixed, 0.0, right)[:, :, None])[:, :, 0])
