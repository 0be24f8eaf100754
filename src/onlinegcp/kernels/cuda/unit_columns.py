"""Unit columns for the past with one matrix per row, and the priors of its entries.

Blocks take chunks of rows, as in `rows`. `solvers.auto.fisher_rows` says the same in NumPy.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,attr-defined"

from __future__ import annotations

import math
from functools import cache
from typing import Any

from numba import cuda, float64

from onlinegcp.kernels.cuda.cells import U
from onlinegcp.kernels.cuda.lanes import LANES, block_sums, kernel, lane_sum
from onlinegcp.kernels.cuda.overlap import after_others

ENDS = 4  # numbers per row or chunk besides vectors: traces after and before, curvature, slopes


@cache
def holds_kernel() -> Any:
    """Precision of the zero-centred prior on every entry, from sums of squares of the columns."""

    @kernel
    def holds(squares, strength, rank, width, modes, lengths, out):
        # squares (modes * width,); strength (1,), times the dispersion. One block.
        after_others()
        q = cuda.threadIdx.x
        while q < modes * width:
            spread = max(squares[q] / lengths[q // width], 1e-300)
            out[q] = strength[0] / spread if q % width < rank and strength[0] > 0.0 else 0.0
            q += cuda.blockDim.x

    return holds


@cache
def unit_kernel(per_lane: int, full: bool) -> Any:
    """Columns of unit length; slopes, curvature and sensitivity follow. Lost columns come back."""

    @kernel
    def unit(
        old,
        squares,  # (modes * width,) of the new columns
        old_squares,  # (modes * width,) of the old ones
        bounded,  # a column that is all zeros could not return: it gets its old pattern back
        width,
        chunks,
        modes_of,
        traces,
        data,
        curvature,
        left,
        sensitivity,
        parts,  # (chunks * (2 width + ENDS),) out: along, sizes, traces, sums of the rest
    ):
        after_others()
        held = cuda.shared.array(0, float64)
        lane, warp, warps = (
            cuda.threadIdx.x % LANES,
            cuda.threadIdx.x // LANES,
            cuda.blockDim.x // LANES,
        )
        chunk = cuda.blockIdx.x
        base = modes_of[chunk] * width
        columns = 2 * width + ENDS
        lengths = held[warps * columns :]
        lost = cuda.local.array(per_lane, float64)
        along = cuda.local.array(per_lane, float64)
        sizes = cuda.local.array(per_lane, float64)
        for p in range(per_lane):
            r = lane + LANES * p
            lost[p] = 0.0
            along[p] = 0.0
            sizes[p] = 0.0
            if r < width:
                lost[p] = 1.0 if bounded and squares[base + r] == 0.0 else 0.0
                length = math.sqrt(old_squares[base + r] if lost[p] != 0.0 else squares[base + r])
                if warp == 0:
                    lengths[r] = length if length > 0.0 or length != length else 1.0
        cuda.syncthreads()
        after, before, curved, slopes = 0.0, 0.0, 0.0, 0.0
        i = chunks[chunk] + warp
        while i < chunks[chunk + 1]:
            for p in range(per_lane):
                r = lane + LANES * p
                if r < width:
                    at = i * width + r
                    a = (old[at] if lost[p] != 0.0 else data[at]) / lengths[r]
                    s = 0.0 if lost[p] != 0.0 else left[at] * lengths[r]
                    e = sensitivity[at] / lengths[r]
                    data[at] = a
                    left[at] = s
                    sensitivity[at] = e
                    along[p] += a * e
                    sizes[p] += abs(a)
                    slopes += s
                    if not full:
                        number = curvature[at] * lengths[r] * lengths[r]
                        curvature[at] = number
                        curved += number
            if full:
                for c in range(width):
                    line = (i * width + c) * width
                    for p in range(per_lane):
                        r = lane + LANES * p
                        if r < width:
                            number = curvature[U(line + r)] * (lengths[c] * lengths[r])
                            curvature[U(line + r)] = number
                            curved += number
            if lane == 0:
                after += traces[2 * i]
                before += traces[2 * i + 1]
            i += warps
        curved, slopes = lane_sum(curved), lane_sum(slopes)
        for p in range(per_lane):
            r = lane + LANES * p
            if r < width:
                held[warp * columns + r] = along[p]
                held[warp * columns + width + r] = sizes[p]
        if lane == 0:
            held[warp * columns + 2 * width] = after
            held[warp * columns + 2 * width + 1] = before
            held[warp * columns + 2 * width + 2] = curved
            held[warp * columns + 2 * width + 3] = slopes
        cuda.syncthreads()
        to = chunk * columns
        block_sums(held, columns, parts, to, cuda.threadIdx.x, cuda.blockDim.x)

    return unit


@cache
def straighten_kernel(per_lane: int) -> Any:
    """The part of the sensitivity along its column is taken away: the weights absorb lengths."""

    @kernel
    def straighten(along, stride, width, chunks, modes_of, data, sensitivity):
        after_others()
        lane, warp = cuda.threadIdx.x % LANES, cuda.threadIdx.x // LANES
        chunk = cuda.blockIdx.x
        base = modes_of[chunk] * stride
        i = chunks[chunk] + warp
        while i < chunks[chunk + 1]:
            for p in range(per_lane):
                r = lane + LANES * p
                if r < width:
                    sensitivity[i * width + r] -= data[i * width + r] * along[base + r]
            i += cuda.blockDim.x // LANES

    return straighten
