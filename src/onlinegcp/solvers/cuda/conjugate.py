"""The conjugate past on the card: the same stations as `solvers.auto.conjugate`, phase by phase.

The host keeps control and the short vectors; all that is as long as a mode or a slice stays on the
card.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.cuda.matrices import Matrices
from onlinegcp.kernels.cuda.questions import Question
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import forgetting, newton
from onlinegcp.solvers.auto.conjugate import (
    FLOOR_EVENTS,
    FLOOR_SHARE,
    STREAM_STEPS,
    STREAM_TOLERANCE,
    SWEEPS,
    Conjugate,
)
from onlinegcp.solvers.auto.model import Model, Step, silent
from onlinegcp.solvers.cuda.odds import CardOdds
from onlinegcp.solvers.cuda.residence import CardBlocks

Array = NDArray[Any]


class CardConjugate(Conjugate):
    """A conjugate past whose rate and sensitivity lie on the card, beside the factors.

    Parameters
    ----------
    bench
        Where the steps of models of this layout are made.
    matrices
        Factors, rate and sensitivity.
    mass, health
        Counts per component (width,), and sums of the matrices: finite if these are.
    """

    def __init__(self, bench: Any, matrices: Matrices, mass: Array, health: Array) -> None:
        self.bench, self.matrices = bench, matrices
        self.mass, self.health = mass, health

    @property
    def rate(self) -> Array:  # type: ignore[override]
        """Accumulated exposure, fetched from the card; to be read only."""
        return self._pulled("rate")

    @property
    def sensitivity(self) -> Array:  # type: ignore[override]
        """Derivative of the factors in the log-memory, fetched from the card; to be read only."""
        return self._pulled("sensitivity")

    def _pulled(self, name: str) -> Array:
        plan = self.bench.plan
        found = self.matrices.pull(name, (plan.rows, plan.width))
        found.flags.writeable = False
        return found

    def handed_on(self) -> CardConjugate:
        """The past for the next step, sharing the matrices."""
        return CardConjugate(self.bench, self.matrices, self.mass.copy(), self.health)

    def copy(self) -> Any:
        """The same past on the host."""
        return Conjugate(self.rate.copy(), self.mass.copy(), self.sensitivity.copy())

    def __reduce__(self) -> Any:
        return Conjugate, (self.rate.copy(), self.mass.copy(), self.sensitivity.copy())

    def step(self, model: Model, x: Slice, loss: Loss, cap: float, seed: int) -> Step:
        """Score a slice, then learn it."""
        bench = self.bench
        with bench.card.turn:
            cells = bench.load(x)
            if cells.n == 0:
                return silent(model.factors.width)
            form = loss.traits.odds_form
            assert form is not None
            full = x.n_observed == x.size
            if form.linear and full:
                return self._step_at_once(model, cells, cap)
            seen = bench.load_seen(x)
            sums = CardOdds(bench, model, form, full, cells, seen, seed, model.n_slices)
            return self._step_by_modes(model, sums, cap)

    def _step_at_once(self, model: Model, cells: Any, cap: float) -> Step:
        """Poisson without missing cells: all modes move at once."""
        bench, memory, rank = self.bench, model.memory, model.factors.rank
        with bench.card.turn:
            found, before = self._solve(model, cells)
            if memory.learned:
                forgetting.learn(memory, found.slopes, found.bends, found.bend, cap)
            lam, lift = forgetting.factors(memory, cap)
            to = bench.shelf.take(after=self.matrices)
            done = bench.poisson.learn(
                self.matrices.place,
                to.place,
                cells,
                lam=lam,
                lift=lift,
                mass=cap * self.mass,
                events=FLOOR_EVENTS * model.unit,
                share=FLOOR_SHARE,
                sweeps=SWEEPS,
                learned=memory.learned,
            )
        self._settled(model, to, done.health, cap, lift, done.prior, done.weights)
        # Columns sum to one, so that the model's total is the sum of its weights.
        after = float(done.weights[:rank].sum()) - done.logs
        return Step(done.weights, before, after, found.steps, lam)

    def _step_by_modes(self, model: Model, sums: CardOdds, cap: float) -> Step:
        """Every other slice: one mode after the other."""
        bench, memory, rank = self.bench, model.memory, model.factors.rank
        cells, seen, form = sums.cells, sums.seen, sums.form
        ones = np.ones(model.factors.width)
        start = newton.away_from_zero(model.mean_weights, rank)
        total = sums.tangent(start)[1] if form.linear else ones
        start = newton.start_weights(model.mean_weights, cells.total, total, rank)
        weights, steps, before = sums.solve(start, STREAM_TOLERANCE, STREAM_STEPS)
        if before is None:
            before = sums.loss(weights)
        if memory.learned:
            place = self.matrices.place
            slopes, bends, bend, _ = bench.odds.slopes(place, cells, seen, form, weights)
            forgetting.learn(memory, slopes, bends, bend, cap)
        lam, lift = forgetting.factors(memory, cap)
        to = bench.shelf.take(after=self.matrices)
        weights, prior, counts, health, after = bench.odds.learn_modes(
            self.matrices.place,
            to.place,
            cells,
            seen,
            form,
            weights,
            lam=lam,
            lift=lift,
            mass=cap * self.mass,
            events=FLOOR_EVENTS * model.unit,
            share=FLOOR_SHARE,
            sweeps=SWEEPS,
            learned=memory.learned,
        )
        self._settled(model, to, health, cap, lift, prior, counts)
        return Step(weights, before, after, steps, lam)

    def _settled(
        self,
        model: Model,
        to: Matrices,
        health: Array,
        cap: float,
        lift: Array,
        prior: Array,
        counts: Array,
    ) -> None:
        """Put the new matrices in the place of the old, and let the short vectors follow."""
        self.matrices, self.health = to, health
        factors, memory = model.factors, model.memory
        ones = np.ones(factors.rank)
        model.factors = CardBlocks(to, factors.offsets, factors.rank, factors.width, ones)
        self.mass = cap * self.mass + counts
        if memory.learned:
            memory.lift = prior * lift / np.maximum(prior + counts, 1e-300)

    def _solve(self, model: Model, cells: Any) -> tuple[Any, float]:
        """Weights and slopes before the update, and the loss there."""
        abounds = cells.n > 2 * newton.SUBSET
        every = min(cells.n // newton.SUBSET, newton.LARGEST_STRIDE) if abounds else 1
        asked = Question(
            start=newton.away_from_zero(model.mean_weights, model.factors.rank),
            total=cells.total,
            looked_at=cells.n // every,
            every=every,
            tolerance=STREAM_TOLERANCE,
            max_steps=STREAM_STEPS,
            em_steps=newton.EM_STEPS,
            learned=model.memory.learned,
        )
        found = self.bench.poisson.solve(self.matrices.place, cells, asked)
        if not abounds:
            return found, found.objective
        return found, float(found.column_sums @ found.weights) - found.logs
