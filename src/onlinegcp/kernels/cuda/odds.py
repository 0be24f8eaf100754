"""A step of the conjugate past for odds losses, and for slices with missing cells, in phases.

The exposure differs from row to row here, so that one mode moves after the other. Where every
cell counts, sums of log(1 + m) are exact up to a budget, and made from drawn cells above it.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.cuda import every_cell, newton, rows
from onlinegcp.kernels.cuda.boxes import Box
from onlinegcp.kernels.cuda.card import Card
from onlinegcp.kernels.cuda.cells import STOPPED
from onlinegcp.kernels.cuda.drawn import NO_MODE, DrawnSums
from onlinegcp.kernels.cuda.lanes import LANES, SIMULATED, THREADS
from onlinegcp.kernels.cuda.matrices import Place
from onlinegcp.kernels.cuda.parts import add_parts_kernel, adders_for
from onlinegcp.kernels.cuda.plan import MOST_BLOCKS, WARPS, Plan, batch_for, blocks_for, size_class
from onlinegcp.kernels.cuda.questions import (
    Answer,
    Content,
    Evaluation,
    Form,
    Learned,
    Lesson,
    Question,
)
from onlinegcp.kernels.cuda.shares import fixed_scale
from onlinegcp.kernels.cuda.slice_cells import SliceCells

Array = NDArray[Any]


class OddsStep(DrawnSums):
    """The phases, for models of one layout."""

    def __init__(self, card: Card, plan: Plan) -> None:
        super().__init__(card, plan)
        width, modes = plan.width, plan.modes
        self._asked = Box(card, weights=width, scale=1, largest=1, mass=width, events=1)
        self._told = Box(
            card, push=width + 1, more=width + 1, curved=width + 1,
            slopes=2 * width + 2, exposed=modes * width,
            absorbed=modes * rows.ABSORB_SUMS * width, weights=width, scales=modes * width,
            blended=modes * 2 * width, floors=modes * width, unit=width, drawn=2 * width,
            means=width,
        )  # fmt: skip
        self._no_more = card.zeros(width + 1)
        self._reserved: Any = None
        # Blocks for each of so many rows, and where the parts of a row begin.
        self._row_blocks: dict[int, tuple[int, Any]] = {}

    # ---- the phases

    def evaluate(self, at: Place, x: Content, weights: Array) -> Evaluation:
        """Both parts of the loss at some weights."""
        self._asked["weights"][:] = weights
        self._keyed[0] = x.form.key
        self._count(x)
        kind = ("evaluate", *self._sizes(x), x.form.shape)
        self._play(kind, (at.serial,), lambda: self._evaluate(at, x))
        told, width = self._told, self.plan.width
        push, value = told["push"][:width].copy(), float(told["push"][width])
        if x.form.full and x.form.slope:
            push, value = push + told["more"][:width], value + float(told["more"][width])
        curved = told["curved"]
        return Evaluation(value, push, float(curved[width]))

    def step_tangent(
        self,
        at: Place,
        to: Place,
        x: Content,
        asked: Question,
        lesson: Lesson,
    ) -> tuple[Answer, Learned]:
        """Solve for weights where sums over every cell are exact, and learn the slice.

        Newton's steps are decided on the card: see `newton.judge_kernel`.
        """
        how = self._ask_tangent(x, asked)
        how, places = (*how, *self._ask_lesson(x, lesson)), (at.serial, to.serial)
        found = self._vector(newton.WEIGHTS)

        def then() -> None:
            self._learn_modes(at, to, x, lesson, found)

        def whole() -> None:
            self._mail(x.form)
            self._solve_tangent(at, x, asked.em_steps, then)

        self._play(("odds step", *how), places, whole)
        while not self._controls[STOPPED]:
            self._play(("odds rest", *how), places, lambda: self._look(at, x, then))
        return self._answer(asked), self._learned(x.form, lesson)

    def learn(
        self,
        at: Place,
        to: Place,
        x: Content,
        weights: Array,
        lesson: Lesson,
    ) -> Learned:
        """Learn a slice whose weights are known, one mode after the other."""
        self._asked["weights"][:] = weights
        self._count(x)
        how = (*self._sizes(x), x.form.shape, *self._ask_lesson(x, lesson))

        def whole() -> None:
            self._mail(x.form)
            given = self._asked.card("weights")
            self._learn_modes(at, to, x, lesson, given)
            self._told.receive()
            self._board.receive()

        self._play(("odds learn", *how), (at.serial, to.serial), whole)
        return self._learned(x.form, lesson)

    def _ask_tangent(self, x: Content, asked: Question) -> tuple[Any, ...]:
        inbox = self._inbox
        inbox["start"][:] = asked.start
        inbox["given"][:] = 0.0, asked.tolerance, asked.max_steps  # 0: the start is not scaled
        inbox["sums"][:] = 1.0
        self._count(x)
        return (*self._sizes(x), x.form.shape, self._rounds, asked.em_steps)

    def _ask_lesson(self, x: Content, lesson: Lesson) -> tuple[Any, ...]:
        asked = self._asked
        asked["mass"][:], asked["events"][0] = lesson.mass, lesson.events
        asked["scale"][0], asked["largest"][0] = fixed_scale(x.cells.total), x.form.largest
        self._keyed[0] = x.form.key
        self._memory.ask(lesson)
        return (lesson.learned, lesson.share, lesson.sweeps)

    def _learned(self, form: Form, lesson: Lesson) -> Learned:
        told, width, modes = self._told, self.plan.width, self.plan.modes
        absorbed = told["absorbed"].reshape(modes, rows.ABSORB_SUMS, width)
        return Learned(
            weights=told["weights"].copy(),
            prior=absorbed[0, rows.PRIOR].copy(),
            counts=told["blended"].reshape(modes, 2, width)[0, 1].copy(),
            local=self._loss_told(form),
            health=rows.health_of(absorbed),
            kept=self._memory.decided(lesson),
        )

    def _loss_told(self, form: Form) -> float:
        told, width = self._told, self.plan.width
        value = float(told["push"][width])
        if form.full and form.slope:
            value += float(told["more"][width])
        return value - float(told["curved"][width])

    # ---- what they consist of

    def reserve_for(self, form: Form) -> None:
        """Make room for phases of a form, unless it is there."""
        if self._reserved != (self.card.version, form.shape):
            self.reserve()
            self.reserve_draws(form)
            self._reserved = self.card.version, form.shape

    def reserve_draws(self, form: Form) -> None:
        """Make room for the cells that are drawn, or for sums over all of them."""
        super().reserve_draws(form)
        if self._by_rows(form):
            size = (self.plan.rows + ROW_BLOCKS) * self.plan.width
            self._rooms["grid parts"] = self.card.room("grid parts", size)
            for count in {self.plan.rows, *self.plan.shape} - set(self._row_blocks):
                blocks, bounds = max(1, ROW_BLOCKS // count), self.card.zeros(count + 1, np.int64)
                self.card.push(np.arange(count + 1) * blocks, bounds)
                self._row_blocks[count] = blocks, bounds

    def _sizes(self, x: Content) -> tuple[int, int]:
        return size_class(x.cells.n), size_class(x.seen.n)

    def _count(self, x: Content) -> None:
        self._counted[:] = x.cells.n, 1, x.cells.n, 1, x.seen.n, math.prod(self.plan.shape)

    def _mail(self, form: Form) -> None:
        self._asked.send()
        self._inbox.send()
        if form.sampled:
            self._key.copy_to_device(self._keyed, stream=self.card.stream)

    def _evaluate(self, at: Place, x: Content) -> None:
        self._mail(x.form)
        self._both_parts(at, x, self._asked.card("weights"))
        self._told.receive()

    def _both_parts(self, at: Place, x: Content, weights: Any) -> None:
        """Both parts of the loss, to `push`, `more` and `curved`."""
        self._value(at, x, weights)
        made = size_class(x.cells.n)
        # Newton's steps are made on the card: nobody asks for the curvature.
        self._listed(at, x.cells, made, self._all, weights, self._never)
        self._add(self._blocks(made), self.plan.width + 1, self._told.card("curved"))
        self._side.join()

    def _solve_tangent(
        self,
        at: Place,
        x: Content,
        em_steps: int,
        then: Callable[[], None],
    ) -> None:
        plan, board, inbox, stream = self.plan, self._board, self._inbox, self.card.stream
        newton.begin_kernel()[1, THREADS, stream, 8 * plan.width](
            plan.rank, plan.width, 1, em_steps, inbox.card("start"), inbox.card("sums"),
            inbox.card("given"), self._control, board.card("numbers"), board.card("vectors"),
        )  # fmt: skip
        trial, made = self._vector(newton.TRIAL), size_class(x.cells.n)
        for _ in range(em_steps):
            self._value(at, x, trial, self._control)
            self._listed(at, x.cells, made, self._looked, trial, self._control)
            self._add(self._blocks(made), plan.width + 1, self._found, self._control, STOPPED)
            self._side.join()
            self._judge(self._told.card("push"), self._more(x.form))
        self._look(at, x, then)

    def _look(
        self,
        at: Place,
        x: Content,
        then: Callable[[], None],
    ) -> None:
        trial, made = self._vector(newton.TRIAL), size_class(x.cells.n)
        for _ in range(self._rounds):
            self._value(at, x, trial, self._control)
            self._curved(at, x.cells, made, trial, self._control, self._found)
            self._side.join()
            self._judge(self._told.card("push"), self._more(x.form))
        then()
        self._told.receive()
        self._board.receive()

    def _more(self, form: Form) -> Any:
        return self._told.card("more") if form.full and form.slope else self._no_more

    def _value(
        self,
        at: Place,
        x: Content,
        weights: Any,
        control: Any = None,
    ) -> None:
        """Sum of v h(m) and its slope, to `push` (and `more`, what listed cells add).

        Runs beside what is launched next, where it can.
        """
        if x.form.sampled:
            self._draw(at, x.form.draws, x.form.key)
            self._chances(at, x.form.draws, weights, NO_MODE)
            self._collect(x.form, weights)
        with self._beside():
            if not x.form.sampled:
                cells = None if x.form.full else x.seen
                self._tangent(at, cells, x.form.base, x.form, weights, "push", control)
            if x.form.full and x.form.slope:
                self._tangent(at, x.cells, 0.0, x.form, weights, "more", control)

    def _all_slopes(self, at: Place, x: Content, weights: Any) -> None:
        """Slopes in the log-memories; responsibilities and exposure of all modes stay."""
        plan, stream, made = self.plan, self.card.stream, size_class(x.cells.n)
        size = plan.rows * plan.width
        grid = int(max(1, min(MOST_BLOCKS, -(-size // THREADS))))
        if self._by_rows(x.form):
            with self._beside():
                self._grid_rates(at, x.form, weights, 0, plan.rows)
        rows.ratios_kernel()[grid, THREADS, stream](
            at.sensitivity[:size], at.factors[:size], self._room("ratio")
        )
        self._shares(
            at, x.cells, made, weights, learned=True, control=self._always,
            scale=self._asked.card("scale"),
        )  # fmt: skip
        self._add(self._sharing(made)[1], 2 * plan.width + 2, self._told.card("slopes"))
        rows.settle_kernel(plan.per_lane)[plan.n_chunks, THREADS, stream, plan.row_bytes](
            self._room("fixed"), plan.width, plan.chunks, plan.modes_of, 0, plan.offsets,
            plan.bases, plan.copies, self._asked.card("scale"), 0, self._room("phi"), self._parts,
        )  # fmt: skip
        if self._by_rows(x.form):
            self._side.join()
        else:
            for k in range(plan.modes):
                self._rates(at, x, weights, k)
        every_cell.along_kernel(plan.per_lane)[plan.n_chunks, THREADS, stream, plan.row_bytes](
            self._room("exposure"), at.sensitivity, plan.width, plan.chunks, self._parts
        )
        self._add_modes(plan.width, self._told.card("exposed"))

    def _learn_modes(
        self,
        at: Place,
        to: Place,
        x: Content,
        lesson: Lesson,
        given: Any,
    ) -> None:
        plan, told, asked, stream = self.plan, self._told, self._asked, self.card.stream
        width, phi, exposure = plan.width, self._room("phi"), self._room("exposure")
        size, made = plan.rows * width, size_class(x.cells.n)
        weights, learned = told.card("weights"), lesson.learned
        if learned:
            self._all_slopes(at, x, given)
            self._memory.decide(told.card("slopes"), told.card("exposed"), plan.modes)
        lam, lift = self._memory.factors(learned)
        weights.copy_to_device(given, stream=stream)
        to.factors[:size].copy_to_device(at.factors[:size], stream=stream)
        for sweep in range(lesson.sweeps):
            for k in range(plan.modes):
                fresh = sweep > 0 or k > 0 or not learned
                if fresh:
                    # Rates first: what is drawn for them goes through the same whole numbers.
                    self._rates(to, x, weights, k)
                    self._shares(
                        to, x.cells, made, weights, only=k, control=self._always,
                        scale=asked.card("scale"),
                    )  # fmt: skip
                    if self._by_rows(x.form):
                        self._side.join()
                self._blend(k, at, to, lam, settled=not fresh)
                rows.scale_kernel(plan.per_lane)[self._chunks(k), THREADS, stream](
                    told.card("blended", 2 * k * width, (2 * k + 1) * width), width, plan.chunks,
                    plan.first_chunk[k], to.factors,
                    told.card("scales", k * width, (k + 1) * width), weights,
                )  # fmt: skip
        counts, floors = self._blended(0)[width:], told.card("floors")
        rows.floors_kernel()[1, THREADS, stream](
            plan.rank, width, plan.modes, asked.card("mass"), counts, asked.card("events"),
            lesson.share, plan.lengths, floors,
        )  # fmt: skip
        absorb_bytes = rows.ABSORB_SUMS * plan.row_bytes
        rows.absorb_kernel(plan.per_lane)[plan.n_chunks, THREADS, stream, absorb_bytes](
            at.factors, phi, at.rate, lam, exposure, False, width, plan.chunks,
            plan.modes_of, 0, told.card("scales"), self._ones, lift, floors, learned,
            at.sensitivity, to.factors, to.rate, to.sensitivity, self._parts,
        )  # fmt: skip
        self._add_modes(rows.ABSORB_SUMS * width, told.card("absorbed"))
        rows.finish_kernel(plan.per_lane)[plan.n_chunks, THREADS, stream](
            told.card("absorbed"), floors, learned, width, plan.chunks, plan.modes_of, 0,
            to.factors, to.sensitivity,
        )  # fmt: skip
        self._both_parts(to, x, weights)

    # ---- single launches

    def _chunks(self, mode: int) -> int:
        return self.plan.first_chunk[mode + 1] - self.plan.first_chunk[mode]

    def _blended(self, mode: int) -> Any:
        """Column sums of a mode's new rows, and of its counts (2 * width,)."""
        both = 2 * self.plan.width
        return self._told.card("blended", mode * both, (mode + 1) * both)

    def _settle(self, mode: int, scale: Any, stride: int, out: Any) -> None:
        plan = self.plan
        rows.settle_kernel(plan.per_lane)[
            self._chunks(mode), THREADS, self.card.stream, plan.row_bytes
        ](
            self._room("fixed"), plan.width, plan.chunks, plan.modes_of, plan.first_chunk[mode],
            plan.offsets, plan.bases, plan.copies, scale, stride, out, self._parts,
        )  # fmt: skip

    def _blend(self, mode: int, at: Place, to: Place, lam: Any, *, settled: bool) -> None:
        plan, width, stream = self.plan, self.plan.width, self.card.stream
        rows.settle_blend_kernel(plan.per_lane)[
            self._chunks(mode), THREADS, stream, 2 * plan.row_bytes
        ](
            self._room("fixed"), width, plan.chunks, plan.first_chunk[mode],
            sum(plan.shape[:mode]), plan.shape[mode], plan.first_fixed[mode], plan.n_copies[mode],
            self._asked.card("scale"), at.factors, at.rate, lam,
            self._room("exposure"), settled, self._room("phi"), to.factors, self._parts,
        )  # fmt: skip
        adders = adders_for(self._chunks(mode))
        add_parts_kernel()[(-(-2 * width // LANES), 1), adders, stream, 8 * adders](
            self._parts, 2 * width, plan.bounds[mode : mode + 2], self._never, -1,
            self._blended(mode),
        )  # fmt: skip

    def _tangent(
        self,
        at: Place,
        cells: SliceCells | None,
        base: float,
        form: Form,
        weights: Any,
        to: str,
        control: Any,
    ) -> None:
        """Over listed cells, or, without any, over every cell."""
        plan, control = self.plan, self._never if control is None else control
        made, count, index, value = self._lists(cells)
        # Where cells follow from their number, fewer and longer runs cost less to add up.
        batch = batch_for(made if cells is not None else RUNS * made, LANES)
        blocks = blocks_for(made, batch)
        every_cell.tangent_kernel(plan.per_lane, plan.modes, cells is None)[
            blocks, THREADS, self._stream, 8 * WARPS * (plan.width + 1)
        ](
            at.factors, plan.width, plan.offsets, index, value, count, batch, weights,
            form.linear, base, form.slope, control, self._parts,
        )  # fmt: skip
        self._add(blocks, plan.width + 1, self._told.card(to), control, STOPPED)

    def _rates(
        self,
        at: Place,
        x: Content,
        weights: Any,
        mode: int,
    ) -> None:
        """Exposure of the rows of a mode."""
        if self._by_rows(x.form):
            first, count = sum(self.plan.shape[:mode]), self.plan.shape[mode]
            with self._beside():
                self._grid_rates(at, x.form, weights, first, count)
            return
        if x.form.sampled:
            self._drawn_rates(at, x.form, weights, mode)
            if not x.form.slope:
                return
            raise NotImplementedError("drawn zeros with weights of their own are the CPU's")
        every_cell.bound_kernel()[1, THREADS, self.card.stream](
            weights, self.plan.width, self._asked.card("largest"), self._told.card("unit")
        )
        if x.form.full:
            self._listed_rates(at, None, x.form.base, x.form, weights, mode)
            if x.form.slope:
                self._listed_rates(at, x.cells, 0.0, x.form, weights, mode)
        else:
            self._listed_rates(at, x.seen, x.form.base, x.form, weights, mode)
        self._settle(mode, self._told.card("unit"), 1, self._room("exposure"))

    def _by_rows(self, form: Form) -> bool:
        """Whether every cell counts alike: then a block adds up a row."""
        alike = form.full and not form.sampled and not form.slope
        return alike and self.plan.rows <= MOST_ROWS

    def _grid_rates(self, at: Place, form: Form, weights: Any, first: int, count: int) -> None:
        plan, stream, width = self.plan, self._stream, self.plan.width
        blocks, bounds = self._row_blocks[count]
        every_cell.grid_rates_kernel(plan.per_lane, plan.modes)[
            (count, blocks), THREADS, stream, plan.row_bytes
        ](
            at.factors, width, plan.offsets, first, weights, form.linear, form.base,
            self._room("grid parts"),
        )  # fmt: skip
        add_parts_kernel()[(-(-width // LANES), count), FEW_ADDERS, stream, 8 * FEW_ADDERS](
            self._room("grid parts"), width, bounds, self._never, -1,
            self._room("exposure")[first * width :],
        )  # fmt: skip

    def _listed_rates(
        self, at: Place, cells: SliceCells | None, base: float, form: Form, weights: Any, mode: int
    ) -> None:
        plan = self.plan
        made, count, index, value = self._lists(cells)
        batch = batch_for(made, LANES)
        every_cell.rates_kernel(plan.per_lane, plan.modes, cells is None)[
            blocks_for(made, batch), THREADS, self.card.stream
        ](
            at.factors, plan.width, plan.offsets, index, value, count, batch, weights,
            form.linear, base, form.slope, mode, self._told.card("unit"), plan.bases, plan.copies,
            self._room("fixed"),
        )  # fmt: skip

    def _lists(self, cells: SliceCells | None) -> tuple[int, Any, Any, Any]:
        """How many cells a recording is made for, how many there are, and the cells."""
        if cells is None:
            return math.prod(self.plan.shape), self._counts[5:6], self._nothing, self._ones
        place = 4 if cells.name == SEEN else 2
        return size_class(cells.n), self._counts[place : place + 1], cells.index, cells.value

    @property
    def _nothing(self) -> Any:
        return self.card.room("no cells", 1, np.int32)


FEW_ADDERS = LANES if SIMULATED else 128  # threads that add up the parts of a row
RUNS = 4  # times longer, where cells follow from their number
MOST_ROWS = 65535  # blocks along y
ROW_BLOCKS = 2048  # that share the rows of a model, where every cell is looked at
SEEN = "seen"  # name of the list of all listed cells, zeros too
