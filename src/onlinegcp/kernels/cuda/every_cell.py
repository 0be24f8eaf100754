"""Passes for losses v h(m) - x log m over cells that are listed, or over every cell there is.

h(m) is m or log(1 + m), v = base + slope x. `tangent` sums v h(m) and its slope in the weights;
`rates` its slope in the rows of one mode, as whole numbers (see `shares`): all cells of a row
together weigh no more than the weight of the component times the largest v, because columns sum to
one.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,attr-defined"

from __future__ import annotations

import math
from functools import cache
from typing import Any

from numba import cuda, float64, int32, int64

from onlinegcp.kernels.cuda.cells import STOPPED, U
from onlinegcp.kernels.cuda.lanes import (
    GROUP,
    LANES,
    TOGETHER,
    block_sums,
    device,
    from_lane,
    hold,
    kernel,
    lane_sum,
    lane_sums,
    look,
    over,
)
from onlinegcp.kernels.cuda.overlap import after_others

HEADROOM = float(2**61)
FEW = 8  # cells a warp takes at a time where a row's are added up


@device
def find_rows(cell, every_cell, offsets, index, modes, rows):
    """Rows of the factors that a cell meets; cells are counted in C order where none is listed."""
    rest = U(cell)  # without a sign there is less to a division
    for q in range(modes):
        k = modes - 1 - q
        if every_cell:
            long = U(offsets[k + 1] - offsets[k])
            rows[k] = offsets[k] + int64(rest % long)
            rest //= long
        else:
            rows[k] = offsets[k] + index[cell * modes + k]


@cache
def tangent_kernel(per_lane: int, modes: int, every_cell: bool) -> Any:
    """Sum of v h(m), and pull = Z' (v h'(m)): one row (pull, value) of `parts` per block."""
    numbers = TOGETHER * per_lane

    @kernel
    def tangent(
        data,
        width,
        offsets,
        index,
        value,
        count,  # (1,) cells
        batch,
        weights,
        linear,
        base,
        slope,
        control,
        parts,  # (blocks * (width + 1),) out
    ):
        after_others()
        if control[STOPPED] != 0:
            return
        held = cuda.shared.array(0, float64)
        lane = cuda.threadIdx.x % LANES
        warp = cuda.threadIdx.x // LANES
        here = cuda.blockDim.x // LANES
        n = count[0]
        w = cuda.local.array(per_lane, float64)
        pull = cuda.local.array(per_lane, float64)
        z = cuda.local.array(numbers, float64)
        part = cuda.local.array(TOGETHER, float64)
        rows = cuda.local.array(modes, int32)
        for p in range(per_lane):
            r = lane + LANES * p
            w[p] = weights[r] if r < width else 0.0
            pull[p] = 0.0
        total = 0.0
        first = (cuda.blockIdx.x * here + warp) * batch
        while first < n:
            # Lanes beyond the end hold a cell that counts for nothing.
            mine = 0.0
            cell = min(first + min(lane, batch - 1), n - 1)
            find_rows(cell, every_cell, offsets, index, modes, rows)
            if lane < batch and first + lane < n:
                mine = base if every_cell else base + slope * value[cell]
            for c in range(0, min(batch, n - first), TOGETHER):
                m = look(data, width, rows, c, w, z, part, lane)
                v = from_lane(mine, c + lane // GROUP)
                h = v
                if linear:
                    m *= v
                else:
                    h = v * over(1.0 + m)
                    m = v * math.log1p(m)
                if lane % GROUP == 0:
                    total += m
                for u in range(TOGETHER):
                    found = from_lane(h, u * GROUP)
                    for p in range(per_lane):
                        pull[p] += found * z[u * per_lane + p]
            first += cuda.gridDim.x * here * batch
        total = lane_sum(total)
        hold(held, warp * (width + 1), pull, width, lane)
        if lane == 0:
            held[warp * (width + 1) + width] = total
        cuda.syncthreads()
        row = cuda.blockIdx.x * (width + 1)
        block_sums(held, width + 1, parts, row, cuda.threadIdx.x, cuda.blockDim.x)

    return tangent


@cache
def rates_kernel(per_lane: int, modes: int, every_cell: bool) -> Any:
    """Slope of the sum of v h(m) in the rows of one mode, added to `fixed`."""
    numbers = TOGETHER * per_lane

    @kernel
    def rates(
        data,
        width,
        offsets,
        index,
        value,
        count,  # (1,) cells
        batch,
        weights,
        linear,
        base,
        slope,
        mode,
        scale,  # (width,) whole numbers per unit
        bases,
        copies,
        fixed,
    ):
        after_others()
        lane = cuda.threadIdx.x % LANES
        warp = cuda.threadIdx.x // LANES
        here = cuda.blockDim.x // LANES
        n = count[0]
        w = cuda.local.array(per_lane, float64)
        unit = cuda.local.array(per_lane, float64)
        z = cuda.local.array(numbers, float64)
        part = cuda.local.array(TOGETHER, float64)
        rows = cuda.local.array(modes, int32)
        for p in range(per_lane):
            r = lane + LANES * p
            w[p] = weights[r] if r < width else 0.0
            unit[p] = scale[r] if r < width else 0.0
        start, long = offsets[mode], offsets[mode + 1] - offsets[mode]
        target = bases[mode] + cuda.blockIdx.x % copies[mode] * long * width + lane
        first = (cuda.blockIdx.x * here + warp) * batch
        while first < n:
            mine = 0.0
            cell = min(first + min(lane, batch - 1), n - 1)
            find_rows(cell, every_cell, offsets, index, modes, rows)
            if lane < batch and first + lane < n:
                mine = base if every_cell else base + slope * value[cell]
            # Added up, not looked up: an array with a place found at run time lies in memory.
            own = 0
            for k in range(modes):
                own += rows[k] * (1 if k == mode else 0)
            for c in range(0, min(batch, n - first), TOGETHER):
                for u in range(TOGETHER):
                    m = 0.0
                    for p in range(per_lane):
                        z[u * per_lane + p] = w[p]
                    # Multiplied out, not divided out: a factor entry may be zero.
                    for k in range(modes):
                        if k != mode:
                            row = from_lane(rows[k], c + u) * width
                            for p in range(per_lane):
                                r = lane + LANES * p
                                if r < width:
                                    z[u * per_lane + p] *= data[U(row + r)]
                    row = from_lane(own, c + u) * width
                    for p in range(per_lane):
                        r = lane + LANES * p
                        if r < width:
                            m += z[u * per_lane + p] * data[U(row + r)]
                    part[u] = m
                m = lane_sums(part[0], part[1], part[2], part[3], lane)
                h = from_lane(mine, c + lane // GROUP)
                if not linear:
                    h *= over(1.0 + m)
                for u in range(TOGETHER):
                    found = from_lane(h, u * GROUP)
                    to = target + (from_lane(own, c + u) - start) * width
                    for p in range(per_lane):
                        if lane + LANES * p < width:
                            whole = int64(found * z[u * per_lane + p] * unit[p] + 0.5)
                            cuda.atomic.add(fixed, U(to + LANES * p), whole)
            first += cuda.gridDim.x * here * batch

    return rates


@cache
def grid_rates_kernel(per_lane: int, modes: int) -> Any:
    """As `rates_kernel` over every cell, for v = base: blocks along y share the cells of a row.

    No whole numbers are needed: each block writes a row of `parts`.
    """
    numbers = TOGETHER * per_lane

    @kernel
    def grid_rates(data, width, offsets, first_row, weights, linear, base, parts):
        # parts (blocks along x * blocks along y * width,), of the rows from first_row on.
        after_others()
        held = cuda.shared.array(0, float64)
        lane = cuda.threadIdx.x % LANES
        warp = cuda.threadIdx.x // LANES
        here = cuda.blockDim.x // LANES
        row = first_row + cuda.blockIdx.x
        mode, n = 0, 1
        for k in range(modes):
            if row >= offsets[k]:
                mode = k
        for k in range(modes):
            if k != mode:
                n *= offsets[k + 1] - offsets[k]
        w = cuda.local.array(per_lane, float64)
        own = cuda.local.array(per_lane, float64)
        added = cuda.local.array(per_lane, float64)
        z = cuda.local.array(numbers, float64)
        part = cuda.local.array(TOGETHER, float64)
        rows = cuda.local.array(modes, int32)
        for p in range(per_lane):
            r = lane + LANES * p
            w[p] = weights[r] if r < width else 0.0
            own[p] = data[row * width + r] if r < width else 0.0
            added[p] = 0.0
        # A warp takes few cells at a time: there are more warps than cells to keep them busy.
        first = (cuda.blockIdx.y * here + warp) * FEW
        while first < n:
            rest = U(min(first + min(lane, FEW - 1), n - 1))
            for q in range(modes):
                k = modes - 1 - q
                rows[k] = 0
                if k != mode:
                    long = U(offsets[k + 1] - offsets[k])
                    rows[k] = offsets[k] + int64(rest % long)
                    rest //= long
            for c in range(0, FEW, TOGETHER):
                for u in range(TOGETHER):
                    for p in range(per_lane):
                        z[u * per_lane + p] = w[p]
                    for k in range(modes):
                        if k != mode:
                            at = from_lane(rows[k], c + u) * width
                            for p in range(per_lane):
                                r = lane + LANES * p
                                if r < width:
                                    z[u * per_lane + p] *= data[U(at + r)]
                    m = 0.0
                    for p in range(per_lane):
                        m += z[u * per_lane + p] * own[p]
                    part[u] = m
                m = lane_sums(part[0], part[1], part[2], part[3], lane)
                h = 0.0
                if first + c + lane // GROUP < n:
                    h = base if linear else base * over(1.0 + m)
                for u in range(TOGETHER):
                    found = from_lane(h, u * GROUP)
                    for p in range(per_lane):
                        added[p] += found * z[u * per_lane + p]
            first += cuda.gridDim.y * here * FEW
        hold(held, warp * width, added, width, lane)
        cuda.syncthreads()
        to = (cuda.blockIdx.x * cuda.gridDim.y + cuda.blockIdx.y) * width
        block_sums(held, width, parts, to, cuda.threadIdx.x, cuda.blockDim.x)

    return grid_rates


@cache
def bound_kernel() -> Any:
    """Whole numbers per unit of a rate: its bound is the weight times the largest v."""

    @kernel
    def bounds_of(weights, width, largest, scale):  # largest (1,). One block.
        after_others()
        r = cuda.threadIdx.x
        while r < width:
            bound = weights[r] * largest[0]
            scale[r] = HEADROOM / bound if bound > 0.0 else 0.0
            r += cuda.blockDim.x

    return bounds_of


@cache
def along_kernel(per_lane: int) -> Any:
    """Column sums of a product of two matrices, one row of `parts` per chunk."""

    @kernel
    def along(first_matrix, second_matrix, width, chunks, parts):
        after_others()
        held = cuda.shared.array(0, float64)
        lane, warp = cuda.threadIdx.x % LANES, cuda.threadIdx.x // LANES
        chunk = cuda.blockIdx.x
        sums = cuda.local.array(per_lane, float64)
        for p in range(per_lane):
            sums[p] = 0.0
        for i in range(chunks[chunk] + warp, chunks[chunk + 1], cuda.blockDim.x // LANES):
            for p in range(per_lane):
                r = lane + LANES * p
                if r < width:
                    sums[p] += first_matrix[i * width + r] * second_matrix[i * width + r]
        hold(held, warp * width, sums, width, lane)
        cuda.syncthreads()
        block_sums(held, width, parts, chunk * width, cuda.threadIdx.x, cuda.blockDim.x)

    return along
