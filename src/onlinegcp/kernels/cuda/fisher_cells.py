"""Passes over weighted cells for any loss: its sums, its slope along a change, and pieces of cells.

A piece is a run of cells that belong to one row of a mode, or, for the weights, any run. With n the
product of what its cells hold fixed and v what is solved for, m = n'v, and a piece gives the sums
of f, of f' n and of f'' n n'. Sums over pieces are added in order, so that bits repeat.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,attr-defined"

from __future__ import annotations

import math
from functools import cache
from typing import Any

from numba import cuda, float64, int32

from onlinegcp.kernels.cuda.cells import TILE, TILE_NUMBERS, U
from onlinegcp.kernels.cuda.formulas import deriv_of, fisher_of, larger, value_of
from onlinegcp.kernels.cuda.lanes import (
    GROUP,
    LANES,
    TOGETHER,
    block_sums,
    from_lane,
    kernel,
    lane_sum,
    lane_sums,
)
from onlinegcp.kernels.cuda.overlap import after_others

TALLIES = 3  # value, squared slopes, curvature


@cache
def tally_kernel(per_lane: int, modes: int, code: int) -> Any:
    """Sums of f, f'^2 and the Fisher curvature, cut at 0: one row of `parts` per block."""

    @kernel
    def tally(
        data, width, offsets, index, value, weight, count, share, batch, weights, p_loss, parts
    ):  # share (1,): what each cell counts for
        after_others()
        held = cuda.shared.array(0, float64)
        lane = cuda.threadIdx.x % LANES
        warp = cuda.threadIdx.x // LANES
        here = cuda.blockDim.x // LANES
        n = count[0]
        w = cuda.local.array(per_lane, float64)
        z = cuda.local.array(per_lane, float64)
        part = cuda.local.array(TOGETHER, float64)
        rows = cuda.local.array(modes, int32)
        for p in range(per_lane):
            r = lane + LANES * p
            w[p] = weights[r] if r < width else 0.0
        total, squares, below = 0.0, 0.0, 0.0
        first = (cuda.blockIdx.x * here + warp) * batch
        while first < n:
            cell = min(first + min(lane, batch - 1), n - 1)
            for k in range(modes):
                rows[k] = offsets[k] + index[cell * modes + k]
            mine = 0.0
            for c in range(0, min(batch, n - first), TOGETHER):
                for u in range(TOGETHER):
                    for p in range(per_lane):
                        z[p] = w[p]
                    for k in range(modes):
                        row = from_lane(rows[k], c + u) * width
                        for p in range(per_lane):
                            r = lane + LANES * p
                            if r < width:
                                z[p] *= data[U(row + r)]
                    m = 0.0
                    for p in range(per_lane):
                        m += z[p]
                    part[u] = m
                m = lane_sums(part[0], part[1], part[2], part[3], lane)
                for u in range(TOGETHER):
                    found = from_lane(m, u * GROUP)
                    if lane == c + u:
                        mine = found
            if lane < batch and first + lane < n:
                x, counts = value[cell], weight[cell] * share[0]
                total += counts * value_of(code, p_loss, x, mine)
                slope = deriv_of(code, p_loss, x, mine)
                squares += counts * slope * slope
                below += counts * larger(fisher_of(code, p_loss, x, mine), 0.0)
            first += cuda.gridDim.x * here * batch
        total, squares, below = lane_sum(total), lane_sum(squares), lane_sum(below)
        if lane == 0:
            held[warp * TALLIES] = total
            held[warp * TALLIES + 1] = squares
            held[warp * TALLIES + 2] = below
        cuda.syncthreads()
        to = cuda.blockIdx.x * TALLIES
        block_sums(held, TALLIES, parts, to, cuda.threadIdx.x, cuda.blockDim.x)

    return tally


@cache
def change_kernel(per_lane: int, modes: int, code: int) -> Any:
    """Slope and curvature of the loss when the factors move along a change: two sums per block."""

    @kernel
    def along_change(
        data, change, width, offsets, index, value, weight, count, share, batch, weights, p_loss,
        parts
    ):  # fmt: skip
        after_others()
        held = cuda.shared.array(0, float64)
        lane = cuda.threadIdx.x % LANES
        warp = cuda.threadIdx.x // LANES
        here = cuda.blockDim.x // LANES
        n = count[0]
        w = cuda.local.array(per_lane, float64)
        z = cuda.local.array(per_lane, float64)
        part = cuda.local.array(TOGETHER, float64)
        dz = cuda.local.array(per_lane, float64)
        moves = cuda.local.array(TOGETHER, float64)
        rows = cuda.local.array(modes, int32)
        for p in range(per_lane):
            r = lane + LANES * p
            w[p] = weights[r] if r < width else 0.0
        slope, bend = 0.0, 0.0
        first = (cuda.blockIdx.x * here + warp) * batch
        while first < n:
            cell = min(first + min(lane, batch - 1), n - 1)
            for k in range(modes):
                rows[k] = offsets[k] + index[cell * modes + k]
            mine, moved = 0.0, 0.0
            for c in range(0, min(batch, n - first), TOGETHER):
                for u in range(TOGETHER):
                    for p in range(per_lane):
                        z[p] = w[p]
                        dz[p] = 0.0
                    for k in range(modes):
                        row = from_lane(rows[k], c + u) * width
                        for p in range(per_lane):
                            r = lane + LANES * p
                            if r < width:
                                a = data[U(row + r)]
                                dz[p] = dz[p] * a + z[p] * change[U(row + r)]
                                z[p] *= a
                    m, d = 0.0, 0.0
                    for p in range(per_lane):
                        m += z[p]
                        d += dz[p]
                    part[u] = m
                    moves[u] = d
                m = lane_sums(part[0], part[1], part[2], part[3], lane)
                d = lane_sums(moves[0], moves[1], moves[2], moves[3], lane)
                for u in range(TOGETHER):
                    found, change_here = from_lane(m, u * GROUP), from_lane(d, u * GROUP)
                    if lane == c + u:
                        mine = found
                        moved = change_here
            if lane < batch and first + lane < n:
                x, counts = value[cell], weight[cell] * share[0]
                slope += counts * deriv_of(code, p_loss, x, mine) * moved
                curved = larger(fisher_of(code, p_loss, x, mine), 0.0)
                bend += counts * curved * moved * moved
            first += cuda.gridDim.x * here * batch
        slope, bend = lane_sum(slope), lane_sum(bend)
        if lane == 0:
            held[warp * 2] = slope
            held[warp * 2 + 1] = bend
        cuda.syncthreads()
        block_sums(held, 2, parts, cuda.blockIdx.x * 2, cuda.threadIdx.x, cuda.blockDim.x)

    return along_change


@cache
def pieces_kernel(per_lane: int, modes: int, full: bool, code: int) -> Any:
    """Slope, value and curvature of every piece: a row of `parts` each.

    Full matrices are made in tiles as in `cells.curved_kernel`, else the diagonal.
    """
    numbers = TOGETHER * per_lane

    @kernel
    def piece_sums(
        data,  # (rows * width,) factors
        width,
        offsets,
        index,  # (n * modes,)
        value,
        weight,
        share,  # (1,) what each cell counts for
        order,  # (n,) cells by row; not read where the weights are solved for
        pieces,  # (pieces * 3,) first and last place in the order, and row of the stacked factors
        count,  # (1,) pieces
        mode,  # whose rows are solved for; -1: the weights
        weights,
        p_loss,
        tile_cells,  # whose rows lie in shared memory while their outer products are added up
        groups,
        parts,  # (pieces * stride,) out: slope (width), value, matrix (width^2) or diagonal
    ):
        after_others()
        if cuda.blockIdx.x >= count[0]:
            return
        held = cuda.shared.array(0, float64)
        lane = cuda.threadIdx.x % LANES
        warp = cuda.threadIdx.x // LANES
        here = cuda.blockDim.x // LANES
        first = pieces[cuda.blockIdx.x * 3]
        last = pieces[cuda.blockIdx.x * 3 + 1]
        own = pieces[cuda.blockIdx.x * 3 + 2] * width
        edge = (width + TILE - 1) // TILE
        tiles = edge * (edge + 1) // 2
        per_group = min(tiles, cuda.blockDim.x)
        group = cuda.threadIdx.x // per_group
        tile = cuda.blockIdx.y * per_group + cuda.threadIdx.x % per_group
        works = full and group < groups and tile < tiles
        down = 0
        while (down + 1) * (down + 2) // 2 <= tile:
            down += 1
        across = tile - down * (down + 1) // 2
        fixed = cuda.local.array(per_lane, float64)
        v = cuda.local.array(per_lane, float64)
        slope = cuda.local.array(per_lane, float64)
        diagonal = cuda.local.array(per_lane, float64)
        z = cuda.local.array(numbers, float64)
        part = cuda.local.array(TOGETHER, float64)
        matrix = cuda.local.array(TILE_NUMBERS, float64)
        for p in range(per_lane):
            r = lane + LANES * p
            fixed[p] = 0.0
            v[p] = 0.0
            if r < width:
                fixed[p] = 1.0 if mode < 0 else weights[r]
                v[p] = weights[r] if mode < 0 else data[U(own + r)]
            slope[p] = 0.0
            diagonal[p] = 0.0
        for q in range(TILE_NUMBERS):
            matrix[q] = 0.0
        total = 0.0
        while first < last:
            cells = min(tile_cells, last - first)
            for c in range(warp * TOGETHER, cells, here * TOGETHER):
                for u in range(TOGETHER):
                    # Beyond the end the last cell is looked at again, and not used.
                    at = first + min(c + u, cells - 1)
                    cell = at if mode < 0 else order[at]
                    for p in range(per_lane):
                        z[u * per_lane + p] = fixed[p]
                    for k in range(modes):
                        if k != mode:
                            row = (offsets[k] + index[U(cell * modes + k)]) * width
                            for p in range(per_lane):
                                r = lane + LANES * p
                                if r < width:
                                    z[u * per_lane + p] *= data[U(row + r)]
                    m = 0.0
                    for p in range(per_lane):
                        m += z[u * per_lane + p] * v[p]
                    part[u] = m
                m = lane_sums(part[0], part[1], part[2], part[3], lane)
                y, h = 0.0, 0.0
                if c + lane // GROUP < cells:
                    at = first + c + lane // GROUP
                    cell = at if mode < 0 else order[at]
                    x, counts = value[cell], weight[cell] * share[0]
                    if lane % GROUP == 0:
                        total += counts * value_of(code, p_loss, x, m)
                    y = counts * deriv_of(code, p_loss, x, m)
                    h = counts * larger(fisher_of(code, p_loss, x, m), 0.0)
                root = math.sqrt(h)
                for u in range(TOGETHER):
                    found = from_lane(y, u * GROUP)
                    half = from_lane(root, u * GROUP)
                    for p in range(per_lane):
                        slope[p] += found * z[u * per_lane + p]
                        scaled = half * z[u * per_lane + p]
                        if full:
                            r = lane + LANES * p
                            if r < width and c + u < cells:
                                held[U((c + u) * width + r)] = scaled
                        else:
                            diagonal[p] += scaled * scaled
            if full:
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
            first += tile_cells
        columns = width + 1 if full else 2 * width + 1
        base = cuda.blockIdx.x * (width + 1 + (width * width if full else width))
        if full:
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
                        to = base + width + 1 + max(r, c) * width + min(r, c)
                        parts[to] = matrix[a * TILE + b]
            if cuda.blockIdx.y > 0:
                return
        for p in range(per_lane):
            r = lane + LANES * p
            if r < width:
                held[warp * columns + r] = slope[p]
                if not full:
                    held[warp * columns + width + 1 + r] = diagonal[p]
        total = lane_sum(total)
        if lane == 0:
            held[warp * columns + width] = total
        cuda.syncthreads()
        block_sums(held, columns, parts, base, cuda.threadIdx.x, cuda.blockDim.x)

    return piece_sums
