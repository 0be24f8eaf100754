"""Passes that share every count out among the components, for the factor updates.

Shares are added as whole numbers, so many to one count that the slice's total, which no sum can
exceed, is 2^62 of them: such sums depend on no order and need no sort. Cells come in C order, so
that rows of the first mode come in runs, which are added up in registers; other modes go to one of
several copies, so that few threads meet in one place. `rows.settle` makes numbers of them again.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,attr-defined"

from __future__ import annotations

import math
from functools import cache
from typing import Any

from numba import cuda, float64, int32, int64

from onlinegcp.kernels.cuda.cells import STOPPED, U
from onlinegcp.kernels.cuda.lanes import LANES, block_sums, from_lane, kernel, lane_sum
from onlinegcp.losses.formulas import EPS

NO_MODE = -1


@cache
def shares_kernel(per_lane: int, modes: int, learned: bool) -> Any:
    """Responsibilities of one mode or of all; with `learned` also what the forgetting needs.

    For `learned`, with ratio = (dA / d eta) / A: tau = share times the sum of the ratios; a block
    leaves sums of -x tau and x tau^2 (width each), x (sum tau)^2 and x log m.
    """

    @kernel
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
        bases,  # (modes,) first number of every mode in `fixed`
        copies,  # (modes,)
        fixed,  # int64, added to
        control,  # nothing is done before the weights are solved
        parts,  # (blocks * (2 width + 2),) out, with `learned`
    ):
        if control[STOPPED] == 0:
            return
        held = cuda.shared.array(0, float64)
        lane = cuda.threadIdx.x % LANES
        warp = cuda.threadIdx.x // LANES
        here = cuda.blockDim.x // LANES
        n = count[0]
        unit = scale[0]
        w = cuda.local.array(per_lane, float64)
        z = cuda.local.array(per_lane, float64)
        run = cuda.local.array(per_lane, float64)
        tau = cuda.local.array(per_lane, float64)
        slope = cuda.local.array(per_lane, float64)
        bend = cuda.local.array(per_lane, float64)
        rows = cuda.local.array(modes, int32)
        local = cuda.local.array(modes, int32)
        for p in range(per_lane):
            r = lane + LANES * p
            w[p] = weights[r] if r < width else 0.0
            run[p] = 0.0
            slope[p] = 0.0
            bend[p] = 0.0
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
                        rows[k] = index[cell * modes + k]
                for c in range(min(LANES, end - first)):
                    x = from_lane(mine, c)
                    for p in range(per_lane):
                        z[p] = w[p]
                        tau[p] = 0.0
                    for k in range(modes):
                        local[k] = from_lane(rows[k], c)
                        row = (offsets[k] + local[k]) * width
                        for p in range(per_lane):
                            r = lane + LANES * p
                            if r < width:
                                z[p] *= data[U(row + r)]
                                if learned:
                                    tau[p] += ratio[U(row + r)]
                    m = 0.0
                    for p in range(per_lane):
                        m += z[p]
                    m = lane_sum(m) + EPS
                    share = 1.0 / m
                    if learned:
                        if lane == c:
                            kept = m
                        total = 0.0
                        for p in range(per_lane):
                            z[p] *= share
                            t = z[p] * tau[p]
                            total += t
                            slope[p] -= x * t
                            bend[p] += x * t * t
                            z[p] *= x
                        total = lane_sum(total)
                        common += x * total * total
                    else:
                        share *= x
                        for p in range(per_lane):
                            z[p] *= share
                    if first_too:
                        if local[0] != current:
                            if current >= 0:
                                for p in range(per_lane):
                                    r = lane + LANES * p
                                    if r < width:
                                        to = bases[0] + current * width + r
                                        cuda.atomic.add(fixed, U(to), int64(run[p] * unit + 0.5))
                                    run[p] = 0.0
                            current = local[0]
                        for p in range(per_lane):
                            run[p] += z[p]
                    for k in range(1, modes):
                        if only < 0 or only == k:
                            copy = cuda.blockIdx.x % copies[k]
                            long = offsets[k + 1] - offsets[k]
                            to = bases[k] + (copy * long + local[k]) * width + lane
                            for p in range(per_lane):
                                if lane + LANES * p < width:
                                    part = int64(z[p] * unit + 0.5)
                                    cuda.atomic.add(fixed, U(to + LANES * p), part)
                if learned:
                    logs += mine * math.log(kept)
                first += LANES
            if first_too and current >= 0:
                for p in range(per_lane):
                    r = lane + LANES * p
                    if r < width:
                        to = bases[0] + current * width + r
                        cuda.atomic.add(fixed, U(to), int64(run[p] * unit + 0.5))
                    run[p] = 0.0
            span += cuda.gridDim.x * here * stretch
        if learned:
            logs = lane_sum(logs)
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
