"""Every pass over the cells of one slice, for any loss: values, slopes and curvatures.

The loss is called on arrays between two kernels, so that a user's own is served like a built-in
one. Results are short vectors, or one row (or small matrix) per row of the factors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.auto import fisher_sums as kernels
from onlinegcp.kernels.auto.arguments import ByRow
from onlinegcp.kernels.layout import Blocks
from onlinegcp.losses import Loss
from onlinegcp.solvers.auto.cells import Weighted

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
        self._m = np.empty(cells.value.size)
        self._listings: dict[int, ByRow] = {}

    def tempered(self, share: float) -> FisherSums:
        """The same slice, each cell counting for a share of what it did."""
        if share == 1.0:
            return self
        index, value, weight = self.cells.index, self.cells.value, self.cells.weight
        return FisherSums(self.factors, Weighted(index, value, share * weight), self.loss)

    def value(self, weights: Array) -> float:
        """Loss of the slice."""
        return float(self.cells.weight @ self.loss.value(self.cells.value, self._values(weights)))

    def slopes(self, weights: Array) -> tuple[Array, Array]:
        """Slope and nonnegative curvature of every cell's loss in its model value."""
        m = self._values(weights)
        slope, curved = self.loss.deriv(self.cells.value, m), self.loss.fisher(self.cells.value, m)
        return self.cells.weight * slope, self.cells.weight * np.maximum(curved, 0.0)

    def weight_sums(self, weights: Array, slope: Array, hessian: Array) -> None:
        """Set slope and curvature (lower triangle) of the loss in the weights."""
        kernels.weight_sums(*self._model(), *self.slopes(weights), slope, hessian)

    def row_sums(self, weights: Array, mode: int, depth: int) -> tuple[Array, Array]:
        """Slope (n, width) and curvature (n, width, depth) in the rows of a mode."""
        n, width = self.factors.shape[mode], self.factors.width
        slopes, hessians = np.empty((n, width)), np.empty((n, width, depth))
        y, h = self.slopes(weights)
        kernels.row_sums(*self._model(), weights, y, h, mode, self._by_row(mode), slopes, hessians)
        return slopes, hessians

    def row_values(self, weights: Array, mode: int) -> Array:
        """Loss of the cells of every row of a mode."""
        f = self.cells.weight * self.loss.value(self.cells.value, self._values(weights))
        return np.bincount(self.cells.index[:, mode], weights=f, minlength=self.factors.shape[mode])

    def along(self, weights: Array, change: Array) -> tuple[float, float]:
        """Slope and curvature of the loss when the factors move along `change`."""
        moved = np.empty(self.cells.value.size)
        data, offsets, index = self._model()
        kernels.model_changes(data, change, offsets, index, weights, moved)
        y, h = self.slopes(weights)
        return float(y @ moved), float(h @ moved**2)

    def dispersion(self, weights: Array) -> float | None:
        """Squared slopes over curvature, 1 for a right likelihood; None without curvature."""
        m = self._values(weights)
        squares = float(self.cells.weight @ self.loss.deriv(self.cells.value, m) ** 2)
        curved = np.maximum(self.loss.fisher(self.cells.value, m), 0.0)
        below = float(self.cells.weight @ curved)
        return squares / below if below > 0.0 else None

    def _values(self, weights: Array) -> Array:
        kernels.model_values(*self._model(), weights, self._m)
        return self._m

    def _model(self) -> tuple[Array, Array, Array]:
        return self.factors.data, self.factors.offsets, self.cells.index

    def _by_row(self, mode: int) -> ByRow:
        if mode not in self._listings:
            column, rows = self.cells.index[:, mode], self.factors.shape[mode]
            starts = np.zeros(rows + 1, dtype=np.int64)
            np.cumsum(np.bincount(column, minlength=rows), out=starts[1:])
            self._listings[mode] = ByRow(np.argsort(column, kind="stable"), starts)
        return self._listings[mode]
