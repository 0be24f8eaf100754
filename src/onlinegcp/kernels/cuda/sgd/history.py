"""The history term on the card: Gram matrices of all modes, and what they are folded to.

See `kernels.sgd.history` for the formulas. Rows are cut into chunks; a block adds up A'A and old'A
of one, warp by warp squares of either, and the chunks are added in order.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,attr-defined"

from __future__ import annotations

from functools import cache
from typing import Any

from numba import cuda, float64, int32, int64

from onlinegcp.kernels.cuda.cells import U
from onlinegcp.kernels.cuda.lanes import LANES, device, kernel
from onlinegcp.kernels.cuda.mma import (
    DEEP,
    EDGE,
    PER_SQUARE,
    SQUARE,
    aside,
    multiply,
    square_column,
    square_row,
    triangle_row,
)
from onlinegcp.kernels.cuda.sgd.pairs import pair_of
from onlinegcp.kernels.cuda.sgd.tall import TALL, matrix_numbers, multiply_tall, place_of

TOGETHER = 8  # chunks a thread waits for at once
GRAM_REGISTERS = 72  # so that two blocks are under way at once
SQUARES = 2  # of a warp: with more of them fewer warps would be under way
AT_ONCE = 4  # products of few rows whose numbers a warp waits for at once
CORNER = EDGE * EDGE  # numbers of a matrix that a block makes from few rows


@device
def divided(number, by):
    """Quotient and rest of numbers that are not negative."""
    return int64(U(number) // U(by)), int64(U(number) % U(by))


def squares_of(width: int) -> int:
    """Squares of both matrices: the first is symmetric, and half of it is made."""
    side = -(-width // SQUARE)
    return side * (side + 1) // 2 + side * side


@cache
def grams_kernel(width: int, tile_rows: int) -> Any:
    """A'A and old'A of the rows of a chunk: (2, width, width) numbers of `parts` per chunk.

    Made for one width: see `panels`.
    """
    side, pitch, numbers = -(-width // SQUARE), aside(width), SQUARES * PER_SQUARE
    symmetric, tile = side * (side + 1) // 2, tile_rows * aside(width)

    def grams(data, old, chunks, parts):
        # Blocks along x are chunks, along y share out squares. held: tile_rows rows of either.
        held = cuda.shared.array(0, float64)
        me, threads = cuda.threadIdx.x, cuda.blockDim.x
        lane, warp, warps = me % LANES, me // LANES, threads // LANES
        matrix = cuda.local.array(numbers, float64)
        down = cuda.local.array(SQUARES, int32)
        across = cuda.local.array(SQUARES, int32)
        for q in range(numbers):
            matrix[q] = 0.0
        squares = 0
        first = cuda.blockIdx.y * SQUARES * warps + warp
        for s in range(SQUARES):
            square = first + s * warps
            row = triangle_row(square)
            down[s] = SQUARE * row
            across[s] = SQUARE * (square - row * (row + 1) // 2)
            if square >= symmetric:
                down[s] = SQUARE * ((square - symmetric) // side)
                across[s] = SQUARE * ((square - symmetric) % side)
            squares += 1 if square < symmetric + side * side else 0
        corner = lane % DEEP * pitch + lane // DEEP
        begin, end = chunks[cuda.blockIdx.x], chunks[cuda.blockIdx.x + 1]
        while begin < end:
            tall = min(tile_rows, end - begin)
            even = (tall + DEEP - 1) // DEEP * DEEP
            q = 2 * me
            while q < even * width:
                row, column = divided(q, width)
                source = (begin + min(row, tall - 1)) * width + column
                a, b = pair_of(data, source)
                c, d = pair_of(old, source)
                to = U(row * pitch + column)
                held[to] = a if row < tall else 0.0
                held[to + U(1)] = b if row < tall else 0.0
                held[to + U(tile)] = c
                held[to + U(tile + 1)] = d
                q += 2 * threads
            cuda.syncthreads()
            for s in range(SQUARES):
                if s < squares:  # the same for all lanes
                    left = corner + down[s] + (tile if first + s * warps >= symmetric else 0)
                    right = corner + across[s]
                    i = 0
                    while i < even:
                        upper, lower = held[U(left)], held[U(left + EDGE)]
                        for half in range(2):
                            q = PER_SQUARE * s + 2 * half
                            (
                                matrix[q], matrix[q + 1], matrix[q + 4], matrix[q + 5]
                            ) = multiply_tall(
                                upper, lower, held[U(right + EDGE * half)],
                                matrix[q], matrix[q + 1], matrix[q + 4], matrix[q + 5],
                            )  # fmt: skip
                        left += DEEP * pitch
                        right += DEEP * pitch
                        i += DEEP
            cuda.syncthreads()
            begin += tile_rows
        base = 2 * cuda.blockIdx.x * width * width
        for s in range(SQUARES):
            cross = first + s * warps >= symmetric
            for q in range(PER_SQUARE):
                r, c = down[s] + square_row(q, lane), across[s] + square_column(q, lane)
                if s < squares and r < width and c < width:
                    at = base + (width * width if cross else 0)
                    parts[U(at + r * width + c)] = matrix[PER_SQUARE * s + q]
                    if not cross and down[s] != across[s]:
                        parts[U(at + c * width + r)] = matrix[PER_SQUARE * s + q]

    return kernel(grams, max_registers=GRAM_REGISTERS)


@cache
def fold_kernel(modes: int) -> Any:
    """B = S * prod A'A and C = -S * prod old'A over all modes but one, for each of them.

    Gram matrices are added up from `parts`.
    """

    @kernel
    def fold(width, bounds, parts, S, folded, totals):
        # A block takes LANES elements; its groups of threads share out the chunks of a mode.
        # folded: two matrices per mode, as `place_of` has them; totals (modes, 2, width, width):
        # the Gram matrices.
        held = cuda.shared.array(0, float64)
        lane, group = cuda.threadIdx.x % LANES, cuda.threadIdx.x // LANES
        groups = cuda.blockDim.x // LANES
        square, groups_of_columns = width * width, (width + TALL - 1) // TALL
        matrix = matrix_numbers(width)
        e = cuda.blockIdx.x * LANES + lane
        at = min(e, square - 1)
        for k in range(modes):
            own, cross = 0.0, 0.0
            end = bounds[k + 1]
            chunk = bounds[k] + group
            while chunk < end:  # a range with a step would divide
                for t in range(TOGETHER):
                    q = chunk + t * groups
                    last = min(q, end - 1)
                    x = parts[U(2 * last * square + at)]
                    y = parts[U((2 * last + 1) * square + at)]
                    own += x if q < end else 0.0
                    cross += y if q < end else 0.0
                chunk += TOGETHER * groups
            held[((group * modes + k) * 2) * LANES + lane] = own
            held[((group * modes + k) * 2 + 1) * LANES + lane] = cross
        cuda.syncthreads()
        k = group
        while k < 2 * modes:
            total = 0.0
            for g in range(groups):
                total += held[(g * modes * 2 + k) * LANES + lane]
            held[k * LANES + lane] = total  # only this thread reads the place
            if e < square:
                totals[k * square + e] = total
            k += groups
        cuda.syncthreads()
        row, column = divided(at, width)
        to = place_of(row, column, groups_of_columns)
        k = group
        while k < modes:
            B, C = S[at], -S[at]
            for other in range(modes):
                if other != k:
                    B *= held[2 * other * LANES + lane]
                    C *= held[(2 * other + 1) * LANES + lane]
            if e < square:
                folded[2 * k * matrix + to] = B
                folded[(2 * k + 1) * matrix + to] = C
            k += groups

    return fold


@cache
def fold_rows_kernel(modes: int) -> Any:
    """The same for few rows, from these themselves: that saves waiting for a kernel."""

    @kernel
    def fold_rows(width, offsets, data, old, S, folded, totals):
        # A block takes EDGE rows and columns of all matrices; its warps share out the factors' rows
        # by fours. held (warps, 2 * modes, EDGE * EDGE).
        held = cuda.shared.array(0, float64)
        me, threads = cuda.threadIdx.x, cuda.blockDim.x
        lane, warp, warps = me % LANES, me // LANES, threads // LANES
        square, groups = width * width, (width + TALL - 1) // TALL
        matrix, numbers = matrix_numbers(width), 2 * modes * CORNER
        down, across = EDGE * cuda.blockIdx.x, EDGE * cuda.blockIdx.y
        left = min(down + lane // DEEP, width - 1)
        right = min(across + lane // DEEP, width - 1)
        new = cuda.local.array(AT_ONCE, float64)
        now = cuda.local.array(AT_ONCE, float64)
        past = cuda.local.array(AT_ONCE, float64)
        for k in range(modes):
            a, b, c, d = 0.0, 0.0, 0.0, 0.0
            end = offsets[k + 1]
            first = offsets[k] + DEEP * warp
            while first < end:
                for t in range(AT_ONCE):
                    row = first + t * DEEP * warps + lane % DEEP
                    source = min(row, end - 1) * width
                    new[t] = data[U(source + right)] if row < end else 0.0
                    now[t], past[t] = data[U(source + left)], old[U(source + left)]
                for t in range(AT_ONCE):
                    a, b = multiply(now[t], new[t], a, b)
                    c, d = multiply(past[t], new[t], c, d)
                first += AT_ONCE * DEEP * warps
            to = warp * numbers + 2 * k * CORNER + 2 * lane
            held[to] = a
            held[to + 1] = b
            held[to + CORNER] = c
            held[to + CORNER + 1] = d
        cuda.syncthreads()
        q = me
        while q < numbers:
            total = 0.0
            for w in range(warps):
                total += held[w * numbers + q]
            held[q] = total  # only this thread reads the place
            row, column = down + q % CORNER // EDGE, across + q % EDGE
            if row < width and column < width:
                totals[q // CORNER * square + row * width + column] = total
            q += threads
        cuda.syncthreads()
        q = me
        while q < modes * CORNER:
            k, e = q // CORNER, q % CORNER
            row, column = down + e // EDGE, across + e % EDGE
            if row < width and column < width:
                B, C = S[row * width + column], -S[row * width + column]
                for other in range(modes):
                    if other != k:
                        B *= held[2 * other * CORNER + e]
                        C *= held[(2 * other + 1) * CORNER + e]
                to = place_of(row, column, groups)
                folded[2 * k * matrix + to] = B
                folded[(2 * k + 1) * matrix + to] = C
            q += threads

    return fold_rows


@cache
def norms_kernel() -> Any:
    """Sums of a^2 and (a - old)^2 over the rows of each chunk: two numbers of `parts`."""

    @kernel
    def norms(data, old, width, chunks, parts):
        held = cuda.shared.array(0, float64)
        me, threads = cuda.threadIdx.x, cuda.blockDim.x
        own, moved = 0.0, 0.0
        e = chunks[cuda.blockIdx.x] * width + me
        while e < chunks[cuda.blockIdx.x + 1] * width:
            own += data[e] * data[e]
            moved += (data[e] - old[e]) * (data[e] - old[e])
            e += threads
        held[2 * me] = own
        held[2 * me + 1] = moved
        cuda.syncthreads()
        if me < 2:
            total = 0.0
            for t in range(threads):
                total += held[2 * t + me]
            parts[2 * cuda.blockIdx.x + me] = total

    return norms
