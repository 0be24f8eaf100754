"""Sums over every cell of a large slice from cells that are drawn: the launches."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from typing import Any

import numpy as np

from onlinegcp.kernels.cuda import draws, rows
from onlinegcp.kernels.cuda.boxes import Box
from onlinegcp.kernels.cuda.card import Card
from onlinegcp.kernels.cuda.lanes import LANES, SIMULATED, THREADS
from onlinegcp.kernels.cuda.matrices import Place
from onlinegcp.kernels.cuda.parts import add_parts_kernel, adders_for
from onlinegcp.kernels.cuda.plan import MOST_BLOCKS, WARPS, Plan
from onlinegcp.kernels.cuda.poisson import PoissonStep
from onlinegcp.kernels.cuda.questions import Form

NO_MODE = -1
DRAWS_PER_BLOCK = 64
STRENGTH = 2.0  # draws that a row borrows from its component's mean


class DrawnSums(PoissonStep):
    """What the phases of odds losses do where not every cell can be looked at."""

    _told: Box  # has the vectors `drawn` (2 width) and `push` (width + 1)

    def __init__(self, card: Card, plan: Plan) -> None:
        super().__init__(card, plan)
        self._key = card.zeros(1, np.uint64)
        self._keyed = card.pinned(1, np.uint64)

    def reserve(self) -> None:
        """Make room on the card."""
        super().reserve()
        plan = self.plan
        size = plan.rows * plan.width
        for name, wanted, dtype in (
            ("exposure", size, np.float64),
            ("cumulative", size, np.float64),
            ("chunk sums", plan.n_chunks * plan.width, np.float64),
            ("found", size, np.int64),
            ("met", size, np.int64),
        ):
            self._rooms[name] = self.card.room(name, wanted, dtype)

    def reserve_draws(self, form: Form) -> None:
        """Make room for the cells that are drawn."""
        if form.sampled:
            most = self.plan.rank * max(form.draws, *(n for n, _ in form.row_draws))
            self._rooms["drawn"] = self.card.room("drawn", most * self.plan.modes, np.int64)
            self._rooms["chance"] = self.card.room("chance", most)
            self._rooms["drawn parts"] = self.card.room("drawn parts", most)

    def _draw(self, at: Place, count: int, key: int) -> None:
        plan, stream = self.plan, self.card.stream
        self._chunk_sums(at)
        cumulative, drawn = self._room("cumulative"), self._room("drawn")
        draws.cumulate_kernel()[plan.n_chunks, 64 if not SIMULATED else LANES, stream](
            at.factors, plan.width, plan.chunks, plan.modes_of, plan.bounds,
            self._room("chunk sums"), cumulative,
        )  # fmt: skip
        draws.draw_kernel()[(plan.rank, plan.modes), min(THREADS, 128), stream](
            cumulative, plan.width, plan.offsets, plan.modes, plan.rank, count, self._key, drawn
        )

    def _chunk_sums(self, at: Place) -> None:
        plan, stream = self.plan, self.card.stream
        chunk_sums = self._room("chunk sums")
        rows.column_sums_kernel(plan.per_lane)[plan.n_chunks, THREADS, stream, plan.row_bytes](
            at.factors, plan.width, plan.chunks, 0, chunk_sums
        )
        grid, adders = (-(-plan.width // LANES), plan.modes), adders_for(plan.most_chunks)
        add_parts_kernel()[grid, adders, stream, 8 * adders](
            chunk_sums, plan.width, plan.bounds, self._never, -1, self._board.card("column_sums")
        )

    def _chances(self, at: Place, count: int, weights: Any, without: int) -> None:
        plan, stream, shares = self.plan, self.card.stream, -(-count // DRAWS_PER_BLOCK)
        draws.chance_kernel(plan.per_lane, plan.modes)[
            (plan.rank, shares), THREADS, stream, 16 * WARPS
        ](
            at.factors, plan.width, self._room("drawn"), count, weights, self._room("chance"),
            self._room("drawn parts"),
        )  # fmt: skip
        draws.means_kernel()[1, THREADS, stream](
            plan.rank, plan.width, plan.modes, without, count, shares,
            self._board.card("column_sums"), self._room("drawn parts"), self._told.card("drawn"),
        )  # fmt: skip

    def _collect(self, form: Form, weights: Any) -> None:
        """Slope and value of the sum from what the draws say."""
        draws.collect_kernel()[1, THREADS, self.card.stream](
            self.plan.rank, self.plan.width, form.base, weights,
            self._told.card("drawn"), self._told.card("push"),
        )  # fmt: skip

    def _drawn_rates(self, at: Place, form: Form, weights: Any, mode: int) -> None:
        plan, stream, width = self.plan, self.card.stream, self.plan.width
        count, scattered = form.row_draws[mode]
        self._draw(at, count, form.key)
        first, last = sum(plan.shape[:mode]), sum(plan.shape[: mode + 1])
        if not scattered:
            draws.row_chances_kernel(plan.per_lane, plan.modes)[
                (plan.shape[mode], width), THREADS, stream, 8 * WARPS
            ](
                at.factors, width, plan.offsets, self._room("drawn"), count, plan.rank, weights,
                self._board.card("column_sums"), mode, form.base, self._room("exposure"),
            )  # fmt: skip
            return
        self._chances(at, count, weights, mode)
        draws.scatter_kernel()[
            int(min(MOST_BLOCKS, -(-plan.rank * count // THREADS))), THREADS, stream
        ](
            self._room("drawn"), plan.modes, count, plan.rank, mode, width, self._room("chance"),
            self._room("found"), self._room("met"),
        )  # fmt: skip
        size = (last - first) * width
        draws.lend_kernel()[int(min(MOST_BLOCKS, -(-size // THREADS))), THREADS, stream](
            first, last, width, plan.rank, plan.modes, mode, weights,
            self._board.card("column_sums"), self._told.card("drawn"), STRENGTH, form.base,
            self._room("found"), self._room("met"), self._room("exposure"),
        )  # fmt: skip
