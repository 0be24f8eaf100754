"""Newton's method for Poisson weights on the card: what happens between two passes over the cells.

One block holds the short vectors and the Hessian, and decides after each pass as
`kernels.auto.weights_newton.newton_poisson` does: multiplicative steps first, then projected Newton
steps, damped until they lead downhill. All that is remembered lies in `control`, `numbers` and
`vectors`, so that the host need not know how far the solve has come: it plays the same graph until
`control` says that there is nothing left to do.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,attr-defined"

from __future__ import annotations

import math
from functools import cache
from typing import Any

from numba import cuda, float64

from onlinegcp.kernels.auto.weights_newton import (
    ARMIJO,
    ATTEMPTS,
    BOUND,
    DAMPING_GROWTH,
    FIRST_DAMPING,
    RELATIVE_RIDGE,
    TRACE_RIDGE,
)
from onlinegcp.kernels.cuda.cells import STOPPED
from onlinegcp.kernels.cuda.lanes import device, kernel

# Places in `control` (int64). FLAT: a pass that needs no Hessian may be skipped, and back.
EM_LEFT, STARTED, STEPS, TRIED = 1, 2, 3, 4
CONTROLS = 8
# Places in `numbers` (float64); the first two are given, the others found.
TOLERANCE, MOST_STEPS, OBJECTIVE, LEVEL, DECREASE, WORST, LOGS = range(7)
NUMBERS = 8
# Rows of `vectors` (rows, width).
WEIGHTS, TRIAL, COLUMN_SUMS, SLOPE, PULL, METRIC, FREE, STEP = range(8)
VECTORS = 8


@device
def factorise(held, n):
    """Cholesky of the lower triangle of held (n + 1, n + 1); its last row is solved along with it.

    The diagonal of column n holds the smallest pivot allowed in each column.
    """
    me, all_of = cuda.threadIdx.x, cuda.blockDim.x
    edge = n + 1
    for j in range(n):
        cuda.syncthreads()
        # Rounding may leave a nearly singular pivot below zero.
        pivot = math.sqrt(max(held[j * edge + j], held[j * edge + n]))
        cuda.syncthreads()
        i = j + me
        while i <= n:
            held[i * edge + j] = pivot if i == j else held[i * edge + j] / pivot
            i += all_of
        cuda.syncthreads()
        left = n - j  # rows j + 1 .. n; columns j + 1 .. n - 1
        q = me
        while q < left * left:
            a = j + 1 + q // left
            b = j + 1 + q % left
            if b <= a and b < n:
                held[a * edge + b] -= held[a * edge + j] * held[b * edge + j]
            q += all_of
    cuda.syncthreads()


@device
def back_substitute(held, n):
    """Solve L'x = y, where y and then x lie in the last row of held."""
    me, all_of = cuda.threadIdx.x, cuda.blockDim.x
    edge = n + 1
    last = n * edge
    for step in range(n):
        i = n - 1 - step
        if me == 0:
            held[last + i] /= held[i * edge + i]
        cuda.syncthreads()
        k = me
        while k < i:
            held[last + k] -= held[i * edge + k] * held[last + i]
            k += all_of
        cuda.syncthreads()


@cache
def begin_kernel() -> Any:
    """Start: column sums of the modes multiplied, and weights whose model total is the slice's."""

    @kernel
    def begin(rank, width, modes, em_steps, start, sums, given, control, numbers, vectors):
        # start (width,): weights not yet scaled; sums (modes * width,); given (3,): total of the
        # slice, tolerance, largest number of steps. One block.
        held = cuda.shared.array(0, float64)
        r = cuda.threadIdx.x
        while r < width:
            product = 1.0 if r < rank else 0.0
            for k in range(modes):
                product *= sums[k * width + r] if r < rank else 0.0
            vectors[COLUMN_SUMS * width + r] = product
            held[r] = product * start[r]
            r += cuda.blockDim.x
        cuda.syncthreads()
        mass = 0.0
        for q in range(width):
            mass += held[q]
        factor = given[0] / mass if mass > 0.0 and given[0] > 0.0 else 1.0
        r = cuda.threadIdx.x
        while r < width:
            vectors[WEIGHTS * width + r] = start[r] * factor
            vectors[TRIAL * width + r] = start[r] * factor
            r += cuda.blockDim.x
        if cuda.threadIdx.x == 0:
            for q in range(CONTROLS):
                control[q] = 0
            control[EM_LEFT] = em_steps
            numbers[TOLERANCE] = given[1]
            numbers[MOST_STEPS] = given[2]
            numbers[OBJECTIVE] = 0.0
            numbers[WORST] = math.inf
            numbers[LEVEL] = 0.0

    return begin


@cache
def judge_kernel() -> Any:
    """Take in the sums at the trial point, and choose the next one."""

    @kernel
    def judge(
        rank,
        width,
        sums,  # (width + 1,) pull and logs at the trial point
        hessian,  # (width * width,) at the trial point, lower triangle
        control,
        numbers,
        vectors,
        kept,  # (width * width,) Hessian at the weights
        scratch,  # ((rank + 1)^2,) for ranks whose matrix is too large for shared memory
        in_shared,
    ):
        if control[STOPPED] != 0:
            return
        held = cuda.shared.array(0, float64)
        if not in_shared:
            held = scratch
        short = (rank + 1) * (rank + 1)
        me, all_of = cuda.threadIdx.x, cuda.blockDim.x
        if control[EM_LEFT] > 0:
            r = me
            while r < rank:
                w = vectors[WEIGHTS * width + r] * sums[r] / vectors[COLUMN_SUMS * width + r]
                vectors[WEIGHTS * width + r] = w
                vectors[TRIAL * width + r] = w
                r += all_of
            cuda.syncthreads()
            if me == 0:
                control[EM_LEFT] -= 1
            return
        attempt = -sums[width]
        for r in range(rank):
            attempt += vectors[COLUMN_SUMS * width + r] * vectors[TRIAL * width + r]
        started = control[STARTED]
        steps = control[STEPS]
        tried = control[TRIED]
        level = numbers[LEVEL]
        objective = numbers[OBJECTIVE]
        goal = objective - ARMIJO * numbers[DECREASE]
        cuda.syncthreads()
        moved = True
        if started == 0:
            objective = attempt
        elif attempt <= goal:
            objective = attempt
            steps += 1
        else:
            moved = False
            tried += 1
            level = FIRST_DAMPING if level == 0.0 else DAMPING_GROWTH * level
        if moved:
            tried = 0
            level = 0.0
            r = me
            while r < rank:
                vectors[WEIGHTS * width + r] = vectors[TRIAL * width + r]
                vectors[PULL * width + r] = sums[r]
                vectors[SLOPE * width + r] = vectors[COLUMN_SUMS * width + r] - sums[r]
                r += all_of
            q = me
            while q < width * width:
                kept[q] = hessian[q]
                q += all_of
            cuda.syncthreads()
            top = 0.0
            for r in range(rank):
                top = max(top, vectors[WEIGHTS * width + r])
            worst = 0.0
            for r in range(rank):
                w = vectors[WEIGHTS * width + r]
                g = vectors[SLOPE * width + r]
                scale = max(vectors[COLUMN_SUMS * width + r], 1e-300)
                violation = abs(g) / scale * max(w, 1e-3 * top)
                if g > 0.0:
                    violation = min(violation, w)
                worst = max(worst, violation)
            if top > 0.0:
                worst /= top
            r = me
            while r < rank:
                w = vectors[WEIGHTS * width + r]
                outwards = w <= BOUND * top and vectors[SLOPE * width + r] > 0.0
                vectors[FREE * width + r] = 0.0 if outwards else 1.0
                vectors[METRIC * width + r] = vectors[PULL * width + r] / max(w, 1e-3 * top)
                r += all_of
            cuda.syncthreads()
            if me == 0:
                numbers[WORST] = worst
                numbers[LOGS] = sums[width]
            if worst <= numbers[TOLERANCE] or steps >= numbers[MOST_STEPS]:
                tried = -1
        decrease = 0.0
        # A direction that does not lead downhill is damped without another look at the cells.
        while 0 <= tried < ATTEMPTS and decrease <= 0.0:
            trace = 0.0
            free = 0
            for r in range(rank):
                if vectors[FREE * width + r] > 0.0:
                    trace += kept[r * width + r]
                    free += 1
            # A component without data has H_rr = 0: the second term keeps its pivot positive.
            ridge = TRACE_RIDGE * trace / max(free, 1) + 1e-300
            edge = rank + 1
            q = me
            while q < short:
                i, j = q // edge, q % edge
                number = 0.0
                if i < rank and j <= i:
                    both = vectors[FREE * width + i] * vectors[FREE * width + j]
                    number = both * kept[i * width + j]
                    if i == j:
                        number += RELATIVE_RIDGE * number
                        number += ridge + level * vectors[METRIC * width + i] if both > 0.0 else 1.0
                elif i < rank and j == rank:
                    number = 1e-14 * kept[i * width + i] + ridge
                elif i == rank and j < rank:
                    number = vectors[FREE * width + j] * vectors[SLOPE * width + j]
                held[q] = number
                q += all_of
            factorise(held, rank)
            back_substitute(held, rank)
            r = me
            while r < rank:
                step = held[rank * edge + r]
                to = max(0.0, vectors[WEIGHTS * width + r] - step)
                vectors[TRIAL * width + r] = to if vectors[FREE * width + r] > 0.0 else 0.0
                r += all_of
            cuda.syncthreads()
            decrease = 0.0
            for r in range(rank):
                away = vectors[WEIGHTS * width + r] - vectors[TRIAL * width + r]
                decrease += vectors[SLOPE * width + r] * away
            if decrease <= 0.0:
                tried += 1
                level = FIRST_DAMPING if level == 0.0 else DAMPING_GROWTH * level
            cuda.syncthreads()
        if me == 0:
            # No attempt left: no progress at this precision.
            control[STOPPED] = 1 if tried < 0 or tried >= ATTEMPTS else 0
            control[STARTED] = 1
            control[STEPS] = steps
            control[TRIED] = max(tried, 0)
            numbers[OBJECTIVE] = objective
            numbers[LEVEL] = level
            numbers[DECREASE] = decrease

    return judge
