"""A slice of which most cells are listed, written out as a matrix, for ACP's sums.

Rows of the matrix are cells of the first modes, columns those of the others, in C order. What a
component has in a cell is then a product of two numbers, one of the row and one of the column, and
sums over cells are long loops that need not look where a cell lies.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import numpy as np

from onlinegcp.kernels.jit import kernel
from onlinegcp.kernels.tracking.columns import add_rows, along_line, times


@kernel
def halfway(offsets):
    # How many modes make the rows of the matrix, so that it has the fewest rows and columns.
    d = offsets.shape[0] - 1
    split, fewest = 0, np.inf
    for k in range(d):
        rows, others = 1.0, 1.0
        for j in range(d):
            if j < k:
                rows *= offsets[j + 1] - offsets[j]
            else:
                others *= offsets[j + 1] - offsets[j]
        if rows + others < fewest:
            split, fewest = k, rows + others
    return split


@kernel
def fill(value, index, place, offsets, grid, seen):
    # Writes listed cells, whose coordinates begin at index[place], into a grid of zeros, and into
    # `seen` ones where they lie; where all are listed, nobody looks there.
    cells, there, d = grid.reshape(grid.size), seen.reshape(seen.size), offsets.shape[0] - 1
    if value.shape[0] == cells.shape[0]:
        cells[:] = value
        return
    cells[:] = 0.0
    there[:] = 0.0
    # Without signs, as in `learn_listed`, and without a look at the shape for every cell.
    steps, at, last = np.ones(d, np.uintp), np.uintp(d * place), np.uintp(d - 1)
    for k in range(d - 2, -1, -1):
        steps[k] = steps[k + 1] * np.uintp(offsets[k + 2] - offsets[k + 1])
    flat = index.reshape(index.size)
    for e in range(value.shape[0]):
        cell = np.uintp(flat[at + last])
        for k in range(d - 1):
            cell += steps[k] * np.uintp(flat[at + np.uintp(k)])
        at += np.uintp(d)
        cells[cell] = value[e]
        there[cell] = 1.0


@kernel
def multiply_out(columns, rows, out):
    # What each component has in each row, or column, of the matrix.
    for r in range(out.shape[0]):
        for i in range(out.shape[1]):
            out[r, i] = along_line(columns, r, rows, i, -1)


@kernel
def grid_weight_sums(grid, seen, gaps, left, right, sums, matrix):
    # As `weight_sums`, of whose arrays sums = Z'x and matrix = Z'Z are written.
    rank, both, line = left.shape[0], np.empty(left.shape[1]), np.empty(right.shape[1])
    for r in range(rank):
        line[:] = 0.0
        add_rows(left[r], grid, line)
        sums[r, 0] = 0.0
        for c in range(line.shape[0]):
            sums[r, 0] += line[c] * right[r, c]
        for s in range(r + 1 if gaps else 0):
            for i in range(both.shape[0]):
                both[i] = left[r, i] * left[s, i]
            line[:] = 0.0
            add_rows(both, seen, line)
            total = 0.0
            for c in range(line.shape[0]):
                total += line[c] * right[r, c] * right[s, c]
            matrix[r, s] = total
            matrix[s, r] = total


@kernel
def grid_errors(grid, seen, gaps, left, right, weights, out):
    # out = x - m at the cells that count, 0 at others. Returns the squared error.
    rank, squares, held = left.shape[0], 0.0, np.empty(left.shape[0])
    for i in range(grid.shape[0]):
        for r in range(rank):
            held[r] = -weights[r] * left[r, i]
        error = out[i]
        error[:] = grid[i]
        add_rows(held, right, error)
        if gaps:
            for c in range(error.shape[0]):
                error[c] *= seen[i, c]
                squares += error[c] * error[c]
        else:
            for c in range(error.shape[0]):
                squares += error[c] * error[c]
    return squares


@kernel
def grid_slopes(error, columns, lines, others, left, right, weights, first, last, out):
    # As `slopes`, for errors in a grid of `lines` by `others`.
    split = lines.shape[1]
    along, across = np.empty(error.shape[0]), np.empty(error.shape[1])
    for r in range(columns.shape[0]):
        if first < split:
            times(error, right[r], along)
            gather(along, columns, r, lines, weights[r], first, min(last, split), out)
        if last > split:
            across[:] = 0.0
            add_rows(left[r], error, across)
            gather(across, columns, r, others, weights[r], max(first - split, 0), last - split, out)


@kernel
def gather(sums, columns, r, rows, weight, first, last, out):
    # Sums over rows, or columns, of the matrix become those of the rows in the modes first..last
    # of those it stands for.
    for k in range(first, last):
        for i in range(sums.shape[0]):
            out[r, rows[i, k]] = 0.0
        for i in range(sums.shape[0]):
            out[r, rows[i, k]] += weight * sums[i] * along_line(columns, r, rows, i, k)
