"""Which models of the default solver go to the card, and the benches where their steps are made."""

from __future__ import annotations

import weakref
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from onlinegcp.errors import BackendError
from onlinegcp.kernels.cuda.card import Card, card, refuse, why_not
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto.cells import cells_of
from onlinegcp.solvers.auto.conjugate import Conjugate
from onlinegcp.solvers.auto.model import Model
from onlinegcp.solvers.auto.state import AutoState

LAYOUTS = 4  # of models whose benches are kept: modes may grow with every slice
# Nonzeros times components from which a card gains anything (benchmarks/gpu.py).
WORTH_IT = 100_000
STAYS = 20_000  # the same for a model that is on the card already


@cache
def device_problem() -> str:
    """Why there is no card, with what to do; empty if there is one."""
    return why_not()


def engine_for(device: str) -> Engine | None:
    """The engine that a parameter `device` asks for; None for the CPU."""
    if device == "auto":
        return None if device_problem() else Engine(picky=True)
    if device != "cuda":
        return None
    if device_problem():
        raise refuse(device_problem())
    return Engine(picky=False)


class Engine:
    """Takes states to the card, or back.

    Parameters
    ----------
    picky
        Leave slices on the CPU that are too small to gain.
    """

    def __init__(self, *, picky: bool) -> None:
        self.picky = picky

    def take(self, state: AutoState, x: Slice, loss: Loss) -> AutoState:
        """A state of which a step may change everything, on the card where that can make it."""
        twin = state.trials.twin
        trials = replace(
            state.trials,
            twin=None if twin is None else self._take(twin, x, loss),
            gains=state.trials.gains.copy(),
        )
        return replace(state, model=self._take(state.model, x, loss), trials=trials)

    def _take(self, model: Model, x: Slice, loss: Loss) -> Model:
        from onlinegcp.solvers.cuda.residence import CardModel

        if not self._suits(model, x, loss):
            return model.copy()
        if isinstance(model, CardModel):
            return model.handed_on()
        return bench_for(model).adopt(model)

    def _suits(self, model: Model, x: Slice, loss: Loss) -> bool:
        from onlinegcp.kernels.cuda.plan import MOST_PER_LANE
        from onlinegcp.solvers.cuda.odds import is_sampled
        from onlinegcp.solvers.cuda.residence import CardModel

        form = loss.traits.odds_form
        if form is None or not isinstance(model.past, Conjugate):
            return False
        drawn = x.n_observed == x.size and is_sampled(form, x.shape, model.factors.width)
        if drawn and form.slope:
            return False  # drawn zeros with weights of their own
        if model.factors.width > 32 * MOST_PER_LANE:
            return False
        if not self.picky:
            return True
        least = STAYS if isinstance(model, CardModel) else WORTH_IT
        return x.n_listed * model.factors.rank >= least


_benches: dict[Any, Bench] = {}


def bench_for(model: Model) -> Bench:
    """The bench for models of this layout."""
    key = (model.factors.shape, model.factors.rank)
    found = _benches.pop(key, None) or Bench(card(), model)
    _benches[key] = found  # the newest last
    while len(_benches) > LAYOUTS:
        del _benches[next(iter(_benches))]
    return found


class Bench:
    """Everything on the card that models of one layout share."""

    def __init__(self, on: Card, model: Model) -> None:
        from onlinegcp.kernels.cuda.matrices import Shelf
        from onlinegcp.kernels.cuda.odds import OddsStep
        from onlinegcp.kernels.cuda.plan import Plan
        from onlinegcp.kernels.cuda.poisson import PoissonStep

        factors = model.factors
        self.card = on
        with on.turn:
            self.plan = Plan(on, factors.offsets, factors.rank, factors.width)
            size = self.plan.rows * self.plan.width
            self.shelf = Shelf(on, ("factors", "rate", "sensitivity"), size)
            self.poisson = PoissonStep(on, self.plan)
            self.odds = OddsStep(on, self.plan)

    def adopt(self, model: Model) -> Model:
        """The same model on the card."""
        from onlinegcp.solvers.cuda.conjugate import CardConjugate
        from onlinegcp.solvers.cuda.residence import SHORT, CardBlocks, CardModel

        past = model.past
        if not isinstance(past, Conjugate):
            raise BackendError(f"The card has no steps for a past of kind {past.name!r}.")
        with self.card.turn:
            there = self.shelf.take()
            there.push("factors", model.factors.data)
            there.push("rate", past.rate)
            there.push("sensitivity", past.sensitivity)
            self.card.wait()
        factors = model.factors
        magnitudes = np.prod([np.abs(a).sum(axis=0) for a in factors.views()], axis=0)
        blocks = CardBlocks(there, factors.offsets, factors.rank, factors.width, magnitudes)
        moved = CardConjugate(self, there, past.mass.copy(), np.zeros(1))
        own = {name: getattr(model, name).copy() for name in SHORT}
        return CardModel(
            blocks,
            model.memory.copy(),
            moved,
            **own,
            bounded=model.bounded,
            unit=model.unit,
            volume=model.volume,
            n_slices=model.n_slices,
        )

    def load(self, x: Slice) -> Any:
        """The cells of a slice that are not zero, on the card; the newest slice is kept there."""
        return _newest(self.card).load(x)

    def load_seen(self, x: Slice) -> Any:
        """All listed cells of a slice, on the card; none for a slice without missing cells."""
        return _newest(self.card).load_seen(x)


@cache
def _newest(on: Card) -> _Newest:
    return _Newest(on)


class _Newest:
    """The slice that lies on the card: the model and its rivals learn the same one."""

    def __init__(self, on: Card) -> None:
        from onlinegcp.kernels.cuda.slice_cells import SliceCells

        self._cells, self._seen = SliceCells(on, "slice"), SliceCells(on, "seen")
        self._whose: weakref.ref[Slice] | None = None
        self._whose_seen: weakref.ref[Slice] | None = None

    def load(self, x: Slice) -> Any:
        if self._whose is None or self._whose() is not x:
            self._whose = None
            cells = cells_of(x)
            self._cells.load(cells.index, cells.value, cells.total)
            self._whose = weakref.ref(x)
        return self._cells

    def load_seen(self, x: Slice) -> Any:
        if self._whose_seen is None or self._whose_seen() is not x:
            self._whose_seen = None
            if x.n_observed < x.size:
                self._seen.load(x.index, x.value, x.total)
            else:
                self._seen.load(x.index[:0], x.value[:0], 0.0)
            self._whose_seen = weakref.ref(x)
        return self._seen
