"""Compiled passes for the weights of one slice: sums over listed cells, and the Newton step.

`listed_sums` is one sweep over the listed cells with their Khatri-Rao rows z built on the fly;
`begin_walk` and `go_on` are what a projected Newton solve does between two such sweeps.
`tests/kernel_twins.py` says the same in NumPy.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.jit import kernel
from onlinegcp.losses.formulas import EPS

Array = NDArray[Any]

# Cells whose Khatri-Rao rows are held at a time: 64 rows of width 52 are 26 KiB, in first-level
# cache together with the Hessian rows they are added to.
BLOCK = 64

ARMIJO = 1e-4  # share of the decrease a step promised that it must bring
# Added to the Hessian's diagonal, as a share of itself and of its mean: equal components need it.
RELATIVE_RIDGE = 1e-8
TRACE_RIDGE = 1e-12
# A weight below this share of the largest one counts as lying on its bound.
BOUND = 1e-8
# Damping tried after the plain Newton step, in units of the EM metric pull / weight, in which a
# large damping is a short multiplicative step: with fewer cells than components the Hessian is
# singular, and halving the projected step need not lead downhill.
FIRST_DAMPING = 1e-3
DAMPING_GROWTH = 10.0
ATTEMPTS = 16


@kernel
def khatri_rao_row(data, offsets, index, j, z):
    # z[r] = product over modes of data[offsets[k] + index[j, k], r]; z belongs to the caller.
    # No case for each d: rows that are taken in a branch, and arrays that are handed on to another
    # function, have their references counted, which took longer than all that is done to them.
    width = z.shape[0]
    a = data[offsets[0] + index[j, 0]]
    for r in range(width):
        z[r] = a[r]
    for k in range(1, index.shape[1]):
        a = data[offsets[k] + index[j, k]]
        for r in range(width):
            z[r] *= a[r]


@kernel
def add_outer_products(block, rows, hessian):
    # hessian += block[:rows]' block[:rows], lower triangle (whole vectors of four). Eight rows
    # at a time, so that each number of the Hessian is read and written once per eight products.
    width = hessian.shape[0]
    while rows % 8 != 0:
        for r in range(width):
            block[rows, r] = 0.0
        rows += 1
    for q in range(0, rows, 8):
        z0, z1, z2, z3 = block[q], block[q + 1], block[q + 2], block[q + 3]
        z4, z5, z6, z7 = block[q + 4], block[q + 5], block[q + 6], block[q + 7]
        for r in range(width):
            h = hessian[r]
            y0, y1, y2, y3 = z0[r], z1[r], z2[r], z3[r]
            y4, y5, y6, y7 = z4[r], z5[r], z6[r], z7[r]
            for c in range((r // 4 + 1) * 4):
                h[c] += (
                    y0 * z0[c]
                    + y1 * z1[c]
                    + y2 * z2[c]
                    + y3 * z3[c]
                    + y4 * z4[c]
                    + y5 * z5[c]
                    + y6 * z6[c]
                    + y7 * z7[c]
                )


@kernel
def listed_sums(
    listed,  # Listed, x >= 0
    weights,  # (width,) s
    want_hessian,
    pull,  # (width,) out: Z'(x / m)
    hessian,  # (width, width) out, lower triangle: Z' diag(x / m^2) Z
    block,  # (BLOCK, width) scratch
):
    # Single writer, cells in listed order: sums repeat bit for bit. Returns sum x log m.
    data, offsets, index, value = listed
    n, width = index.shape[0], data.shape[1]
    pull[:] = 0.0
    if want_hessian:
        hessian[:] = 0.0
    total = 0.0
    start = 0
    while start < n:
        stop = min(start + block.shape[0], n)
        for j in range(start, stop):
            z = block[j - start]
            khatri_rao_row(data, offsets, index, j, z)
            m = EPS
            for r in range(width):
                m += z[r] * weights[r]
            x = value[j]
            total += x * np.log(m)
            w = x / m
            for r in range(width):
                pull[r] += w * z[r]
            if want_hessian:
                w = np.sqrt(x) / m
                for r in range(width):
                    z[r] *= w
        if want_hessian:
            add_outer_products(block, stop - start, hessian)
        start = stop
    return total


@kernel
def listed_sums_by_chunk(listed, cuts, weights, want_hessian, logs, pulls, hessians):
    # `listed_sums` of the cells cuts[c] to cuts[c + 1] in line c of the last three.
    data, offsets, index, value = listed
    block = np.zeros((BLOCK, data.shape[1]))
    for c in range(logs.shape[0]):
        low, high = cuts[c], cuts[c + 1]
        chunk = (data, offsets, index[low:high], value[low:high])
        logs[c] = listed_sums(chunk, weights, want_hessian, pulls[c], hessians[c], block)


@kernel
def listed_tangent_by_chunk(listed, cuts, weights, linear, base, slope, values, pulls):
    # `listed_tangent` of the cells cuts[c] to cuts[c + 1] in line c of the last two.
    data, offsets, index, value = listed
    for c in range(values.shape[0]):
        low, high = cuts[c], cuts[c + 1]
        chunk = (data, offsets, index[low:high], value[low:high])
        values[c] = listed_tangent(chunk, weights, linear, base, slope, pulls[c])


@kernel
def listed_tangent(listed, weights, linear, base, slope, pull):
    # Over listed cells, with v = base + slope x: the sum of v m (linear) or v log(1 + m), and
    # pull[r] = sum of z_r times its derivative in m. Single writer, listed order.
    data, offsets, index, value = listed
    width = data.shape[1]
    z = np.empty(width)
    pull[:] = 0.0
    total = 0.0
    for j in range(index.shape[0]):
        khatri_rao_row(data, offsets, index, j, z)
        v = base + slope * value[j]
        m = 0.0
        for r in range(width):
            m += z[r] * weights[r]
        h = v
        if linear:
            total += v * m
        else:
            total += v * np.log1p(m)
            h = v / (1.0 + m)
        for r in range(width):
            pull[r] += h * z[r]
    return total


@kernel
def newton_direction(hessian, slope, free, damping, lower, step):
    # step[free] = (H_free + damping + ridge)^-1 slope[free] by Cholesky, 0 elsewhere. Only the
    # lower triangle of `hessian` is read; `damping` (width,); `lower` (width, width) is scratch.
    width = hessian.shape[0]
    where = np.empty(width, np.int64)
    n = 0
    trace = 0.0
    for r in range(width):
        step[r] = 0.0
        if free[r]:
            where[n] = r
            n += 1
            trace += hessian[r, r]
    if n == 0:
        return
    # A component without data has H_rr = 0: the second term keeps its pivot positive.
    ridge = TRACE_RIDGE * trace / n + 1e-300
    for i in range(n):
        row = lower[i]
        for j in range(i + 1):
            row[j] = hessian[where[i], where[j]]
        row[i] += RELATIVE_RIDGE * row[i] + ridge + damping[where[i]]
        for j in range(i):
            other = lower[j]
            v = row[j]
            for k in range(j):
                v -= row[k] * other[k]
            row[j] = v / other[j]
        v = row[i]
        for k in range(i):
            v -= row[k] * row[k]
        # Rounding may leave a nearly singular pivot below zero.
        row[i] = np.sqrt(max(v, 1e-14 * hessian[where[i], where[i]] + ridge))
    for i in range(n):
        v = slope[where[i]]
        for k in range(i):
            v -= lower[i, k] * step[where[k]]
        step[where[i]] = v / lower[i, i]
    for i in range(n - 1, -1, -1):
        v = step[where[i]]
        for k in range(i + 1, n):
            v -= lower[k, i] * step[where[k]]
        step[where[i]] = v / lower[i, i]


@kernel
def optimality(weights, slope, scale, rank, free):
    # Largest violation of the optimality conditions relative to the largest weight; marks in
    # `free` the weights that do not lie on their bound with the slope pointing outwards.
    top = 0.0
    for r in range(rank):
        top = max(top, weights[r])
    worst = 0.0
    for r in range(rank):
        g = slope[r]
        free[r] = not (weights[r] <= BOUND * top and g > 0.0)
        violation = abs(g) / max(scale[r], 1e-300) * max(weights[r], 1e-3 * top)
        if g > 0.0:
            violation = min(violation, weights[r])
        worst = max(worst, violation)
    return worst / top if top > 0.0 else worst


class Walk(NamedTuple):
    """Where a Newton solve stands between two sums over the cells.

    Attributes
    ----------
    weights, trial
        The best weights so far, and those to sum at next (width,).
    slope, step, metric
        Slope at the best weights, the step last tried, and what damping is measured in (width,).
    free
        The weights that may move (width,).
    kept, lower
        Curvature at the best weights, and scratch (width, width).
    numbers
        By the names below.
    """

    weights: Array
    trial: Array
    slope: Array
    step: Array
    metric: Array
    free: Array
    kept: Array
    lower: Array
    numbers: Array


OBJECTIVE, LEVEL, REMEMBERED, WORST, STEPS, ATTEMPT, DECREASE = range(7)


def new_walk(weights: Array) -> Walk:
    """A solve that starts at these weights, which it changes."""
    width = len(weights)
    trial, slope, step, metric, numbers = np.zeros((5, max(width, 7)))
    kept, lower = np.zeros((2, width, width))
    return Walk(
        weights,
        trial[:width],
        slope[:width],
        step[:width],
        metric[:width],
        np.zeros(width, np.bool_),
        kept,
        lower,
        numbers,
    )


@kernel
def multiplicative_step(weights, pull, column_sums, rank):
    for r in range(rank):
        weights[r] *= pull[r] / column_sums[r]


@kernel
def _objective(logs, column_sums, weights, rank):
    objective = -logs
    for r in range(rank):
        objective += column_sums[r] * weights[r]
    return objective


@kernel
def begin_walk(walk, logs, pull, hessian, column_sums, rank, max_steps, tolerance, exact):
    # Minimises c's - sum_j x_j log(z_j's) over s >= 0 by projected Newton with exact zeros, from
    # what `listed_sums` gives at the start. True: it must be asked at `walk.trial` next, and
    # `go_on` be told the answer. `hessian` is the curvature there if `exact`, else a chord that
    # serves every step.
    walk.numbers[OBJECTIVE] = _objective(logs, column_sums, walk.weights, rank)
    return _aim(walk, pull, hessian, column_sums, rank, max_steps, tolerance, exact)


@kernel
def go_on(walk, logs, pull, hessian, column_sums, rank, max_steps, tolerance, exact):
    # The same with what was found at `walk.trial`.
    numbers = walk.numbers
    attempt = _objective(logs, column_sums, walk.trial, rank)
    if attempt <= numbers[OBJECTIVE] - ARMIJO * numbers[DECREASE]:
        numbers[STEPS] += 1
        # A chord that needed damping needs it again; a fresh Hessian may not.
        numbers[REMEMBERED] = 0.0 if exact else numbers[LEVEL]
        numbers[OBJECTIVE] = attempt
        for r in range(rank):
            walk.weights[r] = walk.trial[r]
        return _aim(walk, pull, hessian, column_sums, rank, max_steps, tolerance, exact)
    _damp_more(numbers)
    return _try(walk, rank)


@kernel
def _aim(walk, pull, hessian, column_sums, rank, max_steps, tolerance, exact):
    # A new direction from weights just reached, unless they are good enough.
    weights, numbers = walk.weights, walk.numbers
    for r in range(rank):
        walk.slope[r] = column_sums[r] - pull[r]
    numbers[WORST] = optimality(weights, walk.slope, column_sums, rank, walk.free)
    if numbers[WORST] <= tolerance or numbers[STEPS] == max_steps:
        return False
    if exact or numbers[STEPS] == 0:
        # Row by row: Numba takes seconds to compile an assignment of whole arrays, for the sake
        # of its error message.
        for r in range(weights.shape[0]):
            for c in range(weights.shape[0]):
                walk.kept[r, c] = hessian[r, c]
    top = 0.0
    for r in range(rank):
        top = max(top, weights[r])
    for r in range(rank):
        walk.metric[r] = pull[r] / max(weights[r], 1e-3 * top)
    numbers[LEVEL], numbers[ATTEMPT] = numbers[REMEMBERED], 0
    return _try(walk, rank)


@kernel
def _try(walk, rank):
    # The next step that leads downhill; False when no progress is left at this precision.
    weights, trial, numbers = walk.weights, walk.trial, walk.numbers
    damping = np.zeros(weights.shape[0])
    while numbers[ATTEMPT] < ATTEMPTS:
        numbers[ATTEMPT] += 1
        for r in range(rank):
            damping[r] = numbers[LEVEL] * walk.metric[r]
        newton_direction(walk.kept, walk.slope, walk.free, damping, walk.lower, walk.step)
        decrease = 0.0
        for r in range(rank):
            trial[r] = max(0.0, weights[r] - walk.step[r]) if walk.free[r] else 0.0
            decrease += walk.slope[r] * (weights[r] - trial[r])
        if decrease > 0.0:
            numbers[DECREASE] = decrease
            return True
        _damp_more(numbers)
    return False


@kernel
def _damp_more(numbers):
    level = numbers[LEVEL]
    numbers[LEVEL] = FIRST_DAMPING if level == 0.0 else DAMPING_GROWTH * level
