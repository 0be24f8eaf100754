"""A step of the past with one matrix per row, in phases: weights, memory, rows, unit columns.

The host solves for the weights (one R x R system, `solvers.auto.fisher_weights`) and decides how
much to forget; rows, their systems and their line searches are the card's. Nothing waits for the
host between the modes of a sweep.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.cuda import fisher_cells, row_systems, unit_columns
from onlinegcp.kernels.cuda.boxes import Box
from onlinegcp.kernels.cuda.card import Card
from onlinegcp.kernels.cuda.cells import CURVERS, TILE
from onlinegcp.kernels.cuda.every_cell import along_kernel
from onlinegcp.kernels.cuda.formulas import Formulas
from onlinegcp.kernels.cuda.lanes import LANES, SIMULATED, THREADS, TOGETHER
from onlinegcp.kernels.cuda.matrices import Place
from onlinegcp.kernels.cuda.parts import ADDERS, add_parts_kernel
from onlinegcp.kernels.cuda.plan import (
    MOST_BLOCKS,
    SHARED_NUMBERS,
    WARPS,
    Plan,
    batch_for,
    blocks_for,
    size_class,
)
from onlinegcp.kernels.cuda.poisson import PoissonStep
from onlinegcp.kernels.cuda.weighted_cells import Listing, WeightedCells

Array = NDArray[Any]

FEW_ROWS = 264  # blocks that leave room on a large card
WEIGHTS = -1  # in the place of a mode: the weights are solved for


@dataclass(frozen=True)
class Ended:
    """What a slice came to.

    Attributes
    ----------
    lengths
        Of the columns of every mode before they were given unit length (modes, width).
    lost
        Components of which a column fell to zero and was put back (width,).
    after, before
        Traces of the curvature with the slice, and of what was kept of it without.
    magnitudes
        Sums of the sizes of entries (modes, width).
    health
        Not finite if a number of the new matrices is not.
    """

    lengths: Array
    lost: Array
    after: float
    before: float
    magnitudes: Array
    health: Array


@dataclass(frozen=True)
class Sweep:
    """How the rows of all modes are moved once.

    Attributes
    ----------
    lam, lift
        The forgetting factor, and d log(lam) / d eta.
    strength
        Of the zero-centred prior on the entries, times the dispersion.
    bounded, zeroing
        See `solvers.auto.fisher_rows.Visit`.
    learned
        Whether the forgetting is learned.
    first, last
        Whether it starts from the old factors, and whether the slice becomes part of the past.
    """

    lam: float
    lift: float
    strength: float
    bounded: bool
    zeroing: bool
    learned: bool
    first: bool
    last: bool

    @property
    def shape(self) -> tuple[Any, ...]:
        """What a recording depends on."""
        return (self.bounded, self.zeroing, self.learned, self.first, self.last)


class FisherStep(PoissonStep):
    """The phases, for models of one layout.

    Parameters
    ----------
    card, plan
        Where, and the layout.
    full
        Whether matrices are kept, and not their diagonals.
    """

    def __init__(self, card: Card, plan: Plan, *, full: bool) -> None:
        super().__init__(card, plan)
        width, modes = plan.width, plan.modes
        self.full, self._pieces = full, 0
        self._row = width + 1 + (width * width if full else width)
        self._asked_of = Box(card, weights=width, share=1, given=2, strength=1)
        self._evaluated = Box(card, sums=width + 1 + width * width)
        self._few = Box(card, tally=fisher_cells.TALLIES, change=2)
        self._ended = Box(
            card, old=modes * width, new=modes * width,
            ends=modes * (2 * width + unit_columns.ENDS), holds=modes * width,
        )  # fmt: skip
        numbers = row_systems.VECTORS * width + row_systems.SUMS
        self._in_shared = full and numbers + (plan.rank + 1) ** 2 <= SHARED_NUMBERS
        self._row_bytes = 8 * (numbers + ((plan.rank + 1) ** 2 if self._in_shared else 0))

    # ---- the phases

    def evaluate(
        self, at: Place, cells: WeightedCells, formulas: Formulas, weights: Array, share: float
    ) -> tuple[float, Array, Array]:
        """Loss, slope and curvature (lower triangle) in the weights."""
        width = self.plan.width
        self._ask(cells, weights, share)
        key = ("fisher evaluate", at.serial, cells.made, formulas)
        self._tape(key, lambda: self._evaluate(at, cells, formulas)).play()
        self.card.wait()
        sums = self._evaluated["sums"]
        hessian = sums[width + 1 :].reshape(width, width).copy()
        return float(sums[width]), sums[:width].copy(), hessian

    def tally(
        self, at: Place, cells: WeightedCells, formulas: Formulas, weights: Array, share: float
    ) -> tuple[float, float, float]:
        """Loss, squared slopes, and curvature of all cells."""
        self._ask(cells, weights, share)
        key = ("fisher tally", at.serial, cells.made, formulas)
        self._tape(key, lambda: self._tally(at, cells, formulas)).play()
        self.card.wait()
        value, squares, below = self._few["tally"]
        return float(value), float(squares), float(below)

    def along(
        self, at: Place, cells: WeightedCells, formulas: Formulas, weights: Array, share: float
    ) -> tuple[float, float]:
        """Slope and curvature of the loss when the factors move along the sensitivity."""
        self._ask(cells, weights, share)
        key = ("fisher along", at.serial, cells.made, formulas)
        self._tape(key, lambda: self._along(at, cells, formulas)).play()
        self.card.wait()
        slope, bend = self._few["change"]
        return float(slope), float(bend)

    def sweep(
        self,
        at: Place,
        to: Place,
        cells: WeightedCells,
        formulas: Formulas,
        weights: Array,
        share: float,
        how: Sweep,
    ) -> None:
        """Move the rows of all modes, one mode after the other; does not wait."""
        self._ask(cells, weights, share)
        asked = self._asked_of
        asked["given"][:], asked["strength"][0] = (how.lam, how.lift), how.strength
        key = ("fisher sweep", at.serial, to.serial, cells.made, formulas, how.shape)
        self._tape(key, lambda: self._sweep(at, to, cells, formulas, how)).play()
        # What was asked must not be written over before it has been read.
        self.card.wait()

    def end(self, at: Place, to: Place, *, bounded: bool) -> Ended:
        """Give every column unit length."""
        plan, told = self.plan, self._ended
        key = ("fisher end", at.serial, to.serial, bounded)
        self._tape(key, lambda: self._end(at, to, bounded)).play()
        self.card.wait()
        width, modes = plan.width, plan.modes
        new, old = told["new"].reshape(modes, width), told["old"].reshape(modes, width)
        lost = (new == 0.0) & bounded
        lengths = np.sqrt(np.where(lost, old, new))
        lengths = np.where(lengths <= 0.0, 1.0, lengths)
        ends = told["ends"].reshape(modes, 2 * width + unit_columns.ENDS)
        rest = ends[:, 2 * width :].sum(axis=0)
        sums = ends[:, : 2 * width].reshape(modes, 2, width)
        health = np.array([rest.sum(), sums.sum()])
        return Ended(
            lengths, lost.any(axis=0), float(rest[0]), float(rest[1]), sums[:, 1].copy(), health
        )

    # ---- what they consist of

    def reserve(self) -> None:
        """Make room on the card, which nothing may do while launches are recorded."""
        plan, width = self.plan, self.plan.width
        ends = plan.n_chunks * (2 * width + unit_columns.ENDS)
        scratch = 1 if self._in_shared or not self.full else max(plan.shape) * (plan.rank + 1) ** 2
        for name, size in (
            ("parts", max(ends, MOST_BLOCKS * fisher_cells.TALLIES)),
            ("row parts", self._pieces),
            ("row scratch", scratch),
            ("row traces", 2 * plan.rows),
        ):
            self._rooms[name] = self.card.room(name, size)

    def _ask(self, cells: WeightedCells, weights: Array, share: float) -> None:
        self._asked_of["weights"][:], self._asked_of["share"][0] = weights, share
        self._counted[2] = cells.n
        _, runs, *pieces = cells.made
        most = self.plan.width + 1 + self.plan.width**2
        self._pieces = max(self._pieces, runs * most, max(pieces) * self._row)

    def _post(self) -> None:
        self._asked_of.send()
        self._counts.copy_to_device(self._counted, stream=self.card.stream)

    def _evaluate(self, at: Place, cells: WeightedCells, formulas: Formulas) -> None:
        width = self.plan.width
        self._post()
        self._sum_pieces(at, cells, formulas, cells.runs, WEIGHTS, full=True)
        columns = width + 1 + width * width
        add_parts_kernel()[(-(-columns // LANES), 1), ADDERS, self.card.stream, 8 * ADDERS](
            self._room("row parts"), columns, cells.runs.piece_starts, self._never, -1,
            self._evaluated.card("sums"),
        )  # fmt: skip
        self._evaluated.receive()

    def _tally(self, at: Place, cells: WeightedCells, formulas: Formulas) -> None:
        self._post()
        made, plan = size_class(cells.n), self.plan
        shared = 8 * WARPS * fisher_cells.TALLIES
        batch, blocks = batch_for(made, LANES), self._blocks(made)
        formulas.bound_to(fisher_cells.tally_kernel, plan.per_lane, plan.modes)[
            blocks, THREADS, self.card.stream, shared
        ](
            at.factors, *self._lists_of(cells), batch, self._asked_of.card("weights"),
            formulas.parameter, self._parts,
        )  # fmt: skip
        self._add(blocks, fisher_cells.TALLIES, self._few.card("tally"))
        self._few.receive()

    def _along(self, at: Place, cells: WeightedCells, formulas: Formulas) -> None:
        self._post()
        made, plan = size_class(cells.n), self.plan
        batch, blocks = batch_for(made, LANES), self._blocks(made)
        formulas.bound_to(fisher_cells.change_kernel, plan.per_lane, plan.modes)[
            blocks, THREADS, self.card.stream, 16 * WARPS
        ](
            at.factors, at.sensitivity, *self._lists_of(cells), batch,
            self._asked_of.card("weights"), formulas.parameter, self._parts,
        )  # fmt: skip
        self._add(blocks, 2, self._few.card("change"))
        self._few.receive()

    def _sweep(
        self, at: Place, to: Place, cells: WeightedCells, formulas: Formulas, how: Sweep
    ) -> None:
        plan, told, stream = self.plan, self._ended, self.card.stream
        self._post()
        if how.first:
            size = plan.rows * plan.width
            to.factors[:size].copy_to_device(at.factors[:size], stream=stream)
            self._squares(at, told.card("old"))
            unit_columns.holds_kernel()[1, THREADS, stream](
                told.card("old"), self._asked_of.card("strength"), plan.rank, plan.width,
                plan.modes, plan.lengths, told.card("holds"),
            )  # fmt: skip
        for k, listing in enumerate(cells.by_mode):
            self._sum_pieces(to, cells, formulas, listing, k, full=self.full)
            self._move(at, to, cells, formulas, listing, k, how)
            if how.last:
                self._sum_pieces(to, cells, formulas, listing, k, full=self.full)
                self._store(at, to, listing, k, how)

    def _end(self, at: Place, to: Place, bounded: bool) -> None:
        plan, told, stream = self.plan, self._ended, self.card.stream
        width = plan.width
        columns = 2 * width + unit_columns.ENDS
        self._squares(to, told.card("new"))
        unit_columns.unit_kernel(plan.per_lane, self.full)[
            plan.n_chunks, THREADS, stream, 8 * (WARPS * columns + width)
        ](
            at.factors, told.card("new"), told.card("old"), bounded, width, plan.chunks,
            plan.modes_of, self._room("row traces"), to.factors, to.curvature, to.slope,
            to.sensitivity, self._parts,
        )  # fmt: skip
        self._add_modes(columns, told.card("ends"))
        unit_columns.straighten_kernel(plan.per_lane)[plan.n_chunks, THREADS, stream](
            told.card("ends"), columns, width, plan.chunks, plan.modes_of, to.factors,
            to.sensitivity,
        )  # fmt: skip
        told.receive()

    # ---- single launches

    def _lists_of(self, cells: WeightedCells) -> tuple[Any, ...]:
        plan = self.plan
        share = self._asked_of.card("share")
        return (
            plan.width, plan.offsets, cells.index, cells.value, cells.weight, self._counts[2:3],
            share,
        )  # fmt: skip

    def _blocks(self, made: int) -> int:
        return blocks_for(made, batch_for(made, LANES))

    def _row_threads(self, mode: int) -> int:
        few = self.plan.shape[mode] <= FEW_ROWS and not SIMULATED
        return 2 * THREADS if few else THREADS

    def _squares(self, at: Place, out: Any) -> None:
        plan = self.plan
        along_kernel(plan.per_lane)[plan.n_chunks, THREADS, self.card.stream, plan.row_bytes](
            at.factors, at.factors, plan.width, plan.chunks, self._parts
        )
        self._add_modes(plan.width, out)

    def _sum_pieces(
        self,
        at: Place,
        cells: WeightedCells,
        formulas: Formulas,
        listing: Listing,
        mode: int,
        *,
        full: bool,
    ) -> None:
        plan, width, warps = self.plan, self.plan.width, CURVERS // LANES
        edge = -(-width // TILE)
        tiles = edge * (edge + 1) // 2
        groups = max(1, min(CURVERS // tiles, 8))
        tile_cells = max(1, min(2 * warps * TOGETHER, SHARED_NUMBERS // width))
        columns = width + 1 if full else 2 * width + 1
        shared = max(tile_cells * width if full else 0, warps * columns)
        if groups > 1 and full:
            shared = max(shared, tiles * TILE * TILE)
        grid = (listing.made, -(-tiles // min(tiles, CURVERS)) if full else 1)
        formulas.bound_to(fisher_cells.pieces_kernel, plan.per_lane, plan.modes, full)[
            grid, CURVERS, self.card.stream, 8 * shared
        ](
            at.factors, width, plan.offsets, cells.index, cells.value, cells.weight,
            self._asked_of.card("share"), listing.order, listing.pieces, listing.count, mode,
            self._asked_of.card("weights"), formulas.parameter, tile_cells, groups,
            self._room("row parts"),
        )  # fmt: skip

    def _move(
        self,
        at: Place,
        to: Place,
        cells: WeightedCells,
        formulas: Formulas,
        listing: Listing,
        mode: int,
        how: Sweep,
    ) -> None:
        plan, asked = self.plan, self._asked_of
        shape = (plan.per_lane, plan.modes, self.full, self._in_shared)
        formulas.bound_to(row_systems.move_kernel, *shape)[
            plan.shape[mode], self._row_threads(mode), self.card.stream, self._row_bytes
        ](
            to.factors, plan.width, plan.rank, plan.offsets, cells.index, cells.value, cells.weight,
            asked.card("share"), listing.order, listing.starts, listing.piece_starts, mode,
            asked.card("weights"), formulas.parameter, self._room("row parts"), at.factors,
            at.curvature, at.slope, asked.card("given"), self._ended.card("holds"), how.bounded,
            how.zeroing, self._room("row scratch"),
        )  # fmt: skip

    def _store(self, at: Place, to: Place, listing: Listing, mode: int, how: Sweep) -> None:
        plan, width = self.plan, self.plan.width
        hold = self._ended.card("holds", mode * width, (mode + 1) * width)
        row_systems.store_kernel(self.full, self._in_shared)[
            plan.shape[mode], self._row_threads(mode), self.card.stream, self._row_bytes
        ](
            to.factors, width, plan.rank, sum(plan.shape[:mode]), listing.piece_starts,
            self._room("row parts"), at.factors, at.curvature, at.slope, at.sensitivity,
            self._asked_of.card("given"), hold, how.learned, how.zeroing, to.curvature, to.slope,
            to.sensitivity, self._room("row traces"), self._room("row scratch"),
        )  # fmt: skip
