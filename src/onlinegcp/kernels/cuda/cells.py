"""Passes over the listed cells of a slice for the weights: sums, slopes and curvature.

A warp takes 32 cells at a time: each lane fetches one of them, then all lanes work on one after
the other. Sums over the cells of a block leave as one row of `parts`; `parts.add_parts` adds the
rows in order. Cells may be a subset: one of every run of `every`, at hashed places, as
`solvers.auto.newton` picks them.
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
    device,
    from_lane,
    kernel,
    lane_sum,
    lane_sums,
    over,
)
from onlinegcp.losses.formulas import EPS

U = np.uint64
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
HIGH = np.uint64(33)
TILE = 4  # rows and columns of the Hessian that one thread adds up
TILE_NUMBERS = 16
CURVERS = LANES if SIMULATED else 128  # threads of a block that adds up matrices
STOPPED = 0  # place of the flag in `control` that ends all work on the weights


@device
def place(q, every):
    """Position of the q-th cell looked at."""
    if every == 1:
        return q
    run = U(q)
    return int64(run * U(every) + ((run * GOLDEN) >> HIGH) % U(every))


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
        count,  # (2,) cells looked at, and one of how many they are
        batch,  # cells a warp takes at a time: a multiple of TOGETHER, at most 32
        weights,
        about,  # (2,) what is added to a model value, and the least it may be then
        control,
        parts,  # (blocks * (width + 1),) out
    ):
        if control[STOPPED] != 0:
            return
        if exact > 0:
            width = exact
        held = cuda.shared.array(0, float64)
        lane = cuda.threadIdx.x % LANES
        warp = cuda.threadIdx.x // LANES
        here = cuda.blockDim.x // LANES
        n, every = count[0], count[1]
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
                cell = place(first + lane, every)
                mine = value[cell] * every
                for k in range(modes):
                    rows[k] = offsets[k] + index[cell * modes + k]
            kept = 0.0
            for c in range(0, min(batch, n - first), TOGETHER):
                for u in range(TOGETHER):
                    for p in range(per_lane):
                        z[u * per_lane + p] = 1.0
                    for k in range(modes):
                        row = from_lane(rows[k], c + u) * width
                        for p in range(per_lane):
                            r = lane + LANES * p
                            if r < width:
                                z[u * per_lane + p] *= data[U(row + r)]
                    m = 0.0
                    for p in range(per_lane):
                        m += z[u * per_lane + p] * w[p]
                    part[u] = m
                m = lane_sums(part[0], part[1], part[2], part[3], lane) + more
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
        for p in range(per_lane):
            r = lane + LANES * p
            if r < width:
                held[warp * (width + 1) + r] = pull[p]
        if lane == 0:
            held[warp * (width + 1) + width] = logs
        cuda.syncthreads()
        block_sums(
            held, width + 1, parts, cuda.blockIdx.x * (width + 1), cuda.threadIdx.x, cuda.blockDim.x
        )

    return listed_sums


@cache
def curved_kernel(per_lane: int, modes: int, exact: int = 0) -> Any:
    """As `sums_kernel`, and Z' diag(x / m^2) Z (lower triangle, in tiles).

    Threads beyond one per tile make further groups, which share the cells; their matrices are added
    in order. Blocks along y take the further tiles of wide matrices.
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
        tile_cells,  # whose rows lie in shared memory while their outer products are added up
        groups,
        parts,  # (blocks * (width + 1 + width^2),) out: as there, then the matrix
    ):
        if control[STOPPED] != 0:
            return
        if exact > 0:
            width = exact
        held = cuda.shared.array(0, float64)  # rows of Z sqrt(x) / m, then sums
        lane = cuda.threadIdx.x % LANES
        warp = cuda.threadIdx.x // LANES
        here = cuda.blockDim.x // LANES
        n, every = count[0], count[1]
        edge = (width + TILE - 1) // TILE
        tiles = edge * (edge + 1) // 2
        per_group = min(tiles, cuda.blockDim.x)
        group = cuda.threadIdx.x // per_group
        tile = cuda.blockIdx.y * per_group + cuda.threadIdx.x % per_group
        works = group < groups and tile < tiles
        down = 0
        while (down + 1) * (down + 2) // 2 <= tile:
            down += 1
        # A tile is every `edge`-th row and column, so that neighbours read neighbouring numbers.
        across = tile - down * (down + 1) // 2
        w = cuda.local.array(per_lane, float64)
        pull = cuda.local.array(per_lane, float64)
        z = cuda.local.array(numbers, float64)
        part = cuda.local.array(TOGETHER, float64)
        matrix = cuda.local.array(TILE_NUMBERS, float64)
        for p in range(per_lane):
            r = lane + LANES * p
            w[p] = weights[r] if r < width else 0.0
            pull[p] = 0.0
        for q in range(TILE_NUMBERS):
            matrix[q] = 0.0
        logs = 0.0
        first = cuda.blockIdx.x * tile_cells
        while first < n:
            cells = min(tile_cells, n - first)
            for c in range(warp * TOGETHER, cells, here * TOGETHER):
                for u in range(TOGETHER):
                    # Beyond the end the last cell is looked at again, and not used.
                    cell = place(min(first + c + u, n - 1), every)
                    for p in range(per_lane):
                        z[u * per_lane + p] = 1.0
                    for k in range(modes):
                        row = (offsets[k] + index[U(cell * modes + k)]) * width
                        for p in range(per_lane):
                            r = lane + LANES * p
                            if r < width:
                                z[u * per_lane + p] *= data[U(row + r)]
                    m = 0.0
                    for p in range(per_lane):
                        m += z[u * per_lane + p] * w[p]
                    part[u] = m
                m = lane_sums(part[0], part[1], part[2], part[3], lane) + EPS
                mine = c + lane // GROUP
                x = 0.0
                if mine < cells:
                    x = value[place(first + mine, every)] * every
                if lane % GROUP == 0:
                    logs += x * math.log(m)
                inverse = over(m)
                share = x * inverse
                root = math.sqrt(x) * inverse
                for u in range(TOGETHER):
                    found = from_lane(share, u * GROUP)
                    half = from_lane(root, u * GROUP)
                    for p in range(per_lane):
                        pull[p] += found * z[u * per_lane + p]
                        r = lane + LANES * p
                        if r < width and c + u < cells:
                            held[U((c + u) * width + r)] = half * z[u * per_lane + p]
            cuda.syncthreads()
            if works:
                at_row = group * width
                while at_row < cells * width:
                    for a in range(TILE):
                        y = held[U(at_row + down + a * edge)]
                        for b in range(TILE):
                            matrix[a * TILE + b] += y * held[U(at_row + across + b * edge)]
                    at_row += groups * width
            cuda.syncthreads()
            first += cuda.gridDim.x * tile_cells
        row = cuda.blockIdx.x * (width + 1 + width * width)
        base = row + width + 1
        for g in range(1, groups):
            if works and group == g:
                for q in range(TILE_NUMBERS):
                    held[tile * TILE_NUMBERS + q] = matrix[q]
            cuda.syncthreads()
            if works and group == 0:
                for q in range(TILE_NUMBERS):
                    matrix[q] += held[tile * TILE_NUMBERS + q]
            cuda.syncthreads()
        if works and group == 0:
            for a in range(TILE):
                for b in range(TILE):
                    r, c = down + a * edge, across + b * edge
                    parts[base + max(r, c) * width + min(r, c)] = matrix[a * TILE + b]
        if cuda.blockIdx.y > 0:
            return
        for p in range(per_lane):
            r = lane + LANES * p
            if r < width:
                held[warp * (width + 1) + r] = pull[p]
        logs = lane_sum(logs)
        if lane == 0:
            held[warp * (width + 1) + width] = logs
        cuda.syncthreads()
        block_sums(held, width + 1, parts, row, cuda.threadIdx.x, cuda.blockDim.x)

    return curved_sums
