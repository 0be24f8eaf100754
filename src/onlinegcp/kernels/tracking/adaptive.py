"""ACP's step compiled: the error of a slice over a fading sum of its regressors, slice by slice.

Cells come in lines: those that follow each other in C order and differ in the last mode only.
What the other modes say is multiplied out once for a line.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import numpy as np

from onlinegcp.kernels.jit import kernel
from onlinegcp.kernels.tracking.cells import MISSING, ZEROS
from onlinegcp.kernels.tracking.columns import (
    along_line,
    holdings,
    products,
    solve_normal,
    tails_of,
    usual,
)

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
def adapt(
    value, index, begins, places, kinds, given, columns, offsets, past, mean, forget, damping, held,
):  # fmt: skip
    # Learns slices in turn, up to the first that is out of the ordinary (numbers that are not
    # finite, a mode of zeros), which is learned only if nothing comes before it. The first five
    # are `ListedCells`; `given` (1, R) are weights to be used, (0, R) none. Changes `mean`, writes
    # what components hold into `held` (n, R), and returns columns and `past`, see `move`.
    n, rank, d = kinds.shape[0], columns.shape[0], offsets.shape[0] - 1
    longest, size = 0, 1.0
    for t in range(n):
        longest = max(longest, begins[t + 1] - begins[t])
    for k in range(d):
        size *= offsets[k + 1] - offsets[k]
    # Without signs: whoever may count from the end of an array must look at every index.
    rows, starts = np.empty((longest, d - 1), np.uintp), np.empty(longest + 1, np.uintp)
    at, error = np.empty(longest, np.uint32), np.empty(longest)
    matrix, lower = np.empty((rank, rank)), np.empty((rank, rank))
    right, weights, s = np.empty((rank, 1)), np.empty(rank), np.empty(rank)
    slope = np.empty((rank, columns.shape[1]))
    patterns = np.empty((rank, max(ROOM // rank, offsets[d] - offsets[d - 1])))
    prequential, local, done, lines = 0.0, 0.0, 0, 0
    together = forget > 0.0
    for t in range(n):
        new, summed = columns.copy(), past.copy()
        count, zeros, gaps = begins[t + 1] - begins[t], kinds[t] == ZEROS, kinds[t] == MISSING
        x = value[begins[t] : begins[t + 1]]
        # A slice without cells has the place of the next.
        if t == 0 or places[t] != places[t - 1] or count != begins[t] - begins[t - 1]:
            for e in range(count):
                at[e] = index[places[t] + e, d - 1]
            lines = lines_among(index, places[t], at, count, offsets, rows, starts)
        tails = tails_of(columns, offsets)
        products(columns, offsets, -1, matrix)
        known = False
        if given.shape[0]:
            for r in range(rank):
                s[r] = given[0, r]
        else:
            known = weight_sums(
                x, at, rows, starts, lines, columns, tails, patterns, right, matrix, gaps
            )
            solve_normal(matrix, right, 0, 1, lower)
            for r in range(rank):
                s[r] = right[r, 0]
        share = count / size if gaps else 1.0
        for first in range(1 if together else d):
            last = d if together else first + 1
            if first:
                tails = tails_of(new, offsets)
            known = known and first == 0
            squares = errors(
                x, at, rows, starts, lines, new, tails, patterns, known, s, zeros, error
            )
            if first == 0:
                prequential = squares
            slopes(error, at, rows, starts, lines, new, tails, offsets, s, first, last, slope)
            move(first, last, share, zeros, s, forget, damping, summed, new, offsets, slope)
        ordinary = usual(new, offsets)
        if t > 0 and not ordinary:
            break
        if t == n - 1:  # of the others nobody keeps a record
            if zeros:
                prequential += whole(matrix, s)
            tails = tails_of(new, offsets)
            local = errors(x, at, rows, starts, lines, new, tails, patterns, False, s, zeros, error)
            if zeros:
                products(new, offsets, -1, matrix)
                local += whole(matrix, s)
        for r in range(rank):
            weights[r] = s[r]
            mean[r] = 0.9 * mean[r] + 0.1 * s[r]
        columns, past = new, summed
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
