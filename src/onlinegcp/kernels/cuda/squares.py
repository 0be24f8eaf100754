"""A step of least squares on complete slices, in phases; the host solves the R x R systems."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.cuda import bounded_rows, every_cell, products
from onlinegcp.kernels.cuda.boxes import Box
from onlinegcp.kernels.cuda.card import Card
from onlinegcp.kernels.cuda.cells import TILE
from onlinegcp.kernels.cuda.lanes import LANES, THREADS
from onlinegcp.kernels.cuda.matrices import Place
from onlinegcp.kernels.cuda.odds import OddsStep
from onlinegcp.kernels.cuda.parts import ADDERS, add_parts_kernel
from onlinegcp.kernels.cuda.plan import SHARED_NUMBERS, WARPS, Plan, batch_for, blocks_for
from onlinegcp.kernels.cuda.plan import size_class as class_of
from onlinegcp.kernels.cuda.slice_cells import SliceCells

Array = NDArray[Any]


@dataclass(frozen=True)
class Begun:
    """Sums at the factors before the slice, over the rows of every mode.

    Attributes
    ----------
    right
        Columns of the products times those of the factors, per mode (modes, width).
    gram, mixed, squared
        A'A, A'S and S'S per mode (modes, width, width), S the sensitivity.
    turned
        Columns of the products times those of the sensitivity (modes, width).
    """

    right: Array
    gram: Array
    mixed: Array
    squared: Array
    turned: Array


@dataclass(frozen=True)
class Moved:
    """Sums over the new rows of a mode: new'new, old'new, and columns times each other."""

    gram: Array
    crossed: Array
    right: Array
    along: Array


@dataclass(frozen=True)
class Rule:
    """What new rows of a mode are made of, without a bound: see `products.rows_kernel`.

    Attributes
    ----------
    towards, kept, follow
        What products, old rows and changes of rows are multiplied by (width, width).
    lift
        d log(lam * S) / d eta.
    """

    towards: Array
    kept: Array
    follow: Array
    lift: float


@dataclass(frozen=True)
class BoundedRule:
    """The same for rows that may not fall below zero: see `bounded_rows`.

    Attributes
    ----------
    system
        Of all rows (width, width).
    shares, kept, follow
        What products (width,), old rows and changes of rows are multiplied by.
    lam, lift
        Share of the slopes held back that is remembered, and d log(lam * S) / d eta.
    sweeps, rounds, tolerance
        Of the search for the entries that are zero.
    """

    system: Array
    shares: Array
    kept: Array
    follow: Array
    lam: float
    lift: float
    sweeps: int
    rounds: int
    tolerance: float


class SquareStep(OddsStep):
    """The phases, for models of one layout."""

    def __init__(self, card: Card, plan: Plan) -> None:
        super().__init__(card, plan)
        width, modes = plan.width, plan.modes
        matrix = width * width
        self._order = Box(card, scales=modes * width, towards=matrix, kept=matrix, follow=matrix,
                          lengths=modes * width, along=modes * width, lost=modes * width,
                          shares=width, given=2)  # fmt: skip
        self._reply = Box(
            card, right=modes * width, gram=modes * matrix, mixed=modes * matrix,
            squared=modes * matrix, turned=modes * width, new_gram=matrix, crossed=matrix,
            new_right=width, along=width, ends=modes * 2 * width,
        )  # fmt: skip

    def begin(
        self, at: Place, cells: SliceCells, dense: bool, norm: float, *, learned: bool
    ) -> Begun:
        """Products of the slice with the factors, and all sums that weights and memory need."""
        width, modes = self.plan.width, self.plan.modes
        self._begin_sums()
        self._order["scales"][:] = HEADROOM / max(norm, LEAST)
        self._counted[2] = cells.n
        key = ("square begin", at.serial, class_of(cells.n), dense, learned)
        self._tape(key, lambda: self._begin(at, cells, dense, learned)).play()
        self.card.wait()
        self.card.unsettled = False
        reply, many = self._reply, (modes, width, width)
        return Begun(
            reply["right"].reshape(modes, width).copy(),
            reply["gram"].reshape(many).copy(),
            reply["mixed"].reshape(many).copy(),
            reply["squared"].reshape(many).copy(),
            reply["turned"].reshape(modes, width).copy(),
        )

    def move(
        self,
        at: Place,
        to: Place,
        cells: SliceCells,
        dense: bool,
        mode: int,
        *,
        bound: Array,
        rule: Rule | BoundedRule,
        learned: bool,
    ) -> Moved:
        """New rows of a mode; `bound` limits the products (width,)."""
        width, order = self.plan.width, self._order
        self._begin_sums()
        order["scales"][mode * width : (mode + 1) * width] = HEADROOM / np.maximum(bound, LEAST)
        order["kept"][:], order["follow"][:] = rule.kept.reshape(-1), rule.follow.reshape(-1)
        search: tuple[Any, ...] = ()
        if isinstance(rule, BoundedRule):
            order["towards"][:], order["shares"][:] = rule.system.reshape(-1), rule.shares
            order["given"][:] = rule.lam, rule.lift
            search = rule.sweeps, rule.rounds, rule.tolerance
        else:
            order["towards"][:], order["given"][1] = rule.towards.reshape(-1), rule.lift
        self._counted[2] = cells.n

        def new_rows() -> None:
            if search:
                self._bounded_rows(at, to, mode, learned, search)
            else:
                self._free_rows(at, to, mode, learned)

        key = ("square move", at.serial, to.serial, class_of(cells.n), dense, mode, learned, search)
        self._tape(key, lambda: self._move(at, to, cells, dense, mode, new_rows)).play()
        self.card.wait()
        self.card.unsettled = False
        reply = self._reply
        return Moved(
            reply["new_gram"].reshape(width, width).copy(),
            reply["crossed"].reshape(width, width).copy(),
            reply["new_right"].copy(),
            reply["along"].copy(),
        )

    def restore(self, at: Place, to: Place, lengths: Array, lost: Array) -> tuple[Array, Array]:
        """Let what the bound holds back follow new lengths, and bring lost columns back.

        Gives A'A of every mode, and columns of the last mode's products times those of its rows,
        as they are then.
        """
        width, modes, order = self.plan.width, self.plan.modes, self._order
        order["lengths"][:], order["lost"][:] = lengths.reshape(-1), lost.reshape(-1)
        anew = bool(lost.any())
        key = ("square restore", at.serial, to.serial, anew)
        self._tape(key, lambda: self._restore(at, to, anew)).play()
        self.card.wait()
        gram = self._reply["gram"].reshape(modes, width, width)
        return gram.copy(), self._reply["new_right"].copy()

    def end(self, to: Place, lengths: Array, along: Array) -> tuple[Array, Array]:
        """Columns of unit length; gives sums of squared sensitivities and of sizes of entries."""
        width, modes = self.plan.width, self.plan.modes
        self._order["lengths"][:], self._order["along"][:] = lengths.reshape(-1), along.reshape(-1)
        self._tape(("square end", to.serial), lambda: self._end(to)).play()
        self.card.wait()
        ends = self._reply["ends"].reshape(modes, 2, width)
        return ends[:, 0].copy(), ends[:, 1].copy()

    def reserve(self) -> None:
        """Make room on the card."""
        super().reserve()
        plan = self.plan
        # Sums of chunks, or the systems of blocks where shared memory has no room for them.
        systems = min(max(plan.shape), bounded_rows.MOST_BLOCKS) * (plan.rank + 1) ** 2
        matrices = max(plan.n_chunks * plan.width**2, systems)
        self._rooms["parts"] = self.card.room("parts", max(matrices, self._parts.size))

    # ---- what they consist of

    def _begin(self, at: Place, cells: SliceCells, dense: bool, learned: bool) -> None:
        plan, reply, width = self.plan, self._reply, self.plan.width
        self._post()
        for k in range(plan.modes if learned else 1):
            self._products(at, cells, dense, k)
        self._times(self._room("phi"), at.factors, reply.card("right"))
        for k in range(plan.modes):
            place = (k * width * width, (k + 1) * width * width)
            self._gram(k, at.factors, at.factors, reply.card("gram", *place))
            if learned:
                self._gram(k, at.factors, at.sensitivity, reply.card("mixed", *place))
                self._gram(k, at.sensitivity, at.sensitivity, reply.card("squared", *place))
        if learned:
            self._times(self._room("phi"), at.sensitivity, reply.card("turned"))
        reply.receive()

    def _move(
        self,
        at: Place,
        to: Place,
        cells: SliceCells,
        dense: bool,
        mode: int,
        new_rows: Callable[[], None],
    ) -> None:
        reply, size = self._reply, self.plan.rows * self.plan.width
        self._post()
        if mode == 0:
            to.factors[:size].copy_to_device(at.factors[:size], stream=self.card.stream)
        else:
            self._products(to, cells, dense, mode)
        new_rows()
        self._gram(mode, to.factors, to.factors, reply.card("new_gram"))
        self._gram(mode, at.factors, to.factors, reply.card("crossed"))
        self._times(self._room("phi"), to.factors, reply.card("new_right"), mode)
        self._times(to.factors, to.sensitivity, reply.card("along"), mode)
        reply.receive()

    def _free_rows(self, at: Place, to: Place, mode: int, learned: bool) -> None:
        plan, order = self.plan, self._order
        products.rows_kernel(plan.per_lane)[self._chunks(mode), THREADS, self.card.stream](
            self._room("phi"), at.factors, at.sensitivity, order.card("towards"),
            order.card("kept"), order.card("follow"), order.card("given", 1, 2), learned,
            plan.width, plan.chunks, plan.first_chunk[mode], to.factors, to.sensitivity,
        )  # fmt: skip

    def _bounded_rows(
        self, at: Place, to: Place, mode: int, learned: bool, search: tuple[Any, ...]
    ) -> None:
        plan, order, rows = self.plan, self._order, self.plan.shape[mode]
        vectors, square = bounded_rows.VECTORS * plan.width, (plan.rank + 1) ** 2
        inside = vectors + square <= SHARED_NUMBERS
        blocks = min(rows, bounded_rows.MOST_BLOCKS)
        shared = 8 * (vectors + (square if inside else 0))
        bounded_rows.bounded_rows_kernel(plan.per_lane, inside)[
            blocks, bounded_rows.BOUNDERS, self.card.stream, shared
        ](
            self._room("phi"), at.factors, at.slope, at.sensitivity, order.card("towards"),
            order.card("kept"), order.card("follow"), order.card("shares"), order.card("given"),
            learned, *search, plan.width, plan.rank, sum(plan.shape[:mode]), rows, to.factors,
            to.slope, to.sensitivity, self._parts,
        )  # fmt: skip

    def _restore(self, at: Place, to: Place, anew: bool) -> None:
        plan, order, reply = self.plan, self._order, self._reply
        self._post()
        bounded_rows.restore_kernel(plan.per_lane)[plan.n_chunks, THREADS, self.card.stream](
            order.card("lengths"), order.card("lost"), at.factors, plan.width, plan.chunks,
            plan.modes_of, to.factors, to.slope,
        )  # fmt: skip
        if anew:
            square = plan.width**2
            for k in range(plan.modes):
                part = reply.card("gram", k * square, (k + 1) * square)
                self._gram(k, to.factors, to.factors, part)
            last = plan.modes - 1
            self._times(self._room("phi"), to.factors, reply.card("new_right"), last)
        reply.receive()

    def _end(self, to: Place) -> None:
        plan, order, stream = self.plan, self._order, self.card.stream
        self._post()
        products.project_kernel(plan.per_lane)[
            plan.n_chunks, THREADS, stream, 2 * plan.row_bytes
        ](
            order.card("lengths"), order.card("along"), plan.width, plan.chunks, plan.modes_of,
            to.factors, to.sensitivity, self._parts,
        )  # fmt: skip
        self._add_modes(2 * plan.width, self._reply.card("ends"))
        products.shrink_kernel(plan.per_lane)[plan.n_chunks, THREADS, stream](
            self._reply.card("ends"), 2 * plan.width, plan.width, plan.chunks, plan.modes_of,
            to.sensitivity,
        )  # fmt: skip
        self._reply.receive()

    # ---- single launches

    def _post(self) -> None:
        self._order.send()
        self._counts.copy_to_device(self._counted, stream=self.card.stream)

    def _products(self, at: Place, cells: SliceCells, dense: bool, mode: int) -> None:
        plan, made = self.plan, class_of(cells.n)
        batch = batch_for(made, LANES)
        width = plan.width
        scale = self._order.card("scales", mode * width, (mode + 1) * width)
        products.products_kernel(plan.per_lane, plan.modes, dense)[
            blocks_for(made, batch), THREADS, self.card.stream
        ](
            at.factors, width, plan.offsets, self._nothing if dense else cells.index, cells.value,
            self._counts[2:3], batch, mode, scale, plan.bases, plan.copies, self._room("fixed"),
        )  # fmt: skip
        self._settle(mode, scale, 1, self._room("phi"))

    def _gram(self, mode: int, left: Any, right: Any, out: Any) -> None:
        plan, stream, width = self.plan, self.card.stream, self.plan.width
        tiles, chunks = (width // TILE) ** 2, self._chunks(mode)
        tile_rows = max(1, min(32, SHARED_NUMBERS // (2 * width)))
        grid = (chunks, -(-tiles // THREADS))
        products.gram_kernel()[grid, THREADS, stream, 16 * tile_rows * width](
            left, right, width, plan.chunks, plan.first_chunk[mode], tile_rows, self._parts
        )
        add_parts_kernel()[(-(-(width**2) // LANES), 1), ADDERS, stream, 8 * ADDERS](
            self._parts, width**2, plan.bounds[mode : mode + 2], self._never, -1, out
        )

    def _times(self, left: Any, right: Any, out: Any, mode: int | None = None) -> None:
        """Column sums of a product of two matrices, per mode, or of one mode."""
        plan, stream, width = self.plan, self.card.stream, self.plan.width
        every_cell.along_kernel(plan.per_lane)[plan.n_chunks, THREADS, stream, 8 * WARPS * width](
            left, right, width, plan.chunks, self._parts
        )
        if mode is None:
            self._add_modes(width, out)
        else:
            add_parts_kernel()[(-(-width // LANES), 1), ADDERS, stream, 8 * ADDERS](
                self._parts, width, plan.bounds[mode : mode + 2], self._never, -1, out
            )


HEADROOM = float(2**61)
LEAST = 1e-280  # bound of products; HEADROOM over it is a number still
