"""The history term on the card: Gram matrices of all modes, and what they are folded to.

See `kernels.sgd.history` for the formulas. Rows are cut into chunks; a block adds up A'A and old'A
of one, thread by thread a tile of either, and the chunks are added in order.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,attr-defined"

from __future__ import annotations

from functools import cache
from typing import Any

from numba import cuda, float64

from onlinegcp.kernels.cuda.cells import TILE, TILE_NUMBERS, U
from onlinegcp.kernels.cuda.lanes import LANES, kernel

TOGETHER = 2  # chunks a thread waits for at once


@cache
def grams_kernel(width: int, tile_rows: int) -> Any:
    """A'A and old'A of the rows of a chunk: (2, width, width) numbers of `parts` per chunk.

    Made for one width: see `panels`.
    """
    edge = width // TILE

    @kernel
    def grams(data, old, chunks, parts):
        # Blocks along x are chunks, along y share out tiles. held: tile_rows rows of either.
        held = cuda.shared.array(0, float64)
        me, threads = cuda.threadIdx.x, cuda.blockDim.x
        tile = cuda.blockIdx.y * threads + me
        down, across = tile // edge, tile % edge
        works = tile < edge * edge
        own = cuda.local.array(TILE_NUMBERS, float64)
        cross = cuda.local.array(TILE_NUMBERS, float64)
        x = cuda.local.array(TILE, float64)
        y = cuda.local.array(TILE, float64)
        z = cuda.local.array(TILE, float64)
        for q in range(TILE_NUMBERS):
            own[q] = 0.0
            cross[q] = 0.0
        begin, end = chunks[cuda.blockIdx.x], chunks[cuda.blockIdx.x + 1]
        side = tile_rows * width
        while begin < end:
            numbers = min(tile_rows, end - begin) * width
            q = me
            while q < numbers:
                held[U(q)] = data[U(begin * width + q)]
                held[U(side + q)] = old[U(begin * width + q)]
                q += threads
            cuda.syncthreads()
            if works:
                i = 0
                while i < numbers:
                    for a in range(TILE):
                        x[a] = held[U(i + down + a * edge)]
                        y[a] = held[U(side + i + down + a * edge)]
                        z[a] = held[U(i + across + a * edge)]
                    for a in range(TILE):
                        for b in range(TILE):
                            own[a * TILE + b] += x[a] * z[b]
                            cross[a * TILE + b] += y[a] * z[b]
                    i += width
            cuda.syncthreads()
            begin += tile_rows
        if works:
            base = 2 * cuda.blockIdx.x * width * width
            for a in range(TILE):
                for b in range(TILE):
                    at = base + (down + a * edge) * width + across + b * edge
                    parts[at] = own[a * TILE + b]
                    parts[at + width * width] = cross[a * TILE + b]

    return grams


@cache
def fold_kernel(modes: int) -> Any:
    """B = S * prod A'A and C = -S * prod old'A over all modes but one, for each of them."""

    @kernel
    def fold(width, bounds, parts, S, folded, totals):
        # A block takes LANES elements; its groups of threads share out the chunks of a mode.
        # folded (modes, 2, width, width); totals (modes, 2, width, width): the Gram matrices.
        held = cuda.shared.array(0, float64)
        lane, group = cuda.threadIdx.x % LANES, cuda.threadIdx.x // LANES
        groups = cuda.blockDim.x // LANES
        square = width * width
        e = cuda.blockIdx.x * LANES + lane
        at = min(e, square - 1)
        for k in range(modes):
            own, cross = 0.0, 0.0
            end = bounds[k + 1]
            chunk = bounds[k] + group
            while chunk < end:  # a range with a step would divide
                for t in range(TOGETHER):
                    q = chunk + t * groups
                    x = parts[U(2 * min(q, end - 1) * square + at)]
                    y = parts[U((2 * min(q, end - 1) + 1) * square + at)]
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
