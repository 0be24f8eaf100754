"""Every pass over the cells of one slice, for any loss: values, slopes and curvatures.

The loss is called on arrays between two kernels, so that a user's own is served like a built-in
one. Results are short vectors, or one row (or small matrix) per row of the factors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.auto import fisher_sums as kernels
from onlinegcp.kernels.auto import grid
from onlinegcp.kernels.auto.arguments import ByRow
from onlinegcp.kernels.layout import Blocks
from onlinegcp.losses import Loss
from onlinegcp.solvers.auto.cells import Weighted
from onlinegcp.sums import verbs
from onlinegcp.sums.chunks import Chunks, even_cuts, row_cuts

Array = NDArray[Any]


class FisherSums:
    """Sums over weighted cells.

    Parameters
    ----------
    factors
        The factors; read on every call, so they may be updated between.
    cells
        The cells, each standing for several.
    loss
        The loss.
    """

    def __init__(self, factors: Blocks, cells: Weighted, loss: Loss) -> None:
        self.factors, self.cells, self.loss = factors, cells, loss
        self.empty = cells.value.size == 0
        arrays = (cells.index, cells.value, cells.weight)
        cuts = even_cuts(len(cells.value), factors.width)
        self._chunks = Chunks(arrays, cuts, listed=True)
        # Where each cell is an affair of its own; the loss costs as much as the model value.
        self._apart = Chunks(arrays, even_cuts(len(cells.value), 2 * factors.width), listed=True)
        self._listings: dict[int, ByRow] = {}

    def tempered(self, share: float) -> FisherSums:
        """The same slice, each cell counting for a share of what it did."""
        if share == 1.0:
            return self
        index, value, weight = self.cells.index, self.cells.value, self.cells.weight
        return FisherSums(self.factors, Weighted(index, value, share * weight), self.loss)

    def value(self, weights: Array) -> float:
        """Loss of the slice."""
        (found,) = verbs.cells(value_part, self._chunks, self.factors, weights, self.loss)
        return float(found)

    def slopes(self, weights: Array) -> tuple[Array, Array]:
        """Slope and nonnegative curvature of every cell's loss in its model value."""
        n = len(self.cells.value)
        y, h = np.empty(n), np.empty(n)

        def part(cells: Chunks, here: slice) -> None:
            y[here], h[here] = _slopes(cells, self.factors, weights, self.loss)

        self._each_apart(part)
        return y, h

    def weight_sums(self, weights: Array) -> tuple[Array, Array]:
        """Slope and curvature (lower triangle) of the loss in the weights."""
        slope, hessian = verbs.cells(weight_part, self._chunks, self.factors, weights, self.loss)
        return slope, hessian

    def row_sums(self, weights: Array, mode: int, depth: int) -> tuple[Array, Array]:
        """Slope (n, width) and curvature (n, width, depth) in the rows of a mode."""
        n, width = self.factors.shape[mode], self.factors.width
        slopes, hessians = np.empty((n, width)), np.empty((n, width, depth))
        y, h = self.slopes(weights)
        data, offsets, index = self.factors.data, self.factors.offsets, self.cells.index
        by_row, work = self._by_row(mode), width * (1 + depth // 2)  # of a triangle

        def block(first: int, last: int) -> None:
            rows = ByRow(by_row.order, by_row.starts[first : last + 1])
            here = (slopes[first:last], hessians[first:last])
            kernels.row_sums(data, offsets, index, weights, y, h, mode, rows, *here)

        verbs.rows(block, row_cuts(by_row.starts, work), len(y) * work)
        return slopes, hessians

    def row_values(self, weights: Array, mode: int) -> Array:
        """Loss of the cells of every row of a mode."""
        f = np.empty(len(self.cells.value))

        def part(cells: Chunks, here: slice) -> None:
            _, value, weight = cells.arrays
            m = _values(cells, self.factors, weights)
            f[here] = weight * self.loss.value(value, m)

        self._each_apart(part)
        return np.bincount(self.cells.index[:, mode], weights=f, minlength=self.factors.shape[mode])

    def along(self, weights: Array, change: Array) -> tuple[float, float]:
        """Slope and curvature of the loss when the factors move along `change`."""
        arguments = (self.factors, weights, self.loss, replace(self.factors, data=change))
        slope, bend = verbs.cells(along_part, self._chunks, *arguments)
        return float(slope), float(bend)

    def dispersion(self, weights: Array) -> float | None:
        """Squared slopes over curvature, 1 for a right likelihood; None without curvature."""
        squares, below = verbs.cells(
            dispersion_part, self._chunks, self.factors, weights, self.loss
        )
        return float(squares) / float(below) if below > 0.0 else None

    def _each_apart(self, part: Callable[[Chunks, slice], None]) -> None:
        """Call for cells each of which is an affair of its own, with where they lie."""
        chunks = self._apart

        def some(first: int, last: int) -> None:
            part(chunks.part(first, last), slice(chunks.cuts[first], chunks.cuts[last]))

        work = len(self.cells.value) * self.factors.width
        verbs.rows(some, [(c, c + 1) for c in range(chunks.count)], work)

    def _by_row(self, mode: int) -> ByRow:
        if mode not in self._listings:
            column, rows = self.cells.index[:, mode], self.factors.shape[mode]
            starts = np.zeros(rows + 1, dtype=np.int64)
            np.cumsum(np.bincount(column, minlength=rows), out=starts[1:])
            order = np.empty(len(column), dtype=np.int64)
            grid.sort_by_row(self.cells.index, mode, starts[:-1].copy(), order)
            self._listings[mode] = ByRow(order, starts)
        return self._listings[mode]


# What one share of the cells adds: pure functions, which may run in another process.


def value_part(part: Chunks, factors: Blocks, weights: Array, loss: Loss) -> tuple[Array]:
    """Loss of the cells."""
    found = np.empty(part.count)
    for c in range(part.count):
        one = part.part(c, c + 1)
        _, value, weight = one.arrays
        found[c] = weight @ loss.value(value, _values(one, factors, weights))
    return (found,)


def weight_part(part: Chunks, factors: Blocks, weights: Array, loss: Loss) -> tuple[Array, Array]:
    """Slope and curvature of the loss in the weights."""
    width = factors.width
    slopes, hessians = np.empty((part.count, width)), np.empty((part.count, width, width))
    for c in range(part.count):
        one = part.part(c, c + 1)
        y, h = _slopes(one, factors, weights, loss)
        model = (factors.data, factors.offsets, one.arrays[0])
        kernels.weight_sums(*model, y, h, slopes[c], hessians[c])
    return slopes, hessians


def along_part(
    part: Chunks, factors: Blocks, weights: Array, loss: Loss, change: Blocks
) -> tuple[Array, Array]:
    """Slope and curvature of the loss along a change of the factors."""
    slopes, bends = np.empty(part.count), np.empty(part.count)
    for c in range(part.count):
        one = part.part(c, c + 1)
        moved = np.empty(len(one.arrays[0]))
        kernels.model_changes(
            factors.data, change.data, factors.offsets, one.arrays[0], weights, moved
        )
        y, h = _slopes(one, factors, weights, loss)
        slopes[c], bends[c] = y @ moved, h @ moved**2
    return slopes, bends


def dispersion_part(
    part: Chunks, factors: Blocks, weights: Array, loss: Loss
) -> tuple[Array, Array]:
    """Squared slopes, and curvature."""
    squares, below = np.empty(part.count), np.empty(part.count)
    for c in range(part.count):
        one = part.part(c, c + 1)
        _, value, weight = one.arrays
        m = _values(one, factors, weights)
        squares[c] = weight @ loss.deriv(value, m) ** 2
        below[c] = weight @ np.maximum(loss.fisher(value, m), 0.0)
    return squares, below


def _values(part: Chunks, factors: Blocks, weights: Array) -> Array:
    m = np.empty(len(part.arrays[0]))
    kernels.model_values(factors.data, factors.offsets, part.arrays[0], weights, m)
    return m


def _slopes(part: Chunks, factors: Blocks, weights: Array, loss: Loss) -> tuple[Array, Array]:
    _, value, weight = part.arrays
    m = _values(part, factors, weights)
    slope, curved = loss.deriv(value, m), loss.fisher(value, m)
    return weight * slope, weight * np.maximum(curved, 0.0)
