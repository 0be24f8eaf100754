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
    PER_SQUARE,
    SQUARE,
    add_square,
    aside,
    square_column,
    square_row,
    triangle_row,
)

TOGETHER = 2  # chunks a thread waits for at once
SQUARES = 4  # of a warp
AT_ONCE = 4  # numbers of a matrix that a thread waits for at once


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

    @kernel
    def grams(data, old, chunks, parts):
        # Blocks along x are chunks, along y share out squares. held: tile_rows rows of either.
        held = cuda.shared.array(0, float64)
        me, threads = cuda.threadIdx.x, cuda.blockDim.x
        lane, warp, warps = me % LANES, me // LANES, threads // LANES
        matrix = cuda.local.array(numbers, float64)
        new = cuda.local.array(AT_ONCE, float64)
        past = cuda.local.array(AT_ONCE, float64)
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
            # Several numbers of either matrix are waited for at once.
            q = me
            while q < even * width:
                for t in range(AT_ONCE):
                    row, column = divided(q + t * threads, width)
                    source = U((begin + min(row, tall - 1)) * width + column)
                    new[t] = data[source] if row < tall else 0.0
                    past[t] = old[source]
                for t in range(AT_ONCE):
                    row, column = divided(q + t * threads, width)
                    if row < even:
                        held[U(row * pitch + column)] = new[t]
                        held[U(tile + row * pitch + column)] = past[t]
                q += AT_ONCE * threads
            cuda.syncthreads()
            for s in range(SQUARES):
                if s < squares:  # the same for all lanes
                    left = corner + down[s] + (tile if first + s * warps >= symmetric else 0)
                    right = corner + across[s]
                    i = 0
                    while i < even:
                        q = PER_SQUARE * s
                        (
                            matrix[q], matrix[q + 1], matrix[q + 2], matrix[q + 3],
                            matrix[q + 4], matrix[q + 5], matrix[q + 6], matrix[q + 7],
                        ) = add_square(
                            held, left, right,
                            matrix[q], matrix[q + 1], matrix[q + 2], matrix[q + 3],
                            matrix[q + 4], matrix[q + 5], matrix[q + 6], matrix[q + 7],
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

    return grams


@cache
def fold_kernel(modes: int, direct: bool) -> Any:
    """B = S * prod A'A and C = -S * prod old'A over all modes but one, for each of them.

    Gram matrices are added up from `parts`, or, for few rows, made from the rows themselves
    (`direct`): that saves waiting for a kernel.
    """

    @kernel
    def fold(width, bounds, parts, data, old, S, folded, totals):
        # A block takes LANES elements; its groups of threads share out the chunks, or rows, of a
        # mode. folded (modes, 2, width, width); totals (modes, 2, width, width): the Gram matrices.
        held = cuda.shared.array(0, float64)
        lane, group = cuda.threadIdx.x % LANES, cuda.threadIdx.x // LANES
        groups = cuda.blockDim.x // LANES
        square = width * width
        e = cuda.blockIdx.x * LANES + lane
        at = min(e, square - 1)
        row = int64(U(at) // U(width))
        column = at - row * width
        for k in range(modes):
            own, cross = 0.0, 0.0
            end = bounds[k + 1]
            chunk = bounds[k] + group
            while chunk < end:  # a range with a step would divide
                for t in range(TOGETHER):
                    q = chunk + t * groups
                    last = min(q, end - 1)
                    if direct:
                        z = data[U(last * width + column)]
                        x = data[U(last * width + row)] * z
                        y = old[U(last * width + row)] * z
                    else:
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
        k = group
        while k < modes:
            B, C = S[at], -S[at]
            for other in range(modes):
                if other != k:
                    B *= held[2 * other * LANES + lane]
                    C *= held[(2 * other + 1) * LANES + lane]
            if e < square:
                folded[2 * k * square + e] = B
                folded[(2 * k + 1) * square + e] = C
            k += groups

    return fold


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
