"""Weights and slopes of one slice under odds losses, or with missing cells, on the card."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.cuda.questions import Content, Evaluation, Form, Question
from onlinegcp.kernels.random import COMPONENT_ZEROS, stream_key
from onlinegcp.losses import OddsForm
from onlinegcp.solvers.auto import newton, odds_draws, odds_sums
from onlinegcp.solvers.auto.model import Model

Array = NDArray[Any]


class CardOdds:
    """What `solvers.auto.newton` asks of a slice, answered by the card.

    Parameters
    ----------
    bench
        Where models of this layout are learned.
    model
        The model, on the card.
    form, full
        The loss, and whether every cell is observed.
    cells, seen
        Nonzeros, and all listed cells where some are missing; on the card.
    seed, number
        Of the draws.
    """

    def __init__(
        self,
        bench: Any,
        model: Model,
        form: OddsForm,
        full: bool,
        cells: Any,
        seen: Any,
        seed: int,
        number: int,
    ) -> None:
        self.bench, self.factors, self.cells = bench, model.factors, cells
        self.place = model.past.matrices.place  # type: ignore[attr-defined]
        width, rank, shape = model.factors.width, model.factors.rank, model.factors.shape
        self.form = Form(
            linear=form.linear,
            base=form.base,
            slope=form.slope,
            full=full,
            sampled=is_sampled(form, shape, width) and full,
            largest=form.base + form.slope * max(seen.largest, cells.largest, 0.0),
            key=stream_key(seed, number, COMPONENT_ZEROS),
            draws=odds_draws.DRAWS,
            row_draws=tuple(odds_draws.row_draws(n, rank, width, len(shape)) for n in shape),
        )
        self.content = Content(cells, seen, self.form)
        bench.odds.reserve_for(self.form)
        self._known: tuple[bytes, Evaluation] | None = None

    def evaluation(self, weights: Array) -> Evaluation:
        """Both parts of the loss; asked again for the same weights it is not made again."""
        which = weights.tobytes()
        if self._known is None or self._known[0] != which:
            found = self.bench.odds.evaluate(self.place, self.content, weights)
            self._known = which, found
        return self._known[1]

    def tangent(self, weights: Array) -> tuple[float, Array]:
        """Sum of v h(m) and its slope in the weights."""
        found = self.evaluation(weights)
        return found.value, found.push.copy()

    def loss(self, weights: Array) -> float:
        """Loss of the slice."""
        found = self.evaluation(weights)
        return found.value - found.logs

    def solve(self, start: Array, tolerance: float, max_steps: int) -> tuple[Array, int]:
        """Weights and steps where the other part of the loss is linear, or made of drawn cells."""
        if self.form.linear:
            column_sums = self.tangent(start)[1]
            return self._inner(column_sums, start, tolerance, max_steps, newton.EM_STEPS)
        return self._outer(start, tolerance, max_steps)

    def question(self, start: Array, tolerance: float, max_steps: int) -> Question:
        """What is asked where every cell is looked at: that is solved and learned in one."""
        return Question(
            start=start, total=0.0, looked_at=self.cells.n, every=1, tolerance=tolerance,
            max_steps=max_steps, em_steps=newton.EM_STEPS, learned=False,
        )  # fmt: skip

    @property
    def abounds(self) -> bool:
        """Whether a subset of the cells will do."""
        return bool(self.cells.n > 2 * newton.SUBSET)

    def _outer(self, start: Array, tolerance: float, max_steps: int) -> tuple[Array, int]:
        """Alternate tangents and Poisson solves, as `newton` does where cells are drawn."""
        weights, steps, em_steps = start.copy(), 0, newton.EM_STEPS
        for _ in range(max_steps):
            _, push = self.tangent(weights)
            inner, taken = self._inner(push, weights, tolerance, 3, em_steps)
            change = float(np.abs(inner - weights)[: self.factors.rank].max() / inner.max())
            weights, steps, em_steps = inner, steps + taken, 0
            if change <= max(10.0 * tolerance, 1e-4):
                break
        return weights, steps

    def _inner(
        self, column_sums: Array, start: Array, tolerance: float, max_steps: int, em_steps: int
    ) -> tuple[Array, int]:
        n = self.cells.n
        every = min(n // newton.SUBSET, newton.LARGEST_STRIDE) if self.abounds else 1
        asked = Question(
            start=start, total=self.cells.total, looked_at=n // every, every=every,
            tolerance=max(tolerance, 1e-3) if self.abounds else tolerance,
            max_steps=min(max_steps, 8) if self.abounds else max_steps,
            em_steps=em_steps, learned=False, column_sums=column_sums,
        )  # fmt: skip
        found = self.bench.odds.solve(self.place, self.cells, asked)
        return found.weights, found.steps


def is_sampled(form: OddsForm, shape: tuple[int, ...], width: int) -> bool:
    """Whether sums over every cell are made from draws."""
    return not form.linear and math.prod(shape) * width > odds_sums.EXACT_BUDGET
