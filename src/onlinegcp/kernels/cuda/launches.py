"""What the steps of the conjugate past are made of: boxes, room, recordings and single launches.

A phase is played as one recording per kind and place; whoever needs other numbers of looks or
cells makes another.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.cuda import newton, rows
from onlinegcp.kernels.cuda.boxes import Box
from onlinegcp.kernels.cuda.card import Card
from onlinegcp.kernels.cuda.cells import (
    CURVERS,
    SQUARES,
    STOPPED,
    curved_kernel,
    pick_kernel,
    sums_kernel,
)
from onlinegcp.kernels.cuda.lanes import LANES, THREADS, TOGETHER
from onlinegcp.kernels.cuda.matrices import Place
from onlinegcp.kernels.cuda.mma import SQUARE, aside
from onlinegcp.kernels.cuda.overlap import can_overlap
from onlinegcp.kernels.cuda.parts import add_parts_kernel, adders_for
from onlinegcp.kernels.cuda.plan import (
    MOST_AT_ONCE,
    MOST_BLOCKS,
    MOST_CURVED,
    MOST_SHARING,
    SHARED_AT_ONCE,
    SHARED_NUMBERS,
    WARPS,
    Plan,
    batch_for,
    blocks_for,
    exact_width,
    size_class,
)
from onlinegcp.kernels.cuda.remembering import Remembering
from onlinegcp.kernels.cuda.shares import NO_MODE, SHARERS, shares_kernel
from onlinegcp.kernels.cuda.slice_cells import SliceCells
from onlinegcp.kernels.cuda.streams import Side
from onlinegcp.kernels.cuda.tape import Tape
from onlinegcp.losses.formulas import EPS

Array = NDArray[Any]

TAPES = 32  # recordings kept


class Cells(Protocol):
    """Buffers on the card with positions and values of cells."""

    index: Any
    value: Any


@dataclass
class Picked:
    """Cells of a slice that stand for all of them."""

    index: Any
    value: Any


class Launches:
    """Everything that phases for models of one layout share."""

    def __init__(self, card: Card, plan: Plan) -> None:
        self.card, self.plan = card, plan
        self._stream, self._side = card.stream, Side(card)
        self._tapes: dict[Any, Tape] = {}
        self._compiled: set[Any] = set()  # kinds of phases that were played, at any place
        self._rooms: dict[str, Any] = {}
        self._bounds: dict[int, Any] = {}
        width, modes = plan.width, plan.modes
        self._inbox = Box(
            card,
            given=3,
            scale=1,
            events=1,
            start=width,
            mass=width,
            sums=width,
            about=2,
            whole={"counts": 6},
            **Remembering.asks(width),
        )
        self._board = Box(
            card, numbers=newton.NUMBERS, vectors=newton.VECTORS * width, slopes=2 * width + 2,
            phi_sums=modes * width, column_sums=modes * width,
            absorbed=modes * rows.ABSORB_SUMS * width, looked=width + 1, found=width + 1,
            floors=modes * width, unscaled=width, whole={"control": newton.CONTROLS},
            **Remembering.tells(width),
        )  # fmt: skip
        self._memory = Remembering(card, self._inbox, self._board, width)
        self._control, self._controls = self._board.card("control"), self._board["control"]
        self._counts, self._counted = self._inbox.card("counts"), self._inbox["counts"]
        self._looked, self._all = self._inbox.card("counts", 0, 2), self._inbox.card("counts", 2, 4)
        self._never = card.zeros(newton.CONTROLS, np.int64)
        self._always = card.zeros(newton.CONTROLS, np.int64)
        card.push(np.ones(newton.CONTROLS, np.int64), self._always)
        self._ones = card.zeros(modes * width)
        card.push(np.ones(modes * width), self._ones)
        self._about = card.zeros(2)  # keeps model values off zero
        card.push(np.array([EPS, 0.0]), self._about)

    # ---- recordings

    def _play(
        self,
        kind: tuple[Any, ...],
        places: tuple[int, ...],
        launches: Any,
        *,
        begins: bool = True,
        ends: bool = True,
    ) -> None:
        """Play a phase that adds to sums, and wait for its end.

        `kind` says which kernels are launched and for how many cells, `places` where. It goes on
        with sums that another has left, or leaves some, unless it begins and ends.
        """
        if begins:
            self._begin_sums()
        self.card.unsettled = True
        self._tape((kind, places), launches, compiled=kind in self._compiled).play()
        self._compiled.add(kind)
        self.card.wait()
        self.card.unsettled = not ends

    def _begin_sums(self) -> None:
        """Before a phase that adds to sums: leave nothing of one that was broken off."""
        self.card.settle("fixed", "found", "met")
        self.card.unsettled = True

    def _tape(self, key: tuple[Any, ...], launches: Any, *, compiled: bool = False) -> Tape:
        key = (*key, self.card.version)
        tape = self._tapes.pop(key, None)
        if tape is None:
            self.reserve()
            key = (*key[:-1], self.card.version)
            tape = self._tapes.pop(key, None)
            if tape is None:
                tape = Tape(self.card.stream, launches, compiled=compiled, early=can_overlap())
        self._tapes[key] = tape  # the newest last
        while len(self._tapes) > TAPES:
            del self._tapes[next(iter(self._tapes))]
        return tape

    def reserve(self) -> None:
        """Make room on the card, which nothing may do while launches are recorded."""
        width, plan = self.plan.width, self.plan
        row = width + 1 + width * width
        blocks = max(MOST_CURVED * row, MOST_SHARING * (2 * width + 2))
        for name, size, dtype in (
            ("parts", max(blocks, plan.n_chunks * rows.ABSORB_SUMS * width), np.float64),
            ("parts beside", MOST_BLOCKS * (width + 1), np.float64),
            ("curved", row, np.float64),
            ("kept", width * width, np.float64),
            ("scratch", (plan.rank + 1) ** 2, np.float64),
            ("fixed", plan.n_fixed, np.int64),
            ("phi", plan.rows * width, np.float64),
            ("ratio", plan.rows * width, np.float32),
        ):
            self._rooms[name] = self.card.room(name, size, dtype)
        found = self._rooms["curved"]
        self._rooms["found sums"] = found[: width + 1]
        self._rooms["found matrix"] = found[width + 1 :]

    def _room(self, name: str) -> Any:
        return self._rooms[name]

    @property
    def _parts(self) -> Any:
        return self._rooms["parts"]

    @property
    def _found(self) -> Any:
        return self._rooms["curved"]

    def _vector(self, which: int) -> Any:
        width = self.plan.width
        return self._board.card("vectors", which * width, (which + 1) * width)

    @contextmanager
    def _beside(self) -> Iterator[None]:
        """What is launched in the body runs beside what comes after it, until `_side.join`."""
        self._side.fork()
        parts, self._rooms["parts"] = self._parts, self._room("parts beside")
        self._stream = self._side.stream
        try:
            yield
        finally:
            self._stream, self._rooms["parts"] = self.card.stream, parts

    # ---- single launches

    def _column_sums(self, at: Place) -> None:
        plan = self.plan
        rows.column_sums_kernel(plan.per_lane)[
            plan.n_chunks, THREADS, self._stream, plan.row_bytes
        ](at.factors, plan.width, plan.chunks, 0, self._parts)
        self._add_modes(plan.width, self._board.card("column_sums"))

    def _blocks(self, made: int) -> int:
        return blocks_for(made, batch_for(made, LANES))

    def _listed(
        self,
        at: Place,
        cells: Cells,
        made: int,
        count: Any,
        weights: Any,
        control: Any,
        about: Any = None,
    ) -> None:
        plan = self.plan
        shared = 8 * WARPS * (plan.width + 1)
        sums_kernel(plan.per_lane, plan.modes, exact_width(made, plan.width))[
            self._blocks(made), THREADS, self._stream, shared
        ](
            at.factors, plan.width, plan.offsets, cells.index, cells.value, count,
            batch_for(made, LANES), weights, self._about if about is None else about, control,
            self._parts,
        )  # fmt: skip

    def _pick(self, cells: SliceCells, looked_at: int, every: int) -> Cells:
        """Room for the cells that are looked at; all of them where none is left out."""
        if every == 1:
            return cells
        made = size_class(looked_at)
        index = self.card.room("picked index", made * self.plan.modes, np.int32)
        return Picked(index, self.card.room("picked value", made))

    def _picks(self, cells: SliceCells, picked: Cells, made: int) -> None:
        grid = int(max(1, min(MOST_BLOCKS, -(-made // THREADS))))
        if picked is not cells:
            pick_kernel(self.plan.modes)[grid, THREADS, self._stream](
                cells.index, cells.value, self._looked, picked.index, picked.value
            )

    def _curved(
        self, at: Place, cells: Cells, made: int, weights: Any, control: Any, sums: Any
    ) -> None:
        plan = self.plan
        width, pitch, warps = plan.width, aside(plan.width), CURVERS // LANES
        side = -(-width // SQUARE)
        units = -(-(side * (side + 1) // 2) // (warps * SQUARES))
        most = min(LANES, (SHARED_NUMBERS - SQUARE) // (warps * pitch))
        each = max(1, min(most, -(-made // MOST_CURVED // warps)) // TOGETHER) * TOGETHER
        tile_cells = warps * each
        # Squares reach beyond the last column, into whatever lies there.
        shared = max(tile_cells * pitch + SQUARE, warps * (width + 1))
        blocks = int(max(1, min(MOST_CURVED, -(-made // tile_cells))))
        # Outer products make a look worth a kernel of its own four times as early.
        exact = exact_width(4 * made, width)
        curved_kernel(plan.per_lane, plan.modes, exact)[
            (blocks, units), CURVERS, self._stream, 8 * shared
        ](
            at.factors, width, plan.offsets, cells.index, cells.value, self._looked,
            weights, control, tile_cells, pitch, self._parts,
        )  # fmt: skip
        self._add(blocks, width + 1 + width * width, sums, control, STOPPED)

    def _slopes(self, at: Place, cells: SliceCells, made: int) -> None:
        ratio = self._room("ratio")
        size = self.plan.rows * self.plan.width
        grid = int(max(1, min(MOST_BLOCKS, -(-size // THREADS))))
        rows.ratios_kernel()[grid, THREADS, self._stream](
            at.sensitivity[:size], at.factors[:size], ratio
        )
        self._shares(at, cells, made, self._vector(newton.WEIGHTS), learned=True)
        width = self.plan.width
        self._add(self._sharing(made)[1], 2 * width + 2, self._board.card("slopes"))

    def _sharing(self, made: int) -> tuple[int, int]:
        """Cells of a warp at a stretch, and blocks that share counts out."""
        longest, most = batch_for(made, 4 * LANES), MOST_SHARING
        if made <= SHARED_AT_ONCE:
            longest, most = min(longest, LANES // 2), MOST_AT_ONCE
        blocks = -(-made // (longest * (SHARERS // LANES)))
        return longest, int(max(1, min(most, blocks)))

    def _private(self) -> tuple[int, int]:
        """The shortest mode but the first, if a block has room for it, and its length."""
        most = SHARED_NUMBERS // (SHARERS // LANES * self.plan.width)
        lengths = [(n, k) for k, n in enumerate(self.plan.shape) if k > 0 and n <= most]
        length, mode = min(lengths, default=(0, NO_MODE))
        return mode, length

    def _shares(
        self,
        at: Place,
        cells: SliceCells,
        made: int,
        weights: Any,
        *,
        learned: bool = False,
        only: int = NO_MODE,
        control: Any = None,
        scale: Any = None,
    ) -> None:
        plan, (stretch, blocks) = self.plan, self._sharing(made)
        warps = SHARERS // LANES
        private, length = self._private()
        if only not in (NO_MODE, private):
            private, length = NO_MODE, 0
        shared = warps * max(2 * plan.width + 2 if learned else 0, length * plan.width)
        shares_kernel(plan.per_lane, plan.modes, learned, exact_width(made, plan.width))[
            blocks, SHARERS, self._stream, 8 * shared
        ](
            at.factors, plan.width, plan.offsets, cells.index, cells.value, self._all,
            stretch, weights, self._room("ratio"),
            self._inbox.card("scale") if scale is None else scale,
            only, private, length, plan.bases, plan.copies, self._room("fixed"),
            self._control if control is None else control, self._parts,
        )  # fmt: skip

    def _judge(self, push: Any = None, more: Any = None) -> None:
        plan, board = self.plan, self._board
        found, hessian = self._room("found sums"), self._room("found matrix")
        tangent = push is not None
        vectors = newton.HELD * plan.width
        inside = vectors + (plan.rank + 1) ** 2 <= SHARED_NUMBERS
        numbers = vectors + ((plan.rank + 1) ** 2 if inside else 0)
        newton.judge_kernel(inside, tangent)[1, newton.JUDGES, self._stream, 8 * numbers](
            plan.rank, plan.width, found, push if tangent else found,
            more if tangent else found, hessian, self._control,
            board.card("numbers"), board.card("vectors"), self._room("kept"),
            self._room("scratch"),
        )  # fmt: skip

    def _add_modes(self, columns: int, sums: Any) -> None:
        """Add up the parts of the chunks of each mode."""
        grid = (-(-columns // LANES), self.plan.modes)
        adders = adders_for(self.plan.most_chunks)
        add_parts_kernel()[grid, adders, self._stream, 8 * adders](
            self._parts, columns, self.plan.bounds, self._never, -1, sums
        )

    def _add(
        self, blocks: int, columns: int, sums: Any, control: Any = None, flag: int = -1
    ) -> None:
        """Add up the parts of so many blocks."""
        if blocks not in self._bounds:
            self._bounds[blocks] = self.card.zeros(2, np.int64)
            self.card.push(np.array([0, blocks]), self._bounds[blocks])
        control, adders = self._never if control is None else control, adders_for(blocks)
        add_parts_kernel()[(-(-columns // LANES), 1), adders, self._stream, 8 * adders](
            self._parts, columns, self._bounds[blocks], control, flag, sums
        )
