"""The past of least squares on the card: the stations of `solvers.auto.quadratic`, by phases.

Every system is R x R and is solved on the host; new rows are the old ones and the slice's products
times R x R matrices, on the card.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.cuda.matrices import Matrices
from onlinegcp.kernels.cuda.squares import BoundedRule, Rule
from onlinegcp.kernels.layout import pad_vector
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import fisher_weights, forgetting, loudness, nonnegative
from onlinegcp.solvers.auto.model import Model, Step
from onlinegcp.solvers.auto.nonnegative import solve_positive
from onlinegcp.solvers.auto.quadratic import (
    RIDGE,
    VARIANCE_STEP,
    Square,
    _NormalEquations,
    _product_without,
    solve_weights,
)
from onlinegcp.solvers.cuda.residence import CardBlocks

Array = NDArray[Any]


class CardSquare(Square):
    """A past of least squares whose sensitivity lies on the card.

    Parameters
    ----------
    bench
        Where the steps of models of this layout are made.
    matrices
        Factors and sensitivity, and, with a bound, the slopes it held back.
    products, variance
        As in `Square`.
    health
        Sums of the matrices: finite if these are.
    """

    def __init__(
        self, bench: Any, matrices: Matrices, products: Array, variance: float, health: Array
    ) -> None:
        self.bench, self.matrices = bench, matrices
        self.products, self.variance, self.health = products, variance, health

    @property
    def sensitivity(self) -> Array:  # type: ignore[override]
        """Derivative of the factors in the log-memory, fetched from the card; to be read only."""
        return self._pulled("sensitivity", self.bench.plan.rows)

    @property
    def slope(self) -> Array:  # type: ignore[override]
        """Half the slope that a bound held back, fetched from the card; to be read only."""
        held = "slope" in self.matrices.place.arrays
        return self._pulled("slope", self.bench.plan.rows if held else 0)

    def _pulled(self, name: str, rows: int) -> Array:
        if not rows:
            return np.zeros((0, self.bench.plan.width))
        found = self.matrices.pull(name, (rows, self.bench.plan.width))
        found.flags.writeable = False
        return found

    def handed_on(self) -> CardSquare:
        """The past for the next step, sharing the matrices."""
        products = self.products.copy()
        return CardSquare(self.bench, self.matrices, products, self.variance, self.health)

    def copy(self) -> Any:
        """The same past on the host."""
        return Square(
            self.products.copy(), self.sensitivity.copy(), self.variance, self.slope.copy()
        )

    def __reduce__(self) -> Any:
        return Square, (
            self.products.copy(), self.sensitivity.copy(), self.variance, self.slope.copy()
        )  # fmt: skip

    def step(self, model: Model, x: Slice, loss: Loss, cap: float, seed: int) -> Step:
        """Score a complete slice, then learn it."""
        with self.bench.card.turn:
            return self._step(model, x, cap)

    def _step(self, model: Model, x: Slice, cap: float) -> Step:
        bench, memory, factors, bounded = self.bench, model.memory, model.factors, model.bounded
        rank, modes, share = factors.rank, factors.ndim, loudness.tempered(model, x)
        cells, dense = bench.load_square(x)
        norm = float(np.sqrt(x.norm_squared))
        place = self.matrices.place
        found = bench.squares.begin(place, cells, dense, norm, learned=memory.learned)
        gram = [g[:rank, :rank] for g in found.gram]
        right = found.right[0, :rank]
        normal = _NormalEquations(x.norm_squared, right, np.prod(gram, axis=0))
        penalty = fisher_weights.restraint(model, self.variance)
        weights = solve_weights(normal.gram, right, penalty, bounded=bounded)
        before = normal.loss(weights)
        if memory.learned:
            self._learn_from(model, found, weights, gram, cap, share)
            self.variance += VARIANCE_STEP * (before / x.size - self.variance)
        lam_of, lift_of = forgetting.factors(memory, cap)
        lam, lift = float(lam_of[0]), float(lift_of[0])

        prior = lam * self.products
        outer = share * np.outer(weights, weights)
        crossed = [g.copy() for g in gram]  # old'new of every mode
        to = bench.square_shelf(bounded=bounded).take(after=self.matrices)
        alongs, new_right = np.zeros((modes, factors.width)), right
        for k in range(modes):
            others = _product_without(gram, k)
            system = (prior + outer) * others
            kept = prior * _product_without(crossed, k)
            ridge = RIDGE * max(float(np.trace(system)) / rank, 1e-300)
            eye = ridge * np.eye(rank)
            system = system + eye
            lengths = [np.sqrt(np.diag(g)) for j, g in enumerate(gram) if j != k]
            reach = norm * (np.prod(lengths, axis=0) if lengths else np.ones(rank))
            parts = system, share * weights, kept + eye, prior * others
            moved = bench.squares.move(
                place, to.place, cells, dense, k,
                bound=_padded(reach, factors.width),
                rule=(_bounded_rule if bounded else _rule)(*parts, lam, lift, factors.width),
                learned=memory.learned,
            )  # fmt: skip
            gram[k], crossed[k] = moved.gram[:rank, :rank], moved.crossed[:rank, :rank]
            alongs[k], new_right = moved.along, moved.right[:rank]
        lengths_of = np.ones((modes, factors.width))
        scale = np.ones(rank)
        for k in range(modes):
            length = np.sqrt(np.diag(gram[k]))
            lengths_of[k, :rank] = np.where(length > 0.0, length, 1.0)
        if bounded:
            lost = np.zeros((modes, factors.width))
            lost[:, :rank] = [np.diag(g) <= 0.0 for g in gram]
            again, new_again = bench.squares.restore(place, to.place, lengths_of, lost)
            if lost.any():
                gram, new_right = [g[:rank, :rank] for g in again], new_again[:rank]
        for k in range(modes):
            length = lengths_of[k, :rank]
            gram[k] = gram[k] / np.outer(length, length)
            scale *= length
        squares, sizes = bench.squares.end(to.place, lengths_of, alongs / lengths_of**2)
        if memory.learned:
            mass, fresh = float(np.trace(prior)), float(np.trace(outer))
            memory.lift[:] = lift * mass / max(mass + fresh, 1e-300)
        # The last mode's product was made with the new, not yet normalised, rows of the others.
        right = new_right / scale
        normal = _NormalEquations(x.norm_squared, right, np.prod(gram, axis=0))
        weights = solve_weights(normal.gram, right, penalty, bounded=bounded)
        after = normal.loss(weights)
        self.products = prior * np.outer(scale, scale) + share * np.outer(weights, weights)
        self.matrices, self.health = to, np.array([squares.sum(), sizes.sum()])
        magnitudes = np.prod(sizes[:, :rank], axis=0)
        model.factors = CardBlocks(to, factors.offsets, rank, factors.width, magnitudes, bench)
        loudness.hear(model, x, cap)
        return Step(pad_vector(weights), before, after, 1, lam_of)

    def _learn_from(
        self, model: Model, found: Any, weights: Array, gram: list[Array], cap: float, share: float
    ) -> None:
        """Move the common memory, as `Square` does, from R x R matrices alone."""
        rank, modes = model.factors.rank, model.factors.ndim
        outer, slope, bend = np.outer(weights, weights), 0.0, 0.0
        mixed = [m[:rank, :rank] for m in found.mixed]
        squared = [s[:rank, :rank] for s in found.squared]
        for k in range(modes):
            others = outer * _product_without(gram, k)
            slope += float((others * mixed[k]).sum()) - float(weights @ found.turned[k, :rank])
            bend += float((others * squared[k]).sum())
            for l in range(k):
                rest = np.prod([g for j, g in enumerate(gram) if j not in (k, l)], axis=0)
                bend += 2.0 * float((outer * rest * mixed[k].T * mixed[l]).sum())
        variance = max(self.variance, 1e-300) / share
        forgetting.learn_common(model.memory, slope / variance, bend / variance, cap)


def _rule(
    system: Array, shares: Array, kept: Array, follow: Array, lam: float, lift: float, width: int
) -> Rule:
    """New rows without a bound, the system's inverse multiplied out."""
    towards, kept, follow = (
        _square(_over(system, a), width) for a in (np.diag(shares), kept, follow)
    )
    return Rule(towards, kept, follow, lift)


def _bounded_rule(
    system: Array, shares: Array, kept: Array, follow: Array, lam: float, lift: float, width: int
) -> BoundedRule:
    return BoundedRule(
        _square(system, width), _padded(shares, width), _square(kept, width),
        _square(follow, width), lam, lift,
        nonnegative.SWEEPS, nonnegative.ROUNDS, nonnegative.TOLERANCE,
    )  # fmt: skip


def _over(system: Array, matrix: Array) -> Array:
    """The matrix times the inverse of a symmetric system."""
    return solve_positive(system, matrix.T).T


def _square(matrix: Array, width: int) -> Array:
    out = np.zeros((width, width))
    out[: len(matrix), : len(matrix)] = matrix
    return out


def _padded(vector: Array, width: int) -> Array:
    out = np.zeros(width)
    out[: len(vector)] = vector
    return out
