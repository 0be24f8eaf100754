"""The past with one matrix per row on the card: the stations of `solvers.auto.fisher_rows`.

The host solves for the weights with the same functions as on the CPU, from sums that the card
makes; rows and their systems never leave the card.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.cuda.fisher import Sweep
from onlinegcp.kernels.cuda.formulas import Formulas, formulas_of
from onlinegcp.kernels.cuda.matrices import Matrices, Place
from onlinegcp.kernels.random import LISTED_ZEROS, stream_key
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import forgetting
from onlinegcp.solvers.auto.fisher_rows import SWEEPS, FisherRows
from onlinegcp.solvers.auto.fisher_weights import solve_weights
from onlinegcp.solvers.auto.model import Model, Step
from onlinegcp.solvers.auto.newton import Solution
from onlinegcp.solvers.cuda.residence import CardBlocks

Array = NDArray[Any]


class CardFisherSums:
    """What `solvers.auto.fisher_weights` asks of a slice, answered by the card.

    Parameters
    ----------
    step
        The phases for models of this layout.
    factors, place
        The model's factors, and where they lie.
    cells
        The slice, on the card.
    loss, formulas
        The loss, here and there.
    share
        What each cell counts for.
    """

    def __init__(
        self,
        step: Any,
        factors: CardBlocks,
        place: Place,
        cells: Any,
        loss: Loss,
        formulas: Formulas,
        share: float = 1.0,
    ) -> None:
        self.step, self.factors, self.place, self.cells = step, factors, place, cells
        self.loss, self.formulas, self.share = loss, formulas, share
        self.empty = cells.n == 0
        self._known: dict[bytes, tuple[float, Array, Array]] = {}

    def tempered(self, share: float) -> CardFisherSums:
        """The same slice, each cell counting for a share of what it did."""
        if share == 1.0:
            return self
        given = (self.step, self.factors, self.place, self.cells, self.loss, self.formulas)
        return CardFisherSums(*given, self.share * share)

    def at(self, place: Place) -> None:
        """Go on with other factors, or with those that have changed."""
        self.place = place
        self._known.clear()

    def value(self, weights: Array) -> float:
        """Loss of the slice."""
        return self._at(weights)[0]

    def weight_sums(self, weights: Array) -> tuple[Array, Array]:
        """Slope and curvature (lower triangle) of the loss in the weights."""
        _, slope, hessian = self._at(weights)
        return slope.copy(), hessian.copy()

    def along(self, weights: Array) -> tuple[float, float]:
        """Slope and curvature of the loss when the factors move along the sensitivity."""
        found: tuple[float, float] = self.step.along(*self._given(), weights, self.share)
        return found

    def dispersion(self, weights: Array) -> float | None:
        """Squared slopes over curvature, 1 for a right likelihood; None without curvature."""
        _, squares, below = self.step.tally(*self._given(), weights, self.share)
        return float(squares) / float(below) if below > 0.0 else None

    def _at(self, weights: Array) -> tuple[float, Array, Array]:
        # One pass gives all three: most steps that are tried are taken.
        which = weights.tobytes()
        if which not in self._known:
            self._known[which] = self.step.evaluate(*self._given(), weights, self.share)
        return self._known[which]

    def _given(self) -> tuple[Place, Any, Formulas]:
        return self.place, self.cells, self.formulas


class CardFisher(FisherRows):
    """A past of row matrices whose large arrays lie on the card, beside the factors.

    Parameters
    ----------
    bench
        Where the steps of models of this layout are made.
    matrices
        Factors, curvature, slopes that were left, and sensitivity.
    depth
        Columns of a row's matrix: 1 where diagonals are kept.
    mean, variance, dispersion
        As in `FisherRows`.
    health
        Sums of the matrices: finite if these are.
    """

    def __init__(
        self,
        bench: Any,
        matrices: Matrices,
        depth: int,
        mean: Array,
        variance: Array,
        dispersion: float,
        health: Array,
    ) -> None:
        self.bench, self.matrices, self.depth = bench, matrices, depth
        self.mean, self.variance, self.dispersion = mean, variance, dispersion
        self.health = health

    @classmethod
    def like(cls, past: FisherRows, bench: Any, matrices: Matrices) -> CardFisher:
        """The same past, its large arrays already on the card."""
        depth = past.curvature.shape[2]
        short = (past.mean.copy(), past.variance.copy(), past.dispersion)
        return cls(bench, matrices, depth, *short, np.zeros(1))

    @property
    def curvature(self) -> Array:  # type: ignore[override]
        """Fisher matrices, fetched from the card; to be read only."""
        return self._pulled("curvature", self.depth)

    @property
    def slope(self) -> Array:  # type: ignore[override]
        """Slopes that were left, fetched from the card; to be read only."""
        return self._pulled("slope")

    @property
    def sensitivity(self) -> Array:  # type: ignore[override]
        """Derivative of the factors in the log-memory, fetched from the card; to be read only."""
        return self._pulled("sensitivity")

    @property
    def diagonal(self) -> bool:
        """Whether only the diagonals of the Fisher matrices are kept."""
        return self.depth == 1

    def _pulled(self, name: str, *depth: int) -> Array:
        plan = self.bench.plan
        found = self.matrices.pull(name, (plan.rows, plan.width, *depth))
        found.flags.writeable = False
        return found

    def handed_on(self) -> CardFisher:
        """The past for the next step, sharing the matrices."""
        short = (self.mean.copy(), self.variance.copy(), self.dispersion)
        return CardFisher(self.bench, self.matrices, self.depth, *short, self.health)

    def copy(self) -> Any:
        """The same past on the host."""
        return FisherRows(*self._on_host())

    def __reduce__(self) -> Any:
        return FisherRows, self._on_host()

    def _on_host(self) -> tuple[Array, Array, Array, Array, Array, float]:
        large = (self.curvature.copy(), self.slope.copy(), self.sensitivity.copy())
        return (*large, self.mean.copy(), self.variance.copy(), self.dispersion)

    def step(self, model: Model, x: Slice, loss: Loss, cap: float, seed: int) -> Step:
        """Score a slice, then learn it."""
        factors: Any = model.factors
        with self.bench.card.turn:
            key = stream_key(seed, model.n_slices, LISTED_ZEROS)
            cells = self.bench.load_weighted(x, key, factors.offsets)
            steps, _ = self.bench.rows(self.depth)
            given = (steps, factors, self.matrices.place, cells, loss, formulas_of(loss))
            return self.learn(model, x, CardFisherSums(*given), cap)

    def _along(self, sums: Any, weights: Array) -> tuple[float, float]:
        return sums.along(weights)  # type: ignore[no-any-return]

    def _ceiling(self, model: Model, sums: Any) -> Array | None:
        return None  # no slice is asked for its largest pattern there: what runs away is refused

    def update(self, model: Model, sums: Any, weights: Array, cap: float) -> Solution:
        """Absorb one slice into the factors; return the weights solved for the new ones."""
        factors, memory, loss = model.factors, model.memory, sums.loss
        steps, shelf = self.bench.rows(self.depth)
        lam_of, lift_of = forgetting.factors(memory, cap)
        lam, lift = float(lam_of[0]), float(lift_of[0])
        prior = self._weight_prior(model, loss)
        old, to = self.matrices, shelf.take(after=self.matrices)
        for sweep in range(SWEEPS):
            how = Sweep(
                lam=lam,
                lift=lift,
                strength=loss.traits.prior_strength * self.dispersion,
                bounded=model.bounded,
                zeroing=model.bounded and math.isinf(loss.lower),
                learned=memory.learned,
                first=sweep == 0,
                last=sweep == SWEEPS - 1,
            )
            given = (sums.cells, sums.formulas, weights, sums.share)
            steps.sweep(old.place, to.place, *given, how)
            sums.at(to.place)
            solution = solve_weights(
                sums, [weights], prior, bounded=model.bounded, tolerance=1e-6, max_steps=10
            )
            weights = solution.weights
        ended = steps.end(old.place, to.place, bounded=model.bounded)
        weights = np.where(ended.lost, 0.0, weights)
        for length in ended.lengths:
            weights = weights * length
        if memory.learned:
            memory.lift[:] = lift * (ended.before / max(ended.after, 1e-300))
        self.matrices, self.health = to, ended.health
        magnitudes = np.prod(ended.magnitudes[:, : factors.rank], axis=0)
        given_to = (to, factors.offsets, factors.rank, factors.width, magnitudes)
        model.factors = CardBlocks(*given_to)
        sums.at(to.place)
        self._remember(sums, weights, cap)
        return Solution(weights, solution.objective, solution.steps, solution.optimality)
