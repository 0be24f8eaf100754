"""The conjugate past on the card: the same stations as `solvers.auto.conjugate`, phase by phase.

The host keeps control and the short vectors; all that is as long as a mode or a slice stays on the
card.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.cuda.matrices import Matrices
from onlinegcp.kernels.cuda.questions import Learned, Lesson, Question, Recalled, Rules
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
from onlinegcp.solvers.auto.newton import Solution
from onlinegcp.solvers.cuda.odds import CardOdds
from onlinegcp.solvers.cuda.residence import WORTH_ASKING, CardBlocks

Array = NDArray[Any]

SOLVE_STEPS = 50  # as `newton.solve_odds_form`


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

    def solve(self, model: Model, x: Slice, loss: Loss, *, tolerance: float, seed: int) -> Solution:
        """Solve for the weights of a slice; changes nothing."""
        form, bench = loss.traits.odds_form, self.bench
        assert form is not None
        here = x.n_listed * model.factors.rank < WORTH_ASKING
        if here or not form.linear or x.n_observed < x.size:
            return super().solve(model, x, loss, tolerance=tolerance, seed=seed)
        with bench.card.turn:
            cells = bench.load(x)
            if cells.n == 0:
                return super().solve(model, x, loss, tolerance=tolerance, seed=seed)
            asked = Question(
                start=newton.away_from_zero(model.mean_weights, model.factors.rank),
                total=cells.total, looked_at=cells.n, every=1, tolerance=tolerance,
                max_steps=SOLVE_STEPS, em_steps=newton.EM_STEPS, learned=False,
            )  # fmt: skip
            found = bench.poisson.solve(self.matrices.place, cells, asked)
        return Solution(found.weights, found.objective, found.steps, found.optimality)

    def _step_at_once(self, model: Model, cells: Any, cap: float) -> Step:
        """Poisson without missing cells: all modes move at once."""
        bench, lesson = self.bench, self._lesson(model, cap)
        to = bench.shelf.take(after=self.matrices)
        asked = _question(model, cells)
        found, done = bench.poisson.step(self.matrices.place, to.place, cells, asked, lesson)
        before = found.objective
        if asked.every > 1:
            before = float(found.column_sums @ found.weights) - found.logs
        self._settled(model, to, done, cap)
        return Step(done.weights, before, done.local, found.steps, done.kept.lam)

    def _step_by_modes(self, model: Model, sums: CardOdds, cap: float) -> Step:
        """Every other slice: one mode after the other."""
        bench, rank = self.bench, model.factors.rank
        cells, form, x = sums.cells, sums.form, sums.content
        start = newton.away_from_zero(model.mean_weights, rank)
        total = sums.tangent(start)[1] if form.linear else np.ones(model.factors.width)
        start = newton.start_weights(model.mean_weights, cells.total, total, rank)
        place, to = self.matrices.place, bench.shelf.take(after=self.matrices)
        lesson = self._lesson(model, cap)
        if form.linear or form.sampled:
            weights, steps = sums.solve(start, STREAM_TOLERANCE, STREAM_STEPS)
            before = sums.loss(weights)
            done = bench.odds.learn(place, to.place, x, weights, lesson)
        else:
            asked = sums.question(start, STREAM_TOLERANCE, STREAM_STEPS)
            found, done = bench.odds.step_tangent(place, to.place, x, asked, lesson)
            before, steps = found.objective, found.steps
        self._settled(model, to, done, cap)
        return Step(done.weights, before, done.local, steps, done.kept.lam)

    def _lesson(self, model: Model, cap: float) -> Lesson:
        """How the next slice is learned."""
        memory = model.memory
        if memory.learned:
            rules, lam, lift = rules_for(cap), memory.lift, memory.lift
        else:
            rules, (lam, lift) = None, forgetting.factors(memory, cap)
        kept = Recalled(lam, lift, memory.own, memory.bends, memory.memory, memory.bend)
        return Lesson(
            kept, cap, rules, cap * self.mass, FLOOR_EVENTS * model.unit, FLOOR_SHARE, SWEEPS
        )

    def _settled(self, model: Model, to: Matrices, done: Learned, cap: float) -> None:
        """Put the new matrices in the place of the old, and let the short vectors follow."""
        self.matrices, self.health = to, done.health
        factors, memory, kept = model.factors, model.memory, done.kept
        ones = np.ones(factors.rank)
        model.factors = CardBlocks(
            to, factors.offsets, factors.rank, factors.width, ones, self.bench
        )
        self.mass = cap * self.mass + done.counts
        if memory.learned:
            memory.own, memory.bends = kept.own, kept.bends
            memory.memory, memory.bend = kept.memory, kept.bend
            memory.lift = done.prior * kept.lift / np.maximum(done.prior + done.counts, 1e-300)


def rules_for(cap: float) -> Rules:
    """How a memory is learned under the schedule's factor."""
    return Rules(
        forgetting.WINDOW, forgetting.COMMON_STEP, forgetting.SHORTEST, forgetting.reach(cap),
        forgetting.DOWN_STEP, forgetting.UP_STEP, forgetting.RETURN, forgetting.OWN_LOW,
        forgetting.OWN_HIGH, forgetting.LONGEST,
    )  # fmt: skip


def _question(model: Model, cells: Any) -> Question:
    """What a Poisson slice without missing cells is asked."""
    abounds = cells.n > 2 * newton.SUBSET
    every = min(cells.n // newton.SUBSET, newton.LARGEST_STRIDE) if abounds else 1
    return Question(
        start=newton.away_from_zero(model.mean_weights, model.factors.rank),
        total=cells.total,
        looked_at=cells.n // every,
        every=every,
        tolerance=STREAM_TOLERANCE,
        max_steps=STREAM_STEPS,
        em_steps=newton.EM_STEPS,
        learned=model.memory.learned,
    )
