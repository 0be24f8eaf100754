"""The weights of one slice, factors held fixed: a small generalised linear model, solved by Newton.

Poisson: projected Newton with exact zeros, compiled. Odds losses: their concave part is replaced
by its tangent, which leaves a Poisson problem whose curvature bounds the true one.
The column sums of the factors are one throughout, so that zeros of Poisson cost nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.auto import weights_newton
from onlinegcp.kernels.layout import Blocks
from onlinegcp.solvers.auto.cells import Cells, OddsForm
from onlinegcp.solvers.auto.zeros import Zeros

Array = NDArray[Any]

# Above this many nonzeros the Hessian is taken from a subset; the slope never is.
SUBSET = 16384
# One cell of at least so many: a chord from 1 / 16 of the cells leaves a few per cent per step.
LARGEST_STRIDE = 16
_EMPTY = np.zeros((0, 0))


@dataclass(frozen=True)
class Solution:
    """Weights of a slice with what it took to find them.

    Attributes
    ----------
    weights
        The padded weights (width,).
    objective
        Loss of the slice at these weights, over every observed cell.
    steps
        Newton steps.
    optimality
        Largest violation of the optimality conditions, relative to the largest weight.
    """

    weights: Array
    objective: float
    steps: int
    optimality: float


def start_weights(mean: Array, total: float, sums: Array, rank: int) -> Array:
    """Return the running mean, no entry near zero, scaled so that the model total is the slice's.

    Zero is never a start: the slope of x log m is infinite there (errata row 6).
    """
    weights = np.zeros_like(mean)
    top = float(mean[:rank].max(initial=0.0))
    weights[:rank] = np.maximum(mean[:rank], 1e-3 * top) if top > 0.0 else 1.0
    mass = float(weights @ sums)
    if mass > 0.0 and total > 0.0:
        weights *= total / mass
    return weights


def solve_odds_form(
    factors: Blocks,
    cells: Cells,
    form: OddsForm,
    zeros: Zeros,
    start: Array,
    *,
    tolerance: float = 1e-6,
    max_steps: int = 50,
    em_steps: int = 2,
    rough: bool = False,
) -> Solution:
    """Minimise sum v h(m) - x log m over nonnegative weights.

    Parameters
    ----------
    factors
        Factors whose columns sum to one.
    cells
        The slice.
    form
        The loss.
    zeros
        How sums over cells that are not listed are made.
    start
        Positive start.
    tolerance
        Largest violation of the optimality conditions, relative to the largest weight.
    max_steps
        Newton steps at most.
    em_steps
        Multiplicative steps before the first Newton step.
    rough
        Take the optimum of a subset where cells abound; the objective is then NaN.
    """
    if cells.value.size == 0:
        # Nothing but zeros: every term grows with m, so the best weights are zero.
        return Solution(np.zeros_like(start), 0.0, 0, 0.0)
    if form.linear:
        sums = zeros.column_sums()
        return solve_poisson(
            factors, cells, sums, start, tolerance, max_steps, em_steps, rough=rough
        )
    if zeros.sampled:
        return _solve_outer(factors, cells, zeros, start, tolerance, max_steps, em_steps)
    return _solve_tangent(factors, cells, zeros, start, tolerance, max_steps, em_steps)


def solve_poisson(
    factors: Blocks,
    cells: Cells,
    sums: Array,
    start: Array,
    tolerance: float,
    max_steps: int,
    em_steps: int,
    *,
    rough: bool = False,
) -> Solution:
    """Minimise sums @ s - sum x log(z's); a subset gives start and Hessian where cells abound.

    With `rough` the subset's optimum is taken as it is, without objective (NaN). One cell in q
    costs about R q / 2 nats more than the optimum, out of millions for slices of that size.
    """
    weights, rank = start.copy(), factors.rank
    hessian = np.zeros((factors.width, factors.width))
    index, value = cells.index, cells.value
    chord = _EMPTY
    if value.size > 2 * SUBSET:
        every = min(value.size // SUBSET, LARGEST_STRIDE)
        some = _one_of_each(value.size, every)
        few, thin = np.ascontiguousarray(index[some]), value[some] * every
        _, steps, worst = weights_newton.newton_poisson(
            factors.data, factors.offsets, few, thin, sums, weights, rank,
            em_steps, min(max_steps, 8), max(tolerance, 1e-3), _EMPTY, hessian,
        )  # fmt: skip
        if rough:
            return Solution(weights, math.nan, int(steps), float(worst))
        # The subset's optimum is a start within its sampling error, and its Hessian serves every
        # following step: only slopes and values need all cells then.
        chord, em_steps, max_steps = hessian.copy(), 0, 2 * max_steps
    objective, steps, worst = weights_newton.newton_poisson(
        factors.data, factors.offsets, index, value, sums, weights, rank,
        em_steps, max_steps, tolerance, chord, hessian,
    )  # fmt: skip
    return Solution(weights, float(objective), int(steps), float(worst))


def _one_of_each(count: int, every: int) -> NDArray[np.int64]:
    """One position out of each run of `every`, at hashed places: a plain stride would beat with
    the lengths of the modes."""
    runs = np.arange(count // every, dtype=np.uint64)
    shuffled = (runs * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(33)
    return (runs * np.uint64(every) + shuffled % np.uint64(every)).astype(np.int64)


def _solve_tangent(
    factors: Blocks,
    cells: Cells,
    zeros: Zeros,
    start: Array,
    tolerance: float,
    max_steps: int,
    em_steps: int,
) -> Solution:
    """Newton on the exact objective with the curvature of its Poisson majoriser."""
    width, rank = factors.width, factors.rank
    weights, pull = start.copy(), np.zeros(width)
    hessian, lower = np.zeros((width, width)), np.zeros((width, width))
    block, free = np.zeros((weights_newton.BLOCK, width)), np.zeros(width, dtype=np.bool_)
    step = np.zeros(width)

    def listed(at: Array, want_hessian: bool) -> float:
        return float(
            weights_newton.listed_sums(
                factors.data, factors.offsets, cells.index, cells.value, at, want_hessian,
                pull, hessian, block,
            )
        )  # fmt: skip

    for _ in range(em_steps):
        _, push = zeros.tangent(weights)
        listed(weights, False)
        weights[:rank] *= pull[:rank] / push[:rank]
    value, push = zeros.tangent(weights)
    objective = value - listed(weights, True)
    steps, worst = 0, np.inf
    while True:
        slope = push - pull
        worst = float(weights_newton.optimality(weights, slope, push, rank, free))
        if worst <= tolerance or steps == max_steps:
            break
        metric = pull / np.maximum(weights, 1e-3 * float(weights.max()))
        kept, level, accepted = hessian.copy(), 0.0, False
        for _ in range(weights_newton.ATTEMPTS):
            weights_newton.newton_direction(kept, slope, free, level * metric, lower, step)
            trial = np.where(free, np.maximum(weights - step, 0.0), 0.0)
            decrease = float(slope @ (weights - trial))
            if decrease > 0.0:
                value, push = zeros.tangent(trial)
                attempt = value - listed(trial, True)
                if attempt <= objective - weights_newton.ARMIJO * decrease:
                    accepted = True
                    break
            level = max(weights_newton.FIRST_DAMPING, weights_newton.DAMPING_GROWTH * level)
        if not accepted:
            break
        steps += 1
        objective, weights = attempt, trial
    return Solution(weights, objective, steps, worst)


def _solve_outer(
    factors: Blocks,
    cells: Cells,
    zeros: Zeros,
    start: Array,
    tolerance: float,
    max_steps: int,
    em_steps: int,
) -> Solution:
    """Alternate tangents and Poisson solves: needs no objective, so sampled tangents will do."""
    weights, rank = start.copy(), factors.rank
    steps, change = 0, np.inf
    for _ in range(max_steps):
        _, push = zeros.tangent(weights)
        inner = solve_poisson(
            factors, cells, push, weights, tolerance, 3, em_steps, rough=max_steps < 10
        )
        change = float(np.abs(inner.weights - weights)[:rank].max() / inner.weights.max())
        # An exact zero would stay one in the EM steps of the next round.
        weights = inner.weights
        steps += inner.steps
        em_steps = 0
        if change <= max(10.0 * tolerance, 1e-4):
            break
    value, push = zeros.tangent(weights)
    pull = np.zeros(factors.width)
    block = np.zeros((weights_newton.BLOCK, factors.width))
    logs = weights_newton.listed_sums(
        factors.data, factors.offsets, cells.index, cells.value, weights, False,
        pull, _EMPTY, block,
    )  # fmt: skip
    return Solution(weights, value - float(logs), steps, change)
