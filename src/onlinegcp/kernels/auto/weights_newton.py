"""Compiled passes for the weights of one slice: sums over listed cells, and the Newton step.

`listed_sums` is one sweep over the listed cells with their Khatri-Rao rows z built on the fly;
`newton_poisson` runs the whole projected Newton solve without leaving compiled code.
`reference_listed_sums` says the same in NumPy.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.jit import kernel
from onlinegcp.losses.formulas import EPS

Array = NDArray[Any]

# Cells whose Khatri-Rao rows are held at a time: 64 rows of width 52 are 26 KiB, in first-level
# cache together with the Hessian rows they are added to.
BLOCK = 64

ARMIJO = 1e-4
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
    width = z.shape[0]
    d = index.shape[1]
    first = data[offsets[0] + index[j, 0]]
    if d == 1:
        for r in range(width):
            z[r] = first[r]
        return
    second = data[offsets[1] + index[j, 1]]
    if d == 2:
        for r in range(width):
            z[r] = first[r] * second[r]
        return
    third = data[offsets[2] + index[j, 2]]
    for r in range(width):
        z[r] = first[r] * second[r] * third[r]
    for k in range(3, d):
        other = data[offsets[k] + index[j, k]]
        for r in range(width):
            z[r] *= other[r]


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
def listed_tangent(listed, weights, linear, base, slope, pull, z):
    # Over listed cells, with v = base + slope x: the sum of v m (linear) or v log(1 + m), and
    # pull[r] = sum of z_r times its derivative in m. Single writer, listed order.
    data, offsets, index, value = listed
    width = data.shape[1]
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


@kernel
def newton_poisson(
    listed,  # Listed
    column_sums,  # (width,) c: the loss is c's - sum x log(z's)
    weights,  # (width,) in: start, out: solution
    rank,
    em_steps,
    max_steps,
    tolerance,
    chord,  # (width, width) Hessian to use throughout, lower triangle; (0, 0): compute it
    hessian,  # (width, width) out: Hessian at the solution
):
    # Minimises c's - sum_j x_j log(z_j's) over s >= 0 by EM steps (safe far away), then
    # projected Newton with exact zeros. Returns (objective, Newton steps, optimality).
    width = weights.shape[0]
    pull = np.zeros(width)
    slope = np.zeros(width)
    step = np.zeros(width)
    trial = np.zeros(width)
    free = np.zeros(width, np.bool_)
    damping = np.zeros(width)
    metric = np.zeros(width)
    lower = np.zeros((width, width))
    kept = np.zeros((width, width))
    block = np.zeros((BLOCK, width))
    exact = chord.shape[0] == 0 and max_steps > 0
    for _ in range(em_steps):
        listed_sums(listed, weights, False, pull, hessian, block)
        for r in range(rank):
            weights[r] *= pull[r] / column_sums[r]
    logs = listed_sums(listed, weights, exact, pull, hessian, block)
    objective = -logs
    for r in range(rank):
        objective += column_sums[r] * weights[r]
    steps = 0
    remembered = 0.0
    worst = np.inf
    while True:
        for r in range(rank):
            slope[r] = column_sums[r] - pull[r]
        worst = optimality(weights, slope, column_sums, rank, free)
        if worst <= tolerance or steps == max_steps:
            break
        if exact:
            # A rejected trial overwrites `hessian`. Row by row: Numba takes seconds to compile an
            # assignment of whole arrays, for the sake of its error message.
            for r in range(width):
                for c in range(width):
                    kept[r, c] = hessian[r, c]
        top = 0.0
        for r in range(rank):
            top = max(top, weights[r])
        for r in range(rank):
            metric[r] = pull[r] / max(weights[r], 1e-3 * top)
        # A chord that needed damping needs it again; a fresh Hessian may not.
        level = remembered
        accepted = False
        for _ in range(ATTEMPTS):
            for r in range(rank):
                damping[r] = level * metric[r]
            newton_direction(kept if exact else chord, slope, free, damping, lower, step)
            decrease = 0.0
            for r in range(rank):
                trial[r] = max(0.0, weights[r] - step[r]) if free[r] else 0.0
                decrease += slope[r] * (weights[r] - trial[r])
            if decrease > 0.0:
                logs = listed_sums(listed, trial, exact, pull, hessian, block)
                attempt = -logs
                for r in range(rank):
                    attempt += column_sums[r] * trial[r]
                if attempt <= objective - ARMIJO * decrease:
                    accepted = True
                    break
            level = FIRST_DAMPING if level == 0.0 else DAMPING_GROWTH * level
        if not accepted:
            # No progress is left at this precision; `pull` belongs to the trial point.
            break
        steps += 1
        remembered = 0.0 if exact else level
        objective = attempt
        for r in range(rank):
            weights[r] = trial[r]
    return objective, steps, worst


def reference_listed_sums(
    factors: list[Array], index: Array, value: Array, weights: Array
) -> tuple[float, Array, Array]:
    """Say in NumPy what `listed_sums` computes: sum x log m, Z'(x/m), Z' diag(x/m^2) Z."""
    rows = np.prod([a[index[:, k]] for k, a in enumerate(factors)], axis=0)
    m = rows @ weights + EPS
    curved = rows * (value / m**2)[:, None]
    return float(value @ np.log(m)), rows.T @ (value / m), rows.T @ curved
