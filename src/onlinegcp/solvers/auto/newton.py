"""The weights of one slice, factors held fixed: a small generalised linear model, solved by Newton.

Poisson: projected Newton with exact zeros, compiled. Odds losses: their concave part is replaced
by its tangent, which leaves a Poisson problem whose curvature bounds the true one.
The column sums of the factors are one throughout, so that zeros of Poisson cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.auto import weights_newton
from onlinegcp.solvers.auto.odds_sums import OddsSums
from onlinegcp.sums import verbs
from onlinegcp.sums.chunks import Chunks, even_cuts

Array = NDArray[Any]
Other = TypeVar("Other")

# Above this many nonzeros the Hessian is taken from a subset; the slope never is.
SUBSET = 16384
# One cell of at least so many: a chord from 1 / 16 of the cells leaves a few per cent per step.
LARGEST_STRIDE = 16
EM_STEPS = 2  # multiplicative steps before the first Newton step, safe far from the optimum


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
    weights = away_from_zero(mean, rank)
    mass = float(weights @ sums)
    if mass > 0.0 and total > 0.0:
        weights *= total / mass
    return weights


def away_from_zero(start: Array, rank: int) -> Array:
    """Nonnegative weights that can still move in every direction; ones where all are zero."""
    top = float(start[:rank].max(initial=0.0))
    weights = np.zeros_like(start)
    weights[:rank] = np.maximum(start[:rank], 1e-3 * top) if top > 0.0 else 1.0
    return weights


def solve_odds_form(
    sums: OddsSums, start: Array, *, tolerance: float = 1e-6, max_steps: int = 50
) -> Solution:
    """Minimise sum v h(m) - x log m over nonnegative weights.

    Parameters
    ----------
    sums
        The slice and the loss, with factors whose columns sum to one.
    start
        Positive start.
    tolerance
        Largest violation of the optimality conditions, relative to the largest weight.
    max_steps
        Newton steps at most.
    """
    if sums.empty:
        # Nothing but zeros: every term grows with m, so the best weights are zero.
        return Solution(np.zeros_like(start), 0.0, 0, 0.0)
    if sums.form.linear:
        return _solve_poisson(sums, sums.column_sums(), start, tolerance, max_steps, EM_STEPS)
    if sums.sampled:
        return _solve_outer(sums, start, tolerance, max_steps)
    return _solve_tangent(sums, start, tolerance, max_steps)


def solve_roughly(
    sums: OddsSums, start: Array, *, tolerance: float, max_steps: int
) -> tuple[Array, int, float | None]:
    """As `solve_odds_form`, but where cells abound the optimum of a subset will do.

    One cell in q costs about R q / 2 nats more than the optimum, out of millions for slices of
    that size.

    Returns
    -------
    Weights, Newton steps, and the loss, None where not all cells were looked at.
    """
    if sums.form.linear and _abounds(sums):
        few = _solve_subset(sums, sums.column_sums(), start, tolerance, max_steps, EM_STEPS)
        return few.weights, few.steps, None
    found = solve_odds_form(sums, start, tolerance=tolerance, max_steps=max_steps)
    return found.weights, found.steps, found.objective


def _solve_poisson(
    sums: OddsSums,
    column_sums: Array,
    start: Array,
    tolerance: float,
    max_steps: int,
    em_steps: int,
) -> Solution:
    """Minimise column_sums @ s - sum x log(z's)."""
    weights, chord = start, None
    if _abounds(sums):
        # The subset's optimum is a start within its sampling error, and its Hessian serves every
        # following step: only slopes and values need all cells then.
        few = _solve_subset(sums, column_sums, start, tolerance, max_steps, em_steps)
        weights, chord, em_steps, max_steps = few.weights, few.hessian, 0, 2 * max_steps
    found, _ = _walk(
        sums, sums.listed_cells, column_sums, weights, em_steps, max_steps, tolerance, chord
    )
    return found


def _walk(
    sums: OddsSums,
    cells: Chunks,
    column_sums: Array,
    start: Array,
    em_steps: int,
    max_steps: int,
    tolerance: float,
    chord: Array | None = None,
) -> tuple[Solution, Array]:
    """EM steps, safe far away, then projected Newton with exact zeros, or with a chord.

    Returns what was found, and the curvature where it was last looked at.
    """
    rank = sums.factors.rank
    walk = weights_newton.new_walk(start.copy())
    exact = chord is None and max_steps > 0
    for _ in range(em_steps):
        _, pull, _ = sums.listed(walk.weights, cells=cells)
        weights_newton.multiplicative_step(walk.weights, pull, column_sums, rank)
    limits = (column_sums, rank, max_steps, tolerance, exact)
    logs, pull, hessian = sums.listed(walk.weights, curved=exact, cells=cells)
    used = hessian if chord is None else chord
    more = weights_newton.begin_walk(walk, logs, pull, used, *limits)
    while more:
        logs, pull, hessian = sums.listed(walk.trial, curved=exact, cells=cells)
        used = hessian if chord is None else chord
        more = weights_newton.go_on(walk, logs, pull, used, *limits)
    objective, worst = walk.numbers[weights_newton.OBJECTIVE], walk.numbers[weights_newton.WORST]
    steps = int(walk.numbers[weights_newton.STEPS])
    return Solution(walk.weights, float(objective), steps, float(worst)), hessian


def _abounds(sums: OddsSums) -> bool:
    return sums.cells.value.size > 2 * SUBSET


class _Few(NamedTuple):
    weights: Array
    steps: int
    hessian: Array


def _solve_subset(
    sums: OddsSums,
    column_sums: Array,
    start: Array,
    tolerance: float,
    max_steps: int,
    em_steps: int,
) -> _Few:
    """The optimum of `_solve_poisson` for a part of the cells, and the Hessian there."""
    index, value = sums.cells.index, sums.cells.value
    every = min(value.size // SUBSET, LARGEST_STRIDE)
    some = _one_of_each(value.size, every)
    places = np.empty((len(some), index.shape[1]), dtype=index.dtype)
    counts, width = np.empty(len(some)), sums.factors.width

    def pick(first: int, last: int) -> None:
        some_here = some[first:last]
        places[first:last] = np.take(index, some_here, axis=0)
        np.multiply(np.take(value, some_here), every, out=counts[first:last])

    cuts = even_cuts(len(some), width * width // 4)
    verbs.rows(pick, list(pairwise(cuts.tolist())), 16 * len(some))
    cells = Chunks((places, counts), cuts, listed=True)
    found, hessian = _walk(
        sums, cells, column_sums, start, em_steps, min(max_steps, 8), max(tolerance, 1e-3)
    )
    return _Few(found.weights, found.steps, hessian)


def _one_of_each(count: int, every: int) -> NDArray[np.int64]:
    """One position out of each run of `every`, at hashed places: a plain stride would beat with
    the lengths of the modes."""
    runs = np.arange(count // every, dtype=np.uint64)
    shuffled = (runs * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(33)
    return (runs * np.uint64(every) + shuffled % np.uint64(every)).astype(np.int64)


def _solve_tangent(sums: OddsSums, start: Array, tolerance: float, max_steps: int) -> Solution:
    """Newton on the exact objective with the curvature of its Poisson majoriser."""
    width, rank = sums.factors.width, sums.factors.rank
    weights, free = start.copy(), np.zeros(width, dtype=np.bool_)
    for _ in range(EM_STEPS):
        (_, pull, _), (_, push) = sums.listed_and_tangent(weights)
        weights[:rank] *= pull[:rank] / push[:rank]

    def evaluate(at: Array) -> tuple[float, tuple[Array, Array, Array]]:
        (logs, pull, hessian), (value, push) = sums.listed_and_tangent(at, curved=True)
        return value - logs, (push, pull, hessian)

    objective, (push, pull, hessian) = evaluate(weights)
    steps, worst = 0, np.inf
    while True:
        slope = push - pull
        worst = float(weights_newton.optimality(weights, slope, push, rank, free))
        if worst <= tolerance or steps == max_steps:
            break
        metric = pull / np.maximum(weights, 1e-3 * float(weights.max()))
        move = Move(weights, slope, hessian, free, bounded=True)
        found = damped_step(move, metric, objective, evaluate)
        if found is None:
            break
        steps += 1
        weights, (objective, (push, pull, hessian)) = found
    return Solution(weights, objective, steps, worst)


class Move:
    """A Newton step from given weights, to be damped until it leads downhill.

    Parameters
    ----------
    weights, slope, hessian
        Where it starts, and the slope and curvature (lower triangle) there.
    free
        The weights that may move; with `bounded` the others go to zero.
    bounded
        Keep the weights at or above zero.
    most
        What each weight may be at most, where they are bounded; None for no limit.
    """

    def __init__(
        self,
        weights: Array,
        slope: Array,
        hessian: Array,
        free: Array,
        *,
        bounded: bool,
        most: Array | None = None,
    ) -> None:
        self.weights, self.slope, self.hessian, self.free = weights, slope, hessian, free
        self.bounded, self.most = bounded, most
        self.step, self._lower = np.zeros_like(weights), np.zeros_like(hessian)
        self.damp(np.zeros_like(weights))

    def damp(self, damping: Array) -> None:
        """Take the step with this added to the diagonal of the Hessian."""
        weights_newton.newton_direction(
            self.hessian, self.slope, self.free, damping, self._lower, self.step
        )

    def end(self) -> Array:
        """Where the step leads."""
        trial = self.weights - self.step
        if self.most is not None:
            trial = np.minimum(trial, self.most)
        return np.where(self.free, np.maximum(trial, 0.0), 0.0) if self.bounded else trial


def damped_step(
    move: Move, metric: Array, objective: float, evaluate: Callable[[Array], tuple[float, Other]]
) -> tuple[Array, tuple[float, Other]] | None:
    """The first of ever shorter steps that lowers the objective, None if there is none.

    Parameters
    ----------
    move
        The step, not yet damped.
    metric
        What the damping is measured in (width,).
    objective
        Its value at the start.
    evaluate
        Gives the objective at a point, and whatever else the caller wants from there.

    Returns
    -------
    The new weights, and what `evaluate` gave there.
    """
    level = 0.0
    for _ in range(weights_newton.ATTEMPTS):
        if level > 0.0:
            move.damp(level * metric)
        trial = move.end()
        decrease = float(move.slope @ (move.weights - trial))
        if decrease > 0.0:
            found = evaluate(trial)
            if found[0] <= objective - weights_newton.ARMIJO * decrease:
                return trial, found
        level = max(weights_newton.FIRST_DAMPING, weights_newton.DAMPING_GROWTH * level)
    return None


def _solve_outer(sums: OddsSums, start: Array, tolerance: float, max_steps: int) -> Solution:
    """Alternate tangents and Poisson solves: needs no objective, so sampled tangents will do."""
    weights, rank, em_steps = start.copy(), sums.factors.rank, EM_STEPS
    solve = _solve_subset if max_steps < 10 and _abounds(sums) else _solve_poisson
    steps, change = 0, np.inf
    for _ in range(max_steps):
        _, push = sums.tangent(weights)
        inner = solve(sums, push, weights, tolerance, 3, em_steps)
        change = float(np.abs(inner.weights - weights)[:rank].max() / inner.weights.max())
        # An exact zero would stay one in the EM steps of the next round.
        weights = inner.weights
        steps += inner.steps
        em_steps = 0
        if change <= max(10.0 * tolerance, 1e-4):
            break
    return Solution(weights, sums.loss(weights), steps, change)
