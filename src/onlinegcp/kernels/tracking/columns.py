"""Small pieces that trackers share: factors by column, contractions, normal equations.

Factors lie in one array `columns` (R, rows of all modes), mode k in columns[:, offsets[k] :
offsets[k + 1]], so that each component's vectors are contiguous and loops over rows use vector
registers whatever the rank. Sums have a fixed order: a slice gives the same bits alone and in a
block.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.jit import kernel

Array = NDArray[Any]

# Relative ridge that keeps a singular normal matrix (duplicate or dead components) solvable.
TINY = 1e-12
_SMALLEST = float(np.finfo(float).tiny)


def to_columns(factors: Sequence[Array]) -> tuple[Array, Array]:
    """Copy factor matrices (I_k, R) into one array, and say where each begins."""
    offsets = np.array([0, *itertools.accumulate(map(len, factors))], np.int64)
    return np.ascontiguousarray(np.concatenate(factors).T), offsets


def to_factors(columns: Array, offsets: Array) -> tuple[Array, ...]:
    """Factor matrices in their own memory, in the order in which a file gives them back."""
    rows = np.ascontiguousarray(columns.T)
    return tuple(rows[a:b] for a, b in itertools.pairwise(offsets))


@kernel
def solve_normal(matrix, right, first, last, lower):
    # Columns first..last of `right` (R, n) become inverse(matrix) times themselves, for a matrix
    # that is positive semidefinite; what it knows nothing of becomes 0. `lower` is scratch.
    rank = matrix.shape[0]
    trace = 0.0
    for r in range(rank):
        trace += matrix[r, r]
    ridge = TINY * max(trace / rank, _SMALLEST)
    for j in range(rank):
        for i in range(j, rank):
            total = matrix[i, j]
            if i == j:
                total += ridge
            for k in range(j):
                total -= lower[i, k] * lower[j, k]
            if i > j:
                lower[i, j] = 0.0 if lower[j, j] == 0.0 else total / lower[j, j]
            elif total <= 0.0:  # what is not a number stays that
                lower[j, j] = 0.0
            else:
                lower[j, j] = np.sqrt(total)
    for i in range(rank):
        for k in range(i):
            for c in range(first, last):
                right[i, c] -= lower[i, k] * right[k, c]
        scale = 0.0 if lower[i, i] == 0.0 else 1.0 / lower[i, i]
        for c in range(first, last):
            right[i, c] *= scale
    for i in range(rank - 1, -1, -1):
        for k in range(i + 1, rank):
            for c in range(first, last):
                right[i, c] -= lower[k, i] * right[k, c]
        scale = 0.0 if lower[i, i] == 0.0 else 1.0 / lower[i, i]
        for c in range(first, last):
            right[i, c] *= scale


@kernel
def products(columns, offsets, skip, out):
    # out = Z'Z over all cells, from the columns' own products; mode `skip` (or -1) is left out.
    rank = columns.shape[0]
    for r in range(rank):
        for s in range(r + 1):
            product = 1.0
            for k in range(offsets.shape[0] - 1):
                if k != skip:
                    total = 0.0
                    for i in range(offsets[k], offsets[k + 1]):
                        total += columns[r, i] * columns[s, i]
                    product *= total
            out[r, s] = product
            out[s, r] = product


@kernel
def times(matrix, vector, out):
    # out = matrix times vector, four rows at a time: each number of the vector is then read once
    # for all of them.
    n, m = matrix.shape
    for r in range(0, n - 3, 4):
        t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0
        for c in range(m):
            t0 += matrix[r, c] * vector[c]
            t1 += matrix[r + 1, c] * vector[c]
            t2 += matrix[r + 2, c] * vector[c]
            t3 += matrix[r + 3, c] * vector[c]
        out[r], out[r + 1], out[r + 2], out[r + 3] = t0, t1, t2, t3
    for r in range(n - n % 4, n):
        total = 0.0
        for c in range(m):
            total += matrix[r, c] * vector[c]
        out[r] = total


@kernel
def add_rows(vector, matrix, out):
    # out += vector times matrix, four rows at a time.
    n, m = matrix.shape
    for r in range(0, n - 3, 4):
        for c in range(m):
            out[c] += (vector[r] * matrix[r, c] + vector[r + 1] * matrix[r + 1, c]) + (
                vector[r + 2] * matrix[r + 2, c] + vector[r + 3] * matrix[r + 3, c]
            )
    for r in range(n - n % 4, n):
        for c in range(m):
            out[c] += vector[r] * matrix[r, c]


@kernel
def lines_of(offsets, first, last):
    # Lines of cells along all but the modes first..last, in C order: for each its rows in these.
    n = 1
    for k in range(first, last):
        n *= offsets[k + 1] - offsets[k]
    rows = np.empty((n, last - first), np.uintp)
    for line in range(n):
        rest = line
        for k in range(last - 1, first - 1, -1):
            length = offsets[k + 1] - offsets[k]
            rows[line, k - first] = offsets[k] + rest % length
            rest //= length
    return rows


@kernel
def along_line(columns, r, rows, line, skip):
    # Product of what a component has in the rows of a line, mode `skip` (or -1) left out.
    product = 1.0
    for k in range(rows.shape[1]):
        if k != skip:
            product *= columns[r, rows[line, k]]
    return product


@kernel
def tails_of(columns, offsets):
    # The last mode's columns by themselves: an index without a sum lets loops use whole registers.
    rank, first = columns.shape[0], offsets[-2]
    tails = np.empty((rank, offsets[-1] - first))
    for r in range(rank):
        for c in range(tails.shape[1]):
            tails[r, c] = columns[r, first + c]
    return tails


@kernel
def sweep(basis, columns, offsets, rows, out):
    # One sweep of the higher-order power method on each row of `basis` (R, cells), last mode
    # first, from the vectors of `columns`. The last mode carries the scale.
    rank, (n, last) = columns.shape[0], rows.shape
    tail, length = offsets[last], offsets[last + 1] - offsets[last]
    tensors = basis.reshape((rank, n, length))
    sums, new = np.empty(n), np.empty(length)
    for r in range(rank):
        for i in range(tail):
            out[r, i] = columns[r, i]
        for k in range(last):
            _to_unit(out, r, offsets[k], offsets[k + 1])
        for c in range(length):
            new[c] = 0.0
        for i in range(n):
            sums[i] = along_line(out, r, rows, i, -1)
        add_rows(sums, tensors[r], new)
        times(tensors[r], new, sums)
        for c in range(length):
            out[r, tail + c] = new[c]
        for k in range(last - 1, -1, -1):
            for i in range(offsets[k], offsets[k + 1]):
                out[r, i] = 0.0
            for i in range(n):  # the mode itself is not read
                out[r, rows[i, k]] += sums[i] * along_line(out, r, rows, i, k)
            _to_unit(out, r, offsets[k], offsets[k + 1])


@kernel
def _to_unit(columns, r, first, last):
    total = 0.0
    for i in range(first, last):
        total += columns[r, i] * columns[r, i]
    # A component that vanished keeps its zeros.
    if total > 0.0:
        scale = 1.0 / np.sqrt(total)
        for i in range(first, last):
            columns[r, i] *= scale


@kernel
def holdings(columns, offsets, weights, held, t):
    # What each component adds up to over all cells, signs of its patterns aside.
    for r in range(columns.shape[0]):
        product = weights[r]
        for k in range(offsets.shape[0] - 1):
            total = 0.0
            for i in range(offsets[k], offsets[k + 1]):
                total += abs(columns[r, i])
            product *= total
        held[t, r] = product


@kernel
def usual(columns, offsets):
    # Whether all numbers are finite and no mode has become all zeros.
    total = 0.0
    alive = True
    for k in range(offsets.shape[0] - 1):
        size = 0.0
        for r in range(columns.shape[0]):
            for i in range(offsets[k], offsets[k + 1]):
                size += abs(columns[r, i])
        alive = alive and size != 0.0
        total += size
    return alive and np.isfinite(total)
