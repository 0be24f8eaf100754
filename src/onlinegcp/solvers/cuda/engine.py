"""Which models of the default solver go to the card, and the benches where their steps are made."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from onlinegcp.errors import BackendError
from onlinegcp.kernels.cuda.card import Card, card, refuse, why_not
from onlinegcp.kernels.layout import pad_vector
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto.cells import CELL_BUDGET, cells_of, weighted_cells
from onlinegcp.solvers.auto.conjugate import Conjugate
from onlinegcp.solvers.auto.fisher_rows import FisherRows
from onlinegcp.solvers.auto.model import AutoState, Model, Past, altered
from onlinegcp.solvers.auto.quadratic import Square

LAYOUTS = 3  # of models whose benches are kept: ranks are on trial, modes may grow
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
        twin, ranks = state.trials.twin, state.ranks
        trials = altered(
            state.trials,
            twin=None if twin is None else self._take(twin, x, loss),
            gains=state.trials.gains.copy(),
        )
        if ranks is not None:
            rival, ranks = ranks.twin, replace(ranks, twin=None).copy()
            ranks.twin = None if rival is None else self._take(rival, x, loss)
        return altered(state, model=self._take(state.model, x, loss), trials=trials, ranks=ranks)

    def expect(self, x: Slice) -> None:
        """Let the slice that comes next travel while the present one is learned."""
        if _benches:  # else no model is on the card
            _newest(card()).expect(x)

    def _take(self, model: Model, x: Slice, loss: Loss) -> Model:
        if not self._suits(model, x, loss):
            return model.copy()
        if _is_there(model):
            return model.handed_on()  # type: ignore[attr-defined, no-any-return]
        return bench_for(model).adopt(model)

    def _suits(self, model: Model, x: Slice, loss: Loss) -> bool:
        from onlinegcp.kernels.cuda.plan import MOST_PER_LANE
        from onlinegcp.solvers.cuda.odds import is_sampled

        if model.factors.width > 32 * MOST_PER_LANE:
            return False
        if self.picky:
            least = STAYS if _is_there(model) else WORTH_IT
            if _looked_at(model.past, x) * model.factors.rank < least:
                return False
        if isinstance(model.past, FisherRows):
            from onlinegcp.solvers.cuda.own_losses import is_known

            return is_known(loss)
        if isinstance(model.past, Square):
            return loss.traits.quadratic and x.n_observed == x.size
        form = loss.traits.odds_form
        if form is None or not isinstance(model.past, Conjugate):
            return False
        drawn = x.n_observed == x.size and is_sampled(form, x.shape, model.factors.width)
        # Drawn zeros with weights of their own are the CPU's.
        return not (drawn and form.slope)


def _is_there(model: Model) -> bool:
    """Whether a model lies on the card; one made of its components does not."""
    from onlinegcp.solvers.cuda.residence import CardBlocks

    return isinstance(model.factors, CardBlocks)


def _looked_at(past: Past, x: Slice) -> int:
    """Cells that a step visits, zeros that are drawn aside."""
    every = isinstance(past, FisherRows) and x.n_observed <= CELL_BUDGET
    return x.n_observed if every else x.n_listed


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
        self._rows: dict[int, tuple[Any, Any]] = {}
        self._square_shelves: dict[bool, Any] = {}
        with on.turn:
            self.plan = Plan(on, factors.offsets, factors.rank, factors.width)
            size = self.plan.rows * self.plan.width
            self.shelf = Shelf(on, ("factors", "rate", "sensitivity"), size)
            self.poisson = PoissonStep(on, self.plan)
            self.odds = OddsStep(on, self.plan)

    def square_shelf(self, *, bounded: bool) -> Any:
        """Places for models of least squares."""
        from onlinegcp.kernels.cuda.matrices import Shelf

        if bounded not in self._square_shelves:
            names = ("factors", "sensitivity", *(("slope",) if bounded else ()))
            size = self.plan.rows * self.plan.width
            self._square_shelves[bounded] = Shelf(self.card, names, size)
        return self._square_shelves[bounded]

    @cached_property
    def squares(self) -> Any:
        """The phases of least squares."""
        from onlinegcp.kernels.cuda.squares import SquareStep

        with self.card.turn:
            return SquareStep(self.card, self.plan)

    def rows(self, depth: int) -> tuple[Any, Any]:
        """The phases of models with one matrix per row (depth 1: its diagonal), and places."""
        from onlinegcp.kernels.cuda.fisher import FisherStep
        from onlinegcp.kernels.cuda.matrices import Shelf

        if depth not in self._rows:
            with self.card.turn:
                size = self.plan.rows * self.plan.width
                names = ("factors", "slope", "sensitivity")
                step = FisherStep(self.card, self.plan, full=depth > 1)
                self._rows[depth] = step, Shelf(self.card, names, size, curvature=size * depth)
        return self._rows[depth]

    def adopt(self, model: Model) -> Model:
        """The same model on the card."""
        from onlinegcp.solvers.cuda.conjugate import CardConjugate
        from onlinegcp.solvers.cuda.fisher import CardFisher
        from onlinegcp.solvers.cuda.residence import SHORT, CardBlocks, CardModel
        from onlinegcp.solvers.cuda.square import CardSquare

        past, factors = model.past, model.factors
        moved: Past
        if isinstance(past, Square):
            held = {"slope": past.slope} if model.bounded else {}
            there = self._push(
                self.square_shelf(bounded=model.bounded),
                factors=factors.data,
                sensitivity=past.sensitivity,
                **held,
            )
            moved = CardSquare(self, there, past.products.copy(), past.variance, np.zeros(1))
        elif isinstance(past, Conjugate):
            there = self._push(
                self.shelf, factors=factors.data, rate=past.rate, sensitivity=past.sensitivity
            )
            moved = CardConjugate(self, there, past.mass.copy(), np.zeros(1))
        elif isinstance(past, FisherRows):
            there = self._push(
                self.rows(past.curvature.shape[2])[1],
                factors=factors.data,
                curvature=past.curvature,
                slope=past.slope,
                sensitivity=past.sensitivity,
            )
            moved = CardFisher.like(past, self, there)
        else:
            raise BackendError(f"The card has no steps for a past of kind {past.name!r}.")
        magnitudes = np.prod([np.abs(a).sum(axis=0) for a in factors.views()], axis=0)
        blocks = CardBlocks(there, factors.offsets, factors.rank, factors.width, magnitudes, self)
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

    def log_sum(self, at: Any, x: Slice, weights: Any, floor: float) -> float | None:
        """Sum of x log max(m, floor) over a slice; None where the card would not gain."""
        from onlinegcp.solvers.cuda.residence import WORTH_ASKING

        if x.n_listed * self.plan.rank < WORTH_ASKING:
            return None
        with self.card.turn:
            cells = self.load(x)
            if cells.n == 0:
                return 0.0
            return float(self.poisson.log_sum(at, cells, pad_vector(weights), floor))

    def _push(self, shelf: Any, **matrices: Any) -> Any:
        with self.card.turn:
            there = shelf.take()
            for name, matrix in matrices.items():
                there.push(name, matrix)
            self.card.wait()
        return there

    def load_square(self, x: Slice) -> tuple[Any, bool]:
        """The cells of a complete slice, and whether they are all of them, in C order."""
        if x.array is None:
            return self.load(x), False
        return _newest(self.card).load_array(x), True

    def load_weighted(self, x: Slice, key: int, offsets: Any) -> Any:
        """The cells of a slice for passes over all of them, zeros drawn by the key."""
        return _newest(self.card).load_weighted(x, key, offsets)

    def load(self, x: Slice) -> Any:
        """The cells of a slice that are not zero, on the card; the newest slice is kept there."""
        return _newest(self.card).load(x)

    def load_seen(self, x: Slice) -> Any:
        """All listed cells of a slice, on the card; none for a slice without missing cells."""
        return _newest(self.card).load_seen(x)


@cache
def _newest(on: Card) -> _Newest:
    return _Newest(on)


class _Held:
    """Cells of the newest slice, of one kind."""

    def __init__(
        self, on: Card, name: str, read: Callable[[Slice], tuple[Any, Any, float]]
    ) -> None:
        from onlinegcp.kernels.cuda.slice_cells import SliceCells

        self._cells, self._read = SliceCells(on, name), read
        self._whose: weakref.ref[Slice] | None = None
        self._sent: weakref.ref[Slice] | None = None

    def holds(self, x: Slice | None) -> bool:
        """Whether these are the cells of a slice."""
        return x is not None and self._whose is not None and self._whose() is x

    def load(self, x: Slice) -> Any:
        if not self.holds(x):
            self._whose = None
            if self._sent is not None and self._sent() is x:
                self._cells.take_ahead()
            else:
                self._cells.load(*self._read(x))
            self._whose, self._sent = weakref.ref(x), None
        return self._cells

    def send(self, x: Slice) -> None:
        """Let the cells of the next slice travel."""
        self._sent = None
        if self._cells.send_ahead(*self._read(x)):
            self._sent = weakref.ref(x)


class _Newest:
    """The slice that lies on the card: the model and its rivals learn the same one."""

    def __init__(self, on: Card) -> None:
        from onlinegcp.kernels.cuda.weighted_cells import WeightedCells

        self._card = on
        self._weighted = WeightedCells(on)
        self._whose_weighted: tuple[weakref.ref[Slice], int] | None = None
        self._cells = _Held(on, "slice", _nonzeros)
        self._seen = _Held(on, "seen", _listed)
        self._array = _Held(on, "array", _whole)
        self._latest: weakref.ref[Slice] | None = None

    def load(self, x: Slice) -> Any:
        self._latest = weakref.ref(x)
        return self._cells.load(x)

    def load_seen(self, x: Slice) -> Any:
        return self._seen.load(x)

    def load_array(self, x: Slice) -> Any:
        self._latest = weakref.ref(x)
        return self._array.load(x)

    def expect(self, x: Slice) -> None:
        """Send a slice ahead when there is time, as far as the present one was asked for."""
        if self._latest is not None and not self._card.simulated:
            self._card.meanwhile = partial(self._send, weakref.ref(x))

    def _send(self, which: weakref.ref[Slice]) -> None:
        x, latest = which(), None if self._latest is None else self._latest()
        if x is None or x is latest:
            return
        for held in (self._cells, self._seen, self._array):
            if held.holds(latest):
                held.send(x)

    def load_weighted(self, x: Slice, key: int, offsets: Any) -> Any:
        # Where all zeros are visited, nothing depends on the key.
        drawn = x.n_unlisted_zeros > 0 and x.size > CELL_BUDGET
        which = key if drawn else 0
        held = self._whose_weighted
        if held is None or held[0]() is not x or held[1] != which:
            self._whose_weighted = None
            cells = weighted_cells(x, key)
            self._weighted.load(cells.index, cells.value, cells.weight, offsets)
            self._whose_weighted = weakref.ref(x), which
        return self._weighted


def _nonzeros(x: Slice) -> tuple[Any, Any, float]:
    cells = cells_of(x)
    return cells.index, cells.value, cells.total


def _listed(x: Slice) -> tuple[Any, Any, float]:
    """All listed cells of a slice with missing ones; none of any other."""
    if x.n_observed < x.size:
        return x.index, x.value, x.total
    return x.index[:0], x.value[:0], 0.0


def _whole(x: Slice) -> tuple[Any, Any, float]:
    """All cells of a dense slice, in C order."""
    return np.empty((0, 1), dtype=np.int32), x.value, 0.0
