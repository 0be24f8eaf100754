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
from onlinegcp.kernels.cuda.cells import STOPPED, U
from onlinegcp.kernels.cuda.lanes import (
    LANES,
    SIMULATED,
    device,
    kernel,
    lane_max,
    lane_sum,
    over,
)
from onlinegcp.kernels.cuda.overlap import after_others

# Places in `control` (int64), after STOPPED.
EM_LEFT, STARTED, STEPS, TRIED, LOOKS = 1, 2, 3, 4, 5
CONTROLS = 8
# Places in `numbers` (float64); the first two are given, the others found.
TOLERANCE, MOST_STEPS, OBJECTIVE, LEVEL, DECREASE, WORST, LOGS = range(7)
NUMBERS = 8
# Rows of `vectors` (rows, width).
WEIGHTS, TRIAL, COLUMN_SUMS, SLOPE, METRIC, FREE = range(6)
VECTORS = 6
HELD = VECTORS + 3  # vectors that the block holds
JUDGES = LANES if SIMULATED else 512  # threads of the one block
ACROSS = 32  # of them along a row of the matrix
ROWS_AT_ONCE = 4  # rows of which a thread waits for a number


@device
def mend(held, j, n, inverse, ratio, second, me, threads):
    """End the elimination of columns j and j + 1: nobody looks at them any more."""
    edge = n + 1
    if me == 0:
        held[U(j * edge + n)] = inverse
        held[U(j * edge + edge + n)] = second
    a = j + 2 + me
    while a <= n:
        held[U(a * edge + j + 1)] -= held[U(a * edge + j)] * ratio
        a += threads


@device
def solve_held(held, n, me, threads):
    """Solve for the last row of held (n + 1, n + 1), whose lower triangle is the matrix.

    By elimination with pivots as they come, two columns between two barriers: every thread makes
    the second of them for itself, from the first. Columns keep what they have when their turn
    comes, which is the unit lower triangle times the pivot. Column n holds the smallest pivot
    allowed in each row, and then one over the pivot.
    """
    edge = n + 1
    last = n * edge
    down, across = me // ACROSS, me % ACROSS
    stride = threads // ACROSS
    inverse, second, ratio = 0.0, 0.0, 0.0
    # While, not range: the number of its steps would be found by a division, which takes longer
    # than the steps.
    j = 0
    while j + 1 < n:
        cuda.syncthreads()
        if j > 0:
            mend(held, j - 2, n, inverse, ratio, second, me, threads)
        top = j * edge
        # Rounding may leave a nearly singular pivot below zero.
        inverse = over(max(held[U(top + j)], held[U(top + n)]))
        beside = held[U(top + edge + j)]
        ratio = inverse * beside
        pivot = held[U(top + edge + j + 1)] - beside * ratio
        second = over(max(pivot, held[U(top + edge + n)]))
        a = j + 2 + down
        row = a * edge
        while a <= n:
            x = held[U(row + j)]
            y = (held[U(row + j + 1)] - x * ratio) * second
            x *= inverse
            b = j + 2 + across
            other = b * edge + j
            while b <= a and b < n:
                u = held[U(other)]
                v = held[U(other + 1)] - u * ratio
                held[U(row + b)] -= x * u + y * v
                b += ACROSS
                other += ACROSS * edge
            a += stride
            row += stride * edge
        j += 2
    cuda.syncthreads()
    if j > 0:
        mend(held, j - 2, n, inverse, ratio, second, me, threads)
    if j < n and me == 0:
        held[U(j * edge + n)] = over(max(held[U(j * edge + j)], held[U(j * edge + n)]))
    # What is found goes to the diagonal, so that nobody waits for the place it came from.
    i = n - 1
    while i > 0:
        cuda.syncthreads()
        row = i * edge
        found = held[U(last + i)] * held[U(row + n)]
        next_found = held[U(last + i - 1)] - held[U(row + i - 1)] * found
        next_found *= held[U(row - edge + n)]
        k = me
        while k < i - 1:
            held[U(last + k)] -= held[U(row + k)] * found + held[U(row - edge + k)] * next_found
            k += threads
        if me == 0:
            held[U(row + i)] = found
            held[U(row - edge + i - 1)] = next_found
        i -= 2
    cuda.syncthreads()
    if i == 0 and me == 0:
        held[0] = held[U(last)] * held[U(n)]
    cuda.syncthreads()
    k = me
    while k < n:
        held[U(last + k)] = held[U(k * edge + k)]
        k += threads
    cuda.syncthreads()


@cache
def solve_kernel() -> Any:
    """`solve_held` by itself."""

    @kernel
    def solve(held, n):
        after_others()
        solve_held(held, n, cuda.threadIdx.x, cuda.blockDim.x)

    return solve


@cache
def begin_kernel() -> Any:
    """Start: column sums of the modes multiplied, and weights whose model total is the slice's."""

    @kernel
    def begin(rank, width, modes, em_steps, start, sums, given, control, numbers, vectors):
        # start (width,): weights not yet scaled; sums (modes * width,); given (3,): total of the
        # slice, tolerance, largest number of steps. One block.
        after_others()
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
def judge_kernel(in_shared: bool, tangent: bool) -> Any:
    """Take in the sums at the trial point, and choose the next one.

    With `tangent` the other part of the loss is not linear in the weights: its value and slope at
    the trial point are `push`, and what listed cells add to them, `more`.
    """

    @kernel
    def judge(
        rank,
        width,
        sums,  # (width + 1,) pull and logs at the trial point
        push,  # (width + 1,) slope and value of the other part; read with `tangent` only
        more,
        hessian,  # (width * width,) at the trial point, lower triangle
        control,
        numbers,
        vectors,
        kept,  # (width * width,) Hessian at the weights
        scratch,  # ((rank + 1)^2,) for ranks whose matrix is too large for shared memory
    ):
        after_others()
        short = cuda.shared.array(0, float64)  # the vectors, then the matrix
        c_sums = short[:width]
        weight = short[width : 2 * width]
        trial = short[2 * width : 3 * width]
        slope = short[3 * width : 4 * width]
        metric = short[4 * width : 5 * width]
        free = short[5 * width : 6 * width]
        pull = short[6 * width : 7 * width]
        peak = short[7 * width : 8 * width]  # diagonals, of the matrix here and of the one kept
        old_peak = short[8 * width : 9 * width]
        held = short[HELD * width :] if in_shared else scratch
        me, threads = cuda.threadIdx.x, cuda.blockDim.x
        lane = me % LANES
        # All is asked for before anything is looked at: a way to memory takes as long as much else.
        stopped, em_left, looks = control[STOPPED], control[EM_LEFT], control[LOOKS]
        started, steps, tried = control[STARTED], control[STEPS], control[TRIED]
        level, objective, decrease = numbers[LEVEL], numbers[OBJECTIVE], numbers[DECREASE]
        tolerance, most_steps = numbers[TOLERANCE], numbers[MOST_STEPS]
        logs = sums[width]
        attempt = push[width] + more[width] - logs if tangent else 0.0
        r = me
        while r < rank:
            c_sums[r] = push[r] + more[r] if tangent else vectors[COLUMN_SUMS * width + r]
            weight[r] = vectors[WEIGHTS * width + r]
            trial[r] = vectors[TRIAL * width + r]
            slope[r] = vectors[SLOPE * width + r]
            metric[r] = vectors[METRIC * width + r]
            free[r] = vectors[FREE * width + r]
            pull[r] = sums[r]
            peak[r] = hessian[r * width + r]
            old_peak[r] = kept[r * width + r]
            r += threads
        if stopped != 0:
            return
        goal = objective - ARMIJO * decrease
        cuda.syncthreads()
        if em_left > 0:
            r = me
            while r < rank:
                w = weight[r] * pull[r] / c_sums[r]
                vectors[WEIGHTS * width + r] = w
                vectors[TRIAL * width + r] = w
                r += threads
            if me == 0:
                control[EM_LEFT] = em_left - 1
            return
        # Sums over the components are made by every warp for itself.
        if not tangent:
            r = lane
            while r < rank:
                attempt += c_sums[r] * trial[r]
                r += LANES
            attempt = lane_sum(attempt) - logs
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
            cuda.syncthreads()
            r = me
            while r < rank:
                weight[r] = trial[r]
                slope[r] = c_sums[r] - pull[r]
                r += threads
            cuda.syncthreads()
            top = 0.0
            r = lane
            while r < rank:
                top = max(top, weight[r])
                r += LANES
            top = lane_max(top)
            r = me
            while r < rank:
                outwards = weight[r] <= BOUND * top and slope[r] > 0.0
                free[r] = 0.0 if outwards else 1.0
                metric[r] = pull[r] / max(weight[r], 1e-3 * top)
                # How far the conditions of an optimum are violated; `trial` is made anew below.
                violation = abs(slope[r]) / max(c_sums[r], 1e-300) * max(weight[r], 1e-3 * top)
                trial[r] = min(violation, weight[r]) if slope[r] > 0.0 else violation
                r += threads
            cuda.syncthreads()
            worst = 0.0
            r = lane
            while r < rank:
                worst = max(worst, trial[r])
                r += LANES
            worst = lane_max(worst)
            if top > 0.0:
                worst /= top
            if me == 0:
                numbers[WORST] = worst
                numbers[LOGS] = logs
            if worst <= tolerance or steps >= most_steps:
                tried = -1
        decrease = 0.0
        edge = rank + 1
        matrix = hessian if moved else kept
        trace, count = 0.0, 0.0
        r = lane
        while r < rank:
            if free[r] > 0.0:
                trace += peak[r] if moved else old_peak[r]
                count += 1.0
            r += LANES
        # A component without data has H_rr = 0: the second term keeps its pivot positive.
        ridge = TRACE_RIDGE * lane_sum(trace) / max(lane_sum(count), 1.0) + 1e-300
        found = cuda.local.array(ROWS_AT_ONCE, float64)
        across, stride = me % ACROSS, threads // ACROSS
        # A direction that does not lead downhill is damped without another look at the cells.
        while 0 <= tried < ATTEMPTS and decrease <= 0.0:
            cuda.syncthreads()
            first = me // ACROSS
            while first < edge:
                j = across
                while j < edge:
                    for t in range(ROWS_AT_ONCE):
                        i = min(first + t * stride, rank - 1)
                        found[t] = matrix[U(i * width + min(j, i))]
                    for t in range(ROWS_AT_ONCE):
                        i = first + t * stride
                        number = 0.0
                        if i < rank and j <= i:
                            both = free[i] * free[j]
                            if moved:
                                kept[U(i * width + j)] = found[t]
                            number = both * found[t]
                            if i == j:
                                number += RELATIVE_RIDGE * number
                                number += ridge + level * metric[i] if both > 0.0 else 1.0
                        elif i < rank and j == rank:
                            number = 1e-14 * (peak[i] if moved else old_peak[i]) + ridge
                        elif i == rank and j < rank:
                            number = free[j] * slope[j]
                        if i < edge:
                            held[U(i * edge + j)] = number
                    j += ACROSS
                first += ROWS_AT_ONCE * stride
            solve_held(held, rank, me, threads)
            r = me
            while r < rank:
                to = max(0.0, weight[r] - held[rank * edge + r])
                trial[r] = to if free[r] > 0.0 else 0.0
                r += threads
            cuda.syncthreads()
            decrease = 0.0
            r = lane
            while r < rank:
                decrease += slope[r] * (weight[r] - trial[r])
                r += LANES
            decrease = lane_sum(decrease)
            if decrease <= 0.0:
                tried += 1
                level = FIRST_DAMPING if level == 0.0 else DAMPING_GROWTH * level
        r = me
        while r < rank:
            vectors[WEIGHTS * width + r] = weight[r]
            vectors[TRIAL * width + r] = trial[r]
            vectors[SLOPE * width + r] = slope[r]
            vectors[METRIC * width + r] = metric[r]
            vectors[FREE * width + r] = free[r]
            r += threads
        if me == 0:
            # No attempt left: no progress at this precision.
            control[STOPPED] = 1 if tried < 0 or tried >= ATTEMPTS else 0
            control[STARTED] = 1
            control[STEPS] = steps
            control[TRIED] = max(tried, 0)
            control[LOOKS] = looks + 1
            numbers[OBJECTIVE] = objective
            numbers[LEVEL] = level
            numbers[DECREASE] = decrease

    return judge
