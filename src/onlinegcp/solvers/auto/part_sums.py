"""Sums over some of the cells of a slice of counts, whose zeros need no visit either."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.layout import Blocks
from onlinegcp.losses import OddsForm
from onlinegcp.solvers.auto.cells import Cells
from onlinegcp.solvers.auto.checkerboard import Checkerboard
from onlinegcp.solvers.auto.odds_sums import OddsSums

Array = NDArray[Any]


class PartSums(OddsSums):
    """The sums of `OddsSums` for linear h over parts of a checkerboard.

    Parameters
    ----------
    factors, cells, form
        As for `OddsSums`; the cells of these parts only, of a slice without missing cells.
    exposure
        Sum of z over all their cells (width,).
    """

    def __init__(self, factors: Blocks, cells: Cells, form: OddsForm, exposure: Array) -> None:
        super().__init__(factors, cells, form)
        self._exposure = exposure

    @classmethod
    def each_and_rest(
        cls, factors: Blocks, cells: Cells, form: OddsForm, board: Checkerboard
    ) -> list[tuple[PartSums, PartSums]]:
        """Every part of a slice, with what the others are together."""
        views, part_of = factors.views(), board.of(cells.index)
        totals = board.sums(
            lambda signs: np.prod([sign @ a for sign, a in zip(signs, views, strict=True)], axis=0)
        )

        def over(some: NDArray[np.bool_], total: Array) -> PartSums:
            index, value = np.ascontiguousarray(cells.index[some]), cells.value[some]
            exposure = np.zeros(factors.width)
            exposure[: factors.rank] = np.maximum(total, 0.0)
            held = Cells(index, value, True, index, value, float(value.sum()))
            return cls(factors, held, form, exposure)

        everything = np.sum(totals, axis=0)
        return [
            (over(part_of == part, total), over(part_of != part, everything - total))
            for part, total in enumerate(totals)
        ]

    def column_sums(self) -> Array:
        """Sum of z over the cells of these parts."""
        return self._exposure
