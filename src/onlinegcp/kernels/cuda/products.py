"""Matrix work of least squares on the card: slice times factors, Gram matrices, new rows.

Products of a slice with the rows of all modes but one are signed. They are added as whole numbers,
too (see `shares`): by Cauchy and Schwarz no sum over cells exceeds the norm of the slice times the
lengths of the other modes' columns.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,attr-defined"

from __future__ import annotations

import math
from functools import cache
from typing import Any

from numba import cuda, float64, int32, int64

from onlinegcp.kernels.cuda.cells import TILE, TILE_NUMBERS, U
from onlinegcp.kernels.cuda.every_cell import find_rows
from onlinegcp.kernels.cuda.lanes import LANES, TOGETHER, block_sums, from_lane, kernel
from onlinegcp.kernels.cuda.overlap import after_others


@cache
def products_kernel(per_lane: int, modes: int, every_cell: bool) -> Any:
    """Slice times the rows of all modes but one, added to `fixed`."""
    numbers = TOGETHER * per_lane

    @kernel
    def products(
        data, width, offsets, index, value, count, batch, mode, scale, bases, copies, fixed
    ):
        after_others()
        lane = cuda.threadIdx.x % LANES
        warp = cuda.threadIdx.x // LANES
        here = cuda.blockDim.x // LANES
        n = count[0]
        unit = cuda.local.array(per_lane, float64)
        z = cuda.local.array(numbers, float64)
        rows = cuda.local.array(modes, int32)
        for p in range(per_lane):
            r = lane + LANES * p
            unit[p] = scale[r] if r < width else 0.0
        start, long = offsets[mode], offsets[mode + 1] - offsets[mode]
        target = bases[mode] + cuda.blockIdx.x % copies[mode] * long * width + lane
        first = (cuda.blockIdx.x * here + warp) * batch
        while first < n:
            mine = 0.0
            cell = min(first + min(lane, batch - 1), n - 1)
            find_rows(cell, every_cell, offsets, index, modes, rows)
            if lane < batch and first + lane < n:
                mine = value[cell]
            own = 0
            for k in range(modes):
                own += rows[k] * (1 if k == mode else 0)
            for c in range(0, min(batch, n - first), TOGETHER):
                for u in range(TOGETHER):
                    x = from_lane(mine, c + u)
                    for p in range(per_lane):
                        z[u * per_lane + p] = x * unit[p]
                    for k in range(modes):
                        if k != mode:
                            row = from_lane(rows[k], c + u) * width
                            for p in range(per_lane):
                                r = lane + LANES * p
                                if r < width:
                                    z[u * per_lane + p] *= data[U(row + r)]
                for u in range(TOGETHER):
                    to = target + (from_lane(own, c + u) - start) * width
                    for p in range(per_lane):
                        if lane + LANES * p < width:
                            whole = int64(math.floor(z[u * per_lane + p] + 0.5))
                            cuda.atomic.add(fixed, U(to + LANES * p), whole)
            first += cuda.gridDim.x * here * batch

    return products


@cache
def gram_kernel() -> Any:
    """A'B of the rows of a chunk, one matrix of `parts` per block along x."""

    @kernel
    def gram(left, right, width, chunks, first, tile_rows, parts):
        # Blocks along y share out the tiles of the matrix. held: tile_rows rows of either side.
        after_others()
        held = cuda.shared.array(0, float64)
        me, threads = cuda.threadIdx.x, cuda.blockDim.x
        chunk = first + cuda.blockIdx.x
        edge = width // TILE
        tile = cuda.blockIdx.y * threads + me
        down, across = tile // edge, tile % edge
        works = tile < edge * edge
        matrix = cuda.local.array(TILE_NUMBERS, float64)
        for q in range(TILE_NUMBERS):
            matrix[q] = 0.0
        begin, end = chunks[chunk], chunks[chunk + 1]
        side = tile_rows * width
        while begin < end:
            numbers = min(tile_rows, end - begin) * width
            q = me
            while q < numbers:
                held[q] = left[begin * width + q]
                held[side + q] = right[begin * width + q]
                q += threads
            cuda.syncthreads()
            if works:
                i = 0
                while i < numbers:
                    for a in range(TILE):
                        y = held[i + down + a * edge]
                        for b in range(TILE):
                            matrix[a * TILE + b] += y * held[side + i + across + b * edge]
                    i += width
            cuda.syncthreads()
            begin += tile_rows
        if works:
            base = chunk * width * width
            for a in range(TILE):
                for b in range(TILE):
                    at = base + (down + a * edge) * width + across + b * edge
                    parts[at] = matrix[a * TILE + b]

    return gram


@cache
def rows_kernel(per_lane: int) -> Any:
    """New rows of a mode, and their derivative in the log-memory.

    new = products @ towards + old @ kept, and (sensitivity + lift (old - new)) @ follow.
    """

    @kernel
    def new_rows(
        products, old, sensitivity, towards, kept, follow, lifts, learned, width, chunks, first,
        data, new_sensitivity
    ):  # fmt: skip
        after_others()
        lane, warp = cuda.threadIdx.x % LANES, cuda.threadIdx.x // LANES
        chunk = first + cuda.blockIdx.x
        lift = lifts[0]
        asked = cuda.local.array(per_lane, float64)
        b = cuda.local.array(per_lane, float64)
        a = cuda.local.array(per_lane, float64)
        i = chunks[chunk] + warp
        while i < chunks[chunk + 1]:
            for p in range(per_lane):
                r = lane + LANES * p
                asked[p] = products[i * width + r] if r < width else 0.0
                b[p] = old[i * width + r] if r < width else 0.0
                a[p] = 0.0
            for q in range(per_lane):
                for l in range(min(LANES, width - LANES * q)):
                    x, y = from_lane(asked[q], l), from_lane(b[q], l)
                    row = (LANES * q + l) * width
                    for p in range(per_lane):
                        r = lane + LANES * p
                        if r < width:
                            a[p] += x * towards[row + r] + y * kept[row + r]
            for p in range(per_lane):
                r = lane + LANES * p
                if r < width:
                    data[i * width + r] = a[p]
                    asked[p] = sensitivity[i * width + r] + lift * (b[p] - a[p])
                b[p] = 0.0
            if learned:
                for q in range(per_lane):
                    for l in range(min(LANES, width - LANES * q)):
                        x = from_lane(asked[q], l)
                        row = (LANES * q + l) * width
                        for p in range(per_lane):
                            r = lane + LANES * p
                            if r < width:
                                b[p] += x * follow[row + r]
            for p in range(per_lane):
                r = lane + LANES * p
                if r < width:
                    new_sensitivity[i * width + r] = b[p] if learned else sensitivity[i * width + r]
            i += cuda.blockDim.x // LANES

    return new_rows


@cache
def project_kernel(per_lane: int) -> Any:
    """Columns divided by their lengths; sums of squared sensitivities, and of sizes of entries."""

    @kernel
    def project(lengths, along, width, chunks, modes_of, data, sensitivity, parts):
        # lengths, along (modes * width,); along: products of unit columns with sensitivities that
        # are divided by the lengths, the part of these that only changes a length.
        after_others()
        held = cuda.shared.array(0, float64)
        lane, warp = cuda.threadIdx.x % LANES, cuda.threadIdx.x // LANES
        chunk = cuda.blockIdx.x
        base = modes_of[chunk] * width
        sums = cuda.local.array(per_lane, float64)
        sizes = cuda.local.array(per_lane, float64)
        for p in range(per_lane):
            sums[p] = 0.0
            sizes[p] = 0.0
        i = chunks[chunk] + warp
        while i < chunks[chunk + 1]:
            for p in range(per_lane):
                r = lane + LANES * p
                if r < width:
                    at = i * width + r
                    a = data[at] / lengths[base + r]
                    s = sensitivity[at] / lengths[base + r] - a * along[base + r]
                    data[at] = a
                    sensitivity[at] = s
                    sums[p] += s * s
                    sizes[p] += abs(a)
            i += cuda.blockDim.x // LANES
        for p in range(per_lane):
            r = lane + LANES * p
            if r < width:
                held[warp * 2 * width + r] = sums[p]
                held[warp * 2 * width + width + r] = sizes[p]
        cuda.syncthreads()
        row = chunk * 2 * width
        block_sums(held, 2 * width, parts, row, cuda.threadIdx.x, cuda.blockDim.x)

    return project


@cache
def shrink_kernel(per_lane: int) -> Any:
    """Columns of the sensitivity longer than one are made as long as one."""

    @kernel
    def shrink(sums, stride, width, chunks, modes_of, sensitivity):  # sums (modes * stride,)
        after_others()
        lane, warp = cuda.threadIdx.x % LANES, cuda.threadIdx.x // LANES
        chunk = cuda.blockIdx.x
        base = modes_of[chunk] * stride
        i = chunks[chunk] + warp
        while i < chunks[chunk + 1]:
            for p in range(per_lane):
                r = lane + LANES * p
                if r < width:
                    sensitivity[i * width + r] /= max(math.sqrt(sums[base + r]), 1.0)
            i += cuda.blockDim.x // LANES

    return shrink
