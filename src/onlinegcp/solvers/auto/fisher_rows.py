"""Every other loss: damped Fisher scoring, with the curvature of each row accumulated as history.

With the other modes fixed, a row is a small generalised linear model. Its past is the quadratic
1/2 (a - old)' P (a - old) + b'(a - old), P the forgotten sum of Fisher matrices and b what earlier
solves left of their slopes. One damped step per row and visit, two sweeps, no learning rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.auto import fisher_sums, weights_newton
from onlinegcp.kernels.layout import Blocks
from onlinegcp.kernels.random import stream_key, uniform
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import forgetting
from onlinegcp.solvers.auto.forgetting import Forgetting
from onlinegcp.solvers.auto.newton import Solution
from onlinegcp.solvers.auto.row_steps import solve_damped, times

Array = NDArray[Any]

SWEEPS = 2
ARMIJO = 1e-4
HALVINGS = 20
# Numbers the row curvatures may take (2^26 doubles are 512 MiB); above, diagonals are kept.
CURVATURE_BUDGET = 1 << 26
# Cells of a slice visited one by one; above, unlisted zeros are sampled.
CELL_BUDGET = 1 << 20
PURPOSE = 12
VARIANCE_STEP = 0.02


@dataclass(frozen=True)
class Weighted:
    """Cells to sum over, each standing for `weight` cells."""

    index: NDArray[np.int32]
    value: Array
    weight: Array


@dataclass
class RowHistory:
    """What the solver remembers besides the factors.

    Attributes
    ----------
    curvature
        Accumulated Fisher matrices of all rows (rows, width, width), or diagonals (rows, width, 1).
    slope
        What the solves left of their slopes (rows, width).
    sensitivity
        Derivative of the factors with respect to the log-memory (rows, width).
    mean, variance
        Running mean and variance of the weights (width,), for their prior.
    dispersion
        Running ratio of squared slopes to curvature: 1 for a right likelihood.
    """

    curvature: Array
    slope: Array
    sensitivity: Array
    mean: Array
    variance: Array
    dispersion: float


def empty_history(factors: Blocks) -> RowHistory:
    """History of no slices, diagonal where full matrices would be too many."""
    rows, width = factors.data.shape
    depth = width if rows * width * width <= CURVATURE_BUDGET else 1
    slope, sensitivity = np.zeros((rows, width)), np.zeros((rows, width))
    mean, variance = np.zeros(width), np.zeros(width)
    return RowHistory(np.zeros((rows, width, depth)), slope, sensitivity, mean, variance, 1.0)


def weighted_cells(x: Slice, seed: int, number: int) -> Weighted:
    """List the observed cells, sampling unlisted zeros where they are too many to visit.

    Zeros are drawn by rank among the zeros, so no draw is ever rejected.
    """
    if x.n_unlisted_zeros == 0:
        return Weighted(x.index, x.value, np.ones(x.n_listed))
    linear = np.ravel_multi_index(tuple(x.index.astype(np.int64).T), x.shape).reshape(-1)
    if x.size <= CELL_BUDGET:
        value = np.zeros(x.size)
        value[linear] = x.value
        every = np.unravel_index(np.arange(x.size), x.shape)
        index = np.ascontiguousarray(np.stack(every, axis=1), dtype=np.int32)
        return Weighted(index, value, np.ones(x.size))
    count = min(x.n_unlisted_zeros, max(4 * x.n_listed, 1 << 16))
    draws = uniform(stream_key(seed, number, PURPOSE), count)
    rank = ((np.arange(count) + draws) / count * x.n_unlisted_zeros).astype(np.int64)
    # The zero of rank q lies behind as many listed cells as have fewer than q + 1 zeros before.
    zeros = rank + np.searchsorted(linear - np.arange(linear.size), rank, side="right")
    index = np.stack(np.unravel_index(zeros, x.shape), axis=1).astype(np.int32)
    return Weighted(
        np.ascontiguousarray(np.concatenate([x.index, index])),
        np.concatenate([x.value, np.zeros(count)]),
        np.concatenate([np.ones(x.n_listed), np.full(count, x.n_unlisted_zeros / count)]),
    )


def prior_strength(loss: Loss) -> float:
    """How much weak Gaussian priors on weights and rows count, in observations.

    Losses that go on falling as m grows need them: an empty slice, or a row that is always 1, has
    no finite optimum. The negative binomial gains by them. Losses with a finite optimum for every
    datum are left alone: there the prior starves small components, which it then shrinks further.
    """
    if loss.name in ("bernoulli_logit", "poisson_log", "negative_binomial"):
        return 1.0
    return 0.1 if loss.code < 0 and math.isinf(loss.lower) else 0.0


def solve_weights(
    factors: Blocks,
    cells: Weighted,
    loss: Loss,
    starts: list[Array],
    history: RowHistory | None = None,
    *,
    bounded: bool,
    tolerance: float = 1e-10,
    max_steps: int = 50,
) -> Solution:
    """Minimise the loss of a slice over the weights by damped Fisher scoring.

    Parameters
    ----------
    factors, cells, loss
        The model, the cells and the loss.
    starts
        Candidates (width,); the best one is the start.
    history
        Where the prior on the weights comes from; None for none.
    bounded
        Keep the weights at or above zero.
    tolerance
        Newton decrement at which to stop, relative to 1 + |objective|.
    max_steps
        Steps at most.
    """
    width, rank = factors.width, factors.rank
    center, precision = _weight_prior(history, loss, rank, width)
    m = np.empty(cells.value.size)

    def objective(at: Array) -> tuple[float, float]:
        fisher_sums.model_values(factors.data, factors.offsets, cells.index, at, m)
        data = float(cells.weight @ loss.value(cells.value, m))
        return data + 0.5 * float(precision @ (at - center) ** 2), data

    tried = [(*objective(candidate), k) for k, candidate in enumerate(starts)]
    total, data, best = min(tried, key=lambda t: t[0] if math.isfinite(t[0]) else math.inf)
    weights = starts[best].copy()
    slope, hessian = np.zeros(width), np.zeros((width, width))
    lower, step = np.zeros((width, width)), np.zeros(width)
    steps, decrement = 0, math.inf
    while steps < max_steps:
        fisher_sums.model_values(factors.data, factors.offsets, cells.index, weights, m)
        y = cells.weight * loss.deriv(cells.value, m)
        h = cells.weight * np.maximum(loss.fisher(cells.value, m), 0.0)
        fisher_sums.weight_sums(factors.data, factors.offsets, cells.index, y, h, slope, hessian)
        slope += precision * (weights - center)
        hessian[np.arange(width), np.arange(width)] += precision
        free = np.zeros(width, dtype=np.bool_)
        free[:rank] = True
        if bounded:
            free[:rank] &= ~((weights[:rank] <= 1e-8 * weights.max()) & (slope[:rank] > 0.0))
        weights_newton.newton_direction(hessian, slope, free, np.zeros(width), lower, step)
        decrement = 0.5 * float(slope[free] @ step[free])
        if decrement <= tolerance * (1.0 + abs(total)):
            break
        level, accepted = 0.0, False
        for _ in range(weights_newton.ATTEMPTS):
            if level > 0.0:
                damping = level * np.diag(hessian)
                weights_newton.newton_direction(hessian, slope, free, damping, lower, step)
            trial = weights - step
            if bounded:
                trial = np.where(free, np.maximum(trial, 0.0), 0.0)
            decrease = float(slope @ (weights - trial))
            if decrease > 0.0:
                attempt, attempt_data = objective(trial)
                if attempt <= total - ARMIJO * decrease:
                    accepted = True
                    break
            level = max(weights_newton.FIRST_DAMPING, weights_newton.DAMPING_GROWTH * level)
        if not accepted:
            break
        steps += 1
        weights, total, data = trial, attempt, attempt_data
    return Solution(weights, data, steps, decrement)


def _weight_prior(
    history: RowHistory | None, loss: Loss, rank: int, width: int
) -> tuple[Array, Array]:
    """Centre and precision of the Gaussian prior on the weights."""
    precision = np.zeros(width)
    strength = prior_strength(loss)
    if history is None or strength == 0.0 or not history.variance.any():
        return np.zeros(width), precision
    mean = history.mean
    least = 0.01 * mean**2 + 1e-4 * float(np.mean(mean[:rank] ** 2)) + 1e-300
    spread = np.maximum(history.variance, least)
    precision[:rank] = (strength * history.dispersion / spread)[:rank]
    return mean, precision


def start_candidates(history: RowHistory, last: Array, bounded: bool, rank: int) -> list[Array]:
    """Starts for the weights: the last ones, their mean, and zero where zero is safe."""
    candidates = [last, history.mean]
    if not bounded:
        return [*candidates, np.zeros_like(last)]
    kept = []
    for start in candidates:
        top = float(start.max(initial=0.0))
        safe = np.zeros_like(start)
        safe[:rank] = np.maximum(start[:rank], 1e-3 * top) if top > 0.0 else 1.0
        kept.append(safe)
    return kept


def learn_forgetting(
    factors: Blocks,
    cells: Weighted,
    loss: Loss,
    weights: Array,
    history: RowHistory,
    memory: Forgetting,
    cap: float,
) -> None:
    """Move the common memory by the slope of the loss along the factors' sensitivity."""
    m, change = np.empty(cells.value.size), np.empty(cells.value.size)
    fisher_sums.model_values(factors.data, factors.offsets, cells.index, weights, m)
    fisher_sums.model_changes(
        factors.data, history.sensitivity, factors.offsets, cells.index, weights, change
    )
    slope = float((cells.weight * loss.deriv(cells.value, m)) @ change)
    curved = np.maximum(loss.fisher(cells.value, m), 0.0)
    bend = float((cells.weight * curved) @ change**2)
    unit = max(history.dispersion, 1e-300)
    slopes = np.zeros_like(memory.own)
    slopes[0] = slope / unit
    forgetting.learn(memory, slopes, np.zeros_like(slopes), bend / unit, cap)
    # Row curvatures mix the components, so only the common memory is learned.
    memory.own[:] = 0.0


def update(
    factors: Blocks,
    cells: Weighted,
    loss: Loss,
    weights: Array,
    history: RowHistory,
    memory: Forgetting,
    cap: float,
    *,
    bounded: bool,
) -> Solution:
    """Absorb one slice into the factors; return the weights solved for the new ones.

    Parameters
    ----------
    factors
        Updated in place; columns have unit length before and after.
    cells, loss
        The slice and the loss.
    weights
        Weights solved with the factors before the update.
    history, memory
        Updated in place.
    cap
        The schedule's forgetting factor for this slice.
    bounded
        Keep factors and weights at or above zero.
    """
    lam_of, lift_of = forgetting.factors(memory, cap)
    lam, lift = float(lam_of[0]), float(lift_of[0])
    prior = lam * _trace(history.curvature)
    orders = [_by_row(cells.index[:, k], n) for k, n in enumerate(factors.shape)]
    old = factors.data.copy()
    solution = Solution(weights, math.nan, 0, math.nan)
    for sweep in range(SWEEPS):
        for k in range(factors.ndim):
            _visit(
                factors, cells, loss, solution.weights, history, lam, lift, old, k, orders[k],
                last=sweep == SWEEPS - 1, learned=memory.learned, bounded=bounded,
            )  # fmt: skip
        # From where it is: between sweeps the weights move little.
        solution = solve_weights(
            factors, cells, loss, [solution.weights], history, bounded=bounded, tolerance=1e-6,
            max_steps=10,
        )  # fmt: skip
    kept = prior / max(_trace(history.curvature), 1e-300)
    if bounded:
        solution.weights[_restore_lost(factors, history, old)] = 0.0
    scaled = _normalise(factors, history, solution.weights)
    if memory.learned:
        memory.lift[:] = lift * kept
    _remember(factors, cells, loss, scaled, history, cap)
    return Solution(scaled, solution.objective, solution.steps, solution.optimality)


def absorb_at(
    factors: Blocks, cells: Weighted, loss: Loss, weights: Array, history: RowHistory, cap: float
) -> None:
    """Add a slice's curvature at given factors and weights, as for slices of the warm start."""
    m = np.empty(cells.value.size)
    fisher_sums.model_values(factors.data, factors.offsets, cells.index, weights, m)
    y = cells.weight * loss.deriv(cells.value, m)
    h = cells.weight * np.maximum(loss.fisher(cells.value, m), 0.0)
    for k, n in enumerate(factors.shape):
        rows = slice(factors.offsets[k], factors.offsets[k + 1])
        slopes = np.empty((n, factors.width))
        hessians = np.empty((n, *history.curvature.shape[1:]))
        fisher_sums.row_sums(
            factors.data, factors.offsets, cells.index, weights, y, h, k,
            *_by_row(cells.index[:, k], n), slopes, hessians,
        )  # fmt: skip
        history.curvature[rows] = cap * history.curvature[rows] + hessians
    _remember(factors, cells, loss, weights, history, cap)


def _trace(curvature: Array) -> float:
    full = curvature.shape[2] > 1
    return float(np.einsum("irr->", curvature) if full else curvature.sum())


def _by_row(column: Array, rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Order of the cells by row, and where each row starts."""
    order = np.argsort(column, kind="stable")
    starts = np.zeros(rows + 1, dtype=np.int64)
    np.cumsum(np.bincount(column, minlength=rows), out=starts[1:])
    return order, starts


def _visit(
    factors: Blocks,
    cells: Weighted,
    loss: Loss,
    weights: Array,
    history: RowHistory,
    lam: float,
    lift: float,
    old: Array,
    k: int,
    listing: tuple[NDArray[np.int64], NDArray[np.int64]],
    *,
    last: bool,
    learned: bool,
    bounded: bool,
) -> None:
    """Move all rows of one mode by one damped Fisher step; on the last visit, store the history."""
    rows = slice(factors.offsets[k], factors.offsets[k + 1])
    rank = factors.rank
    current, base = factors.data[rows], old[rows]
    prior = lam * history.curvature[rows]
    left = lam * history.slope[rows]
    hold = _row_prior(base, loss, history, rank)
    order, starts = listing
    m = np.empty(cells.value.size)

    def evaluate() -> tuple[Array, Array]:
        fisher_sums.model_values(factors.data, factors.offsets, cells.index, weights, m)
        y = cells.weight * loss.deriv(cells.value, m)
        h = cells.weight * np.maximum(loss.fisher(cells.value, m), 0.0)
        slopes, hessians = np.empty_like(current), np.empty_like(prior)
        fisher_sums.row_sums(
            factors.data, factors.offsets, cells.index, weights, y, h, k, order, starts,
            slopes, hessians,
        )  # fmt: skip
        return slopes, hessians

    def row_objective(at: Array) -> Array:
        fisher_sums.model_values(factors.data, factors.offsets, cells.index, weights, m)
        f = cells.weight * loss.value(cells.value, m)
        data = np.bincount(cells.index[:, k], weights=f, minlength=len(at))
        away = at - base
        quadratic = 0.5 * np.einsum("ir,ir->i", times(prior, away), away)
        linear = np.einsum("ir,ir->i", left, away)
        return np.asarray(data + quadratic + linear + 0.5 * (hold * at**2).sum(axis=1))

    slopes, hessians = evaluate()
    gradient = slopes + times(prior, current - base) + left + hold * current
    system = hessians + prior
    # Losses with a bound of their own seldom touch it; one put on a loss makes many zeros.
    zeroing = bounded and math.isinf(loss.lower)
    held = np.zeros(current.shape, dtype=np.bool_)
    if bounded:
        held = (current <= 1e-8 * current.max(axis=1, keepdims=True)) & (gradient > 0.0)
    if zeroing:
        current[held] = 0.0
    step = solve_damped(system, hold, gradient, held, rank)
    start, value = current.copy(), row_objective(current)
    length = np.ones(len(start))
    waiting = np.ones(len(start), dtype=np.bool_)
    for _ in range(HALVINGS):
        trial = start - length[:, None] * step
        if bounded:
            np.maximum(trial, 0.0, out=trial)
        trial[~waiting] = current[~waiting]
        current[...] = trial
        gain = ARMIJO * np.einsum("ir,ir->i", gradient, start - trial)
        # Rounding of a sum over many cells must not look like an increase.
        slack = 1e-12 * np.abs(value)
        waiting = waiting & ~(row_objective(current) <= value - gain + slack)
        if not waiting.any():
            break
        length[waiting] *= 0.5
    else:
        current[waiting] = start[waiting]
    if last:
        slopes, hessians = evaluate()
        if learned:
            moved = times(prior, current - base) + left
            right = times(prior, history.sensitivity[rows]) - lift * moved
            still = (current <= 0.0) & zeroing  # what is held at zero does not follow the memory
            history.sensitivity[rows] = solve_damped(hessians + prior, hold, right, still, rank)
        history.slope[rows] = slopes + times(prior, current - base) + left
        history.curvature[rows] = prior + hessians


def _row_prior(base: Array, loss: Loss, history: RowHistory, rank: int) -> Array:
    """Precision of the zero-centred prior on every entry (width,)."""
    hold = np.zeros(base.shape[1])
    strength = prior_strength(loss)
    if strength > 0.0:
        spread = np.maximum((base[:, :rank] ** 2).mean(axis=0), 1e-300)
        hold[:rank] = strength * history.dispersion / spread
    return hold


def _restore_lost(factors: Blocks, history: RowHistory, old: Array) -> Array:
    """Give columns that fell to zero, whence they could not return, their old pattern back."""
    gone = np.zeros(factors.width, dtype=np.bool_)
    for k in range(factors.ndim):
        rows = slice(factors.offsets[k], factors.offsets[k + 1])
        lost = np.flatnonzero(~(factors.data[rows] ** 2).any(axis=0))
        factors.data[rows, lost] = old[rows, lost]
        history.slope[rows, lost] = 0.0
        gone[lost] = True
    return gone


def _normalise(factors: Blocks, history: RowHistory, weights: Array) -> Array:
    """Give every column unit length; weights, curvature and slopes follow."""
    weights = weights.copy()
    for k, view in enumerate(factors.views()):
        rows = slice(factors.offsets[k], factors.offsets[k + 1])
        length = np.ones(factors.width)
        length[: factors.rank] = np.sqrt((view**2).sum(axis=0))
        length[length <= 0.0] = 1.0
        factors.data[rows] /= length
        history.slope[rows] *= length
        if history.curvature.shape[2] == 1:
            history.curvature[rows] *= (length**2)[None, :, None]
        else:
            history.curvature[rows] *= length[None, :, None] * length[None, None, :]
        change = history.sensitivity[rows]
        change /= length
        # The part along the column only changes its length, which the weights absorb.
        change -= factors.data[rows] * np.einsum("ir,ir->r", factors.data[rows], change)
        weights *= length
    return weights


def _remember(
    factors: Blocks, cells: Weighted, loss: Loss, weights: Array, history: RowHistory, cap: float
) -> None:
    """Update mean, variance and dispersion, which the priors use."""
    share = max(1.0 - cap, VARIANCE_STEP)
    away = weights - history.mean
    history.mean = history.mean + share * away
    history.variance = (1.0 - share) * (history.variance + share * away**2)
    m = np.empty(cells.value.size)
    fisher_sums.model_values(factors.data, factors.offsets, cells.index, weights, m)
    squares = float(cells.weight @ loss.deriv(cells.value, m) ** 2)
    curved = float(cells.weight @ np.maximum(loss.fisher(cells.value, m), 0.0))
    if curved > 0.0:
        # Misfit must not feed on itself through the prior: a right likelihood has 1.
        ratio = squares / curved
        if loss.lower == 0.0 or loss.name in ("bernoulli_logit", "poisson_log"):
            ratio = min(1.0, ratio)
        history.dispersion += share * (ratio - history.dispersion)
