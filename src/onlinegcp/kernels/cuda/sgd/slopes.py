"""Passes over a sample: the gradient of the weights, the objective.

Eight lanes take a sample, so that a warp has four under way; lane l of a group has the columns l,
l + 8, ... Sums over the samples of a block leave as one row of `parts`.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,attr-defined"

from __future__ import annotations

from functools import cache
from typing import Any

from numba import cuda, float64, int64

from onlinegcp.kernels.cuda.cells import U
from onlinegcp.kernels.cuda.formulas import deriv_of, value_of
from onlinegcp.kernels.cuda.groups import across_groups, group_sum
from onlinegcp.kernels.cuda.lanes import GROUP, LANES, block_sums, kernel
from onlinegcp.kernels.cuda.sgd.draws import CORRECTED, COUNT

GROUPS = LANES // GROUP  # of a warp


@cache
def weights_kernel(per_group: int, modes: int, code: int) -> Any:
    """The weights' gradient of a sample: sums of weight * f'(x, m) times products of rows."""

    @kernel
    def weights_gradient(data, width, weights, numbers, parameter, room, slot, rows, xs, ws, parts):
        held = cuda.shared.array(0, float64)
        lane = cuda.threadIdx.x % LANES
        warp, here = cuda.threadIdx.x // LANES, cuda.blockDim.x // LANES
        column = lane % GROUP
        n = numbers[COUNT]
        base, cells = slot * modes * room, slot * room
        z = cuda.local.array(per_group, float64)
        sums = cuda.local.array(per_group, float64)
        for p in range(per_group):
            sums[p] = 0.0
        first = (cuda.blockIdx.x * here + warp) * GROUPS
        while first < n:
            s = min(first + lane // GROUP, n - 1)
            x, w = xs[cells + s], ws[cells + s]
            for p in range(per_group):
                z[p] = 1.0
            # Branches keep the compiler from asking for all of it at once: more warps fit.
            for k in range(modes):
                row = int64(rows[U(base + k * room + s)]) * width + column
                for p in range(per_group):
                    if column + GROUP * p < width:
                        z[p] *= data[U(row + GROUP * p)]
            m = 0.0
            for p in range(per_group):
                if column + GROUP * p < width:
                    m += weights[column + GROUP * p] * z[p]
            m = group_sum(m)
            y = deriv_of(code, parameter, x, m)
            if s < numbers[CORRECTED]:
                y -= deriv_of(code, parameter, 0.0, m)
            y *= w
            if first + lane // GROUP < n:
                for p in range(per_group):
                    sums[p] += y * z[p]
            first += cuda.gridDim.x * here * GROUPS
        for p in range(per_group):
            total = across_groups(sums[p])
            if lane < GROUP and column + GROUP * p < width:
                held[warp * width + column + GROUP * p] = total
        cuda.syncthreads()
        to = cuda.blockIdx.x * width
        block_sums(held, width, parts, to, cuda.threadIdx.x, cuda.blockDim.x)

    return weights_gradient


@cache
def objective_kernel(per_group: int, modes: int, code: int) -> Any:
    """Sums of weight * f(x, m) over a sample, one number per block."""

    @kernel
    def objective(data, width, weights, numbers, parameter, room, rows, xs, ws, parts):
        held = cuda.shared.array(0, float64)
        lane = cuda.threadIdx.x % LANES
        warp, here = cuda.threadIdx.x // LANES, cuda.blockDim.x // LANES
        column = lane % GROUP
        n = numbers[COUNT]
        z = cuda.local.array(per_group, float64)
        total = 0.0
        first = (cuda.blockIdx.x * here + warp) * GROUPS
        while first < n:
            s = min(first + lane // GROUP, n - 1)
            for p in range(per_group):
                z[p] = weights[column + GROUP * p] if column + GROUP * p < width else 0.0
            for k in range(modes):
                row = int64(rows[U(k * room + s)]) * width + column
                for p in range(per_group):
                    if column + GROUP * p < width:
                        z[p] *= data[U(row + GROUP * p)]
            m = 0.0
            for p in range(per_group):
                m += z[p]
            m = group_sum(m)
            if column == 0 and first + lane // GROUP < n:
                f = value_of(code, parameter, xs[s], m)
                if s < numbers[CORRECTED]:
                    f -= value_of(code, parameter, 0.0, m)
                total += ws[s] * f
            first += cuda.gridDim.x * here * GROUPS
        total = across_groups(total)
        if lane == 0:
            held[warp] = total
        cuda.syncthreads()
        block_sums(held, 1, parts, cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x)

    return objective
