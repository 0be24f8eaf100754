"""Passes that share every count out among the components, for the factor updates.

Shares are added as whole numbers, so many to one count that the slice's total, which no sum can
exceed, is 2^62 of them: such sums depend on no order and need no sort. Cells come in C order, so
that rows of the first mode come in runs, which are added up in registers; a short mode is added up
by each warp in shared memory; other modes go to one of several copies, so that few threads meet in
one place. `rows.settle` makes numbers of them again.
"""

# mypy: ignore-errors

from __future__ import annotations

import math
from functools import cache, partial
from typing import Any

from numba import cuda, float64, int32, int64

from onlinegcp.kernels.cuda.cells import STOPPED, U
from onlinegcp.kernels.cuda.lanes import (
    GROUP,
    LANES,
    SIMULATED,
    TOGETHER,
    block_sums,
    from_lane,
    kernel,
    lane_sum,
    lane_sums,
    over,
)
from onlinegcp.kernels.cuda.overlap import after_others
from onlinegcp.losses.formulas import EPS

NO_MODE = -1
# Four blocks at work on a processor. Fewer registers put numbers aside, which took the pass without
# `learned` a fifth longer; more leave room for three blocks, which took the other a third longer.
REGISTERS = 128
SHARERS = LANES if SIMULATED else 128  # threads of a block: few, because each takes many registers


def fixed_scale(total: float) -> float:
    """Whole numbers per count, a power of two: the total of a slice is at most 2^62 of them."""
    return float(2.0 ** (62 - max(-900, math.frexp(total)[1])))


@cache
def shares_kernel(per_lane: int, modes: int, learned: bool, exact: int = 0) -> Any:
    """Responsibilities of one mode or of all; with `learned` also what the forgetting needs.

    For `learned`, with ratio = (dA / d eta) / A: tau = share times the sum of the ratios; a block
    leaves sums of -x tau and x tau^2 (width each), x (sum tau)^2 and x log m. Made for one width
    where `exact` is that: see `plan.exact_width`.
    """
    numbers, locals_held = TOGETHER * per_lane, TOGETHER * modes

    @partial(kernel, max_registers=REGISTERS)
    def shares(
        data,
        width,
        offsets,
        index,
        value,
        count,  # (1,)
        stretch,  # cells a warp takes at a stretch: longer ones have longer runs of equal rows
        weights,
        ratio,  # (rows * width,) float32; not looked at without `learned`
        scale,  # (1,) whole numbers per count
        only,  # the mode, NO_MODE: all
        private,  # the mode that warps add up in shared memory, NO_MODE: none
        rows_held,  # its length
        bases,  # (modes,) first number of every mode in `fixed`
        copies,  # (modes,)
        fixed,  # int64, added to
        control,  # nothing is done before the weights are solved
        parts,  # (blocks * (2 width + 2),) out, with `learned`
    ):
        after_others()
        if control[STOPPED] == 0:
            return
        if exact > 0:
            width = exact
        held = cuda.shared.array(0, float64)
        lane = cuda.threadIdx.x % LANES
        warp = cuda.threadIdx.x // LANES
        here = cuda.blockDim.x // LANES
        n = count[0]
        unit = scale[0]
        w = cuda.local.array(per_lane, float64)
        run = cuda.local.array(per_lane, float64)
        slope = cuda.local.array(per_lane, float64)
        bend = cuda.local.array(per_lane, float64)
        z = cuda.local.array(numbers, float64)
        tau = cuda.local.array(numbers, float64)
        part = cuda.local.array(TOGETHER, float64)
        rows = cuda.local.array(modes, int32)
        starts = cuda.local.array(modes, int64)  # of the modes in `data`, and of their sums
        targets = cuda.local.array(modes, int64)
        local = cuda.local.array(locals_held, int32)
        for p in range(per_lane):
            r = lane + LANES * p
            w[p] = weights[r] if r < width else 0.0
            run[p] = 0.0
            slope[p] = 0.0
            bend[p] = 0.0
        for k in range(modes):
            # Tables are read once: nothing says that `fixed`, which is written, is not one of them.
            starts[k] = offsets[k] * width
            long = offsets[k + 1] - offsets[k]
            targets[k] = bases[k] + cuda.blockIdx.x % copies[k] * long * width + lane
        mine_at = warp * rows_held * width + lane  # what a lane adds up it alone reads and writes
        for i in range(rows_held):
            for p in range(per_lane):
                if lane + LANES * p < width:
                    held[mine_at + i * width + LANES * p] = 0.0
        common = 0.0
        logs = 0.0
        first_too = only < 0 or only == 0
        span = (cuda.blockIdx.x * here + warp) * stretch
        while span < n:
            current = -1
            first = span
            end = min(span + stretch, n)
            while first < end:
                mine = 0.0
                kept = 1.0
                for k in range(modes):
                    rows[k] = 0
                if first + lane < end:
                    cell = first + lane
                    mine = value[cell]
                    for k in range(modes):
                        rows[k] = index[U(cell * modes + k)]
                cells = min(LANES, end - first)
                for c in range(0, cells, TOGETHER):
                    for u in range(TOGETHER):
                        for p in range(per_lane):
                            z[u * per_lane + p] = w[p]
                            tau[u * per_lane + p] = 0.0
                        for k in range(modes):
                            local[u * modes + k] = from_lane(rows[k], c + u)
                            row = starts[k] + local[u * modes + k] * width
                            for p in range(per_lane):
                                r = lane + LANES * p
                                if r < width:
                                    z[u * per_lane + p] *= data[U(row + r)]
                                    if learned:
                                        tau[u * per_lane + p] += ratio[U(row + r)]
                        m = 0.0
                        for p in range(per_lane):
                            m += z[u * per_lane + p]
                        part[u] = m
                    m = lane_sums(part[0], part[1], part[2], part[3], lane) + EPS
                    whole = over(m)
                    for u in range(TOGETHER):
                        x = from_lane(mine, c + u)
                        scaled = x * unit
                        share = from_lane(whole, u * GROUP)
                        if lane == c + u:
                            kept = share
                        total = 0.0
                        for p in range(per_lane):
                            y = z[u * per_lane + p] * share
                            if learned:
                                t = y * tau[u * per_lane + p]
                                total += t
                                slope[p] -= x * t
                                bend[p] += x * t * t
                            z[u * per_lane + p] = scaled * y
                        part[u] = total
                    if learned:
                        total = lane_sums(part[0], part[1], part[2], part[3], lane)
                        x = from_lane(mine, c + lane // GROUP)
                        common += x * total * total  # every lane of a group: an eighth counts
                    if first_too:
                        for u in range(TOGETHER):
                            if c + u < cells and local[u * modes] != current:
                                for p in range(per_lane):
                                    if current >= 0 and lane + LANES * p < width:
                                        to = targets[0] + current * width + LANES * p
                                        whole_run = int64(run[p] + 0.5)
                                        cuda.atomic.add(fixed, U(to), whole_run)
                                    run[p] = 0.0
                                current = local[u * modes]
                            for p in range(per_lane):
                                run[p] += z[u * per_lane + p]  # zero beyond the last cell
                    for k in range(1, modes):
                        if k == private:
                            for u in range(TOGETHER):
                                to = mine_at + local[u * modes + k] * width
                                for p in range(per_lane):
                                    if lane + LANES * p < width:
                                        held[U(to + LANES * p)] += z[u * per_lane + p]
                        elif only < 0 or only == k:
                            for u in range(TOGETHER):
                                to = targets[k] + local[u * modes + k] * width
                                for p in range(per_lane):
                                    if lane + LANES * p < width:
                                        whole_part = int64(z[u * per_lane + p] + 0.5)
                                        cuda.atomic.add(fixed, U(to + LANES * p), whole_part)
                if learned:
                    logs -= mine * math.log(kept)
                first += LANES
            if first_too and current >= 0:
                for p in range(per_lane):
                    r = lane + LANES * p
                    if r < width:
                        to = targets[0] + current * width + LANES * p
                        cuda.atomic.add(fixed, U(to), int64(run[p] + 0.5))
                    run[p] = 0.0
            span += cuda.gridDim.x * here * stretch
        if private >= 0:
            cuda.syncthreads()
            size = rows_held * width
            base = bases[private] + cuda.blockIdx.x % copies[private] * size
            for e in range(cuda.threadIdx.x, size, cuda.blockDim.x):
                total = 0.0
                for other in range(here):
                    total += held[other * size + e]
                cuda.atomic.add(fixed, U(base + e), int64(total + 0.5))
            cuda.syncthreads()
        if learned:
            logs = lane_sum(logs)
            common = lane_sum(common) / GROUP
            columns = 2 * width + 2
            for p in range(per_lane):
                r = lane + LANES * p
                if r < width:
                    held[warp * columns + r] = slope[p]
                    held[warp * columns + width + r] = bend[p]
            if lane == 0:
                held[warp * columns + 2 * width] = common
                held[warp * columns + 2 * width + 1] = logs
            cuda.syncthreads()
            block_sums(
                held, columns, parts, cuda.blockIdx.x * columns, cuda.threadIdx.x, cuda.blockDim.x
            )

    return shares
