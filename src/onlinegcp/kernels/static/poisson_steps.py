"""The pieces of one row's Poisson problem: values, slopes, curvature, projected line search.

All run inside one thread on that thread's scratch arrays. `cells` are `RowCells`, from which
Khatri-Rao rows are laid out; `basis` holds those of the row, all of them when they fit, else one
part at a time. The short ones are written into their callers before compilation: compiled on
their own they take a fifth of the time that a first solve waits for.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"
# mypy: disable-error-code="call-arg,var-annotated,unreachable,assignment"

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from onlinegcp.kernels.jit import kernel
from onlinegcp.kernels.layout import LANES
from onlinegcp.kernels.simd import fill, lane_sum, load, multiply_add, store
from onlinegcp.kernels.static.row_systems import (
    add_outer_products,
    cholesky,
    fill_tile,
    solve_factored,
)

# Sufficient decrease of the line search and the number of halvings it may make.
DECREASE = 1e-4
HALVINGS = 10


class RowCells(NamedTuple):
    """The listed cells of one mode's rows, and the other factors.

    Attributes
    ----------
    coordinates, order, columns
        As in `RowGroups`: cells, their order by row, and columns of the other modes.
    first_rows
        Where each of the other factors begins in `data`.
    data, rank
        All factors, and how many of their columns count.
    """

    coordinates: Any
    order: Any
    columns: Any
    first_rows: Any
    data: Any
    rank: int


@kernel(inline="always")
def longest_row(starts, first, last):
    longest = 0
    for row in range(first, last):
        longest = max(longest, starts[row + 1] - starts[row])
    return longest


@kernel(inline="always")
def lay_out(cells, basis, begin, end):
    fill_tile(
        basis, cells.coordinates, cells.order, cells.columns, cells.first_rows, cells.data,
        cells.rank, begin, end,
    )  # fmt: skip


@kernel
def model_values(cells, basis, begin, end, b, values):
    """values = Khatri-Rao rows of positions `begin` to `end` times b."""
    width = basis.shape[1]
    vectors = width // LANES
    capacity = basis.shape[0]
    for low in range(begin, end, capacity):
        high = min(low + capacity, end)
        if end - begin > capacity:
            lay_out(cells, basis, low, high)
        for p in range(low, high):
            source = (p - low) * width
            dot = fill(0.0)
            for v in range(vectors):
                r = v * LANES
                dot = multiply_add(load(basis, source + r), load(b, r), dot)
            values[p - begin] = lane_sum(dot)


@kernel
def slopes(cells, basis, begin, end, x, values, epsilon, phi):
    """phi = sum of x / max(m, epsilon) times Khatri-Rao rows."""
    width = basis.shape[1]
    vectors = width // LANES
    capacity = basis.shape[0]
    for r in range(width):
        phi[r] = 0.0
    for low in range(begin, end, capacity):
        high = min(low + capacity, end)
        if end - begin > capacity:
            lay_out(cells, basis, low, high)
        for p in range(low, high):
            source = (p - low) * width
            ratio = fill(x[p - begin] / max(values[p - begin], epsilon))
            for v in range(vectors):
                r = v * LANES
                store(phi, r, multiply_add(ratio, load(basis, source + r), load(phi, r)))


@kernel
def curvature(cells, basis, begin, end, x, values, epsilon, weight, system):
    """Lower triangle of the sum of x / max(m, epsilon)^2 times outer products of rows."""
    rank = cells.rank
    capacity = basis.shape[0]
    for a in range(system.shape[0]):
        for r in range(system.shape[1]):
            system[a, r] = 0.0
    for low in range(begin, end, capacity):
        high = min(low + capacity, end)
        if end - begin > capacity:
            lay_out(cells, basis, low, high)
        for p in range(low, high):
            m = max(values[p - begin], epsilon)
            weight[p - low] = x[p - begin] / (m * m)
        add_outer_products(system, basis, weight, high - low, rank)


@kernel(inline="always")
def safe_log(m, epsilon):
    if m >= epsilon:
        return np.log(m)
    return np.log(epsilon) + m / epsilon - 1.0


@kernel(inline="always")
def change_of(x, before, after, count, cost, step, rank, epsilon):
    """q(b + step) - q(b), accurate also where both are large and nearly equal."""
    total = 0.0
    for r in range(rank):
        total += cost[r] * step[r]
    for j in range(count):
        if x[j] > 0.0:
            if before[j] >= epsilon and after[j] >= epsilon:
                total -= x[j] * np.log1p((after[j] - before[j]) / before[j])
            else:
                total -= x[j] * (safe_log(after[j], epsilon) - safe_log(before[j], epsilon))
    return total


@kernel(inline="always")
def violation_of(b, cost, phi, rank):
    worst = 0.0
    for r in range(rank):
        worst = max(worst, abs(min(b[r], cost[r] - phi[r])))
    return worst


@kernel(inline="always")
def free_components(b, slope, active, rank, free):
    """List the free components in `free`; return how many, and the width of the active band."""
    distance = 0.0
    for r in range(rank):
        moved = b[r] - max(b[r] - slope[r], 0.0)
        distance += moved * moved
    band = min(active, np.sqrt(distance))
    count = np.int64(0)  # from the start: whoever takes a 0 is compiled for that as well
    for r in range(rank):
        if not (b[r] <= band and slope[r] > 0.0):
            free[count] = r
            count += 1
    return count


@kernel(inline="always")
def gather(value, order, begin, end, x):
    total = 0.0
    for p in range(begin, end):
        x[p - begin] = value[order[p]] if order.shape[0] > 0 else value[p]
        total += x[p - begin]
    return total


@kernel
def line_search(
    cells,
    basis,
    begin,
    end,
    x,
    values,
    trial_values,
    b,
    slope,
    direction,
    cost,
    epsilon,
    trial,
    step,
):
    """Projected backtracking; the change of q at the unit step, and whether a step was taken.

    A step found is left in `trial`, with its model values in `trial_values`.
    """
    rank = cells.rank
    count = end - begin
    unit, length = 0.0, 1.0
    for halving in range(HALVINGS + 1):
        along = 0.0
        for r in range(rank):
            trial[r] = max(b[r] + length * direction[r], 0.0)
            step[r] = trial[r] - b[r]
            along += slope[r] * step[r]
        if along <= 0.0:
            model_values(cells, basis, begin, end, trial, trial_values)
            change = change_of(x, values, trial_values, count, cost, step, rank, epsilon)
            if halving == 0:
                unit = change
            if change <= DECREASE * along:
                return unit, True
        length *= 0.5
    return unit, False


@kernel(inline="always")
def multiply_row(cells, basis, begin, end, b, phi, cost, trial, trial_values):
    """The multiplicative step, which never raises q."""
    for r in range(cells.rank):
        trial[r] = b[r] * phi[r] / cost[r] if cost[r] > 0.0 else b[r]
    model_values(cells, basis, begin, end, trial, trial_values)


@kernel(inline="always")
def rescale(b, values, phi, cost, rank, count, total):
    """Move b along its ray to the least q, where the model's total is the data's."""
    spent = 0.0
    for r in range(rank):
        spent += cost[r] * b[r]
    if spent > 0.0:
        scale = total / spent
        for r in range(rank):
            b[r] *= scale
            phi[r] /= scale
        for j in range(count):
            values[j] *= scale


@kernel
def newton_direction(system, slope, free, n_free, damping, factor, right, direction):
    """Write the damped Newton step over the free components; return the decrease it promises."""
    solved, largest = n_free == 0, 0.0
    for a in range(n_free):
        largest = max(largest, system[free[a], free[a]])
    extra = damping
    while not solved and extra <= 1e3 * (largest + damping):
        for a in range(n_free):
            for c in range(a + 1):
                factor[a, c] = system[free[a], free[c]]
            factor[a, a] += extra
            right[a] = -slope[free[a]]
        solved = cholesky(factor, n_free)
        extra = max(10.0 * extra, 1e-14 * largest)
    predicted = 0.0
    if solved and n_free > 0:
        solve_factored(factor, right, n_free)
        for a in range(n_free):
            direction[free[a]] = right[a]
            predicted -= 0.5 * slope[free[a]] * right[a]
    return predicted


@kernel
def two_loops(moves, bends, remembered, slope, free, n_free, direction):
    """Write minus the inverse Hessian times the slope, over the free components."""
    memory = moves.shape[0]
    kept = min(remembered, memory)
    shares, products = np.zeros(memory), np.zeros(memory)
    scale = 1.0
    scaled = False
    for a in range(n_free):
        direction[free[a]] = -slope[free[a]]
    for back in range(kept):
        k = (remembered - 1 - back) % memory
        bend, product, length = 0.0, 0.0, 0.0
        for a in range(n_free):
            r = free[a]
            product += moves[k, r] * bends[k, r]
            bend += bends[k, r] * bends[k, r]
            length += moves[k, r] * moves[k, r]
        # Pairs without safely positive curvature on the free components would turn the
        # direction uphill; they are passed over.
        if product <= 1e-10 * np.sqrt(bend * length) or product == 0.0:
            continue
        products[k] = product
        if not scaled:
            scale, scaled = product / bend, True
        for a in range(n_free):
            shares[k] += moves[k, free[a]] * direction[free[a]] / product
        for a in range(n_free):
            direction[free[a]] -= shares[k] * bends[k, free[a]]
    for a in range(n_free):
        direction[free[a]] *= scale
    for back in range(kept - 1, -1, -1):
        k = (remembered - 1 - back) % memory
        if products[k] > 0.0:
            back_share = 0.0
            for a in range(n_free):
                back_share += bends[k, free[a]] * direction[free[a]] / products[k]
            for a in range(n_free):
                direction[free[a]] += (shares[k] - back_share) * moves[k, free[a]]
