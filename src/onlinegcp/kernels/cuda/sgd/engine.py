"""Iterations of the paper's solver on the card, by the interface of `kernels.sgd.cpu.SgdEngine`.

A batch of iterations is one recorded graph: draws and their sorting, and, for every iteration, sums
over samples beside Gram matrices, and steps. Factors, moments and the copies to go back
to stay on the card from `start` to `finish`; only sums come back after an epoch.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.cuda.card import card
from onlinegcp.kernels.cuda.lanes import GROUP
from onlinegcp.kernels.cuda.plan import MOST_PER_LANE
from onlinegcp.kernels.cuda.sgd.bench import BATCH, Bench, Job, bench_for
from onlinegcp.kernels.cuda.sgd.slices import CardCells, prepare_cells
from onlinegcp.kernels.layout import Blocks
from onlinegcp.kernels.sgd.plan import ADAM, AMSGRAD, Moments, Plan, Problem

__all__ = ["SgdEngine", "prepare_cells", "takes"]

Array = NDArray[Any]
FACTOR_MOMENTS = ("u", "v", "largest")
MOST_MODES = GROUP  # a sample's slope is put into the order of each by a lane of its own
WEIGHT_MOMENTS = ("weights_u", "weights_v", "weights_largest")


def takes(blocks: Blocks) -> bool:
    """Whether models of this layout fit the kernels."""
    return blocks.width <= 32 * MOST_PER_LANE and blocks.ndim <= MOST_MODES


class SgdEngine:
    """Runs iterations of one problem on one slice; see the reference kernel."""

    def __init__(
        self,
        problem: Problem,
        cells: CardCells,
        plan: Plan,
        objective_cells: CardCells,
        objective_plan: Plan,
        n_jobs: int = 1,
    ) -> None:
        self.problem = problem
        self._cells, self._plan = cells, plan
        self._objective_cells, self._objective_plan = objective_cells, objective_plan
        self._card = card()
        self._bench: Bench = bench_for(problem.blocks)
        history = problem.history
        self._S = None if history is None or not problem.modes else history.S
        self._anchors = np.zeros(problem.blocks.ndim)
        if history is not None and history.anchors is not None:
            self._anchors[:] = history.anchors
        self._ties = bool(self._anchors.any())
        self._job: Job | None = None
        self._drawn: int | None = None
        self._moments: Moments | None = None
        self._then: Array | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """While this lasts, the card's buffers belong to this solve."""
        with self._card.turn:
            yield

    # ---- what moves: brought, kept, taken back, fetched

    def start(self, moments: Moments) -> None:
        """Bring unknowns and moments to the card."""
        problem, bench = self.problem, self._bench
        self._moments = moments
        bench.reserve()
        old = None
        if problem.history is not None and (self._S is not None or self._ties):
            old = problem.history.old.data
        bench.bring(problem.blocks.data, problem.weights, old)
        bench.bring_moments(self._arrays())
        bench.bring_past(self._S, self._anchors)
        self.keep()

    def keep(self) -> None:
        """Make the present state the one to go back to."""
        self._bench.keep(bool(self.problem.modes))

    def go_back(self) -> None:
        """Go back to the last state that was kept."""
        self._bench.go_back(bool(self.problem.modes))

    def finish(self) -> None:
        """Fetch unknowns and moments, into the arrays they came from."""
        problem, bench = self.problem, self._bench
        if problem.modes:
            problem.blocks.data[...] = bench.fetch("data", problem.blocks.data.shape)
        if problem.update_weights:
            problem.weights[...] = bench.fetch("weights", problem.weights.shape)
        for name, array in self._arrays().items():
            if array.size:
                array[...] = bench.fetch(name, array.shape)

    def _arrays(self) -> dict[str, Array]:
        names = (*FACTOR_MOMENTS, *WEIGHT_MOMENTS)
        return {name: getattr(self._moments, name) for name in names}

    # ---- iterations

    def epoch(
        self,
        moments: Moments,
        kind: int,
        rate: float,
        parameters: tuple[float, float, float],
        key: int,
        first_iteration: int,
        iterations: int,
    ) -> None:
        """Take `iterations` steps; the draws are those of iterations first_iteration, ..."""
        problem, bench = self.problem, self._bench
        if self._job is None:
            self._job = self._new_job(kind)
            bench.bring_rule(parameters, problem.ridge, problem.weight_ridge, problem.lower)
            bench.bring_plan("gradient", self._plan, self._cells.load(), problem.row_weights)
            bench.bring_key("gradient", key)
        numbers = np.arange(iterations) + (moments.taken + 1)
        bench.begin_epoch(first_iteration, _corrected(kind, rate, parameters, numbers))
        for done in range(0, iterations, BATCH):
            bench.play(self._job, min(BATCH, iterations - done))
        moments.taken += iterations

    def _new_job(self, kind: int) -> Job:
        problem = self.problem
        return self._bench.job(
            self._plan,
            kind=kind,
            code=problem.code,
            parameter=float(problem.parameter),
            modes=problem.modes,
            weighs=problem.update_weights,
            folds=self._S is not None,
        )

    # ---- the objective

    def objective(self, key: int) -> float:
        """Estimated loss of the slice plus penalties, from the sample with this key."""
        problem, bench = self.problem, self._bench
        if self._drawn != key:
            cells = self._objective_cells.load()
            bench.bring_plan("objective", self._objective_plan, cells, problem.row_weights)
            bench.bring_key("objective", key)
            bench.draw_objective(self._objective_plan)
            self._drawn = key
        loss = bench.objective(self._objective_plan, problem.code, float(problem.parameter))
        return loss + self._penalty()

    def _penalty(self) -> float:
        """Everything in the objective that is not the slice's loss; see `penalty_value`."""
        problem, bench, total = self.problem, self._bench, 0.0
        if problem.modes and (problem.ridge or self._ties):
            sizes, moved = bench.norms()
            for k in problem.modes:
                total += 0.5 * (problem.ridge * sizes[k] + self._anchors[k] * moved[k])
        if problem.update_weights and problem.weight_ridge:
            weights = bench.fetch("weights", problem.weights.shape)
            total += 0.5 * problem.weight_ridge * float(weights @ weights)
        if self._S is not None:
            rank = problem.blocks.rank
            if self._then is None:
                self._then = np.prod(bench.grams("old")[:, 0, :rank, :rank], axis=0)
            grams = bench.grams("data")[:, :, :rank, :rank]
            now, cross = np.prod(grams[:, 0], axis=0), np.prod(grams[:, 1], axis=0)
            total += float(0.5 * ((now + self._then - 2.0 * cross) * self._S).sum())
        return float(total)


def _corrected(
    kind: int, rate: float, parameters: tuple[float, float, float], numbers: Array
) -> Array:
    """Rates of Adam's steps `numbers` = 1, 2, ...; see `kernels.sgd.epoch.corrected_rate`."""
    beta_1, beta_2, _ = parameters
    if kind in (ADAM, AMSGRAD):
        return np.asarray(rate * np.sqrt(1.0 - beta_2**numbers) / (1.0 - beta_1**numbers))
    return np.full(len(numbers), rate)
