"""Passes over the listed cells of a slice for the weights: sums, slopes and curvature.

A warp takes 32 cells at a time: each lane fetches one of them, then all lanes work on one after
the other. Sums over the cells of a block leave as one row of `parts`; `parts.add_parts` adds the
rows in order. Where a subset of the cells will do, `pick` makes a list of it first: one of every
run of `every`, at hashed places, as `solvers.auto.newton` picks them.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,attr-defined"

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from numba import cuda, float64, int32, int64

from onlinegcp.kernels.cuda.lanes import (
    GROUP,
    LANES,
    SIMULATED,
    TOGETHER,
    block_sums,
    from_lane,
    hold,
    kernel,
    lane_sum,
    look,
    over,
)
from onlinegcp.kernels.cuda.mma import (
    DEEP,
    PER_SQUARE,
    SQUARE,
    add_square,
    square_column,
    square_row,
    triangle_row,
)
from onlinegcp.kernels.cuda.overlap import after_others
from onlinegcp.losses.formulas import EPS

U = np.uint64
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
HIGH = np.uint64(33)
TILE = 4  # rows and columns of a matrix that one thread adds up
TILE_NUMBERS = 16
SQUARES = 3  # of a matrix that a warp adds up: as many numbers as registers have room for
SQUARE_NUMBERS = PER_SQUARE * SQUARES
CURVERS = LANES if SIMULATED else 128  # threads of a block that adds up matrices
STOPPED = 0  # place of the flag in `control` that ends all work on the weights


@cache
def pick_kernel(modes: int) -> Any:
    """A list of the cells that are looked at, each of which stands for `every` of them."""

    @kernel
    def pick(index, value, count, picked, values):  # count (2,): cells looked at, and `every`
        after_others()
        n, every = count[0], count[1]
        q = cuda.grid(1)
        while q < n:
            run = U(q)
            cell = int64(run * U(every) + ((run * GOLDEN) >> HIGH) % U(every))
            values[q] = value[cell] * every
            for k in range(modes):
                picked[U(q * modes + k)] = index[U(cell * modes + k)]
            q += cuda.gridsize(1)

    return pick


@cache
def sums_kernel(per_lane: int, modes: int, exact: int = 0) -> Any:
    """Sum of x log m, and its slope Z'(x / m): one row (pull, logs) of `parts` per block."""
    numbers = TOGETHER * per_lane

    @kernel
    def listed_sums(
        data,  # (rows * width,) factors
        width,
        offsets,  # (modes + 1,)
        index,  # (n * modes,)
        value,
        count,  # (1,) cells
        batch,  # cells a warp takes at a time: a multiple of TOGETHER, at most 32
        weights,
        about,  # (2,) what is added to a model value, and the least it may be then
        control,
        parts,  # (blocks * (width + 1),) out
    ):
        after_others()
        if control[STOPPED] != 0:
            return
        if exact > 0:
            width = exact
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
        logs, more, least = 0.0, about[0], about[1]
        first = (cuda.blockIdx.x * here + warp) * batch
        while first < n:
            # Lanes beyond the end hold a cell of value 0, which adds nothing.
            mine = 0.0
            for k in range(modes):
                rows[k] = 0
            if lane < batch and first + lane < n:
                cell = U(first + lane)
                mine = value[cell]
                for k in range(modes):
                    rows[k] = offsets[k] + index[cell * U(modes) + U(k)]
            kept = 0.0
            for c in range(0, min(batch, n - first), TOGETHER):
                m = look(data, width, rows, c, w, z, part, lane) + more
                if m < least:  # and not `max`, which would hide what is no number
                    m = least
                share = from_lane(mine, c + lane // GROUP) * over(m)
                for u in range(TOGETHER):
                    found = from_lane(share, u * GROUP)
                    if lane == c + u:
                        kept = found
                    for p in range(per_lane):
                        pull[p] += found * z[u * per_lane + p]
            # One logarithm for the batch: each lane has kept the share of its own cell.
            if kept > 0.0:
                logs += mine * math.log(mine / kept)
            first += cuda.gridDim.x * here * batch
        logs = lane_sum(logs)
        hold(held, warp * (width + 1), pull, width, lane)
        if lane == 0:
            held[warp * (width + 1) + width] = logs
        cuda.syncthreads()
        block_sums(
            held, width + 1, parts, cuda.blockIdx.x * (width + 1), cuda.threadIdx.x, cuda.blockDim.x
        )

    return listed_sums


@cache
def curved_kernel(per_lane: int, modes: int, exact: int = 0) -> Any:
    """As `sums_kernel`, and Z' diag(x / m^2) Z (lower triangle, in squares of 16).

    Rows of Z lie in shared memory while their outer products are added up, SQUARES squares by a
    warp: see `mma`. Blocks along y take the further squares of wide matrices.
    """
    numbers = TOGETHER * per_lane

    @kernel
    def curved_sums(
        data,
        width,
        offsets,
        index,
        value,
        count,
        weights,
        control,
        tile_cells,  # whose rows lie in shared memory: a multiple of TOGETHER per warp
        pitch,  # how far these rows lie apart
        parts,  # (blocks * (width + 1 + width^2),) out: as there, then the matrix
    ):
        after_others()
        if control[STOPPED] != 0:
            return
        if exact > 0:
            width = exact
        held = cuda.shared.array(0, float64)  # rows of Z sqrt(x) / m, then sums
        lane = cuda.threadIdx.x % LANES
        warp = cuda.threadIdx.x // LANES
        here = cuda.blockDim.x // LANES
        n = count[0]
        w = cuda.local.array(per_lane, float64)
        pull = cuda.local.array(per_lane, float64)
        z = cuda.local.array(numbers, float64)
        part = cuda.local.array(TOGETHER, float64)
        rows = cuda.local.array(modes, int32)
        matrix = cuda.local.array(SQUARE_NUMBERS, float64)
        down = cuda.local.array(SQUARES, int32)  # where a square begins
        across = cuda.local.array(SQUARES, int32)
        for p in range(per_lane):
            r = lane + LANES * p
            w[p] = weights[r] if r < width else 0.0
            pull[p] = 0.0
        for q in range(SQUARE_NUMBERS):
            matrix[q] = 0.0
        squares = 0
        for s in range(SQUARES):
            square = (cuda.blockIdx.y * SQUARES + s) * here + warp
            row = triangle_row(square)
            down[s] = SQUARE * row
            across[s] = SQUARE * (square - row * (row + 1) // 2)
            squares += 1 if down[s] < width else 0
        corner = lane % DEEP * pitch + lane // DEEP
        logs = 0.0
        each = tile_cells // here  # cells of a warp
        first = cuda.blockIdx.x * tile_cells
        while first < n:
            # Beyond the end the last cell is looked at again, and counts for nothing.
            mine = 0.0
            own = first + warp * each + lane
            cell = min(own, n - 1)
            if lane < each and own < n:
                mine = value[cell]
            for k in range(modes):
                rows[k] = offsets[k] + index[U(cell * modes + k)]
            kept = 1.0
            for c in range(0, each, TOGETHER):
                m = look(data, width, rows, c, w, z, part, lane) + EPS
                x = from_lane(mine, c + lane // GROUP)
                inverse = over(m)
                share = x * inverse
                root = math.sqrt(x) * inverse
                for u in range(TOGETHER):
                    found = from_lane(share, u * GROUP)
                    half = from_lane(root, u * GROUP)
                    value_there = from_lane(m, u * GROUP)
                    if lane == c + u:
                        kept = value_there
                    at = (warp * each + c + u) * pitch
                    for p in range(per_lane):
                        pull[p] += found * z[u * per_lane + p]
                        r = lane + LANES * p
                        if r < width:
                            held[U(at + r)] = half * z[u * per_lane + p]
            if mine > 0.0:  # one logarithm for all: each lane has kept the value of its own cell
                logs += mine * math.log(kept)
            cuda.syncthreads()
            tall = min(tile_cells, n - first)
            for s in range(SQUARES):
                if s < squares:  # the same for all lanes
                    at = corner
                    c = 0
                    while c < tall:
                        q = PER_SQUARE * s
                        (
                            matrix[q], matrix[q + 1], matrix[q + 2], matrix[q + 3],
                            matrix[q + 4], matrix[q + 5], matrix[q + 6], matrix[q + 7],
                        ) = add_square(
                            held, at + down[s], at + across[s],
                            matrix[q], matrix[q + 1], matrix[q + 2], matrix[q + 3],
                            matrix[q + 4], matrix[q + 5], matrix[q + 6], matrix[q + 7],
                        )  # fmt: skip
                        at += DEEP * pitch
                        c += DEEP
            cuda.syncthreads()
            first += cuda.gridDim.x * tile_cells
        row = cuda.blockIdx.x * (width + 1 + width * width)
        base = row + width + 1
        for s in range(SQUARES):
            for q in range(PER_SQUARE):
                r, c = down[s] + square_row(q, lane), across[s] + square_column(q, lane)
                if c <= r and r < width:
                    parts[U(base + r * width + c)] = matrix[PER_SQUARE * s + q]
        if cuda.blockIdx.y > 0:
            return
        hold(held, warp * (width + 1), pull, width, lane)
        logs = lane_sum(logs)
        if lane == 0:
            held[warp * (width + 1) + width] = logs
        cuda.syncthreads()
        block_sums(held, width + 1, parts, row, cuda.threadIdx.x, cuda.blockDim.x)

    return curved_sums
