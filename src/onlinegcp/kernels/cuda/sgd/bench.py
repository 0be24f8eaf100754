"""Buffers and recordings for models of one layout: what `engine.SgdEngine` works with."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.cuda.card import Card, card
from onlinegcp.kernels.cuda.mma import EDGE
from onlinegcp.kernels.cuda.plan import Plan as Layout
from onlinegcp.kernels.cuda.plan import size_class
from onlinegcp.kernels.cuda.sgd import draws, rows
from onlinegcp.kernels.cuda.sgd.jobs import BATCH, Job, gram_cut, job_for
from onlinegcp.kernels.cuda.sgd.launches import FEW_ROWS, OBJECTIVE_BLOCKS, SLOPE_BLOCKS, Launches
from onlinegcp.kernels.cuda.sgd.slices import SampledSlice
from onlinegcp.kernels.cuda.sgd.tall import matrix_size
from onlinegcp.kernels.cuda.tape import Tape, copy_to_card
from onlinegcp.kernels.layout import Blocks, pad_matrix
from onlinegcp.kernels.sgd.plan import Plan, words_of_modes

__all__ = ["BATCH", "Bench", "Job", "bench_for"]

Array = NDArray[Any]
LAYOUTS = 4  # of models whose benches are kept
TAPES = 32  # recordings kept
MOST_STRATA = 8
MODE_TABLES = ("mode units", "short tiles", "long tiles", "mode bases", "mode parts")
MATRICES = ("data", "moved", "old", "u", "v", "largest")
KEPT = {"data": "kept data", "u": "kept u", "v": "kept v", "largest": "kept largest"}
VECTORS = ("weights", "moved weights", "weights_u", "weights_v", "weights_largest")
KEPT_VECTORS = {
    "weights": "kept weights",
    "weights_u": "kept weights_u",
    "weights_v": "kept weights_v",
    "weights_largest": "kept weights_largest",
}

_benches: dict[Any, Bench] = {}


def bench_for(blocks: Blocks) -> Bench:
    """The bench for models of this layout."""
    key = (blocks.shape, blocks.rank)
    found = _benches.pop(key, None) or Bench(card(), blocks)
    _benches[key] = found  # the newest last
    while len(_benches) > LAYOUTS:
        del _benches[next(iter(_benches))]
    return found


class Bench:
    """Everything on the card that solves with models of one layout share."""

    def __init__(self, on: Card, blocks: Blocks) -> None:
        self.card = on
        with on.turn:
            self.layout = Layout(on, blocks.offsets, blocks.rank, blocks.width)
            self._shape = self._table(self.layout.shape)
            self._words = self._table(words_of_modes(self.layout.shape))
            self._launches = Launches(on, self.layout, self._shape, self._words)
            self.at: dict[str, Any] = self._launches.at
            # A buffer of its own: what lies beyond the edges of its matrices is and stays zero.
            self.at["folded"] = on.zeros(2 * blocks.ndim * matrix_size(blocks.width))
            firsts, bounds = gram_cut(self.layout.shape)
            self.at["gram rows"], self.at["gram bounds"] = self._table(firsts), self._table(bounds)
            self._launches.gram_chunks = len(firsts) - 1
        self.size = self.layout.rows * self.layout.width
        self._tapes: dict[Any, Tape] = {}
        self._numbers: dict[str, NDArray[np.int64]] = {}
        self._lengths: dict[str, int] = {}
        self._fresh = True

    def _table(self, numbers: Any) -> Any:
        held = np.asarray(numbers, np.int64)
        made = self.card.zeros(held.size, np.int64)
        self.card.push(held, made)
        self.card.wait()
        return made

    # ---- buffers

    def _room(self, name: str, size: int, dtype: Any = np.float64) -> Any:
        self.at[name] = self.card.room(f"sgd {name}", size, dtype)
        return self.at[name]

    def reserve(self) -> None:
        """Make room for what every solve needs."""
        layout = self.layout
        for name in (*MATRICES[:3], "kept data"):
            self._room(name, self.size)
        for name in (*VECTORS, *KEPT_VECTORS.values()):
            self._room(name, layout.width)
        for name in ("u", "v", "largest", "kept u", "kept v", "kept largest"):
            self._room(name, 1)
        square = layout.width**2
        self._room("S", square)
        self._room("totals", 2 * layout.modes * square)
        self._room("gram parts", 1)
        self._room("norms", 2 * layout.n_chunks)
        self._room("anchors", layout.modes)
        self._room("how", rows.STEP_NUMBERS)
        self._room("rates", BATCH)
        self._room("weight parts", SLOPE_BLOCKS * layout.width)
        self._room("objective parts", OBJECTIVE_BLOCKS)
        for name in MODE_TABLES:
            self._room(name, layout.modes + 1, np.int64)
        self._room("gathered", 1)
        for name in ("gradient", "objective"):
            self._room(f"{name} numbers", draws.NUMBERS, np.int64)
            self._room(f"{name} key", 1, np.uint64)
            self._room(f"{name} strata", MOST_STRATA * draws.FIELDS, np.int64)
            self._room(f"{name} shares", MOST_STRATA, np.uint64)
            self._room(f"{name} weights", MOST_STRATA)
            self._room(f"{name} row weights", 1)
        self._fresh = True

    def bring(self, data: Array, weights: Array, old: Array | None) -> None:
        """Push the unknowns, and the factors they are tied to."""
        on = self.card
        on.push(data.reshape(-1), self.at["data"])
        self._copy("data", "moved", self.size)
        on.push(weights, self.at["weights"])
        self._copy("weights", "moved weights", len(weights))
        if old is not None:
            on.push(old.reshape(-1), self.at["old"])

    def bring_moments(self, arrays: dict[str, Array]) -> None:
        """Push what the step method carries."""
        self._lengths = {name: array.size for name, array in arrays.items()}
        for name, array in arrays.items():
            self.card.push(array.reshape(-1), self._room(name, max(1, array.size)))
            self._room((KEPT | KEPT_VECTORS)[name], max(1, array.size))

    def bring_past(self, S: Array | None, anchors: Array) -> None:
        """Push the folded history, and the weights of ties to the old factors."""
        if S is not None:
            square = self.layout.width**2
            if self.layout.rows > FEW_ROWS:
                self._room("gram parts", 2 * self._launches.gram_chunks * square)
            self.card.push(pad_matrix(S).reshape(-1), self.at["S"])
        self.card.push(anchors, self.at["anchors"])

    def bring_rule(
        self,
        parameters: tuple[float, float, float],
        ridge: float,
        weight_ridge: float,
        lower: float,
    ) -> None:
        """Push the constants of a step."""
        self.card.push(np.array([*parameters, ridge, weight_ridge, lower]), self.at["how"])

    def bring_plan(self, name: str, plan: Plan, x: SampledSlice, row_weights: Array | None) -> None:
        """Push what is to be drawn."""
        on, strata = self.card, plan.strata
        numbers = np.zeros(draws.NUMBERS, np.int64)
        numbers[draws.STRATA], numbers[draws.COUNT] = len(strata), plan.count
        numbers[draws.CORRECTED] = sum(s.count for s in strata if s.corrected)
        numbers[draws.FIRST] = draws.NO_ITERATION
        size = int(np.prod([int(n) for n in self.layout.shape], dtype=object))
        numbers[draws.LISTED], numbers[draws.SIZE] = x.n_listed, size
        numbers[draws.UNLISTED] = size - x.n_listed
        numbers[draws.KIND], numbers[draws.MASK] = x.kind, x.mask
        numbers[draws.SORTED], numbers[draws.WEIGHTED] = x.sorted, row_weights is not None
        self._numbers[name] = numbers
        firsts = np.cumsum([0, *(s.count for s in strata)])[: len(strata)]
        table = [
            (s.source, s.count, s.values, s.corrected, first)
            for s, first in zip(strata, firsts, strict=True)
        ]
        on.push(numbers, self.at[f"{name} numbers"])
        on.push(np.array(table, np.int64).reshape(-1), self.at[f"{name} strata"])
        on.push(np.array([s.share for s in strata], np.uint64), self.at[f"{name} shares"])
        on.push(np.array([s.weight for s in strata]), self.at[f"{name} weights"])
        if row_weights is not None:
            on.push(row_weights, self._room(f"{name} row weights", len(row_weights)))
        self._launches.x = x

    def bring_key(self, name: str, key: int) -> None:
        """Push the key of a stream of draws."""
        self.card.push(np.array([key], np.uint64), self.at[f"{name} key"])

    def fetch(self, name: str, shape: tuple[int, ...]) -> Array:
        """An array that moved."""
        return self.card.pull(self.at[name], int(np.prod(shape))).reshape(shape)

    def keep(self, factors: bool) -> None:
        """Copy what moves to where it can be taken back from."""
        self._between(factors, back=False)

    def go_back(self, factors: bool) -> None:
        """Take back what was kept."""
        self._between(factors, back=True)

    def _between(self, factors: bool, *, back: bool) -> None:
        sizes = {"data": self.size if factors else 0, "weights": self.layout.width}
        for name, kept in (KEPT | KEPT_VECTORS).items():
            size = sizes.get(name, self._lengths.get(name, 0))
            self._copy(kept if back else name, name if back else kept, size)

    def _copy(self, source: str, target: str, size: int) -> None:
        if size:
            self.at[target][:size].copy_to_device(self.at[source][:size], stream=self.card.stream)

    # ---- work

    def job(self, plan: Plan, **how: Any) -> Job:
        """The iterations of a plan, with room for them."""
        layout = self.layout
        job = job_for(plan, layout.shape, layout.width, **how)
        samples = job.places * job.room
        self._room("rows", samples * layout.modes, np.int32)
        self._room("xs", samples)
        self._room("ws", samples)
        if job.modes:
            sort = job.sort
            lists = job.places * layout.modes
            self._room("order 0", samples * layout.modes, np.int32)
            self._room("order 1", samples * layout.modes if sort.passes > 1 else 1, np.int32)
            self._room("counts", lists * sort.tiles * sort.digits, np.int32)
            self._room("sorted rows", samples * layout.modes**2, np.int32)
            self._room("sorted xs", samples * layout.modes)
            self._room("sorted ws", samples * layout.modes)
            self._room("bounds", job.places * (layout.rows + layout.modes), np.int32)
            self._cut_rows(job)
        return job

    def _cut_rows(self, job: Job) -> None:
        """Tables of the tiles of every mode, and of the parts in which short ones are gathered."""
        layout = self.layout
        tiles = np.array([-(-n // EDGE) for n in layout.shape])
        parts = np.array(job.parts)
        short, long = tiles * (parts > 0), tiles * (parts == 0)
        units = short * parts
        firsts = [np.concatenate([[0], np.cumsum(n)]) for n in (units, short, long)]
        tables = (*firsts, firsts[0] * EDGE * layout.width, parts)
        for name, table in zip(MODE_TABLES, tables, strict=True):
            self.card.push(table.astype(np.int64), self.at[name])
        self._room("gathered", max(1, int(units.sum()) * EDGE * layout.width))
        self._launches.units = tuple(int(n[-1]) for n in firsts)

    def begin_epoch(self, first: int, rates: Array) -> None:
        """The next steps are iterations from `first` on, at these rates."""
        numbers = self._numbers["gradient"].copy()
        numbers[draws.FIRST] = first
        # Once per epoch: copies of ordinary memory wait for what is still running.
        self._push_short(numbers, self.at["gradient numbers"])
        self._push_short(rates, self._room("rates", len(rates)))

    def _push_short(self, array: Array, buffer: Any) -> None:
        """Copy a short array to a buffer: the driver itself, for Numba takes longer than it."""
        if self.card.simulated:
            self.card.push(array, buffer)
        else:
            copy_to_card(buffer, array, array.size, self.card.stream)

    def play(self, job: Job, count: int) -> None:
        """Take the next so many steps."""
        launches = self._launches
        if job.fixed and self._fresh:
            self._tape(("draw", job), lambda: launches.draw_and_sort(job, 1)).play()
            self._fresh = False
        self._tape(("batch", job, count), lambda: launches.batch(job, count)).play()

    def draw_objective(self, plan: Plan) -> None:
        """Draw the sample on which all of a solve's objectives are estimated."""
        room = size_class(plan.count)
        self._room("objective rows", room * self.layout.modes, np.int32)
        self._room("objective xs", room)
        self._room("objective ws", room)
        self._launches.draw("objective", room, 1)

    def objective(self, plan: Plan, code: int, parameter: float) -> float:
        """Sum of weight * f(x, m) over that sample."""
        room, launches = size_class(plan.count), self._launches
        key = ("objective", room, code, parameter)
        self._tape(key, lambda: launches.objective(room, code, parameter)).play()
        blocks = launches.objective_blocks(room)
        return float(self.card.pull(self.at["objective parts"], blocks).sum())

    def grams(self, name: str) -> Array:
        """A'A and old'A of every mode, (modes, 2, width, width), of `data` or of `old`."""
        launches, width = self._launches, self.layout.width
        self._tape(("grams", name), lambda: launches.grams(name, self.card.stream)).play()
        shape = (self.layout.modes, 2, width, width)
        return self.fetch("totals", shape)

    def norms(self) -> tuple[Array, Array]:
        """Sums of a^2 and of (a - old)^2 for every mode."""
        layout = self.layout
        self._tape(("norms",), self._launches.norms).play()
        found = self.fetch("norms", (layout.n_chunks, 2))
        ends = layout.first_chunk
        sums = np.array([found[a:b].sum(axis=0) for a, b in pairwise(ends)])
        return sums[:, 0], sums[:, 1]

    def _tape(self, key: tuple[Any, ...], launches: Any) -> Tape:
        # What was recorded is void where a buffer has moved.
        key = (*key, self.card.version)
        tape = self._tapes.pop(key, None) or Tape(self.card.stream, launches)
        self._tapes[key] = tape  # the newest last
        while len(self._tapes) > TAPES:
            del self._tapes[next(iter(self._tapes))]
        return tape
