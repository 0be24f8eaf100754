"""The past of least squares: exact weights, and factors with the folded history of past weights.

The history sum_h |old model - new model|^2 depends on the past through the R x R matrix S of
summed s s' only, so each mode solves one R x R system for all rows. With complete slices and a
fixed forgetting this is CP-Stream. Missing cells and new rows give every row a history of its
own: then this past turns into that of `fisher_rows.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.layout import ALL_MODES, Blocks, pad_vector
from onlinegcp.kernels.random import LISTED_ZEROS, TRIAL_COLUMNS, stream_key
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import fisher_weights, forgetting, loudness, seeds
from onlinegcp.solvers.auto.cells import weighted_cells
from onlinegcp.solvers.auto.checkerboard import Checkerboard
from onlinegcp.solvers.auto.fisher_rows import FisherRows
from onlinegcp.solvers.auto.fisher_sums import FisherSums
from onlinegcp.solvers.auto.held_out import Parts, usual_weights
from onlinegcp.solvers.auto.model import Model, Past, Step
from onlinegcp.solvers.auto.newton import Solution
from onlinegcp.solvers.auto.nonnegative import solve_free, solve_positive, solve_rows, solve_vector
from onlinegcp.solvers.auto.resizing import taken
from onlinegcp.solvers.auto.slice_products import SliceProducts

Array = NDArray[Any]

# Shares of the mean of a diagonal that is added to it, so that equal components can be solved for.
RIDGE = 1e-10
WEIGHT_RIDGE = 1e-12
# The noise is averaged over about 20 slices, as the curvature it divides (`forgetting.WINDOW`).
ROUNDING = 1e-14  # share of the squared norm below which a squared error is noise of arithmetic
VARIANCE_STEP = 0.05


@dataclass
class Square(Past):
    """What the model remembers besides factors with columns of unit length.

    Attributes
    ----------
    products
        S, the forgotten sum of s s' over past slices (R, R).
    sensitivity
        Derivative of the factors with respect to the log-memory (rows, width).
    variance
        Running mean of the squared residual per cell, the unit in which slopes are measured.
    slope
        Half the slope that the bound held back in past slices (rows, width); without a bound
        there is none and the array is empty. It keeps noise from lifting entries off zero.
    """

    name: ClassVar[str] = "square"
    products: Array
    sensitivity: Array
    variance: float
    slope: Array

    @classmethod
    def start(cls, factors: Blocks, *, bounded: bool) -> Self:
        """The past before the first slice."""
        rows, width = factors.data.shape
        products = np.zeros((factors.rank, factors.rank))
        slope = np.zeros((rows if bounded else 0, width))
        return cls(products, np.zeros((rows, width)), 0.0, slope)

    def suited(self, model: Model, x: Slice) -> Past:
        """Itself for complete slices, else one matrix per row."""
        return self if x.n_observed == x.size else self.by_rows(model)

    def by_rows(self, model: Model) -> FisherRows:
        """The same past with one matrix per row."""
        blocks = model.factors
        past = FisherRows.start(blocks, bounded=model.bounded)
        gram = grams(blocks)
        for k in range(blocks.ndim):
            others = [g for j, g in enumerate(gram) if j != k]
            matrix = 2.0 * self.products * (np.prod(others, axis=0) if others else 1.0)
            rows = slice(blocks.offsets[k], blocks.offsets[k + 1])
            if past.diagonal:
                past.curvature[rows, : blocks.rank, 0] = np.diag(matrix)
            else:
                past.curvature[rows, : blocks.rank, : blocks.rank] = matrix
        past.sensitivity = self.sensitivity
        if model.bounded:
            past.slope = 2.0 * self.slope
        past.mean = model.mean_weights.copy()
        # Twice the variance is the dispersion of (x - m)^2.
        past.dispersion = 2.0 * max(self.variance, 1e-300)
        return past

    def absorb(
        self, model: Model, x: Slice, loss: Loss, weights: Array, cap: float, seed: int
    ) -> None:
        """Take in a slice of the warm start at the factors as they are."""
        row = weights[: model.factors.rank]
        share = loudness.tempered(model, x)
        self.products = cap * self.products + share * np.outer(row, row)
        normal = _normal_equations(model.factors, x)
        residual = normal.loss(row) / x.size
        self.variance += (residual - self.variance) / model.n_slices

    def step(self, model: Model, x: Slice, loss: Loss, cap: float, seed: int) -> Step:
        """Score a complete slice, then learn it."""
        factors, memory, bounded = model.factors, model.memory, model.bounded
        share = loudness.tempered(model, x)
        views, rank = factors.views(), factors.rank
        old = [view.copy() for view in views]
        products, times = np.zeros_like(factors.data), SliceProducts(x, factors.width)
        times(factors, ALL_MODES if memory.learned else 0, products)
        right = np.einsum("ir,ir->r", _rows(factors, products, 0), views[0])
        gram = grams(factors)
        normal = _NormalEquations(x.norm_squared, right, np.prod(gram, axis=0))
        penalty = fisher_weights.restraint(model, self.variance)
        weights = solve_weights(normal.gram, right, penalty, bounded=bounded)
        before = normal.loss(weights)
        if memory.learned:
            self._learn_forgetting(model, weights, gram, products, cap, share)
            self.variance += VARIANCE_STEP * (before / x.size - self.variance)
        lam_of, lift_of = forgetting.factors(memory, cap)
        lam, lift = float(lam_of[0]), float(lift_of[0])

        prior = lam * self.products
        outer = share * np.outer(weights, weights)
        scale, lengths = np.ones(rank), []
        crossed = [g.copy() for g in gram]  # old'new of every mode
        for k, view in enumerate(views):
            if k > 0:
                times(factors, k, products)
            others = _product_without(gram, k)
            system = (prior + outer) * others
            kept = prior * _product_without(crossed, k)
            target = _rows(factors, products, k) * (share * weights) + old[k] @ kept
            ridge = RIDGE * max(float(np.trace(system)) / rank, 1e-300)
            system = system + ridge * np.eye(rank)
            target += ridge * old[k]
            if bounded:
                held = _rows(factors, self.slope, k)
                target -= lam * held
                new = solve_rows(system, target, old[k])
                held[...] = np.where(new > 0.0, 0.0, np.maximum(new @ system - target, 0.0))
            else:
                new = solve_positive(system, target.T).T
            if memory.learned:
                change = _rows(factors, self.sensitivity, k) + lift * (old[k] - new)
                moved = change @ (prior * others)
                # Entries held at zero do not follow the memory.
                _rows(factors, self.sensitivity, k)[...] = (
                    solve_free(system, moved, new > 0.0)
                    if bounded
                    else solve_positive(system, moved.T).T
                )
            view[...] = new
            gram[k], crossed[k] = new.T @ new, old[k].T @ new
        for k, view in enumerate(views):
            length = np.sqrt(np.diag(gram[k]))
            if bounded and not length.all():
                # A column of zeros could never come back: the pattern stays, its weight falls.
                lost = length <= 0.0
                view[:, lost] = old[k][:, lost]
                _rows(factors, self.slope, k)[:, lost] = 0.0
                gram[k] = view.T @ view
                length[lost] = 1.0
            length = np.where(length > 0.0, length, 1.0)
            view /= length
            slopes = _rows(factors, self.sensitivity, k)
            slopes /= length
            # The part along the column only changes its length, which the weights absorb.
            slopes -= view * np.einsum("ir,ir->r", view, slopes)
            # No column can turn by more than its length; more components than the slices tell
            # apart make the recursion explode instead.
            slopes /= np.maximum(np.sqrt(np.einsum("ir,ir->r", slopes, slopes)), 1.0)
            if bounded:
                _rows(factors, self.slope, k)[...] *= length
            gram[k] /= np.outer(length, length)
            scale *= length
            lengths.append(length)

        if memory.learned:
            mass, fresh = float(np.trace(prior)), float(np.trace(outer))
            memory.lift[:] = lift * mass / max(mass + fresh, 1e-300)
        # The last mode's product was made with the new, not yet normalised, rows of the others.
        last = len(views) - 1
        ending = _rows(factors, products, last) * (lengths[last] / scale)
        right = np.einsum("ir,ir->r", ending, views[last])
        normal = _NormalEquations(x.norm_squared, right, np.prod(gram, axis=0))
        weights = solve_weights(normal.gram, right, penalty, bounded=bounded)
        after = normal.loss(weights)
        self.products = prior * np.outer(scale, scale) + share * np.outer(weights, weights)
        loudness.hear(model, x, cap)
        return Step(pad_vector(weights), before, after, 1, lam_of)

    def _learn_forgetting(
        self,
        model: Model,
        weights: Array,
        gram: list[Array],
        products: Array,
        cap: float,
        share: float,
    ) -> None:
        """Move the common memory by the slope of the squared error, in units of its variance."""
        factors, memory = model.factors, model.memory
        views = factors.views()
        slopes = [_rows(factors, self.sensitivity, k) for k in range(factors.ndim)]
        outer = np.outer(weights, weights)
        slope = 0.0
        for k, view in enumerate(views):
            gradient = view @ (outer * _product_without(gram, k)) - (
                _rows(factors, products, k) * weights
            )
            slope += float(np.einsum("ir,ir->", gradient, slopes[k]))
        # |dM / d eta|^2 from R x R matrices: the change of mode k against the change of mode l.
        mixed = [view.T @ change for view, change in zip(views, slopes, strict=True)]
        bend = 0.0
        for k in range(factors.ndim):
            bend += float((outer * _product_without(gram, k) * (slopes[k].T @ slopes[k])).sum())
            for l in range(k):
                rest = np.prod([g for j, g in enumerate(gram) if j not in (k, l)], axis=0)
                bend += 2.0 * float((outer * rest * mixed[k].T * mixed[l]).sum())
        variance = max(self.variance, 1e-300) / share
        # One matrix S serves all components, so only the common memory is learned.
        forgetting.learn_common(memory, slope / variance, bend / variance, cap)

    def solve(self, model: Model, x: Slice, loss: Loss, *, tolerance: float, seed: int) -> Solution:
        """Solve for the weights of a slice; changes nothing."""
        if x.n_observed < x.size:
            key = stream_key(seed, 0, LISTED_ZEROS)
            sums = FisherSums(model.factors, weighted_cells(x, key), loss)
            return fisher_weights.solve_weights(sums, [model.mean_weights], bounded=model.bounded)
        normal = _normal_equations(model.factors, x)
        penalty = fisher_weights.restraint(model, self.variance)
        weights = solve_weights(normal.gram, normal.right, penalty, bounded=model.bounded)
        return Solution(pad_vector(weights), normal.loss(weights), 1, 0.0)

    def grow(self, model: Model, longer: Callable[[Array], Array]) -> FisherRows:
        """The past with new rows, which have none: so each row gets its own."""
        return self.by_rows(model).grow(model, longer)

    def merge(self, model: Model, kept: int, given: int) -> None:
        """Join two components, as if the past weights had been the sum of both.

        Two alike may have grown large with opposite signs: only the sum is small then.
        """
        for matrix in (self.products, self.products.T):
            matrix[kept] += matrix[given]

    def clear(self, slot: int, weight: float) -> None:
        """Forget all of a component but one slice in which it had this weight."""
        self.products[slot, :] = 0.0
        self.products[:, slot] = 0.0
        self.products[slot, slot] = weight * weight
        self.sensitivity[:, slot] = 0.0
        self.slope[:, slot] = 0.0

    def seed(
        self, model: Model, x: Slice, loss: Loss, weights: Array, seed: int
    ) -> tuple[list[Array], float] | None:
        """One component fitted to what the others leave of a slice: columns and weight."""
        key = stream_key(seed, model.n_slices, TRIAL_COLUMNS)
        return seeds.seed_residual(model.factors, x, weights, key, bounded=model.bounded)

    @property
    def noise(self) -> float:
        """Of squared error, whose curvature is two."""
        return 2.0 * self.variance

    def predict_parts(
        self, model: Model, x: Slice, loss: Loss, board: Checkerboard, seed: int
    ) -> Parts:
        """Predict every part of a complete slice from the others, by normal equations."""
        if x.n_observed < x.size:
            return super().predict_parts(model, x, loss, board, seed)
        factors, rank = model.factors, model.factors.rank
        views, signed, times = (
            factors.views(),
            factors.zeros_like(),
            SliceProducts(x, factors.width),
        )

        def inner(signs: Sequence[Array]) -> Array:
            pairs = zip(views, signs, strict=True)
            return np.asarray(np.prod([(a.T * sign) @ a for a, sign in pairs], axis=0))

        def right(signs: Sequence[Array]) -> Array:
            np.multiply(factors.data, np.concatenate(signs)[:, None], out=signed.data)
            return _right(signed, times)

        part_of = board.of(x.index) if x.array is None else board.full().ravel()
        cells = x.value if x.array is None else x.array.ravel()
        squares = np.bincount(part_of, weights=cells**2, minlength=board.n_parts)
        sums = zip(squares, board.sums(right), board.sums(inner), strict=True)
        normal = [_NormalEquations(*each) for each in sums]
        pull_of_all = np.sum([part.right for part in normal], axis=0)
        gram_of_all = np.sum([part.gram for part in normal], axis=0)
        prior = usual_weights(model)
        # The curvature of squared error is twice the normal matrix.
        hold, center = 0.5 * prior.precision[:rank], prior.center[:rank]
        found, lost = [], 0.0
        for part in normal:
            held = gram_of_all - part.gram + np.diag(hold)
            pull = pull_of_all - part.right + hold * center
            row = solve_weights(held, pull, bounded=model.bounded)
            lost += part.loss(row)
            found.append(row)
        return Parts(board, tuple(found), lost)

    def fold(self, given: int, shares: Array) -> None:
        """Let the others have had shares of a component's past weights."""
        turn = np.eye(len(shares))
        turn[:, given] += shares
        self.products = turn @ self.products @ turn.T

    def take(self, order: Sequence[int]) -> Square:
        """The past of some components."""
        at = np.asarray(order)
        products = np.where((at < 0)[:, None] | (at < 0), 0.0, self.products[np.ix_(at, at)])
        slope, sensitivity = taken(self.slope, order), taken(self.sensitivity, order)
        return Square(products, sensitivity, self.variance, slope)

    def split(self, parent: int, slot: int, kept: float, given: float) -> None:
        """Let two halves have had these shares of every past weight."""
        for matrix in (self.products, self.products.T):
            matrix[:, slot] = given * matrix[:, parent]
            matrix[:, parent] *= kept
        self.slope[:, [parent, slot]] = 0.0
        self.sensitivity[:, [parent, slot]] = 0.0


class _NormalEquations(NamedTuple):
    """Squared norm of a slice, Z'x (R,) and Z'Z (R, R)."""

    square: float
    right: Array
    gram: Array

    def loss(self, weights: Array) -> float:
        """Squared error of these weights, as far as rounding lets it be known."""
        inner = float(weights @ self.right)
        error = self.square - 2.0 * inner + float(weights @ self.gram @ weights)
        return max(error, ROUNDING * self.square)


def _normal_equations(factors: Blocks, x: Slice) -> _NormalEquations:
    right = _right(factors, SliceProducts(x, factors.width))
    return _NormalEquations(x.norm_squared, right, np.prod(grams(factors), axis=0))


def _right(factors: Blocks, times: SliceProducts) -> Array:
    """Z'x (R,)."""
    products, first = np.zeros_like(factors.data), factors.views()[0]
    times(factors, 0, products)
    return np.asarray((products[: len(first), : factors.rank] * first).sum(axis=0))


def grams(factors: Blocks) -> list[Array]:
    """A'A of every mode."""
    return [view.T @ view for view in factors.views()]


def solve_weights(
    gram: Array, right: Array, penalty: float = 0.0, *, bounded: bool = False
) -> Array:
    """Minimise s' gram s - 2 right' s + penalty |s|^2, over s >= 0 where asked.

    Parameters
    ----------
    gram
        Z'Z (R, R).
    right
        Z'x (R,).
    penalty
        On the squared weights, see `fisher_weights.restraint`.
    bounded
        Solve over s >= 0, by active sets with exact zeros.
    """
    rank = len(right)
    ridge = penalty + WEIGHT_RIDGE * max(float(np.trace(gram)) / rank, 1e-300)
    ridged = gram + ridge * np.eye(rank)
    return solve_vector(ridged, right) if bounded else solve_positive(ridged, right)


def _rows(factors: Blocks, stacked: Array, k: int) -> Array:
    return stacked[factors.offsets[k] : factors.offsets[k + 1], : factors.rank]


def _product_without(matrices: list[Array], k: int) -> Array:
    rest = [g for j, g in enumerate(matrices) if j != k]
    return np.asarray(np.prod(rest, axis=0)) if rest else np.ones_like(matrices[0])
