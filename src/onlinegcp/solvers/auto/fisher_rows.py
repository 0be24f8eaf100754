"""The past of every other loss: the curvature of each row, accumulated; damped Fisher scoring.

With the other modes fixed, a row is a small generalised linear model. Its past is the quadratic
1/2 (a - old)' P (a - old) + b'(a - old), P the forgotten sum of Fisher matrices and b what earlier
solves left of their slopes. One damped step per row and visit, two sweeps, no learning rate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.auto.weights_newton import ARMIJO
from onlinegcp.kernels.layout import Blocks, pad_vector, padded_width
from onlinegcp.kernels.random import LISTED_ZEROS, TRIAL_COLUMNS, TRIAL_ZEROS, stream_key
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import forgetting, loudness, seeds
from onlinegcp.solvers.auto.cells import Weighted, weighted_cells
from onlinegcp.solvers.auto.fisher_sums import FisherSums
from onlinegcp.solvers.auto.fisher_weights import (
    Prior,
    ceiling,
    restraint,
    solve_weights,
    start_candidates,
    weight_prior,
)
from onlinegcp.solvers.auto.model import Model, Past, Step, silent
from onlinegcp.solvers.auto.newton import Solution
from onlinegcp.solvers.auto.resizing import taken
from onlinegcp.solvers.auto.row_steps import solve_damped, times
from onlinegcp.sums.verbs import copied

Array = NDArray[Any]

SWEEPS = 2  # over all modes: the second sees what the first has moved
MOST_SLOPE = 1e6  # that a slice leaves over, in units of its own noise
HALVINGS = 20  # of a step, to a millionth; rows that gain nothing by then stay
# Numbers the row curvatures may take (2^26 doubles are 512 MiB); above, diagonals are kept.
CURVATURE_BUDGET = 1 << 26
# Mean, variance and dispersion of at least 50 slices: priors made from fewer would follow noise.
VARIANCE_STEP = 0.02
# Columns have unit length, and turn by a few of these at most when the memory grows e times. Where
# components can stand in for each other nothing holds the derivative, and it would grow for ever.
MOST_TURN = 10.0


@dataclass
class FisherRows(Past):
    """What the model remembers besides factors with columns of unit length.

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

    name: ClassVar[str] = "rows"
    curvature: Array
    slope: Array
    sensitivity: Array
    mean: Array
    variance: Array
    dispersion: float

    @classmethod
    def start(cls, factors: Blocks, *, bounded: bool) -> Self:
        """The past before the first slice, diagonal where full matrices would be too many."""
        rows, width = factors.data.shape
        depth = width if rows * width * width <= CURVATURE_BUDGET else 1
        slope, sensitivity = np.zeros((rows, width)), np.zeros((rows, width))
        mean, variance = np.zeros(width), np.zeros(width)
        return cls(np.zeros((rows, width, depth)), slope, sensitivity, mean, variance, 1.0)

    @property
    def noise(self) -> float:
        """Squared slopes over curvature."""
        return self.dispersion

    @property
    def diagonal(self) -> bool:
        """Whether only the diagonals of the Fisher matrices are kept."""
        return bool(self.curvature.shape[2] == 1)

    def absorb(
        self, model: Model, x: Slice, loss: Loss, weights: Array, cap: float, seed: int
    ) -> None:
        """Take in a slice of the warm start at the factors as they are."""
        sums = _sums(model, x, loss, seed, model.n_slices)
        self.absorb_at(sums.tempered(loudness.tempered(model, x)), weights, cap)

    def absorb_at(self, sums: FisherSums, weights: Array, cap: float) -> None:
        """Add a slice's curvature at given factors and weights."""
        offsets, depth = sums.factors.offsets, self.curvature.shape[2]
        for k in range(sums.factors.ndim):
            rows = slice(offsets[k], offsets[k + 1])
            _, hessians = sums.row_sums(weights, k, depth)
            self.curvature[rows] = cap * self.curvature[rows] + hessians
        self._remember(sums, weights, cap)

    def settle(self, model: Model, rows: Array, slices: Sequence[Slice]) -> None:
        """End the warm start: its weights are the first prior."""
        self.mean = model.mean_weights.copy()
        self.variance = pad_vector(rows.var(axis=0))

    def step(self, model: Model, x: Slice, loss: Loss, cap: float, seed: int) -> Step:
        """Score a slice, then learn it."""
        return self.learn(model, x, _sums(model, x, loss, seed, model.n_slices), cap)

    def learn(self, model: Model, x: Slice, sums: Any, cap: float) -> Step:
        """The step, with the passes over a slice's cells (`FisherSums`, or what stands for it)."""
        if sums.empty:
            return silent(model.factors.width)
        before = self._solve(model, sums, 1e-8)
        share = loudness.tempered(model, x)
        sums = sums.tempered(share)
        if model.memory.learned:
            slope, bend = self._along(sums, before.weights)
            unit = max(self.dispersion, 1e-300)
            # Row curvatures mix the components, so only the common memory is learned.
            forgetting.learn_common(model.memory, slope / unit, bend / unit, cap)
        lam, _ = forgetting.factors(model.memory, cap)
        after = self.update(model, sums, before.weights, cap)
        loudness.hear(model, x, cap)
        return Step(after.weights, before.objective, after.objective / share, before.steps, lam)

    def _along(self, sums: Any, weights: Array) -> tuple[float, float]:
        """Slope and curvature of the loss in the log-memory."""
        return sums.along(weights, self.sensitivity)  # type: ignore[no-any-return]

    def update(self, model: Model, sums: FisherSums, weights: Array, cap: float) -> Solution:
        """Absorb one slice into the factors; return the weights solved for the new ones.

        Parameters
        ----------
        model
            Updated in place; columns have unit length before and after.
        sums
            The slice, over the model's factors.
        weights
            Weights solved with the factors before the update.
        cap
            The schedule's forgetting factor for this slice.
        """
        factors, memory = model.factors, model.memory
        lam_of, lift_of = forgetting.factors(memory, cap)
        lam, lift = float(lam_of[0]), float(lift_of[0])
        mass = lam * self._trace()
        old = copied(factors.data)
        prior = self._weight_prior(model, sums.loss)
        for sweep in range(SWEEPS):
            for k in range(factors.ndim):
                visit = Visit(self, sums, weights, old, lam, k, bounded=model.bounded)
                visit.move()
                if sweep == SWEEPS - 1:
                    visit.store(lift if memory.learned else None)
            # From where it is: between sweeps the weights move little.
            solution = solve_weights(
                sums,
                [weights],
                prior,
                bounded=model.bounded,
                most=self._ceiling(model, sums),
                tolerance=1e-6,
                max_steps=10,
            )
            weights = solution.weights
        kept = mass / max(self._trace(), 1e-300)
        if model.bounded:
            weights[self._restore_lost(factors, old)] = 0.0
        weights = self._normalise(factors, weights)
        if memory.learned:
            memory.lift[:] = lift * kept
        self._remember(sums, weights, cap)
        return Solution(weights, solution.objective, solution.steps, solution.optimality)

    def solve(self, model: Model, x: Slice, loss: Loss, *, tolerance: float, seed: int) -> Solution:
        """Solve for the weights of a slice; changes nothing."""
        sums = _sums(model, x, loss, seed, 0)
        return self._solve(model, sums, min(tolerance, 1e-10))

    def _solve(self, model: Model, sums: FisherSums, tolerance: float) -> Solution:
        rank, bounded = model.factors.rank, model.bounded
        starts = start_candidates(model.last_weights, self.mean, bounded, rank)
        prior = self._weight_prior(model, sums.loss)
        most = self._ceiling(model, sums)
        return solve_weights(sums, starts, prior, bounded=bounded, most=most, tolerance=tolerance)

    def _ceiling(self, model: Model, sums: Any) -> Array | None:
        """What weights may be at most; None where nothing holds them."""
        return ceiling(model.factors, sums.cells) if model.bounded else None

    def _weight_prior(self, model: Model, loss: Loss) -> Prior | None:
        rank = model.factors.rank
        if loss.traits.quadratic:
            # The dispersion and the curvature of (x - m)^2 are twice those of its half.
            held = np.zeros_like(self.mean)
            held[:rank] = 2.0 * restraint(model, 0.5 * self.dispersion)
            return Prior(np.zeros_like(self.mean), held)
        return weight_prior(loss, self.mean, self.variance, self.dispersion, rank)

    def grow(self, model: Model, longer: Callable[[Array], Array]) -> FisherRows:
        """The past with new rows: they have none yet."""
        return replace(
            self,
            curvature=longer(self.curvature),
            slope=longer(self.slope),
            sensitivity=longer(self.sensitivity),
        )

    def merge(self, model: Model, kept: int, given: int) -> None:
        """Join two components, as if the past weights had been the sum of both."""
        if not self.diagonal:
            for side in (self.curvature, self.curvature.transpose(0, 2, 1)):
                side[:, kept] += side[:, given]
        self.slope[:, kept] += self.slope[:, given]
        self.mean[kept] += self.mean[given]

    def clear(self, slot: int, weight: float) -> None:
        """Forget all of a component but one slice in which it had this weight."""
        self.curvature[:, slot, :] = 0.0
        if not self.diagonal:
            self.curvature[:, :, slot] = 0.0
        self.slope[:, slot] = 0.0
        self.sensitivity[:, slot] = 0.0
        self.mean[slot] = weight
        self.variance[slot] = weight * weight

    def seed(
        self, model: Model, x: Slice, loss: Loss, weights: Array, seed: int
    ) -> tuple[list[Array], float] | None:
        """One component fitted to what the others leave of a slice: columns and weight."""
        sums = FisherSums(model.factors, self.cells(model, x, seed), loss)
        key = stream_key(seed, model.n_slices, TRIAL_COLUMNS)
        return seeds.seed_slopes(sums, weights, key, bounded=model.bounded)

    def cells(self, model: Model, x: Slice, seed: int) -> Weighted:
        """The cells of a slice in which a misfit shows."""
        return weighted_cells(x, stream_key(seed, model.n_slices, TRIAL_ZEROS))

    def take(self, order: Sequence[int]) -> FisherRows:
        """The past of some components; matrices become diagonals where they are too many."""
        rows, curvature = len(self.curvature), self.curvature
        width = padded_width(len(order))
        if not self.diagonal and rows * width * width > CURVATURE_BUDGET:
            curvature = np.ascontiguousarray(np.einsum("irr->ir", curvature))[:, :, None]
        if curvature.shape[2] > 1:
            curvature = taken(taken(curvature, order), order, axis=1)
        else:
            curvature = taken(curvature, order, axis=1)
        return FisherRows(
            curvature,
            taken(self.slope, order),
            taken(self.sensitivity, order),
            taken(self.mean, order),
            taken(self.variance, order),
            self.dispersion,
        )

    def split(self, parent: int, slot: int, kept: float, given: float) -> None:
        """Let two halves have had these shares of every past weight."""

        def divide(numbers: Array, first: float = kept, second: float = given) -> None:
            numbers[..., slot] = second * numbers[..., parent]
            numbers[..., parent] *= first

        if self.diagonal:
            divide(self.curvature[:, :, 0], kept**2, given**2)
        else:
            divide(self.curvature)
            divide(self.curvature.transpose(0, 2, 1))
        divide(self.slope)
        divide(self.mean)
        divide(self.variance, kept**2, given**2)
        self.sensitivity[:, [parent, slot]] = 0.0

    def diagonals(self, rows: slice) -> Array:
        """The diagonals of the Fisher matrices of some rows."""
        curvature = self.curvature[rows]
        return curvature[:, :, 0] if self.diagonal else np.einsum("irr->ir", curvature)

    def _trace(self) -> float:
        curvature = self.curvature
        return float(curvature.sum() if self.diagonal else np.einsum("irr->", curvature))

    def _restore_lost(self, factors: Blocks, old: Array) -> Array:
        """Give columns that fell to zero, whence they could not return, their old pattern back."""
        gone = np.zeros(factors.width, dtype=np.bool_)
        for k in range(factors.ndim):
            rows = slice(factors.offsets[k], factors.offsets[k + 1])
            lost = np.flatnonzero(~(factors.data[rows] ** 2).any(axis=0))
            factors.data[rows, lost] = old[rows, lost]
            self.slope[rows, lost] = 0.0
            gone[lost] = True
        return gone

    def _normalise(self, factors: Blocks, weights: Array) -> Array:
        """Give every column unit length; weights, curvature and slopes follow."""
        weights = weights.copy()
        for k, view in enumerate(factors.views()):
            rows = slice(factors.offsets[k], factors.offsets[k + 1])
            length = np.ones(factors.width)
            length[: factors.rank] = self.sizes(view)
            length[length <= 0.0] = 1.0
            factors.data[rows] /= length
            self.slope[rows] *= length
            if self.diagonal:
                self.curvature[rows] *= (length**2)[None, :, None]
            else:
                self.curvature[rows] *= length[None, :, None] * length[None, None, :]
            change = self.sensitivity[rows]
            change /= length
            # The part along the column only changes its length, which the weights absorb.
            change -= factors.data[rows] * np.einsum("ir,ir->r", factors.data[rows], change)
            turn = np.sqrt(np.einsum("ir,ir->r", change, change))
            change *= MOST_TURN / np.maximum(turn, MOST_TURN)
            weights *= length
        return weights

    def _remember(self, sums: FisherSums, weights: Array, cap: float) -> None:
        """Update mean, variance and dispersion, which the priors use."""
        share = max(1.0 - cap, VARIANCE_STEP)
        away = weights - self.mean
        self.mean = self.mean + share * away
        self.variance = (1.0 - share) * (self.variance + share * away**2)
        ratio = sums.dispersion(weights)
        if ratio is not None:
            if sums.loss.traits.capped_dispersion:
                ratio = min(1.0, ratio)
            self.dispersion += share * (ratio - self.dispersion)


def _sums(model: Model, x: Slice, loss: Loss, seed: int, number: int) -> FisherSums:
    key = stream_key(seed, number, LISTED_ZEROS)
    return FisherSums(model.factors, weighted_cells(x, key), loss)


class Visit:
    """One damped Fisher step for all rows of a mode.

    Parameters
    ----------
    past
        The past; only `store` changes it.
    sums
        The slice, over the factors, of which the rows of the mode are changed in place.
    weights
        Weights of the slice (width,).
    old
        The factors before the slice (rows, width).
    lam
        The forgetting factor.
    mode
        The mode.
    bounded
        Keep the factors at or above zero.
    """

    def __init__(
        self,
        past: FisherRows,
        sums: FisherSums,
        weights: Array,
        old: Array,
        lam: float,
        mode: int,
        *,
        bounded: bool,
    ) -> None:
        offsets = sums.factors.offsets
        self.past, self.sums, self.weights, self.mode = past, sums, weights, mode
        self.rank, self.bounded = sums.factors.rank, bounded
        # Losses with a bound of their own seldom touch it; one put on a loss makes many zeros.
        self.zeroing = bounded and math.isinf(sums.loss.lower)
        self.rows = slice(offsets[mode], offsets[mode + 1])
        self.current, self.base = sums.factors.data[self.rows], old[self.rows]
        self.prior, self.left = lam * past.curvature[self.rows], lam * past.slope[self.rows]
        self.hold = self._row_prior()

    def _row_prior(self) -> Array:
        """Precision of the zero-centred prior on every entry (width,)."""
        hold = np.zeros(self.base.shape[1])
        strength = self.sums.loss.traits.prior_strength
        if strength > 0.0:
            spread = np.maximum((self.base[:, : self.rank] ** 2).mean(axis=0), 1e-300)
            hold[: self.rank] = strength * self.past.dispersion / spread
        return hold

    def move(self) -> None:
        """Take the step, shortened where a row's objective would rise."""
        current = self.current
        slopes, hessians = self._evaluate()
        gradient = slopes + times(self.prior, current - self.base) + self.left + self.hold * current
        held = np.zeros(current.shape, dtype=np.bool_)
        if self.bounded:
            held = (current <= 1e-8 * current.max(axis=1, keepdims=True)) & (gradient > 0.0)
        if self.zeroing:
            current[held] = 0.0
        step = solve_damped(hessians + self.prior, self.hold, gradient, held, self.rank)
        start, value = current.copy(), self._objective()
        length = np.ones(len(start))
        waiting = np.ones(len(start), dtype=np.bool_)
        for _ in range(HALVINGS):
            trial = start - length[:, None] * step
            if self.bounded:
                np.maximum(trial, 0.0, out=trial)
            trial[~waiting] = current[~waiting]
            current[...] = trial
            gain = ARMIJO * np.einsum("ir,ir->i", gradient, start - trial)
            # Rounding of a sum over many cells must not look like an increase.
            slack = 1e-12 * np.abs(value)
            waiting = waiting & ~(self._objective() <= value - gain + slack)
            if not waiting.any():
                break
            length[waiting] *= 0.5
        else:
            current[waiting] = start[waiting]

    def store(self, lift: float | None) -> None:
        """Make the slice part of the past; `lift` is None where no forgetting is learned."""
        slopes, hessians = self._evaluate()
        past, rows, moved = self.past, self.rows, self.current - self.base
        if lift is not None:
            follow = times(self.prior, moved) + self.left
            right = times(self.prior, past.sensitivity[rows]) - lift * follow
            # What is held at zero does not follow the memory.
            still = (self.current <= 0.0) & self.zeroing
            system = hessians + self.prior
            past.sensitivity[rows] = solve_damped(system, self.hold, right, still, self.rank)
        past.slope[rows] = slopes + times(self.prior, moved) + self.left
        past.curvature[rows] = self.prior + hessians
        if not self.sums.loss.traits.tempered:
            # Cells that no row can follow must not throw the rows about for ever after.
            noise = past.diagonals(rows) * max(1.0, past.dispersion)
            limit = MOST_SLOPE * np.sqrt(noise)
            np.clip(past.slope[rows], -limit, limit, out=past.slope[rows])

    def _evaluate(self) -> tuple[Array, Array]:
        return self.sums.row_sums(self.weights, self.mode, self.prior.shape[2])

    def _objective(self) -> Array:
        """Loss of every row, with its past and its prior."""
        data = self.sums.row_values(self.weights, self.mode)
        away = self.current - self.base
        quadratic = 0.5 * np.einsum("ir,ir->i", times(self.prior, away), away)
        linear = np.einsum("ir,ir->i", self.left, away)
        held = 0.5 * (self.hold * self.current**2).sum(axis=1)
        return np.asarray(data + quadratic + linear + held)
