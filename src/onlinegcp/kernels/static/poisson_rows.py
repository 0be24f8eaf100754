"""Poisson likelihood of one factor's rows: multiplicative, Newton and quasi-Newton steps.

With the other factors fixed, row i of B = A_n diag(weights) minimises on its own
q(b) = c'b - sum over its cells of x log(b'p), b >= 0, where p is the cell's Khatri-Rao row and c
what a unit of each component costs: ones for a complete tensor, because the other factors'
columns sum to one, otherwise the sum of p over the row's observed cells.

Below m = epsilon the logarithm is continued by its tangent, so that q stays convex, finite and
consistent with the slope x / max(m, epsilon) that the published methods use.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"
# mypy: disable-error-code="call-arg,var-annotated,unreachable,assignment"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.jit import kernel
from onlinegcp.kernels.layout import Blocks
from onlinegcp.kernels.static.fibres import RowGroups, run_chunks
from onlinegcp.kernels.static.poisson_steps import (
    RowCells,
    curvature,
    free_components,
    gather,
    lay_out,
    line_search,
    longest_row,
    model_values,
    multiply_row,
    newton_direction,
    rescale,
    safe_log,
    slopes,
    two_loops,
    violation_of,
)
from onlinegcp.kernels.static.row_systems import row_cuts

# Numbers of Khatri-Rao rows kept at a time, 512 KiB; longer rows of the tensor are laid out
# again in every pass.
BASIS_NUMBERS = 1 << 16


class RowReport(NamedTuple):
    """What a pass of row solves found and did.

    Attributes
    ----------
    kkt
        Largest violation of the optimality conditions before the pass, max |min(b, c - phi)|.
    steps
        Steps made in all rows together.
    """

    kkt: float
    steps: int


def poisson_log_sum(
    groups: RowGroups,
    blocks: Blocks,
    rows: NDArray[np.float64],
    *,
    epsilon: float = 1e-10,
    n_jobs: int = 1,
) -> float:
    """Return the sum over all cells of x log m; parameters as in `fibre_sums`."""
    values = np.zeros(groups.n_rows)
    cuts = row_cuts(groups.starts)
    cells = _cells(groups, blocks)

    def work(first: int, last: int) -> None:
        _log_sums(
            cells,
            groups.value,
            groups.starts,
            rows,
            float(epsilon),
            values,
            int(cuts[first]),
            int(cuts[last]),
        )

    run_chunks(work, len(cuts) - 1, n_jobs)
    return float(values.sum())


def descend_rows(
    groups: RowGroups,
    blocks: Blocks,
    rows: NDArray[np.float64],
    cost: NDArray[np.float64],
    *,
    tolerance: float,
    memory: int | None = None,
    max_steps: int = 10,
    epsilon: float = 1e-10,
    active: float = 1e-8,
    damping: float = 1e-5,
    n_jobs: int = 1,
) -> RowReport:
    """Improve every row, in place.

    Newton steps are damped and projected in two metrics. Quasi-Newton steps are projected
    limited-memory BFGS; the first of a row is multiplicative, which needs no step length.

    Parameters
    ----------
    groups, blocks, epsilon, n_jobs
        As in `fibre_sums`.
    rows
        B = A_n diag(weights), (I_n, width), changed in place.
    cost
        Cost of every component, (I_n, width), or (1, width) for the same in all rows.
    tolerance
        Rows with a smaller violation are left alone.
    memory
        Steps that quasi-Newton steps remember; None for Newton steps.
    max_steps
        Most steps per row.
    active
        Components below this, with a slope that pushes them down, count as at the bound.
    damping
        First multiple of the identity added to a row's second derivatives by Newton steps.

    References
    ----------
    S. Hansen, T. Plantenga and T. G. Kolda, Newton-based optimization for Kullback-Leibler
    nonnegative tensor factorizations, Optimization Methods and Software 2015.
    """
    violations = np.zeros(groups.n_rows)
    steps = np.zeros(groups.n_rows, dtype=np.int64)
    cuts = row_cuts(groups.starts)
    cells = _cells(groups, blocks)

    def work(first: int, last: int) -> None:
        _descend(
            cells,
            groups.value,
            groups.starts,
            rows,
            cost,
            None if memory is None else int(memory),
            float(damping) if memory is None else 0.0,
            float(tolerance),
            int(max_steps),
            float(epsilon),
            float(active),
            violations,
            steps,
            int(cuts[first]),
            int(cuts[last]),
        )

    run_chunks(work, len(cuts) - 1, n_jobs)
    return RowReport(float(violations.max(initial=0.0)), int(steps.sum()))


def _cells(groups: RowGroups, blocks: Blocks) -> RowCells:
    first_rows = blocks.offsets[groups.others]
    return RowCells(
        groups.index, groups.order, groups.columns, first_rows, blocks.data, blocks.rank
    )


@kernel
def _log_sums(cells, value, starts, rows, epsilon, out, first, last):
    # Entries `first` to `last` of `out` are written here and by no other thread.
    order, width = cells.order, rows.shape[1]
    longest = longest_row(starts, first, last)
    basis = np.zeros((min(longest, max(64, BASIS_NUMBERS // width)), width))
    values, x, b = np.zeros(longest), np.zeros(longest), np.zeros(width)
    for row in range(first, last):
        begin, end = starts[row], starts[row + 1]
        if gather(value, order, begin, end, x) == 0.0:
            continue
        for r in range(width):
            b[r] = rows[row, r]
        if end - begin <= basis.shape[0]:
            lay_out(cells, basis, begin, end)
        model_values(cells, basis, begin, end, b, values)
        total = 0.0
        for j in range(end - begin):
            if x[j] > 0.0:
                total += x[j] * safe_log(values[j], epsilon)
        out[row] = total


@kernel
def _descend(
    cells, value, starts, rows, costs, memory, damping, tolerance, max_steps, epsilon, active,
    violations, steps, first, last,
):  # fmt: skip
    # Quasi-Newton steps from the last `memory` moves; Newton steps where that is None, which Numba
    # knows before it compiles: what only the other kind needs is left out. Rows `first` to `last`
    # of `rows`, `violations` and `steps` are written here only.
    order, rank, width = cells.order, cells.rank, rows.shape[1]
    longest = longest_row(starts, first, last)
    capacity = min((longest + 3) // 4 * 4, max(64, BASIS_NUMBERS // width // 4 * 4))
    basis = np.zeros((capacity, width))
    values, trial_values, x = np.zeros(longest), np.zeros(longest), np.zeros(longest)
    b, trial, step, phi = np.zeros(width), np.zeros(width), np.zeros(width), np.zeros(width)
    slope, direction = np.zeros(width), np.zeros(width)
    if memory is None:
        system, factor = np.zeros((width, width)), np.zeros((width, width))
        weight, right = np.zeros(capacity), np.zeros(width)
    else:
        moves, bends = np.zeros((memory, width)), np.zeros((memory, width))
    free = np.zeros(width, np.int64)
    for row in range(first, last):
        begin, end = starts[row], starts[row + 1]
        cost = costs[row] if costs.shape[0] > 1 else costs[0]
        total = gather(value, order, begin, end, x)
        if total == 0.0:
            for r in range(rank):
                violations[row] = max(violations[row], min(rows[row, r], cost[r]))
                rows[row, r] = 0.0
            continue
        for r in range(width):
            b[r] = rows[row, r]
        if end - begin <= capacity:
            lay_out(cells, basis, begin, end)
        model_values(cells, basis, begin, end, b, values)
        mu, remembered = damping, 0
        for iteration in range(max_steps):
            slopes(cells, basis, begin, end, x, values, epsilon, phi)
            violation = violation_of(b, cost, phi, rank)
            if iteration == 0:
                violations[row] = violation
            if violation <= tolerance:
                break
            if memory is not None and memory > 0 and iteration > 0:
                # `trial` has kept the point that was left.
                newest = remembered % memory
                for r in range(rank):
                    moves[newest, r] = b[r] - trial[r]
                    bends[newest, r] = cost[r] - phi[r] - slope[r]
                remembered += 1
            steps[row] += 1
            if iteration == 0:
                rescale(b, values, phi, cost, rank, end - begin, total)
            for r in range(rank):
                slope[r] = cost[r] - phi[r]
                # Components in the band move down the slope, those at the bound stay.
                direction[r] = -slope[r] if b[r] > 0.0 else 0.0
            unit, predicted, found = 0.0, 0.0, False
            if memory is None or iteration > 0:
                n_free = free_components(b, slope, active, rank, free)
                if memory is None:
                    curvature(cells, basis, begin, end, x, values, epsilon, weight, system)
                    predicted = newton_direction(
                        system, slope, free, n_free, mu, factor, right, direction
                    )
                else:
                    two_loops(moves, bends, remembered, slope, free, n_free, direction)
                unit, found = line_search(
                    cells, basis, begin, end, x, values, trial_values, b, slope, direction, cost,
                    epsilon, trial, step,
                )  # fmt: skip
            if not found:
                multiply_row(cells, basis, begin, end, b, phi, cost, trial, trial_values)
            if not found or unit > 0.0:
                mu *= 10.0
            elif -unit < 0.25 * predicted:
                mu *= 3.5
            elif -unit > 0.75 * predicted:
                mu /= 3.5
            b, trial = trial, b
            values, trial_values = trial_values, values
        for r in range(rank):
            rows[row, r] = b[r]
