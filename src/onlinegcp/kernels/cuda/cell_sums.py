"""Sums over the listed cells of one tensor, row by row, for the static methods.

The tensor stays on the card, its cells in the order of each mode's rows (`sgd.sorting`), so that
every sum has one order and bits repeat. Factors are pushed when they have changed, and what comes
back is as long as the mode: R x R systems and updates of single numbers are the host's.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,attr-defined"

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from numba import cuda, float64, int32, int64
from numpy.typing import NDArray

from onlinegcp.kernels.cuda.card import card
from onlinegcp.kernels.cuda.cells import U
from onlinegcp.kernels.cuda.groups import across_groups, group_sum
from onlinegcp.kernels.cuda.lanes import GROUP, LANES, SIMULATED, THREADS, from_lane, kernel
from onlinegcp.kernels.cuda.plan import MOST_PER_LANE
from onlinegcp.kernels.cuda.sgd import draws, sorting
from onlinegcp.kernels.cuda.sgd.slopes import GROUPS
from onlinegcp.kernels.layout import Blocks

Array = NDArray[Any]
PART, MOST_PARTS = 128, 1024  # cells of a row that a warp adds up, and warps of a row
IN_FLIGHT, MOST_AT_ONCE = 16, 4  # numbers a lane asks for at once, and cells
LOG_BLOCKS = 1024
MOST_BLOCKS = 8192


def takes(blocks: Blocks) -> bool:
    """Whether models of this layout fit the kernels."""
    return 2 <= blocks.ndim <= GROUP and blocks.width <= LANES * MOST_PER_LANE


@cache
def rows_kernel(modes: int) -> Any:
    """Rows of cells in the stacked factors, mode by mode."""

    @kernel
    def find_rows(index, count, offsets, rows):
        s = cuda.grid(1)
        while s < count:
            for k in range(modes):
                rows[k * count + s] = offsets[k] + index[s * modes + k]
            s += cuda.gridsize(1)

    return find_rows


def at_once(per_lane: int, modes: int) -> int:
    """Cells whose rows a warp waits for together."""
    count = MOST_AT_ONCE
    while count > 1 and count * per_lane * max(1, modes - 1) > IN_FLIGHT:
        count //= 2
    return count


@cache
def gather_kernel(per_lane: int, modes: int) -> Any:
    """Sums over the cells of a mode's rows, every row in `parts` parts, a warp each.

    A cell adds its number of `ys` times the product of the other modes' rows. Numbers of the next
    cells are asked for before those of the present ones are used.
    """
    together, others = at_once(per_lane, modes), modes - 1
    numbers = max(1, together * per_lane * others)

    @kernel
    def gather(data, width, offsets, mode, room, sorted_rows, bounds, ys, parts, out):
        # ys begins with the mode's numbers.
        lane = cuda.threadIdx.x % LANES
        unit = (cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x) // LANES
        row, part = unit // parts, unit % parts
        if row >= offsets[mode + 1] - offsets[mode]:
            return
        base = (mode * modes + 1) * room
        segment = offsets[mode] + mode + row
        low, n = bounds[segment], bounds[segment + 1] - bounds[segment]
        p, end = low + n * part // parts, low + n * (part + 1) // parts
        columns = cuda.local.array(per_lane, int64)
        sums = cuda.local.array(per_lane, float64)
        values = cuda.local.array(numbers, float64)
        own = cuda.local.array(modes, int32)
        later = cuda.local.array(modes, int32)
        for c in range(per_lane):
            columns[c] = min(lane + LANES * c, width - 1)
            sums[c] = 0.0
        mine = lane % together
        at = max(min(p + mine, end - 1), 0)
        y = ys[U(at)]
        for o in range(others):
            own[o] = sorted_rows[U(base + o * room + at)]
        if p + mine >= end:
            y = 0.0
        while p < end:
            ahead = p + together
            at = max(min(ahead + mine, end - 1), 0)
            y_later = ys[U(at)]
            for o in range(others):
                later[o] = sorted_rows[U(base + o * room + at)]
            if ahead + mine >= end:
                y_later = 0.0
            for t in range(together):
                for o in range(others):
                    source = int64(from_lane(own[o], t)) * width
                    for c in range(per_lane):
                        values[(t * others + o) * per_lane + c] = data[U(source + columns[c])]
            for t in range(together):
                slope = from_lane(y, t)
                for c in range(per_lane):
                    z = slope
                    for o in range(others):
                        z *= values[(t * others + o) * per_lane + c]
                    sums[c] += z
            y = y_later
            for o in range(others):
                own[o] = later[o]
            p = ahead
        for c in range(per_lane):
            if lane + LANES * c < width:
                out[unit * width + lane + LANES * c] = sums[c]

    return gather


@cache
def quotients_kernel(per_group: int, modes: int, logs: bool) -> Any:
    """x / max(m, epsilon) in the order of a mode; with `logs` sums of x log max(m, epsilon)."""

    @kernel
    def quotients(data, width, count, value, rows, order, mode, epsilon, ys, parts):
        # Eight lanes take a cell, as in `sgd.slopes`, in the mode's order.
        held = cuda.shared.array(0, float64)
        lane = cuda.threadIdx.x % LANES
        warp, here = cuda.threadIdx.x // LANES, cuda.blockDim.x // LANES
        column = lane % GROUP
        z = cuda.local.array(per_group, float64)
        total = 0.0
        first = (cuda.blockIdx.x * here + warp) * GROUPS
        while first < count:
            place = min(first + lane // GROUP, count - 1)
            s = order[U(mode * count + place)]
            for p in range(per_group):
                z[p] = 1.0 if column + GROUP * p < width else 0.0
            for k in range(modes):
                row = int64(rows[U(k * count + s)]) * width + column
                for p in range(per_group):
                    if column + GROUP * p < width:
                        z[p] *= data[U(row + GROUP * p)]
            m = 0.0
            for p in range(per_group):
                m += z[p]
            m = max(group_sum(m), epsilon)
            if column == 0 and first + lane // GROUP < count:
                if logs:
                    total += value[s] * math.log(m)
                else:
                    ys[place] = value[s] / m
            first += cuda.gridDim.x * here * GROUPS
        if logs:
            total = across_groups(total)
            if lane == 0:
                held[warp] = total
            cuda.syncthreads()
            if cuda.threadIdx.x == 0:
                total = 0.0
                for w in range(here):
                    total += held[w]
                parts[cuda.blockIdx.x] = total

    return quotients


@cache
def add_row_parts_kernel() -> Any:
    """Sums of the parts of every row, in order."""

    @kernel
    def add_row_parts(gathered, parts, width, size, out):
        e = cuda.grid(1)
        while e < size:
            row, r = e // width, e % width
            total = 0.0
            for part in range(parts):
                total += gathered[U((row * parts + part) * width + r)]
            out[e] = total
            e += cuda.gridsize(1)

    return add_row_parts


class CellSums:
    """The cells of one tensor on the card.

    Parameters
    ----------
    index, value
        Cells (n, d) int32 and data (n,).
    blocks
        A model of the layout that is to come.
    """

    def __init__(
        self, index: NDArray[np.int32], value: NDArray[np.float64], blocks: Blocks
    ) -> None:
        self.card = on = card()
        self.shape, self.width, self.n = blocks.shape, blocks.width, len(value)
        self._offsets = [int(o) for o in blocks.offsets]
        n, d = max(1, self.n), blocks.ndim
        self._room = n
        with on.turn:
            self._value, there = on.zeros(n), on.zeros(n * d, np.int32)
            on.push(np.ascontiguousarray(value, np.float64), self._value)
            on.push(np.ascontiguousarray(index, np.int32).reshape(-1), there)
            self._table = on.zeros(d + 1, np.int64)
            on.push(np.asarray(blocks.offsets, np.int64), self._table)
            self._data = on.zeros(blocks.data.size)
            self._rows = on.zeros(n * d, np.int32)
            self._launch(rows_kernel(d), self.n, there, self.n, self._table, self._rows)
            self._ys, self._values = on.zeros(n), on.zeros(n * d)
            self._sort()
            means = [self.n // max(1, length) for length in self.shape]
            self._parts = [max(1, min(MOST_PARTS, mean // PART)) for mean in means]
            sizes = [p * m * self.width for p, m in zip(self._parts, self.shape, strict=True)]
            self._gathered = on.zeros(max(sizes))
            self._out = on.zeros(max(self.shape) * self.width)
            self._logs = on.zeros(LOG_BLOCKS)
            on.wait()

    def _launch(self, kernel: Any, work: int, *arguments: Any) -> None:
        blocks = 1 if SIMULATED else max(1, min(MOST_BLOCKS, -(-work // THREADS)))
        kernel[blocks, THREADS, self.card.stream](*arguments)

    def _sort(self) -> None:
        on, d, n = self.card, len(self.shape), self._room
        sort = sorting.sort_for(self.shape, n)
        numbers = np.zeros(draws.NUMBERS, np.int64)
        numbers[draws.COUNT] = self.n
        counted = on.zeros(draws.NUMBERS, np.int64)
        on.push(numbers, counted)
        orders = [on.zeros(n * d, np.int32) for _ in range(min(2, sort.passes))]
        counts = on.zeros(d * sort.tiles * sort.digits, np.int32)
        common = (counted, self._rows, self._table, d, n, 0)
        grid = (sort.tiles, d, 1)
        for number in range(sort.passes):
            before, after = orders[(number + 1) % len(orders)], orders[number % 2]
            how = (before, number, sort.bits, sort.tile, counts)
            sorting.counts_kernel()[grid, sorting.SORTERS, on.stream, sort.counts_bytes](
                *common, *how
            )
            sorting.places_kernel()[d, sorting.SORTERS, on.stream, sort.counts_bytes](
                0, sort.tiles, sort.bits, counts
            )
            sorting.sort_kernel()[grid, sorting.SORTERS, on.stream, sort.places_bytes](
                *common, *how, after
            )
        self._order = orders[(sort.passes - 1) % 2]
        self._sorted_rows = on.zeros(n * d * d, np.int32)
        self._bounds = on.zeros(sum(self.shape) + d, np.int32)
        nothing = on.zeros(1)
        grid = (-(-(n + 1) // THREADS), d, 1)
        sorting.bounds_kernel(d, False)[grid, THREADS, on.stream](
            counted, self._rows, self._table, n, 0, self._order, self._value, nothing,
            self._bounds, self._sorted_rows, self._values, nothing,
        )  # fmt: skip
        on.wait()  # what is not kept goes

    # ---- what changes

    def push(self, mode: int, rows: Array) -> None:
        """Bring the rows of a mode, padded (I_k, width), to the card."""
        first = self._offsets[mode] * self.width
        with self.card.turn:
            flat = np.ascontiguousarray(rows, np.float64).reshape(-1)
            self.card.push(flat, self._data[first : first + flat.size])

    # ---- sums

    def products(self, mode: int) -> Array:
        """Sums over the cells of every row of x times the other modes' rows: (I_k, width)."""
        n = self._room
        with self.card.turn:
            return self._sums(mode, self._values[mode * n : (mode + 1) * n])

    def phi(self, mode: int, epsilon: float) -> Array:
        """The same of x / max(m, epsilon), m being the model of the rows that were pushed."""
        with self.card.turn:
            self._quotients(mode, epsilon, logs=False)
            return self._sums(mode, self._ys)

    def log_sum(self, epsilon: float) -> float:
        """Sum of x log max(m, epsilon)."""
        with self.card.turn:
            blocks = self._quotients(0, epsilon, logs=True)
            return float(self.card.pull(self._logs, blocks).sum())

    def _quotients(self, mode: int, epsilon: float, *, logs: bool) -> int:
        warps = THREADS // LANES
        most = LOG_BLOCKS if logs else MOST_BLOCKS
        blocks = max(1, min(most, -(-self.n // (warps * GROUPS))))
        per_group = -(-self.width // GROUP)
        quotients_kernel(per_group, len(self.shape), logs)[
            blocks, THREADS, self.card.stream, 8 * warps
        ](
            self._data, self.width, self.n, self._value, self._rows, self._order, mode,
            float(epsilon), self._ys, self._logs,
        )  # fmt: skip
        return blocks

    def _sums(self, mode: int, ys: Any) -> Array:
        on, parts, width = self.card, self._parts[mode], self.width
        per_lane, length = -(-width // LANES), self.shape[mode]
        blocks = -(-length * parts // (THREADS // LANES))
        gather_kernel(per_lane, len(self.shape))[blocks, THREADS, on.stream](
            self._data, width, self._table, mode, self._room, self._sorted_rows, self._bounds, ys,
            parts, self._gathered,
        )  # fmt: skip
        out, size = self._gathered, length * width
        if parts > 1:
            self._launch(add_row_parts_kernel(), size, out, parts, width, size, self._out)
            out = self._out
        return on.pull(out, size).reshape(length, width)
