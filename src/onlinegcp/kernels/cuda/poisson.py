"""A step of the conjugate past for Poisson slices without missing cells, as one recording.

It finds the weights and what the slice says about the forgetting, decides how much to forget,
moves the factors, absorbs the slice and evaluates the loss. Only short vectors travel, in inboxes
and outboxes that are part of the recording. Where the weights need more looks at the cells than
were recorded, the host sees it in the end and plays the rest again.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.cuda import newton, rows
from onlinegcp.kernels.cuda.boxes import Box
from onlinegcp.kernels.cuda.card import Card
from onlinegcp.kernels.cuda.cells import CURVERS, STOPPED, TILE, curved_kernel, sums_kernel
from onlinegcp.kernels.cuda.lanes import LANES, THREADS, TOGETHER
from onlinegcp.kernels.cuda.matrices import Place
from onlinegcp.kernels.cuda.parts import ADDERS, add_parts_kernel
from onlinegcp.kernels.cuda.plan import (
    MOST_BLOCKS,
    MOST_CURVED,
    MOST_SHARING,
    SHARED_NUMBERS,
    WARPS,
    Plan,
    batch_for,
    blocks_for,
    size_class,
)
from onlinegcp.kernels.cuda.questions import Answer, Learned, Lesson, Question
from onlinegcp.kernels.cuda.remembering import Remembering
from onlinegcp.kernels.cuda.shares import NO_MODE, SHARERS, shares_kernel
from onlinegcp.kernels.cuda.slice_cells import SliceCells
from onlinegcp.kernels.cuda.tape import Tape

Array = NDArray[Any]

ROUNDS = 6  # looks at the cells per recording: the first, three Newton steps, two that are refused
TAPES = 32  # recordings kept


class PoissonStep:
    """The phases, for models of one layout."""

    def __init__(self, card: Card, plan: Plan) -> None:
        self.card, self.plan = card, plan
        self._tapes: dict[Any, Tape] = {}
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
        )
        self._memory = Remembering(card, width)
        self._board = Box(
            card, numbers=newton.NUMBERS, vectors=newton.VECTORS * width, slopes=2 * width + 2,
            phi_sums=modes * width, column_sums=modes * width,
            absorbed=modes * rows.ABSORB_SUMS * width, looked=width + 1, found=width + 1,
            floors=modes * width, unscaled=width,
        )  # fmt: skip
        self._control = card.zeros(newton.CONTROLS, np.int64)
        self._controls = card.pinned(newton.CONTROLS, np.int64)
        self._counts = card.zeros(6, np.int64)
        self._counted = card.pinned(6, np.int64)
        self._never = card.zeros(newton.CONTROLS, np.int64)
        self._always = card.zeros(newton.CONTROLS, np.int64)
        card.push(np.ones(newton.CONTROLS, np.int64), self._always)
        self._ones = card.zeros(modes * width)
        card.push(np.ones(modes * width), self._ones)

    # ---- the phases

    def solve(self, at: Place, cells: SliceCells, asked: Question) -> Answer:
        """Weights of the loaded slice under the factors of `at`."""
        how, made = self._ask_solve(at, cells, asked)
        self._play(("solve", *how), lambda: self._solve(at, cells, asked, made))
        while not self._controls[STOPPED]:
            self._play(("more", *how), lambda: self._go_on(at, cells, asked, made))
        return self._answer(asked)

    def step(
        self, at: Place, to: Place, cells: SliceCells, asked: Question, lesson: Lesson
    ) -> tuple[Answer, Learned]:
        """Solve for the weights of the loaded slice and learn it: `to` becomes `at` after it.

        Parameters
        ----------
        at, to
            Matrices before and after; `at` stays as it is.
        cells
            The slice.
        asked, lesson
            How it is solved and learned.
        """
        inbox, width, modes = self._inbox, self.plan.width, self.plan.modes
        how, made = self._ask_solve(at, cells, asked)
        inbox["mass"][:], inbox["events"][0] = lesson.mass, lesson.events
        self._memory.ask(lesson.kept)
        how = (*how, to.serial, lesson.share, lesson.sweeps)

        def rest() -> None:
            self._go_on(at, cells, asked, made, lambda: self._learn(at, to, cells, lesson))

        def whole() -> None:
            self._memory.send()
            self._solve(at, cells, asked, made, lambda: self._learn(at, to, cells, lesson))

        self._play(("step", *how), whole)
        while not self._controls[STOPPED]:
            self._play(("rest", *how), rest)
        board = self._board
        absorbed = board["absorbed"].reshape(modes, rows.ABSORB_SUMS, width)
        weights = board["phi_sums"][:width].copy()
        # Columns sum to one, so that the model's total is the sum of its weights.
        total = float(weights[: self.plan.rank].sum())
        return self._answer(asked), Learned(
            weights=weights,
            prior=absorbed[0, rows.PRIOR].copy(),
            counts=weights,
            local=total - float(board["found"][width]),
            health=health_of(absorbed),
            kept=self._memory.decided(lesson.kept),
        )

    def _ask_solve(
        self, at: Place, cells: SliceCells, asked: Question
    ) -> tuple[tuple[Any, ...], tuple[int, int]]:
        """Fill the inbox; what a recording depends on, and the sizes it is made for."""
        inbox = self._inbox
        inbox["start"][:] = asked.start
        inbox["given"][:] = asked.total, asked.tolerance, asked.max_steps
        given = asked.column_sums is not None
        if asked.column_sums is not None:
            inbox["sums"][:], inbox["given"][0] = asked.column_sums, 0.0
        inbox["scale"][0] = fixed_scale(asked.total)
        self._counted[:4] = asked.looked_at, asked.every, cells.n, 1
        made = (size_class(asked.looked_at), size_class(cells.n))
        how = (at.serial, *made, asked.em_steps, asked.learned, asked.every > 1, given)
        return how, made

    def _answer(self, asked: Question) -> Answer:
        board, numbers, width = self._board, self._board["numbers"], self.plan.width
        vectors = board["vectors"].reshape(newton.VECTORS, width)
        logs = board["slopes"][2 * width + 1] if asked.learned else board["looked"][width]
        return Answer(
            weights=vectors[newton.WEIGHTS].copy(),
            column_sums=vectors[newton.COLUMN_SUMS].copy(),
            objective=float(numbers[newton.OBJECTIVE]),
            steps=int(self._controls[newton.STEPS]),
            logs=float(logs),
        )

    # ---- what they consist of

    def _play(self, key: tuple[Any, ...], launches: Any) -> None:
        """Play a phase that adds to sums, and wait for its end."""
        self._begin_sums()
        self._tape(key, launches).play()
        self.card.wait()
        self.card.unsettled = False

    def _begin_sums(self) -> None:
        """Before a phase that adds to sums: leave nothing of one that was broken off."""
        self.card.settle("fixed", "found", "met")
        self.card.unsettled = True

    def _tape(self, key: tuple[Any, ...], launches: Any) -> Tape:
        key = (*key, self.card.version)
        tape = self._tapes.pop(key, None)
        if tape is None:
            self.reserve()
            key = (*key[:-1], self.card.version)
            tape = self._tapes.pop(key, None) or Tape(self.card.stream, launches)
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
            ("curved", row, np.float64),
            ("kept", width * width, np.float64),
            ("scratch", (plan.rank + 1) ** 2, np.float64),
            ("fixed", plan.n_fixed, np.int64),
            ("phi", plan.rows * width, np.float64),
            ("ratio", plan.rows * width, np.float32),
        ):
            self._rooms[name] = self.card.room(name, size, dtype)

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
        return self._board.card("vectors")[which * width : (which + 1) * width]

    def _solve(
        self,
        at: Place,
        cells: SliceCells,
        asked: Question,
        made: tuple[int, int],
        then: Callable[[], None] | None = None,
    ) -> None:
        plan, board, inbox, stream = self.plan, self._board, self._inbox, self.card.stream
        self._send()
        sums, modes = inbox.card("sums"), 1
        if asked.column_sums is None:
            sums, modes = board.card("column_sums"), plan.modes
            self._column_sums(at)
        newton.begin_kernel()[1, THREADS, stream, 8 * plan.width](
            plan.rank, plan.width, modes, asked.em_steps, inbox.card("start"), sums,
            inbox.card("given"), self._control, board.card("numbers"), board.card("vectors"),
        )  # fmt: skip
        for _ in range(asked.em_steps):
            self._listed(
                at, cells, made[0], self._counts[:2], self._vector(newton.TRIAL), self._control
            )
            self._add(self._blocks(made[0]), plan.width + 1, self._found, self._control, STOPPED)
            self._judge()
        self._go_on(at, cells, asked, made, then)

    def _go_on(
        self,
        at: Place,
        cells: SliceCells,
        asked: Question,
        made: tuple[int, int],
        then: Callable[[], None] | None = None,
    ) -> None:
        """Look at the cells until the weights are found, and then do something else."""
        for _ in range(ROUNDS):
            trial = self._vector(newton.TRIAL)
            self._curved(at, cells, made[0], trial, self._control, self._found)
            self._judge()
        if asked.learned:
            self._slopes(at, cells, made[1])
        elif asked.every > 1 and asked.column_sums is None:
            weights = self._vector(newton.WEIGHTS)
            self._listed(at, cells, made[1], self._counts[2:4], weights, self._never)
            self._add(self._blocks(made[1]), self.plan.width + 1, self._board.card("looked"))
        if then is not None:
            then()
        self._receive()

    def _learn(self, at: Place, to: Place, cells: SliceCells, lesson: Lesson) -> None:
        """Learn the slice with the weights on the card; nothing is shared out before they are."""
        plan, board, inbox, stream = self.plan, self._board, self._inbox, self.card.stream
        width, phi, made = plan.width, self._room("phi"), size_class(cells.n)
        counts, learned = board.card("phi_sums")[:width], lesson.learned
        if learned:
            self._memory.decide(board.card("slopes"), board.card("slopes"), 0)
            self._memory.receive()
        lam, lift = self._memory.factors(learned)
        for sweep in range(lesson.sweeps):
            if sweep > 0:
                rows.unscaled_kernel()[1, THREADS, stream](
                    counts, board.card("column_sums"), width, plan.modes, board.card("unscaled")
                )
                self._shares(to, cells, made, board.card("unscaled"))
            elif not learned:
                self._shares(at, cells, made, self._vector(newton.WEIGHTS))
            rows.settle_kernel(plan.per_lane)[plan.n_chunks, THREADS, stream, plan.row_bytes](
                self._room("fixed"), width, plan.chunks, plan.modes_of, 0,
                plan.offsets, plan.bases, plan.copies, inbox.card("scale"), 0, phi, self._parts,
            )  # fmt: skip
            self._add_modes(width, board.card("phi_sums"))
            rows.blend_kernel(plan.per_lane)[plan.n_chunks, THREADS, stream, plan.row_bytes](
                at.factors, phi, at.rate, lam, counts, True, width, plan.chunks, 0,
                to.factors, self._parts,
            )  # fmt: skip
            # The columns are divided by their sums when they are written next.
            self._add_modes(width, board.card("column_sums"))
        floors = board.card("floors")
        rows.floors_kernel()[1, THREADS, stream](
            plan.rank, width, plan.modes, inbox.card("mass"), counts, inbox.card("events"),
            lesson.share, plan.lengths, floors,
        )  # fmt: skip
        absorb_bytes = rows.ABSORB_SUMS * plan.row_bytes
        rows.absorb_kernel(plan.per_lane)[plan.n_chunks, THREADS, stream, absorb_bytes](
            at.factors, phi, at.rate, lam, counts, True, width, plan.chunks,
            plan.modes_of, 0, self._ones, board.card("column_sums"), lift, floors,
            learned, at.sensitivity, to.factors, to.rate, to.sensitivity, self._parts,
        )  # fmt: skip
        self._add_modes(rows.ABSORB_SUMS * width, board.card("absorbed"))
        rows.finish_kernel(plan.per_lane)[plan.n_chunks, THREADS, stream](
            board.card("absorbed"), floors, learned, width, plan.chunks, plan.modes_of, 0,
            to.factors, to.sensitivity,
        )  # fmt: skip
        self._listed(to, cells, made, self._counts[2:4], counts, self._never)
        self._add(self._blocks(made), width + 1, board.card("found"))

    # ---- single launches

    def _column_sums(self, at: Place) -> None:
        plan = self.plan
        rows.column_sums_kernel(plan.per_lane)[
            plan.n_chunks, THREADS, self.card.stream, plan.row_bytes
        ](at.factors, plan.width, plan.chunks, 0, self._parts)
        self._add_modes(plan.width, self._board.card("column_sums"))

    def _blocks(self, made: int) -> int:
        return blocks_for(made, batch_for(made, LANES))

    def _listed(
        self, at: Place, cells: SliceCells, made: int, count: Any, weights: Any, control: Any
    ) -> None:
        plan = self.plan
        shared = 8 * WARPS * (plan.width + 1)
        sums_kernel(plan.per_lane, plan.modes)[
            self._blocks(made), THREADS, self.card.stream, shared
        ](
            at.factors, plan.width, plan.offsets, cells.index, cells.value, count,
            batch_for(made, LANES), weights, control, self._parts,
        )  # fmt: skip

    def _curved(
        self, at: Place, cells: SliceCells, made: int, weights: Any, control: Any, sums: Any
    ) -> None:
        plan = self.plan
        width = plan.width
        edge = -(-width // TILE)
        tiles = edge * (edge + 1) // 2
        groups = max(1, min(CURVERS // tiles, 8))
        tile_cells = max(1, min(CURVERS // LANES * TOGETHER, SHARED_NUMBERS // width))
        shared = max(tile_cells * width, CURVERS // LANES * (width + 1))
        if groups > 1:
            shared = max(shared, tiles * TILE * TILE)
        blocks = int(max(1, min(MOST_CURVED, -(-made // tile_cells))))
        grid = (blocks, -(-tiles // min(tiles, CURVERS)))
        curved_kernel(plan.per_lane, plan.modes)[grid, CURVERS, self.card.stream, 8 * shared](
            at.factors, width, plan.offsets, cells.index, cells.value, self._counts[:2],
            weights, control, tile_cells, groups, self._parts,
        )  # fmt: skip
        self._add(blocks, width + 1 + width * width, sums, control, STOPPED)

    def _slopes(self, at: Place, cells: SliceCells, made: int) -> None:
        ratio = self._room("ratio")
        size = self.plan.rows * self.plan.width
        grid = int(max(1, min(MOST_BLOCKS, -(-size // THREADS))))
        rows.ratios_kernel()[grid, THREADS, self.card.stream](
            at.sensitivity[:size], at.factors[:size], ratio
        )
        self._shares(at, cells, made, self._vector(newton.WEIGHTS), learned=True)
        width = self.plan.width
        self._add(self._share_blocks(made), 2 * width + 2, self._board.card("slopes"))

    def _share_blocks(self, made: int) -> int:
        per_block = batch_for(made, 4 * LANES) * (SHARERS // LANES)
        return int(max(1, min(MOST_SHARING, -(-made // per_block))))

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
        plan, stretch = self.plan, batch_for(made, 4 * LANES)
        warps = SHARERS // LANES
        private, length = self._private()
        if only not in (NO_MODE, private):
            private, length = NO_MODE, 0
        shared = warps * max(2 * plan.width + 2 if learned else 0, length * plan.width)
        shares_kernel(plan.per_lane, plan.modes, learned)[
            self._share_blocks(made), SHARERS, self.card.stream, 8 * shared
        ](
            at.factors, plan.width, plan.offsets, cells.index, cells.value, self._counts[2:4],
            stretch, weights, self._room("ratio"),
            self._inbox.card("scale") if scale is None else scale,
            only, private, length, plan.bases, plan.copies, self._room("fixed"),
            self._control if control is None else control, self._parts,
        )  # fmt: skip

    def _judge(self, push: Any = None, more: Any = None) -> None:
        plan, board, found = self.plan, self._board, self._found
        tangent = push is not None
        vectors = newton.VECTORS * plan.width
        inside = vectors + (plan.rank + 1) ** 2 <= SHARED_NUMBERS
        numbers = vectors + ((plan.rank + 1) ** 2 if inside else 0)
        split = plan.width + 1
        newton.judge_kernel(inside, tangent)[1, newton.JUDGES, self.card.stream, 8 * numbers](
            plan.rank, plan.width, found[:split], push if tangent else found[:split],
            more if tangent else found[:split], found[split:], self._control,
            board.card("numbers"), board.card("vectors"), self._room("kept"),
            self._room("scratch"),
        )  # fmt: skip

    def _add_modes(self, columns: int, sums: Any) -> None:
        """Add up the parts of the chunks of each mode."""
        grid = (-(-columns // LANES), self.plan.modes)
        add_parts_kernel()[grid, ADDERS, self.card.stream, 8 * ADDERS](
            self._parts, columns, self.plan.bounds, self._never, -1, sums
        )

    def _add(
        self, blocks: int, columns: int, sums: Any, control: Any = None, flag: int = -1
    ) -> None:
        """Add up the parts of so many blocks."""
        if blocks not in self._bounds:
            self._bounds[blocks] = self.card.zeros(2, np.int64)
            self.card.push(np.array([0, blocks]), self._bounds[blocks])
        control = self._never if control is None else control
        add_parts_kernel()[(-(-columns // LANES), 1), ADDERS, self.card.stream, 8 * ADDERS](
            self._parts, columns, self._bounds[blocks], control, flag, sums
        )

    def _send(self) -> None:
        self._inbox.send()
        self._counts.copy_to_device(self._counted, stream=self.card.stream)

    def _receive(self) -> None:
        self._board.receive()
        self._control.copy_to_host(self._controls, stream=self.card.stream)


def health_of(absorbed: Array) -> Array:
    """Numbers that are finite if all of the new matrices are."""
    return np.asarray(absorbed[:, rows.HEALTH].sum(axis=(0, 2)))


def fixed_scale(total: float) -> float:
    """Whole numbers per count, a power of two: the total of a slice is at most 2^62 of them."""
    return float(2.0 ** (62 - max(-900, math.frexp(total)[1])))
