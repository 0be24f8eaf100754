"""Sums over half of the cells of a slice of counts, whose zeros need no visit either."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.layout import Blocks
from onlinegcp.losses import OddsForm
from onlinegcp.solvers.auto.cells import Cells
from onlinegcp.solvers.auto.checkerboard import Checkerboard
from onlinegcp.solvers.auto.odds_sums import OddsSums

Array = NDArray[Any]


class HalfSums(OddsSums):
    """The sums of `OddsSums` for linear h over one half of a checkerboard.

    Parameters
    ----------
    factors, cells, form
        As for `OddsSums`; the cells of this half only, of a slice without missing cells.
    exposure
        Sum of z over all cells of this half (width,).
    """

    def __init__(self, factors: Blocks, cells: Cells, form: OddsForm, exposure: Array) -> None:
        super().__init__(factors, cells, form)
        self._exposure = exposure

    @classmethod
    def pair(
        cls,
        factors: Blocks,
        cells: Cells,
        form: OddsForm,
        first: NDArray[np.bool_],
        board: Checkerboard,
    ) -> tuple[Self, Self]:
        """Both halves of a slice; `first` says which of its nonzeros are in the first."""
        views = factors.views()
        signed = [sign @ view for sign, view in zip(board.signs, views, strict=True)]
        sums = board.sums([view.sum(axis=0) for view in views], signed)
        made = []
        for half, total in zip((first, ~first), sums, strict=True):
            index, value = np.ascontiguousarray(cells.index[half]), cells.value[half]
            part = Cells(index, value, True, index, value, float(value.sum()))
            exposure = np.zeros(factors.width)
            exposure[: factors.rank] = np.maximum(total, 0.0)
            made.append(cls(factors, part, form, exposure))
        return made[0], made[1]

    def column_sums(self) -> Array:
        """Sum of z over the cells of this half."""
        return self._exposure
