"""The few things threads of a warp or block do together, on the card and in Numba's simulator.

A kernel works in warps of 32 threads whose lanes share out the columns of a row: lane l has the
columns l, l + 32, ... Sums over lanes and over warps are added in a fixed order, so that bits
repeat.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,attr-defined"

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import config, cuda

from onlinegcp.kernels.jit import house_cache

LANES = 32
GROUP = 8  # lanes that know one of four sums
TOGETHER = 4  # cells a warp works on at once, so that one waits for memory while others go on
EVERY_LANE = 0xFFFFFFFF
SIMULATED = bool(config.ENABLE_CUDASIM)
THREADS = LANES if SIMULATED else 256  # of a block


def kernel(function: Callable[..., Any], **options: Any) -> Any:
    """Compile a function for the card on first call, and keep it on disk."""
    # Contracting a * b + c is all that is allowed: NaN stays honest, as on the CPU.
    with house_cache():
        return cuda.jit(function) if SIMULATED else cuda.jit(cache=True, **options)(function)


def device(function: Callable[..., Any]) -> Any:
    """A function that kernels call. It may not name `cuda` where they lie in another file."""
    # The simulator puts its own `cuda` into the file of a kernel only.
    return function if SIMULATED else cuda.jit(device=True)(function)


if SIMULATED:  # one warp per block: the simulator knows barriers of a block only

    def _exchange(value):
        thread = threading.current_thread()
        held = thread._manager.__dict__.setdefault("exchanged", {})
        held[thread.thread_id] = value
        thread.syncthreads()
        found = [held[lane] for lane in range(LANES)]
        thread.syncthreads()
        return found

    def over(value):
        """One over a number, correctly rounded."""
        return 1.0 / value

    def lane_sum(value):
        """The sum of a number over the lanes of a warp, known to each."""
        return np.sum(_exchange(value))

    def lane_max(value):
        """The largest of the numbers of a warp's lanes, known to each."""
        return max(_exchange(value))

    def from_lane(value, lane):
        """What another lane holds."""
        return _exchange(value)[lane]

    def lane_sums(a, b, c, d, lane):
        """Four sums over the lanes of a warp: lanes 0 to 7 know the first, 8 to 15 the next, ..."""
        return np.sum([four[lane // GROUP] for four in _exchange((a, b, c, d))])

else:
    from numba.cuda import libdevice

    @device
    def over(value):
        """One over a number, correctly rounded: takes half as long as a division."""
        return libdevice.drcp_rn(value)

    @device
    def lane_sum(value):
        """The sum of a number over the lanes of a warp, known to each."""
        value += cuda.shfl_xor_sync(EVERY_LANE, value, 16)
        value += cuda.shfl_xor_sync(EVERY_LANE, value, 8)
        value += cuda.shfl_xor_sync(EVERY_LANE, value, 4)
        value += cuda.shfl_xor_sync(EVERY_LANE, value, 2)
        value += cuda.shfl_xor_sync(EVERY_LANE, value, 1)
        return value

    @device
    def lane_max(value):
        """The largest of the numbers of a warp's lanes, known to each."""
        value = max(value, cuda.shfl_xor_sync(EVERY_LANE, value, 16))
        value = max(value, cuda.shfl_xor_sync(EVERY_LANE, value, 8))
        value = max(value, cuda.shfl_xor_sync(EVERY_LANE, value, 4))
        value = max(value, cuda.shfl_xor_sync(EVERY_LANE, value, 2))
        return max(value, cuda.shfl_xor_sync(EVERY_LANE, value, 1))

    @device
    def from_lane(value, lane):
        """What another lane holds."""
        return cuda.shfl_sync(EVERY_LANE, value, lane)

    @device
    def lane_sums(a, b, c, d, lane):
        """Four sums over the lanes of a warp: lanes 0 to 7 know the first, 8 to 15 the next, ..."""
        # Each exchange halves the sums a lane still has a part in: 6 exchanges instead of 20.
        high = lane & 16
        kept, other = (c, d) if high else (a, b)
        kept += cuda.shfl_xor_sync(EVERY_LANE, a if high else c, 16)
        other += cuda.shfl_xor_sync(EVERY_LANE, b if high else d, 16)
        odd = lane & 8
        given = kept if odd else other
        kept = other if odd else kept
        kept += cuda.shfl_xor_sync(EVERY_LANE, given, 8)
        kept += cuda.shfl_xor_sync(EVERY_LANE, kept, 4)
        kept += cuda.shfl_xor_sync(EVERY_LANE, kept, 2)
        kept += cuda.shfl_xor_sync(EVERY_LANE, kept, 1)
        return kept


@device
def block_sums(held, columns, target, first, me, threads):
    """Add up what the warps of a block hold, in order: held (warps, columns) to target[first:]."""
    c = me
    while c < columns:
        total = 0.0
        for w in range(threads // LANES):
            total += held[w * columns + c]
        target[first + c] = total
        c += threads


@device
def hold(held, first, numbers, width, lane):
    """Leave a lane's columns of a row in shared memory, where the row begins at `first`."""
    for p in range(len(numbers)):
        r = lane + LANES * p
        if r < width:
            held[first + r] = numbers[p]


@device
def look(data, width, rows, first, w, z, part, lane):
    """Model values of TOGETHER cells, as `lane_sums` tells them, and in `z` their products.

    The rows that cell `first` + u meets are with the lane of that number; `w` are the weights.
    """
    per_lane = len(w)
    for u in range(TOGETHER):
        for p in range(per_lane):
            z[u * per_lane + p] = 1.0
        for k in range(len(rows)):
            row = from_lane(rows[k], first + u) * width
            for p in range(per_lane):
                r = lane + LANES * p
                if r < width:
                    z[u * per_lane + p] *= data[np.uint64(row + r)]
        m = 0.0
        for p in range(per_lane):
            m += z[u * per_lane + p] * w[p]
        part[u] = m
    return lane_sums(part[0], part[1], part[2], part[3], lane)
