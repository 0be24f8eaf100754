"""Every pass over the cells of one slice, for losses v h(m) - x log m and factors held fixed.

Listed cells are summed one by one. The cells nobody lists cost v h(m): linear h needs column sums
only; log(1 + m) is summed exactly while cells times rank stay below a budget, and from component
samples above it (`odds_draws.py`). Results are short vectors, or one row of numbers per row of the
factors.

What one share of the cells adds is a function at the end of this file, which runs wherever the
verbs of `onlinegcp.sums` take it, another process included. `part` is some of the chunks; results
have one line per chunk. Functions for `spread` get one chunk, and add to rows of `target`, where
row i of mode k is row ``places[k] + i``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.auto import conjugate_rows, responsibilities, tangent, weights_newton
from onlinegcp.kernels.auto.arguments import Listed
from onlinegcp.kernels.layout import ALL_MODES, Blocks
from onlinegcp.losses import OddsForm
from onlinegcp.solvers.auto.cells import Cells, row_chunks
from onlinegcp.solvers.auto.odds_draws import ComponentDraws
from onlinegcp.sums import verbs
from onlinegcp.sums.chunks import (
    Chunks,
    RowChunks,
    chunk_count,
    even_cuts,
    evenly,
    row_blocks,
)
from onlinegcp.sums.local import Steps

Array = NDArray[Any]

# Multiply-adds an exact sum over all cells may take; above, cells are drawn from the components.
EXACT_BUDGET = 5e7
# Bytes of factors that a core keeps at hand; rows of longer ones are met in the order of a grid.
AT_HAND = 1 << 21


@dataclass(frozen=True)
class Slopes:
    """What the slice says at the factors before the update.

    Attributes
    ----------
    phi
        Responsibilities of all modes (rows, width).
    exposure
        Exposure of all modes, (rows, width), or (1, width) when all rows share it.
    logs
        Sum of x log m.
    slopes, bends, bend
        Slope and curvature of the loss in each component's log-memory (width,), and its curvature
        in the common one.
    """

    phi: Array
    exposure: Array
    logs: float
    slopes: Array
    bends: Array
    bend: float


class OddsSums:
    """Sums over the observed cells of one slice.

    Parameters
    ----------
    factors
        Factors whose columns sum to one; read on every call, so they may be updated between.
    cells
        The slice.
    form
        The loss.
    seed, number
        Of the draws, where cells are sampled: the model's seed, and the number of the slice.
    """

    def __init__(
        self, factors: Blocks, cells: Cells, form: OddsForm, seed: int = 0, number: int = 0
    ) -> None:
        self.factors, self.cells, self.form = factors, cells, form
        self.empty = cells.value.size == 0
        # Poisson with every cell observed: all rows of a component have the same exposure.
        self.shares_exposure = form.linear and cells.full
        shape = factors.shape
        self._split = 0 if form.linear else tangent.split_modes(shape)
        work = math.prod(shape) * factors.width
        self.sampled = not form.linear and cells.full and work > EXACT_BUDGET
        self._draws = ComponentDraws(factors, seed, number) if self.sampled else None
        self._column_sums: list[Array] = []
        self._cut: dict[str, Chunks] = {}

    def refresh(self) -> None:
        """Forget what was made from factors that have changed since."""
        self._column_sums = []
        if self._draws is not None:
            self._draws.refresh()

    def loss(self, weights: Array) -> float:
        """Loss of the slice."""
        if self.empty:
            return 0.0
        (logs, _, _), value = verbs.together(
            self._listed_steps(weights), self._value_steps(weights)
        )
        return float(value) - float(logs)

    def listed_and_tangent(
        self, weights: Array, *, curved: bool = False
    ) -> tuple[tuple[float, Array, Array], tuple[float, Array]]:
        """What `listed` and `tangent` give, in one go."""
        steps = self._listed_steps(weights, curved=curved), self._tangent_steps(weights)
        (logs, pull, hessian), tangent = verbs.together(*steps)
        return (float(logs), pull, hessian), tangent

    def listed(
        self, weights: Array, *, curved: bool = False, cells: Chunks | None = None
    ) -> tuple[float, Array, Array]:
        """The sum of x log m, its slope and, where asked, minus its curvature.

        Parameters
        ----------
        weights
            Where to sum.
        curved
            Whether the curvature (lower triangle) is wanted; it is empty if not.
        cells
            Other cells than those of the slice.
        """
        (found,) = verbs.together(self._listed_steps(weights, curved=curved, cells=cells))
        logs, pull, hessian = found
        return float(logs), pull, hessian

    def responsibilities(
        self, weights: Array, mode: int, phi: Array, exposure: Array | None = None
    ) -> None:
        """Set `phi` to the components' shares of the counts, in a mode (ALL_MODES: in each).

        With `exposure`, set that to the slopes of `rates` in the same go.
        """
        arguments = (self.factors, weights, mode)
        shares = self._spread(shares_pass, self._by_row("listed"), mode, phi, *arguments)
        rates = [] if exposure is None else [self._rates_steps(weights, mode, exposure)]
        verbs.together(shares, *rates)

    def slopes(self, weights: Array, sensitivity: Array) -> Slopes:
        """What the slice says at the factors as they are, and how it changes with the memory."""
        data = self.factors.data
        # Single precision is plenty for a slope, and halves what a large slice reads at random.
        ratio, phi = np.empty(data.shape, dtype=np.float32), np.empty_like(data)

        def divide(first: int, last: int) -> None:
            conjugate_rows.ratios(sensitivity, data, first, last, ratio)

        verbs.rows(divide, row_blocks(0, len(data)), data.size)
        passes: list[Steps[Any]] = [
            self._spread(
                slopes_pass, self._by_row("listed"), ALL_MODES, phi,
                self.factors, replace(self.factors, data=ratio), weights,
            )
        ]  # fmt: skip
        # The model total does not depend on eta: columns of the sensitivity sum to zero.
        exposure = weights[None, :]
        if not self.shares_exposure:
            exposure = np.empty_like(data)
            passes.append(self._rates_steps(weights, ALL_MODES, exposure))
        slopes, bends, (bend, logs) = verbs.together(*passes)[0]
        if not self.shares_exposure:
            slopes += np.einsum("ir,ir->r", exposure, sensitivity)
        return Slopes(phi, exposure, float(logs), slopes, bends, float(bend))

    def column_sums(self) -> Array:
        """Sum of z over the observed cells, for linear h."""
        if self.cells.full:
            return self._products()
        steps = self._listed(np.zeros(self.factors.width), self.form.base)
        return np.asarray(verbs.together(steps)[0][1])

    def value(self, weights: Array) -> float:
        """Return the sum of v h(m) alone, which is cheaper where cells are summed one by one."""
        return float(verbs.together(self._value_steps(weights))[0])

    def tangent(self, weights: Array) -> tuple[float, Array]:
        """Return the sum of v h(m) and its slope in the weights."""
        value, slope = verbs.together(self._tangent_steps(weights))[0]
        return value, slope

    def rates(self, weights: Array, mode: int, out: Array) -> None:
        """Set `out` (rows, width) to the slope in the rows of a mode (ALL_MODES: of each)."""
        verbs.together(self._rates_steps(weights, mode, out))

    def _listed_steps(
        self, weights: Array, *, curved: bool = False, cells: Chunks | None = None
    ) -> Steps[tuple[Array, ...]]:
        chunks = self.listed_cells if cells is None else cells
        return verbs.cells_steps(listed_pass, chunks, self.factors, weights, curved)

    def _value_steps(self, weights: Array) -> Steps[float]:
        form = self.form
        if form.linear or form.slope or not self.cells.full or self.sampled:
            return (yield from self._tangent_steps(weights))[0]
        value, _ = yield from self._by_tiles(weights, sloped=False)
        return form.base * float(value)

    def _tangent_steps(self, weights: Array) -> Steps[tuple[float, Array]]:
        form = self.form
        if form.linear:
            sums = self.column_sums()
            return float(sums @ weights), sums
        if not self.cells.full:
            return (yield from self._listed(weights, form.base))
        if self._draws is not None:
            value, pull = self._draws.tangent(weights, self._products())
        else:
            value, pull = yield from self._by_tiles(weights, sloped=True)
        value *= form.base
        pull *= form.base
        if form.slope:
            more, slope = yield from self._listed(weights, 0.0)
            value, pull = value + more, pull + slope
        return value, pull

    def _rates_steps(self, weights: Array, mode: int, out: Array) -> Steps[None]:
        form, factors = self.form, self.factors
        modes = _modes(factors, mode)
        first, last = factors.offsets[modes[0]], factors.offsets[modes[-1] + 1]
        if not self.cells.full:
            yield from self._listed_rates(weights, form.base, mode, out)
            return
        if form.linear:
            for k in modes:
                rows = slice(factors.offsets[k], factors.offsets[k + 1])
                out[rows] = weights * self._products(without=k)
            return
        if self._draws is not None:
            out[first:last] = 0.0
            for k in modes:
                self._draws.rates(weights, k, self._products(without=k), out)
        else:
            arguments = (factors, self._split, weights, mode)
            tiles = self._tiles()
            yield from self._spread(tile_rates_pass, tiles, mode, out, *arguments)
        if form.base != 1.0:
            out[first:last] *= form.base
        if form.slope:
            yield from self._listed_rates(weights, 0.0, mode, out, fresh=False)

    @property
    def listed_cells(self) -> Chunks:
        """The cells that are not zero, in chunks."""
        return self._chunks("listed")

    def _chunks(self, which: str) -> Chunks:
        if which not in self._cut:
            near = self.factors.data.nbytes <= AT_HAND
            index, value = self._arrays(which) if near else self._by_row(which).arrays
            cuts = even_cuts(len(value), self.factors.width)
            self._cut[which] = Chunks((index, value), cuts, listed=True)
        return self._cut[which]

    def _by_row(self, which: str) -> RowChunks:
        key = f"{which} by row"
        if key not in self._cut:
            factors = self.factors
            self._cut[key] = row_chunks(*self._arrays(which), factors.shape, factors.width)
        found = self._cut[key]
        assert isinstance(found, RowChunks)
        return found

    def _arrays(self, which: str) -> tuple[Array, Array]:
        cells = self.cells
        if which == "listed":
            return cells.index, cells.value
        return cells.seen_index, cells.seen_value

    def _tiles(self) -> RowChunks:
        """All cells, by rows of the left-hand group of modes."""
        shape = self.factors.shape
        size, n = math.prod(shape), tangent.left_rows(shape)
        count = chunk_count(n, size // n * self.factors.width)
        while count > 1 and count * sum(shape) * 4 > size:
            count //= 2
        return _cut_tiles(shape, count)

    def _spread(
        self,
        function: Any,
        chunks: RowChunks,
        mode: int,
        out: Array,
        *small: Any,
        fresh: bool = True,
    ) -> Steps[tuple[Array, ...]]:
        modes, offsets = _modes(self.factors, mode), self.factors.offsets
        return verbs.spread_steps(function, chunks, modes, offsets, out, *small, fresh=fresh)

    def _by_tiles(self, weights: Array, *, sloped: bool) -> Steps[tuple[float, Array]]:
        arguments = (self.factors, self._split, weights, sloped)
        tiles = self._tiles()
        value, pull = yield from verbs.cells_steps(tile_tangent_pass, tiles, *arguments)
        return float(value), pull

    def _products(self, without: int = -1) -> Array:
        factors = self.factors
        if not self._column_sums:
            self._column_sums = [
                sum_columns(factors.data, factors.offsets[k], factors.offsets[k + 1])
                for k in range(factors.ndim)
            ]
        product = np.zeros(factors.width)
        product[: factors.rank] = 1.0
        for k, sums in enumerate(self._column_sums):
            if k != without:
                product[: factors.rank] *= sums[: factors.rank]
        return product

    def _listed(self, weights: Array, base: float) -> Steps[tuple[float, Array]]:
        arguments = (self.factors, weights, self.form, base)
        seen = self._chunks("seen")
        value, pull = yield from verbs.cells_steps(listed_tangent_pass, seen, *arguments)
        return float(value), pull

    def _listed_rates(
        self, weights: Array, base: float, mode: int, out: Array, *, fresh: bool = True
    ) -> Steps[tuple[Array, ...]]:
        arguments = (self.factors, weights, self.form, base, mode)
        chunks = self._by_row("seen")
        return self._spread(listed_rates_pass, chunks, mode, out, *arguments, fresh=fresh)


@lru_cache(maxsize=8)
def _cut_tiles(shape: tuple[int, ...], count: int) -> RowChunks:
    """The same for every slice of a stream."""
    n = tangent.left_rows(shape)
    lows = np.zeros((count, len(shape)), dtype=np.int64)
    highs = np.tile(np.array(shape, dtype=np.int64), (count, 1))
    return RowChunks((np.arange(n),), evenly(n, count), lows, highs)


def sum_columns(matrix: Array, first: int, last: int) -> Array:
    """Sums of the columns of some rows, block by block."""
    blocks, work = row_blocks(first, last), (last - first) * matrix.shape[1]
    return verbs.rows(lambda low, high: matrix[low:high].sum(axis=0), blocks, work)


def _modes(factors: Blocks, mode: int) -> range:
    return range(factors.ndim) if mode == ALL_MODES else range(mode, mode + 1)


def listed_pass(
    part: Chunks, factors: Blocks, weights: Array, curved: bool
) -> tuple[Array, Array, Array]:
    """The sum of x log m, its slope in the weights and, where asked, minus its curvature."""
    count, width = part.count, factors.width
    logs, pulls = np.empty(count), np.empty((count, width))
    hessians = np.empty((count, width, width) if curved else (count, 0, 0))
    weights_newton.listed_sums_by_chunk(
        _listed(part, factors), part.cuts, weights, curved, logs, pulls, hessians
    )
    return logs, pulls, hessians


def listed_tangent_pass(
    part: Chunks, factors: Blocks, weights: Array, form: OddsForm, base: float
) -> tuple[Array, Array]:
    """The sum of v h(m) over listed cells, and its slope in the weights."""
    values, pulls = np.empty(part.count), np.empty((part.count, factors.width))
    weights_newton.listed_tangent_by_chunk(
        _listed(part, factors), part.cuts, weights, form.linear, base, form.slope, values, pulls
    )
    return values, pulls


def tile_tangent_pass(
    part: Chunks, factors: Blocks, split: int, weights: Array, sloped: bool
) -> tuple[Array, Array]:
    """The sum of log(1 + m) over all cells of some rows, and its slope where it is wanted."""
    values, pulls = np.empty(part.count), np.empty((part.count, factors.width))
    (rows,) = part.arrays
    tangent.log_sums_by_chunk(
        factors.data, factors.offsets, split, weights, sloped, rows[0], part.cuts, values, pulls
    )
    return values, pulls


def tile_rates_pass(
    part: Chunks,
    places: Array,
    target: Array,
    factors: Blocks,
    split: int,
    weights: Array,
    mode: int,
) -> tuple[()]:
    """Slopes of log(1 + m) over all cells in the rows of a mode, or of all."""
    (rows,) = part.arrays
    low, high = rows[0], rows[-1] + 1
    tangent.rate_sums(
        factors.data, factors.offsets, split, weights, mode, low, high, places, target
    )
    return ()


def shares_pass(
    part: Chunks, places: Array, target: Array, factors: Blocks, weights: Array, mode: int
) -> tuple[()]:
    """The components' shares of the counts, in a mode or in each."""
    responsibilities.responsibilities(_listed(part, factors), weights, mode, places, target)
    return ()


def slopes_pass(
    part: Chunks, places: Array, target: Array, factors: Blocks, ratio: Blocks, weights: Array
) -> tuple[Array, Array, Array]:
    """The same, with slopes and curvatures in the log-memories, and (common curvature, x log m)."""
    slopes, bends = np.empty(factors.width), np.empty(factors.width)
    both = responsibilities.with_sensitivity(
        _listed(part, factors), ratio.data, weights, places, target, slopes, bends
    )
    return slopes, bends, np.array(both)


def listed_rates_pass(
    part: Chunks,
    places: Array,
    target: Array,
    factors: Blocks,
    weights: Array,
    form: OddsForm,
    base: float,
    mode: int,
) -> tuple[()]:
    """Slopes of v h(m) over listed cells in the rows of a mode, or of all."""
    responsibilities.listed_rates(
        _listed(part, factors), weights, form.linear, base, form.slope, mode, places, target
    )
    return ()


def _listed(part: Chunks, factors: Blocks) -> Listed:
    index, value = part.arrays
    return Listed(factors.data, factors.offsets, index, value)
