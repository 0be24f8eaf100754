"""The launches of the paper's solver: who runs with how many threads, after whom.

Slopes and Gram matrices do not need each other: they go to two streams, which meet before the step.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from typing import Any

from onlinegcp.kernels.cuda.card import Card
from onlinegcp.kernels.cuda.lanes import GROUP, LANES, SIMULATED, THREADS
from onlinegcp.kernels.cuda.mma import DEEP, SQUARE, aside
from onlinegcp.kernels.cuda.plan import SHARED_NUMBERS, Plan
from onlinegcp.kernels.cuda.sgd import draws, history, panels, rows, slopes, sorting
from onlinegcp.kernels.cuda.sgd.jobs import Job
from onlinegcp.kernels.cuda.sgd.slices import SampledSlice
from onlinegcp.kernels.cuda.streams import Side

WARPS = THREADS // LANES
MOST_SLOPE_BLOCKS = 4096
SLOPE_BLOCKS = 512  # where they also add up the weights' gradient, by block
OBJECTIVE_BLOCKS = 1024
TILE_ROWS = 32
FEW_ROWS = 1024  # up to which Gram matrices are made in one go
COPY_BLOCKS = 1024
MOVING_WARPS = 3300
MOST_FOLDERS = 3072  # threads of a block that folds, times modes: what shared memory holds


class Launches:
    """Launches with the buffers of a bench.

    Attributes
    ----------
    at
        Buffers by name.
    x
        The slice that is drawn from.
    anchors, bases
        Weights of ties to the old factors, and where each mode's gathered sums begin.
    """

    def __init__(self, on: Card, layout: Plan, shape: Any, words: Any) -> None:
        self.card, self.layout = on, layout
        self._shape, self._words = shape, words
        self._side = Side(on)
        self.at: dict[str, Any] = {}
        self.x: SampledSlice
        self.anchors: tuple[float, ...] = ()
        self.bases: tuple[int, ...] = ()
        self._per_group = -(-layout.width // GROUP)

    # ---- draws and their order

    def draw(self, name: str, room: int, slots: int) -> None:
        """Samples of so many iterations."""
        at, x, layout = self.at, self.x, self.layout
        prefix = "objective " if name == "objective" else ""
        draws.draw_kernel(layout.modes)[(-(-room // THREADS), slots), THREADS, self.card.stream](
            at[f"{name} numbers"], at[f"{name} key"], at[f"{name} strata"], at[f"{name} shares"],
            at[f"{name} weights"], self._shape, self._words, layout.offsets, x.index, x.value,
            x.linear, x.bitmap, at[f"{name} row weights"], room, at[f"{prefix}rows"],
            at[f"{prefix}xs"], at[f"{prefix}ws"],
        )  # fmt: skip

    def draw_and_sort(self, job: Job, slots: int) -> None:
        """Samples of so many iterations, and their order by rows."""
        self.draw("gradient", job.room, slots)
        if not job.modes:
            return
        at, layout, stream, sort = self.at, self.layout, self.card.stream, job.sort
        numbers, modes = at["gradient numbers"], layout.modes
        grid = (sort.tiles, modes, slots)
        common = (numbers, at["rows"], layout.offsets, modes, job.room)
        for number in range(sort.passes):
            before, after = at[f"order {(number + 1) % 2}"], at[f"order {number % 2}"]
            sorting.counts_kernel()[grid, sorting.SORTERS, stream, sort.counts_bytes](
                *common, before, number, sort.bits, sort.tile, at["counts"]
            )
            sorting.places_kernel()[modes * slots, sorting.SORTERS, stream, sort.counts_bytes](
                sort.tiles, sort.bits, at["counts"]
            )
            sorting.sort_kernel()[grid, sorting.SORTERS, stream, sort.places_bytes](
                *common, before, number, sort.bits, sort.tile, at["counts"], after
            )
        grid = (-(-(job.room + 1) // THREADS), modes, slots)
        order = at[f"order {(sort.passes - 1) % 2}"]
        sorting.bounds_kernel(modes)[grid, THREADS, stream](
            numbers, at["rows"], layout.offsets, job.room, order, at["bounds"], at["sorted rows"],
            at["places"],
        )  # fmt: skip

    # ---- iterations

    def batch(self, job: Job, count: int) -> None:
        """So many iterations; they end in the buffers they begin in."""
        at, layout = self.at, self.layout
        if not job.fixed:
            self.draw_and_sort(job, count)
        data, moved = "data", "moved"
        weights, moved_weights = "weights", "moved weights"
        for turn in range(count):
            self._iteration(job, turn, data, moved, weights, moved_weights)
            if job.modes:
                data, moved = moved, data
            if job.weighs:
                weights, moved_weights = moved_weights, weights
        if data != "data":
            self._copy(at[data], at["data"], layout.rows * layout.width)
        if weights != "weights":
            self._copy(at[weights], at["weights"], layout.width)
        draws.advance_kernel()[1, LANES, self.card.stream](count, at["gradient numbers"])

    def _iteration(
        self, job: Job, turn: int, data: str, moved: str, weights: str, moved_weights: str
    ) -> None:
        at, layout, stream = self.at, self.layout, self.card.stream
        slot = 0 if job.fixed else turn
        if job.folds:
            self._side.fork()
            self.grams(data, self._side.stream)
        blocks = self.slope_blocks(job)
        slopes.slopes_kernel(self._per_group, layout.modes, job.code, job.weighs)[
            blocks, THREADS, stream, layout.row_bytes
        ](
            at[data], layout.width, at[weights], at["gradient numbers"], job.parameter, job.room,
            slot, at["rows"], at["xs"], at["ws"], at["places"], bool(job.modes), at["ys"],
            at["weight parts"],
        )  # fmt: skip
        if not job.panels:
            for mode in job.modes:
                self._gather(job, mode, slot, data)
        if job.folds:
            self._side.join()
        if job.panels:
            for mode in job.modes:
                self._gather(job, mode, slot, data)
                self._move_panels(job, mode, slot, turn, data, moved, weights)
        elif job.modes:
            self._move(job, slot, turn, data, moved, weights)
        if job.weighs:
            columns = -(-layout.width // LANES)
            rows.weigh_kernel(job.kind)[columns, THREADS, stream, 8 * THREADS](
                layout.width, layout.rank, blocks, at["weight parts"], at["gradient numbers"], turn,
                at[weights],
                at["how"], at["rates"], at["weights_u"], at["weights_v"], at["weights_largest"],
                at[moved_weights],
            )  # fmt: skip

    def slope_blocks(self, job: Job) -> int:
        """Blocks that share out the samples of an iteration."""
        most = SLOPE_BLOCKS if job.weighs else MOST_SLOPE_BLOCKS
        return int(max(1, min(most, -(-job.room // (WARPS * slopes.GROUPS)))))

    def _gather(self, job: Job, mode: int, slot: int, data: str) -> None:
        parts = job.parts[mode]
        if parts <= 0:
            return
        at, layout = self.at, self.layout
        base = self.bases[mode]
        blocks = -(-layout.shape[mode] * parts // WARPS)
        rows.gather_kernel(layout.per_lane, layout.modes)[blocks, THREADS, self.card.stream](
            at[data], layout.width, layout.offsets, mode, job.room, slot, at["sorted rows"],
            at["bounds"], at["ys"][mode * job.room :], parts, at["gathered"][base:],
        )  # fmt: skip

    def _move(self, job: Job, slot: int, turn: int, data: str, moved: str, weights: str) -> None:
        at, layout = self.at, self.layout
        # As many as a large card has under way at once; few rows leave more for each.
        warps = 1 if SIMULATED else max(4, min(16, MOVING_WARPS // layout.rows // 2 * 2))
        rows.move_kernel(layout.per_lane, layout.modes, job.kind, job.folds)[
            layout.rows, LANES * warps, self.card.stream, 8 * warps * layout.width
        ](
            at[data], layout.width, layout.offsets, at[weights], at["gradient numbers"], job.room,
            slot, turn, at["sorted rows"], at["bounds"], at["ys"], at["mode parts"],
            at["mode bases"], at["gathered"], at["old"], at["folded"], at["how"], at["rates"],
            at["anchors"],
            layout.rank, at["u"], at["v"], at["largest"], at[moved],
        )  # fmt: skip

    def _move_panels(
        self, job: Job, mode: int, slot: int, turn: int, data: str, moved: str, weights: str
    ) -> None:
        at, layout = self.at, self.layout
        tall = panels.panel_rows(layout.width)
        blocks = -(-layout.shape[mode] // tall)
        panels.panels_kernel(layout.width, layout.modes, job.kind, job.folds)[
            blocks, panels.PANEL_THREADS, self.card.stream, panels.panel_bytes(layout.width)
        ](
            at[data], layout.offsets, at[weights], at["gradient numbers"], mode, job.room,
            slot, turn, at["sorted rows"], at["bounds"], at["ys"][mode * job.room :],
            job.parts[mode], at["gathered"], at["old"], at["folded"], at["how"], at["rates"],
            self.anchors[mode], layout.rank, at["u"], at["v"], at["largest"], at[moved],
        )  # fmt: skip

    def _copy(self, source: Any, target: Any, size: int) -> None:
        rows.copy_kernel()[COPY_BLOCKS if not SIMULATED else 1, THREADS, self.card.stream](
            source, target, size
        )

    # ---- sums over all rows

    def grams(self, name: str, stream: Any) -> None:
        """Gram matrices of all modes, and what they are folded to."""
        at, layout = self.at, self.layout
        width, direct = layout.width, layout.rows <= FEW_ROWS
        if not direct:
            squares = history.squares_of(width)
            warps = 1 if SIMULATED else min(WARPS, -(-squares // history.SQUARES))
            tall = max(1, min(TILE_ROWS, SHARED_NUMBERS // (2 * aside(width))) // DEEP) * DEEP
            numbers = 2 * tall * aside(width) + SQUARE
            history.grams_kernel(width, tall)[
                (layout.n_chunks, -(-squares // (warps * history.SQUARES))), LANES * warps, stream,
                8 * numbers,
            ](at[name], at["old"], layout.chunks, at["gram parts"])  # fmt: skip
        blocks = -(-width * width // LANES)
        folders = LANES if SIMULATED else min(512, MOST_FOLDERS // layout.modes // LANES * LANES)
        history.fold_kernel(layout.modes, direct)[
            blocks, folders, stream, 16 * folders * layout.modes
        ](
            width, layout.offsets if direct else layout.bounds, at["gram parts"], at[name],
            at["old"], at["S"], at["folded"], at["totals"],
        )  # fmt: skip

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
