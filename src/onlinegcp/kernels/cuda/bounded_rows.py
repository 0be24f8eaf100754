"""New rows of least squares that may not fall below zero, with exact zeros; a block takes a row.

`solvers.auto.nonnegative` says the same in NumPy: coordinate descent guesses which entries are
zero, a solve for the others ends the row if the guess was right, and else shows where to go. All
in units in which every coordinate has curvature one.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,attr-defined"

from __future__ import annotations

import math
from functools import cache, partial
from typing import Any

from numba import cuda, float64

from onlinegcp.kernels.cuda.cells import U
from onlinegcp.kernels.cuda.lanes import (
    LANES,
    SIMULATED,
    device,
    from_lane,
    kernel,
    lane_max,
)
from onlinegcp.kernels.cuda.newton import ACROSS, solve_held
from onlinegcp.kernels.cuda.overlap import after_others

BOUNDERS = LANES if SIMULATED else 128  # threads of a block
MOST_BLOCKS = 4096
REGISTERS = 128
VECTORS = 6
INVERSE, TARGET, POINT, GOAL, FIXED, SLOPE = range(VECTORS)
PIVOT = 1e-14


@device
def put_system(system, width, rank, inverse, fixed, right, held, me, threads):
    """The system of the free entries, ready to be solved."""
    edge = rank + 1
    i = me // ACROSS
    while i < edge:
        j = me % ACROSS
        while j < edge:
            number = 0.0
            if i < rank and j <= i:
                if fixed[i] == 0.0 and fixed[j] == 0.0:
                    number = system[U(i * width + j)] * inverse[i] * inverse[j]
                elif i == j:
                    number = 1.0
            elif i < rank:
                number = PIVOT
            elif j < rank and fixed[j] == 0.0:
                number = right[j]
            held[i * edge + j] = number
            j += ACROSS
        i += threads // ACROSS


@device
def slope_at(system, width, rank, inverse, point, target, r):
    """Slope of a row's objective in entry r."""
    total = 0.0
    for q in range(rank):
        total += system[U(q * width + r)] * inverse[q] * point[q]
    return total * inverse[r] - target[r]


@cache
def bounded_rows_kernel(per_lane: int, in_shared: bool) -> Any:
    """New rows of a mode, the slopes that the bound holds back, and the rows' sensitivity."""

    @partial(kernel, max_registers=REGISTERS)
    def bounded_rows(
        products,  # of the slice with the other modes
        old,
        slope,  # half of what the bound held back before
        sensitivity,
        system,  # (width * width,) of all rows
        kept,  # (width * width,) what old rows are multiplied by
        follow,  # (width * width,) and changes of them
        shares,  # (width,) what products are multiplied by
        given,  # (2,) lam, lift
        learned,
        sweeps,  # of coordinate descent per guess
        rounds,
        tolerance,  # of the optimality conditions
        width,
        rank,
        first_row,
        rows,
        data,  # out, like all that follow
        new_slope,
        new_sensitivity,
        scratch,  # (blocks * (rank + 1)^2,) where shared memory has no room
    ):
        after_others()
        short = cuda.shared.array(0, float64)
        me, threads = cuda.threadIdx.x, cuda.blockDim.x
        lane, warp = me % LANES, me // LANES
        inverse = short[INVERSE * width : (INVERSE + 1) * width]
        target = short[TARGET * width : (TARGET + 1) * width]
        point = short[POINT * width : (POINT + 1) * width]
        goal = short[GOAL * width : (GOAL + 1) * width]
        fixed = short[FIXED * width : (FIXED + 1) * width]
        left = short[SLOPE * width : (SLOPE + 1) * width]
        edge = rank + 1
        outside = scratch[cuda.blockIdx.x * edge * edge :]
        held = short[VECTORS * width :] if in_shared else outside
        lam, lift = given[0], given[1]
        a = cuda.local.array(per_lane, float64)
        g = cuda.local.array(per_lane, float64)
        number = cuda.blockIdx.x
        while number < rows:
            at = (first_row + number) * width
            cuda.syncthreads()  # the row before is written
            r = me
            while r < width:
                one, wanted = 1.0, 0.0
                if r < rank:
                    one = 1.0 / math.sqrt(system[r * width + r])
                    for q in range(rank):
                        wanted += old[U(at + q)] * kept[U(q * width + r)]
                    wanted += products[at + r] * shares[r] - lam * slope[at + r]
                inverse[r] = one
                target[r] = wanted * one
                point[r] = old[at + r] / one
                r += threads
            cuda.syncthreads()
            top = 0.0
            r = lane
            while r < rank:
                top = max(top, abs(target[r]))
                r += LANES
            reached = tolerance * lane_max(top)
            tried, wrong = 0, True
            while wrong and tried < rounds:
                if warp == 0:
                    for p in range(per_lane):
                        r = lane + LANES * p
                        a[p], g[p] = 0.0, 0.0
                        if r < rank:
                            a[p] = point[r]
                            g[p] = slope_at(system, width, rank, inverse, point, target, r)
                    for _ in range(sweeps):
                        for p in range(per_lane):
                            for l in range(min(LANES, rank - LANES * p)):
                                change = from_lane(max(a[p] - g[p], 0.0) - a[p], l)
                                if lane == l:
                                    a[p] += change
                                row = LANES * p + l
                                change *= inverse[row]
                                for q in range(per_lane):
                                    r = lane + LANES * q
                                    if r < rank:
                                        number_r = system[U(row * width + r)] * inverse[r]
                                        g[q] += change * number_r
                    for p in range(per_lane):
                        r = lane + LANES * p
                        if r < rank:
                            point[r] = a[p]
                cuda.syncthreads()
                r = me
                while r < width:
                    fixed[r] = 0.0 if r < rank and point[r] > 0.0 else 1.0
                    r += threads
                cuda.syncthreads()
                put_system(system, width, rank, inverse, fixed, target, held, me, threads)
                solve_held(held, rank, me, threads)
                r = me
                while r < width:
                    goal[r] = held[rank * edge + r] if r < rank else 0.0
                    r += threads
                cuda.syncthreads()
                bad = 0
                r = me
                while r < rank:
                    left[r] = slope_at(system, width, rank, inverse, goal, target, r)
                    if goal[r] < 0.0 or (fixed[r] != 0.0 and left[r] < -reached):
                        bad = 1
                    r += threads
                wrong = cuda.syncthreads_or(bad) != 0
                # As far towards it as the bound lets it; what blocks the way is zero then.
                near = 1.0
                r = lane
                while r < rank:
                    if goal[r] < 0.0:
                        near = min(near, point[r] / (point[r] - goal[r]))
                    r += LANES
                near = -lane_max(-near)
                cuda.syncthreads()
                r = me
                while r < rank:
                    to = goal[r]
                    if wrong:
                        falls = to < 0.0 and point[r] / (point[r] - to) <= near
                        to = 0.0 if falls else max(point[r] + near * (to - point[r]), 0.0)
                    point[r] = to
                    r += threads
                cuda.syncthreads()
                tried += 1
            r = me
            while r < width:
                now = 0.0
                if r < rank:
                    now = point[r] * inverse[r]
                    if wrong:
                        left[r] = slope_at(system, width, rank, inverse, point, target, r)
                    back = max(left[r], 0.0) / inverse[r]
                    new_slope[at + r] = 0.0 if now > 0.0 else back
                data[at + r] = now
                fixed[r] = 0.0 if now > 0.0 else 1.0
                goal[r] = sensitivity[at + r] + lift * (old[at + r] - now)
                r += threads
            cuda.syncthreads()
            if learned:
                r = me
                while r < rank:
                    total = 0.0
                    for q in range(rank):
                        total += goal[q] * follow[U(q * width + r)]
                    target[r] = total * inverse[r]
                    r += threads
                cuda.syncthreads()
                # Entries held at zero do not follow the memory.
                put_system(system, width, rank, inverse, fixed, target, held, me, threads)
                solve_held(held, rank, me, threads)
            r = me
            while r < width:
                if not learned:
                    new_sensitivity[at + r] = sensitivity[at + r]
                else:
                    found = held[rank * edge + r] * inverse[r] if r < rank else 0.0
                    new_sensitivity[at + r] = found
                r += threads
            number += cuda.gridDim.x

    return bounded_rows


@cache
def restore_kernel(per_lane: int) -> Any:
    """Slopes follow the lengths of columns; columns that are all zeros get their old rows back."""

    @kernel
    def restore(lengths, lost, old, width, chunks, modes_of, data, slope):
        # lengths, lost (modes * width,): a column of zeros could never come back.
        after_others()
        lane, warp = cuda.threadIdx.x % LANES, cuda.threadIdx.x // LANES
        chunk = cuda.blockIdx.x
        base = modes_of[chunk] * width
        i = chunks[chunk] + warp
        while i < chunks[chunk + 1]:
            for p in range(per_lane):
                r = lane + LANES * p
                if r < width:
                    at = i * width + r
                    slope[at] *= lengths[base + r]
                    if lost[base + r] != 0.0:
                        data[at] = old[at]
                        slope[at] = 0.0
            i += cuda.blockDim.x // LANES

    return restore
