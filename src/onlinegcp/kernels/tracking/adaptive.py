"""ACP's step compiled: the error of a slice over a fading sum of its regressors, slice by slice.

Cells come in lines: those that follow each other in C order and differ in the last mode only.
What the other modes say is multiplied out once for a line. A slice of which most cells are listed
is a matrix instead, see `grid`.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import numpy as np

from onlinegcp.kernels.jit import kernel
from onlinegcp.kernels.tracking.cells import MISSING
from onlinegcp.kernels.tracking.columns import (
    along_line,
    holdings,
    lines_of,
    products,
    solve_normal,
    tails_of,
    usual,
)
from onlinegcp.kernels.tracking.grid import (
    fill,
    grid_errors,
    grid_slopes,
    grid_weight_sums,
    halfway,
    multiply_out,
)

# Share of a slice's cells from which it is learned as a matrix.
FULL = 0.5
# Numbers of the cells' patterns held at a time: what a second-level cache has room for.
ROOM = 1 << 14


@kernel
def lines_among(index, place, at, n, offsets, rows, starts):
    # Where lines begin among n listed cells, whose coordinates begin at index[place] and lie in
    # rows `at` of the last mode, and their rows in the other modes. Returns how many there are.
    last, lines, begin = offsets.shape[0] - 2, 0, 0
    while begin < n:
        # Cells are sorted: within a line the last mode's rows rise, and between two cells with
        # the same other rows all have these.
        there = begin
        while there + 1 < n and at[there + 1] > at[there]:
            there += 1
        here, guess = begin, there
        while here < there:
            same = True
            for k in range(last):
                same = same and index[place + guess, k] == index[place + begin, k]
            if same:
                here = guess
            else:
                there = guess - 1
            guess = (here + there + 1) // 2
        starts[lines] = begin
        for k in range(last):
            rows[lines, k] = offsets[k] + index[place + begin, k]
        lines += 1
        begin = here + 1
    starts[lines] = n
    return lines


@kernel
def chunk_end(starts, first, n, room):
    # The line after those that `room` cells hold, from the first on.
    last = first + 1
    while last < n and starts[last + 1] - starts[first] <= room:
        last += 1
    return last


@kernel
def spread(at, rows, starts, first, last, columns, tails, patterns):
    # What each component has in the cells of lines first..last: sums over many cells then are
    # long loops, whatever the length of a line.
    for i in range(first, last):
        begin, cells = starts[i] - starts[first], at[starts[i] : starts[i + 1]]
        for r in range(tails.shape[0]):
            factor, line = along_line(columns, r, rows, i, -1), patterns[r, begin:]
            for c in range(cells.shape[0]):
                line[c] = factor * tails[r, cells[c]]


@kernel
def weight_sums(value, at, rows, starts, n, columns, tails, patterns, right, matrix, listed):
    # right = Z'x and, where only listed cells count, matrix = Z'Z over them. Returns whether
    # `patterns` holds all cells.
    rank, first = tails.shape[0], 0
    last = first
    for r in range(rank):
        right[r, 0] = 0.0
        if listed:
            for s in range(rank):
                matrix[r, s] = 0.0
    while last < n:
        first, last = last, chunk_end(starts, last, n, patterns.shape[1])
        spread(at, rows, starts, first, last, columns, tails, patterns)
        x = value[starts[first] : starts[last]]
        for r in range(rank):
            total = 0.0
            for c in range(x.shape[0]):
                total += x[c] * patterns[r, c]
            right[r, 0] += total
            if listed:
                for s in range(r + 1):
                    total = 0.0
                    for c in range(x.shape[0]):
                        total += patterns[r, c] * patterns[s, c]
                    matrix[r, s] += total
                    matrix[s, r] = matrix[r, s]
    return first == 0


@kernel
def errors(value, at, rows, starts, n, columns, tails, patterns, known, weights, zeros, out):
    # out = x - m at the listed cells, or x where all others are zeros. Returns the squared error
    # over them, less the squares of m where the whole model is counted elsewhere. `known` says
    # that `patterns` holds all cells already.
    squares, last = 0.0, 0
    while last < n:
        first, last = last, chunk_end(starts, last, n, patterns.shape[1])
        if not known:
            spread(at, rows, starts, first, last, columns, tails, patterns)
        x, error = value[starts[first] : starts[last]], out[starts[first] : starts[last]]
        for c in range(x.shape[0]):
            error[c] = x[c]
        for r in range(tails.shape[0]):
            for c in range(x.shape[0]):
                error[c] -= weights[r] * patterns[r, c]
        for c in range(x.shape[0]):
            squares += error[c] * error[c]
        if zeros:
            for c in range(x.shape[0]):
                squares -= (x[c] - error[c]) ** 2
                error[c] = x[c]
    return squares


@kernel
def slopes(error, at, rows, starts, n, columns, tails, offsets, weights, first, last, out):
    # E_(k) Z_k diag(s) of the modes first..last, for errors at listed cells.
    rank, d = columns.shape[0], offsets.shape[0] - 1
    tail = np.empty(tails.shape[1])
    for r in range(rank):
        for i in range(offsets[first], offsets[last]):
            out[r, i] = 0.0
        for c in range(tails.shape[1]):
            tail[c] = 0.0
        for i in range(n):
            total = 0.0
            if last == d:
                factor = along_line(columns, r, rows, i, -1)
                for e in range(starts[i], starts[i + 1]):
                    total += error[e] * tails[r, at[e]]
                    tail[at[e]] += factor * error[e]
            else:
                for e in range(starts[i], starts[i + 1]):
                    total += error[e] * tails[r, at[e]]
            for k in range(first, min(last, d - 1)):
                out[r, rows[i, k]] += weights[r] * total * along_line(columns, r, rows, i, k)
        if last == d:
            for c in range(tails.shape[1]):
                out[r, offsets[d - 1] + c] = weights[r] * tail[c]


@kernel
def move(first, last, share, zeros, weights, forget, damping, past, columns, offsets, slope):
    # Adds to the modes first..last their slopes over what their regressors add up to: with
    # a forget above 0 a fading sum, kept in `past` (d, R, R); else this slice's and the damping.
    rank = columns.shape[0]
    system, lower = np.empty((rank, rank)), np.empty((rank, rank))
    step = np.empty((rank, columns.shape[1]))
    for k in range(first, last):
        products(columns, offsets, k, system)
        for r in range(rank):
            for i in range(offsets[k], offsets[k + 1]):
                step[r, i] = slope[r, i]
            for s in range(rank):
                both = system[r, s] * weights[r] * weights[s]
                if zeros:
                    for i in range(offsets[k], offsets[k + 1]):
                        step[r, i] -= both * columns[s, i]
                if forget > 0.0:
                    past[k, r, s] = forget * past[k, r, s] + share * both
                else:
                    past[k, r, s] = share * both + (damping if r == s else 0.0)
        solve_normal(past[k], step, offsets[k], offsets[k + 1], lower)
    for r in range(rank):
        for i in range(offsets[first], offsets[last]):
            columns[r, i] += step[r, i]


@kernel
def learn_listed(
    x, index, place, share, zeros, given, columns, offsets, past, forget, damping, last_one,
):  # fmt: skip
    # One slice by its listed cells, others being zeros or missing. Returns its weights, the new
    # columns, the squared error under the old ones and, of the last slice, under the new.
    count, rank, d = x.shape[0], columns.shape[0], offsets.shape[0] - 1
    # Without signs: whoever may count from the end of an array must look at every index.
    rows, starts = np.empty((count, d - 1), np.uintp), np.empty(count + 1, np.uintp)
    at, error = np.empty(count, np.uint32), np.empty(count)
    for e in range(count):
        at[e] = index[place + e, d - 1]
    lines = lines_among(index, place, at, count, offsets, rows, starts)
    patterns = np.empty((rank, max(ROOM // rank, offsets[d] - offsets[d - 1])))
    matrix, right = np.empty((rank, rank)), np.empty((rank, 1))
    slope = np.empty((rank, columns.shape[1]))
    tails = tails_of(columns, offsets)
    products(columns, offsets, -1, matrix)
    known, together = False, forget > 0.0
    if given.shape[0] == 0:
        known = weight_sums(
            x, at, rows, starts, lines, columns, tails, patterns, right, matrix, not zeros
        )
    s = weights_from(matrix, right, given)
    before, after = whole(matrix, s) if zeros else 0.0, 0.0
    new = columns.copy()
    for first in range(1 if together else d):
        last = d if together else first + 1
        if first:
            tails = tails_of(new, offsets)
        known = known and first == 0
        squares = errors(x, at, rows, starts, lines, new, tails, patterns, known, s, zeros, error)
        if first == 0:
            before += squares
        slopes(error, at, rows, starts, lines, new, tails, offsets, s, first, last, slope)
        move(first, last, share, zeros, s, forget, damping, past, new, offsets, slope)
    if last_one:
        tails = tails_of(new, offsets)
        after = errors(x, at, rows, starts, lines, new, tails, patterns, False, s, zeros, error)
        if zeros:
            products(new, offsets, -1, matrix)
            after += whole(matrix, s)
    return s, new, before, after


@kernel
def learn_grid(
    x, index, place, share, gaps, given, columns, offsets, lines, others, past, forget, damping,
    last_one,
):  # fmt: skip
    # As `learn_listed`, for a slice of which most cells are listed; without gaps others are zeros.
    rank, d, split = columns.shape[0], offsets.shape[0] - 1, lines.shape[1]
    grid = np.empty((lines.shape[0], others.shape[0]))
    seen, error = np.empty(grid.shape), np.empty(grid.shape)
    fill(x, index, place, offsets, grid, seen)
    left, right = np.empty((rank, lines.shape[0])), np.empty((rank, others.shape[0]))
    matrix, sums = np.empty((rank, rank)), np.empty((rank, 1))
    slope = np.empty((rank, columns.shape[1]))
    multiply_out(columns, lines, left)
    multiply_out(columns, others, right)
    if given.shape[0] == 0:
        products(columns, offsets, -1, matrix)
        grid_weight_sums(grid, seen, gaps, left, right, sums, matrix)
    s = weights_from(matrix, sums, given)
    together, before, after, new = forget > 0.0, 0.0, 0.0, columns.copy()
    for first in range(1 if together else d):
        last = d if together else first + 1
        squares = grid_errors(grid, seen, gaps, left, right, s, error)
        if first == 0:
            before = squares
        grid_slopes(error, new, lines, others, left, right, s, first, last, slope)
        move(first, last, share, False, s, forget, damping, past, new, offsets, slope)
        if first < split:
            multiply_out(new, lines, left)
        if last > split:
            multiply_out(new, others, right)
    if last_one:
        after = grid_errors(grid, seen, gaps, left, right, s, error)
    return s, new, before, after


@kernel
def weights_from(matrix, right, given):
    # Those given, or what solves the normal equations.
    rank = matrix.shape[0]
    if given.shape[0]:
        return given[0].copy()
    solve_normal(matrix, right, 0, 1, np.empty((rank, rank)))
    return right[:, 0].copy()


@kernel
def adapt(
    value, index, begins, places, kinds, given, columns, offsets, past, mean, forget, damping, held,
):  # fmt: skip
    # Learns slices in turn, up to the first that is out of the ordinary (numbers that are not
    # finite, a mode of zeros), which is learned only if nothing comes before it. The first five
    # are `ListedCells`; `given` (1, R) are weights to be used, (0, R) none. Changes `mean`, writes
    # what components hold into `held` (n, R), and returns columns and `past`, see `move`.
    n, rank, d = kinds.shape[0], columns.shape[0], offsets.shape[0] - 1
    size, split, weights = 1.0, halfway(offsets), np.empty(rank)
    for k in range(d):
        size *= offsets[k + 1] - offsets[k]
    lines, others = np.empty((0, split), np.uintp), np.empty((0, d - split), np.uintp)
    prequential, local, done = 0.0, 0.0, 0
    for t in range(n):
        summed = past.copy()
        x, gaps = value[begins[t] : begins[t + 1]], kinds[t] == MISSING
        share = x.shape[0] / size if gaps else 1.0
        if x.shape[0] >= FULL * size:
            if lines.shape[0] == 0:
                lines, others = lines_of(offsets, 0, split), lines_of(offsets, split, d)
            s, new, before, after = learn_grid(
                x, index, places[t], share, gaps, given, columns, offsets, lines, others, summed,
                forget, damping, t == n - 1,
            )  # fmt: skip
        else:
            s, new, before, after = learn_listed(
                x, index, places[t], share, not gaps, given, columns, offsets, summed, forget,
                damping, t == n - 1,
            )  # fmt: skip
        ordinary = usual(new, offsets)
        if t > 0 and not ordinary:
            break
        for r in range(rank):
            mean[r] = 0.9 * mean[r] + 0.1 * s[r]
        columns, past, weights, prequential, local = new, summed, s, before, after
        holdings(columns, offsets, weights, held, t)
        done += 1
        if not ordinary:
            break
    return done, columns, past, weights, prequential, local


@kernel
def whole(matrix, s):
    # Sum of m^2 over all cells.
    total = 0.0
    for r in range(s.shape[0]):
        for i in range(s.shape[0]):
            total += s[r] * matrix[r, i] * s[i]
    return total
