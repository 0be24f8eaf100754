"""The launches of the paper's solver: who runs with how many threads, after whom.

Sums over samples and Gram matrices do not need each other: they go to two streams, which meet
before the step. Samples do not depend on the model: those of later iterations are drawn beside all
of it, on a third.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from typing import Any

from onlinegcp.kernels.cuda.card import Card
from onlinegcp.kernels.cuda.lanes import GROUP, LANES, SIMULATED, THREADS
from onlinegcp.kernels.cuda.mma import DEEP, EDGE, SQUARE, aside
from onlinegcp.kernels.cuda.plan import SHARED_NUMBERS, Plan
from onlinegcp.kernels.cuda.sgd import draws, history, panels, rows, samples, slopes, sorting
from onlinegcp.kernels.cuda.sgd.jobs import Job
from onlinegcp.kernels.cuda.sgd.slices import SampledSlice
from onlinegcp.kernels.cuda.sgd.tall import groups_of
from onlinegcp.kernels.cuda.streams import Side

WARPS = THREADS // LANES
SLOPE_BLOCKS = 512
OBJECTIVE_BLOCKS = 1024
TILE_ROWS = 32
FEW_ROWS = 1024  # up to which Gram matrices are made in one go
COPY_BLOCKS = 1024
GATHERING_WARPS = 1 if SIMULATED else 4  # of a block
MOVING_WARPS = 1 if SIMULATED else 8
MOST_FOLDERS = 3072  # threads of a block that folds, times modes: what shared memory holds
MOST_GRAM_WARPS = 16  # of a block
FOLDING_NUMBERS = 6000  # doubles that a block has room for


class Launches:
    """Launches with the buffers of a bench.

    Attributes
    ----------
    at
        Buffers by name.
    x
        The slice that is drawn from.
    units
        How many warps gather, and tiles of short and of long modes there are.
    gram_chunks
        In how many chunks rows are cut for Gram matrices.
    """

    def __init__(self, on: Card, layout: Plan, shape: Any, words: Any) -> None:
        self.card, self.layout = on, layout
        self._shape, self._words = shape, words
        self._side, self._drawing = Side(on), Side(on)
        self.at: dict[str, Any] = {}
        self.x: SampledSlice
        self.units: tuple[int, ...] = (0, 0, 0)
        self.gram_chunks = 0
        self._per_group = -(-layout.width // GROUP)
        self._groups, self._edges = groups_of(layout.width), -(-layout.width // EDGE)

    # ---- draws and their order

    def draw(
        self, name: str, room: int, count: int, *, ahead: int = 0, slot: int = 0, on: Any = None
    ) -> None:
        """Samples of `count` iterations, the first of them `ahead` of the next one."""
        at, x, layout = self.at, self.x, self.layout
        stream = self.card.stream if on is None else on
        prefix = "objective " if name == "objective" else ""
        draws.draw_kernel(layout.modes)[(-(-room // THREADS), count), THREADS, stream](
            at[f"{name} numbers"], at[f"{name} key"], at[f"{name} strata"], at[f"{name} shares"],
            at[f"{name} weights"], self._shape, self._words, layout.offsets, x.index, x.value,
            x.linear, x.bitmap, at[f"{name} row weights"], room, ahead, slot, at[f"{prefix}rows"],
            at[f"{prefix}xs"], at[f"{prefix}ws"],
        )  # fmt: skip

    def draw_and_sort(
        self, job: Job, count: int, *, ahead: int = 0, slot: int = 0, on: Any = None
    ) -> None:
        """Samples of `count` iterations, and their order by rows."""
        self.draw("gradient", job.room, count, ahead=ahead, slot=slot, on=on)
        if not job.modes:
            return
        at, layout, sort = self.at, self.layout, job.sort
        stream = self.card.stream if on is None else on
        numbers, modes = at["gradient numbers"], layout.modes
        grid = (sort.tiles, modes, count)
        common = (numbers, at["rows"], layout.offsets, modes, job.room, slot)
        for number in range(sort.passes):
            before, after = at[f"order {(number + 1) % 2}"], at[f"order {number % 2}"]
            sorting.counts_kernel()[grid, sorting.SORTERS, stream, sort.counts_bytes](
                *common, before, number, sort.bits, sort.tile, at["counts"]
            )
            sorting.places_kernel()[modes * count, sorting.SORTERS, stream, sort.counts_bytes](
                modes * slot, sort.tiles, sort.bits, at["counts"]
            )
            sorting.sort_kernel()[grid, sorting.SORTERS, stream, sort.places_bytes](
                *common, before, number, sort.bits, sort.tile, at["counts"], after
            )
        grid = (-(-(job.room + 1) // THREADS), modes, count)
        sorting.bounds_kernel(modes, True)[grid, THREADS, stream](
            numbers, at["rows"], layout.offsets, job.room, slot, self._order(job), at["xs"],
            at["ws"], at["bounds"], at["sorted rows"], at["sorted xs"], at["sorted ws"],
        )  # fmt: skip

    def _order(self, job: Job) -> Any:
        return self.at[f"order {(job.sort.passes - 1) % 2}"]

    # ---- iterations

    def batch(self, job: Job, count: int) -> None:
        """So many iterations; they end in the buffers they begin in."""
        at, layout = self.at, self.layout
        groups = 1 if job.fixed else -(-count // job.slots)
        ends = [count * (g + 1) // groups for g in range(groups)]
        if not job.fixed:
            self.draw_and_sort(job, ends[0])
        data, moved = "data", "moved"
        weights, moved_weights = "weights", "moved weights"
        begin = 0
        for group, end in enumerate(ends):
            if group + 1 < groups:
                # The samples of the next iterations, to the other half of the places.
                self._drawing.fork()
                self.draw_and_sort(
                    job, ends[group + 1] - end, ahead=end, slot=(group + 1) % 2 * job.slots,
                    on=self._drawing.stream,
                )  # fmt: skip
            for turn in range(begin, end):
                slot = 0 if job.fixed else group % 2 * job.slots + turn - begin
                self._iteration(job, turn, slot, data, moved, weights, moved_weights)
                if job.modes:
                    data, moved = moved, data
                if job.weighs:
                    weights, moved_weights = moved_weights, weights
            if group + 1 < groups:
                self._drawing.join()
            begin = end
        if data != "data":
            self._copy(at[data], at["data"], layout.rows * layout.width)
        if weights != "weights":
            self._copy(at[weights], at["weights"], layout.width)
        draws.advance_kernel()[1, LANES, self.card.stream](count, at["gradient numbers"])

    def _iteration(
        self,
        job: Job,
        turn: int,
        slot: int,
        data: str,
        moved: str,
        weights: str,
        moved_weights: str,
    ) -> None:
        if job.folds:
            self._side.fork()
            self.grams(data, self._side.stream)
        if job.weighs:
            self._weigh(job, turn, slot, data, weights, moved_weights)
        if job.short:
            self._gather(job, slot, data, weights)
        if job.folds:
            self._side.join()
        both = bool(job.short and job.long)
        if both:
            self._side.fork()
        if job.long:
            self._step_panels(job, slot, turn, data, moved, weights)
        if job.short:
            stream = self._side.stream if both else self.card.stream
            self._step_tiles(job, turn, data, moved, stream)
        if both:
            self._side.join()

    def _weigh(
        self, job: Job, turn: int, slot: int, data: str, weights: str, moved_weights: str
    ) -> None:
        at, layout, stream = self.at, self.layout, self.card.stream
        blocks = int(max(1, min(SLOPE_BLOCKS, -(-job.room // (WARPS * slopes.GROUPS)))))
        slopes.weights_kernel(self._per_group, layout.modes, job.code)[
            blocks, THREADS, stream, layout.row_bytes
        ](
            at[data], layout.width, at[weights], at["gradient numbers"], job.parameter, job.room,
            slot, at["rows"], at["xs"], at["ws"], at["weight parts"],
        )  # fmt: skip
        columns = -(-layout.width // LANES)
        rows.weigh_kernel(job.kind)[columns, THREADS, stream, 8 * THREADS](
            layout.width, layout.rank, blocks, at["weight parts"], at["gradient numbers"], turn,
            at[weights], at["how"], at["rates"], at["weights_u"], at["weights_v"],
            at["weights_largest"], at[moved_weights],
        )  # fmt: skip

    def _gather(self, job: Job, slot: int, data: str, weights: str) -> None:
        at, layout = self.at, self.layout
        blocks = -(-self.units[0] // GATHERING_WARPS)
        samples.gather_kernel(self._edges, layout.modes, job.code)[
            blocks, LANES * GATHERING_WARPS, self.card.stream
        ](
            at[data], layout.width, layout.offsets, at[weights], at["gradient numbers"],
            job.parameter, job.room, slot, *self._samples(job), at["mode parts"],
            at["mode units"], at["mode bases"], at["gathered"],
        )  # fmt: skip

    def _step_tiles(self, job: Job, turn: int, data: str, moved: str, stream: Any) -> None:
        at, layout = self.at, self.layout
        rows.tiles_kernel(layout.modes, job.kind, job.folds)[
            (self.units[1], self._groups), LANES * MOVING_WARPS, stream,
            16 * rows.TILE_PAIRS * MOVING_WARPS,
        ](
            at[data], layout.width, layout.offsets, at["gradient numbers"], turn, at["mode parts"],
            at["short tiles"], at["mode bases"], at["gathered"], *self._step(data, moved),
        )  # fmt: skip

    def _step_panels(
        self, job: Job, slot: int, turn: int, data: str, moved: str, weights: str
    ) -> None:
        at, layout = self.at, self.layout
        warps = 1 if SIMULATED else panels.PANEL_WARPS
        panels.panels_kernel(layout.width, layout.modes, job.kind, job.code, job.folds)[
            -(-self.units[2] // warps), LANES * warps, self.card.stream,
            panels.panel_bytes(layout.width, warps),
        ](
            at[data], layout.offsets, at[weights], at["gradient numbers"], job.parameter, job.room,
            slot, turn, *self._samples(job), at["long tiles"], *self._step(data, moved),
        )  # fmt: skip

    def _samples(self, job: Job) -> tuple[Any, ...]:
        at = self.at
        return (
            at["sorted rows"], at["bounds"], at["sorted xs"], at["sorted ws"], self._order(job)
        )  # fmt: skip

    def _step(self, data: str, moved: str) -> tuple[Any, ...]:
        at = self.at
        return (
            at["old"], at["folded"], at["how"], at["rates"], at["anchors"], self.layout.rank,
            at["u"], at["v"], at["largest"], at[moved],
        )  # fmt: skip

    def _copy(self, source: Any, target: Any, size: int) -> None:
        rows.copy_kernel()[COPY_BLOCKS if not SIMULATED else 1, THREADS, self.card.stream](
            source, target, size
        )

    # ---- sums over all rows

    def grams(self, name: str, stream: Any) -> None:
        """Gram matrices of all modes, and what they are folded to."""
        at, layout, width = self.at, self.layout, self.layout.width
        if layout.rows <= FEW_ROWS:
            numbers = 2 * layout.modes * history.CORNER
            warps = 1 if SIMULATED else max(1, min(MOST_GRAM_WARPS, FOLDING_NUMBERS // numbers))
            history.fold_rows_kernel(layout.modes)[
                (self._edges, self._edges), LANES * warps, stream, 8 * numbers * warps
            ](
                width, layout.offsets, at[name], at["old"], at["S"], at["folded"], at["totals"]
            )  # fmt: skip
            return
        squares = history.squares_of(width)
        warps = 1 if SIMULATED else min(MOST_GRAM_WARPS, -(-squares // history.SQUARES))
        tall = max(1, min(TILE_ROWS, SHARED_NUMBERS // (2 * aside(width))) // DEEP) * DEEP
        numbers = 2 * tall * aside(width) + SQUARE
        history.grams_kernel(width, tall)[
            (self.gram_chunks, -(-squares // (warps * history.SQUARES))), LANES * warps, stream,
            8 * numbers,
        ](at[name], at["old"], at["gram rows"], at["gram parts"])  # fmt: skip
        blocks = -(-width * width // LANES)
        folders = LANES if SIMULATED else min(512, MOST_FOLDERS // layout.modes // LANES * LANES)
        history.fold_kernel(layout.modes)[blocks, folders, stream, 16 * folders * layout.modes](
            width, at["gram bounds"], at["gram parts"], at["S"], at["folded"], at["totals"]
        )

    def norms(self) -> None:
        """Sums of squares over the rows of every chunk."""
        at, layout = self.at, self.layout
        history.norms_kernel()[layout.n_chunks, THREADS, self.card.stream, 16 * THREADS](
            at["data"], at["old"], layout.width, layout.chunks, at["norms"]
        )

    def objective(self, room: int, code: int, parameter: float) -> None:
        """The loss of the objective's sample, by block."""
        at, layout = self.at, self.layout
        kernel = slopes.objective_kernel(self._per_group, layout.modes, code)
        kernel[self.objective_blocks(room), THREADS, self.card.stream, 8 * WARPS](
            at["data"], layout.width, at["weights"], at["objective numbers"], parameter, room,
            at["objective rows"], at["objective xs"], at["objective ws"], at["objective parts"],
        )  # fmt: skip

    def objective_blocks(self, room: int) -> int:
        """Blocks that share out the objective's sample."""
        return int(max(1, min(OBJECTIVE_BLOCKS, -(-room // (WARPS * slopes.GROUPS)))))
