"""Nonnegative least squares for many rows that share one system, with exact zeros.

Each row minimises a'Ha / 2 - b'a over a >= 0. Rows whose unbounded optimum is nonnegative are done
at once. For the rest, coordinate descent guesses which entries are zero and a solve for the others
ends the row, exactly, if the guess was right; if not, the row moves towards that solve as far as
the bound lets it, and goes on. Every move lowers the objective, so a row that is stopped (nearly
singular systems may take more rounds than allowed) is nonnegative and better than its start.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.linalg.lapack
import scipy.optimize
from numpy.typing import NDArray

Array = NDArray[Any]

SWEEPS = 3  # of coordinate descent per guess
ROUNDS = 50  # of guesses; rows that are still open keep the last
TOLERANCE = 1e-10  # of the optimality conditions, relative to the row's largest right-hand side
CHUNK = 1 << 21  # numbers in a block of systems that are solved together


def solve_positive(matrix: Array, right: Array) -> Array:
    """Solve a symmetric positive definite system, by least squares where rounding spoils it."""
    # LAPACK itself: for systems this small, what stands around it takes longer than the solve.
    factor, failed = scipy.linalg.lapack.dpotrf(matrix, lower=1, clean=0)
    if failed:
        return np.asarray(np.linalg.lstsq(matrix, right, rcond=None)[0])
    return np.asarray(scipy.linalg.lapack.dpotrs(factor, right, lower=1)[0])


def solve_vector(system: Array, right: Array) -> Array:
    """Minimise s'Hs / 2 - b's over s >= 0 by active sets.

    Examples
    --------
    >>> solve_vector(np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([1.0, -1.0]))
    array([0.5, 0. ])
    """
    try:
        root = scipy.linalg.cholesky(system, lower=True, check_finite=False)
        target = scipy.linalg.solve_triangular(root, right, lower=True, check_finite=False)
        return np.asarray(scipy.optimize.nnls(root.T, target)[0])
    except (np.linalg.LinAlgError, RuntimeError):
        # Not positive definite by a rounding error, or too many exchanges between equal columns.
        return np.asarray(solve_rows(system, right[None, :], np.zeros((1, len(right))))[0])


def solve_rows(system: Array, right: Array, start: Array) -> Array:
    """Minimise a'Ha / 2 - b'a over a >= 0 for every row.

    Parameters
    ----------
    system
        H, positive definite (R, R).
    right
        One b per row (n, R).
    start
        Nonnegative rows close to the optimum (n, R).
    """
    found = solve_free(system, right, np.ones(right.shape, dtype=np.bool_))
    open_rows = np.flatnonzero((found < 0.0).any(axis=1))
    # In units in which every coordinate has curvature one, slopes and entries compare.
    unit = np.sqrt(np.diag(system))
    scaled = system / np.outer(unit, unit)
    target = right[open_rows] / unit
    at = start[open_rows] * unit
    for _ in range(ROUNDS):
        if not len(open_rows):
            break
        _descend(scaled, target, at)
        free = at > 0.0
        goal = solve_free(scaled, target, free)
        slope = goal @ scaled - target
        reached = TOLERANCE * np.abs(target).max(axis=1, keepdims=True)
        done = ((goal >= 0.0) & (free | (slope >= -reached))).all(axis=1)
        found[open_rows[done]] = goal[done] / unit
        open_rows, target = open_rows[~done], target[~done]
        at = _towards(at[~done], goal[~done])
    found[open_rows] = at / unit
    return found


def solve_free(system: Array, right: Array, free: Array) -> Array:
    """Solve H a = b in every row's free entries, the others held at zero.

    Parameters
    ----------
    system
        H, positive definite (R, R).
    right
        One b per row (n, R).
    free
        Which entries of each row may differ from zero (n, R).
    """
    found = np.zeros_like(right)
    whole = free.all(axis=1)
    if whole.any():
        found[whole] = solve_positive(system, right[whole].T).T
    # Rows with few free entries make small systems: sorted, so that a block has rows alike.
    counts = free.sum(axis=1)
    rest = np.flatnonzero(~whole & (counts > 0))
    rest = rest[np.argsort(counts[rest], kind="stable")]
    unit = max(float(np.diag(system).max()), 1e-300)
    while len(rest):
        least = int(counts[rest[0]])
        rows = rest[: max(1, CHUNK // (2 * least) ** 2)]
        rows = rows[counts[rows] <= 2 * least]
        rest = rest[len(rows) :]
        order = np.argsort(~free[rows], axis=1, kind="stable")[:, : counts[rows].max()]
        used = np.take_along_axis(free[rows], order, axis=1)
        matrix = system[order[:, :, None], order[:, None, :]]
        matrix *= used[:, :, None] & used[:, None, :]
        where = np.arange(order.shape[1])
        matrix[:, where, where] += np.where(used, 0.0, unit)
        held = np.where(used, np.take_along_axis(right[rows], order, axis=1), 0.0)
        solved = np.linalg.solve(matrix, held[:, :, None])[:, :, 0]
        found[rows[:, None], order] = solved
    return found


def _descend(system: Array, target: Array, at: Array) -> None:
    """Sweeps of exact minimisation in one coordinate after the other; the diagonal is one."""
    columns, goals = np.ascontiguousarray(at.T), np.ascontiguousarray(target.T)
    for _ in range(SWEEPS):
        for r in range(len(system)):
            columns[r] = np.maximum(columns[r] - (system[r] @ columns - goals[r]), 0.0)
    at[...] = columns.T


def _towards(at: Array, goal: Array) -> Array:
    """The last nonnegative point on the way to a goal; its blocking entries are exactly zero."""
    falls = goal < 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = np.where(falls, at / (at - goal), np.inf).min(axis=1, keepdims=True, initial=1.0)
    moved = np.maximum(at + reach * (goal - at), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        blocking = falls & (at / (at - goal) <= reach)
    moved[blocking] = 0.0
    return np.asarray(moved)
