"""Partial sums of blocks, added in a fixed order."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,attr-defined"

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import cuda, float64

from onlinegcp.kernels.cuda.lanes import LANES, SIMULATED, kernel
from onlinegcp.kernels.cuda.overlap import after_others

U = np.uint64
AT_ONCE = 8  # numbers a thread waits for at once
ADDERS = LANES if SIMULATED else 1024  # threads of a block at most


def adders_for(parts: int) -> int:
    """Threads of a block that adds up so many rows: no more than wait for all of them at once."""
    groups = 1 << (-(-parts // AT_ONCE) - 1).bit_length()
    return min(ADDERS, LANES * groups)


@cache
def add_parts_kernel() -> Any:
    """Sums of rows bounds[y] .. bounds[y + 1] of `parts`, columns side by side in lanes."""

    @kernel
    def add_parts(
        parts,  # (rows * columns,)
        columns,
        bounds,  # (segments + 1,)
        control,
        flag,  # place in `control` that says whether there is nothing to add up, -1: none
        sums,  # (segments * columns,) out
    ):
        after_others()
        if flag >= 0 and control[flag] != 0:
            return
        held = cuda.shared.array(0, float64)
        lane = cuda.threadIdx.x % LANES
        group = cuda.threadIdx.x // LANES
        groups = cuda.blockDim.x // LANES
        column = cuda.blockIdx.x * LANES + lane
        total = 0.0
        found = cuda.local.array(AT_ONCE, float64)
        row, end = bounds[cuda.blockIdx.y] + group, bounds[cuda.blockIdx.y + 1]
        while row < end and column < columns:
            for t in range(AT_ONCE):
                found[t] = parts[U(min(row + t * groups, end - 1) * columns + column)]
            for t in range(AT_ONCE):
                total += found[t] if row + t * groups < end else 0.0
            row += AT_ONCE * groups
        held[group * LANES + lane] = total
        cuda.syncthreads()
        if group == 0 and column < columns:
            total = 0.0
            for g in range(groups):
                total += held[g * LANES + lane]
            sums[cuda.blockIdx.y * columns + column] = total

    return add_parts
