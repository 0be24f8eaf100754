"""Sums over the cells nobody lists, for losses v h(m) - x log m: in closed form, exact, or sampled.

`Zeros` answers two questions for fixed factors: the sum of v h(m) with its slope in the weights,
and its slope in the rows of one mode (or all). Linear h needs column sums only; log(1 + m) is
summed exactly while cells times rank stay below a budget, and from component samples above it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.auto import responsibilities, tangent, weights_newton
from onlinegcp.kernels.layout import Blocks
from onlinegcp.solvers.auto.cells import Cells, OddsForm

Array = NDArray[Any]

# Multiply-adds an exact sum over all cells may take; above, cells are drawn from the components.
EXACT_BUDGET = 5e7
# Draws per component. 100 left an error of 1e-4 in the streamed loss of the 24 x 77 x 32 problem.
DRAWS = 128
# Multiply-adds for the rates of one mode from draws; above, each draw informs its own row only, and
# as many draws are made as the budget allows.
RATE_BUDGET = 3e7
MOST_DRAWS = 8192
PURPOSE = 11


class Zeros:
    """Sums of v h(m) over every observed cell of one slice.

    Parameters
    ----------
    factors
        Factors whose columns sum to one; read on every call, so they may be updated between.
    cells
        The slice.
    form
        The loss.
    key
        64-bit key of the draws, where cells are sampled.
    """

    def __init__(self, factors: Blocks, cells: Cells, form: OddsForm, key: int = 0) -> None:
        self.factors, self.cells, self.form, self.key = factors, cells, form, key
        self.split = tangent.split_modes(factors.shape)
        work = math.prod(factors.shape) * factors.width
        self.sampled = not form.linear and cells.full and work > EXACT_BUDGET
        self._z = np.zeros(factors.width)
        self._draws: dict[int, Array] = {}

    def refresh(self) -> None:
        """Forget draws made from factors that have changed since."""
        self._draws = {}

    def column_sums(self) -> Array:
        """Sum of z over the observed cells, for linear h."""
        if self.cells.full:
            return self._products()
        return self._listed(np.zeros(self.factors.width), self.form.base)[1]

    def value(self, weights: Array) -> float:
        """Return the sum of v h(m) alone, which is cheaper where cells are summed one by one."""
        form, factors = self.form, self.factors
        if form.linear or form.slope or not self.cells.full or self.sampled:
            return self.tangent(weights)[0]
        return form.base * float(
            tangent.tangent_sums(
                factors.data, factors.offsets, self.split, weights, -3, self._z, _NO_RATE
            )
        )

    def tangent(self, weights: Array) -> tuple[float, Array]:
        """Return the sum of v h(m) and its slope in the weights."""
        form, factors = self.form, self.factors
        if form.linear:
            sums = self.column_sums()
            return float(sums @ weights), sums
        if not self.cells.full:
            return self._listed(weights, form.base)
        pull = np.zeros(factors.width)
        if self.sampled:
            logs = np.zeros(factors.width)
            tangent.sampled_tangent(
                factors.data, factors.offsets, weights, self._cells(DRAWS), DRAWS, factors.rank,
                self._products(), pull, logs,
            )  # fmt: skip
            value = float(weights @ logs)
        else:
            value = float(
                tangent.tangent_sums(
                    factors.data, factors.offsets, self.split, weights, -2, pull, _NO_RATE
                )
            )
        value *= form.base
        pull *= form.base
        if form.slope:
            more, slope = self._listed(weights, 0.0)
            value, pull = value + more, pull + slope
        return value, pull

    def rates(self, weights: Array, mode: int, out: Array) -> None:
        """Set `out` (rows, width) to the slope in the rows of a mode (-1: every mode)."""
        form, factors = self.form, self.factors
        modes = range(factors.ndim) if mode < 0 else (mode,)
        first, last = factors.offsets[modes[0]], factors.offsets[modes[-1] + 1]
        out[first:last] = 0.0
        if not self.cells.full:
            self._listed_rates(weights, form.base, mode, out)
            return
        if form.linear:
            for k in modes:
                rows = slice(factors.offsets[k], factors.offsets[k + 1])
                out[rows] = weights * self._products(without=k)
            return
        if self.sampled:
            for k in modes:
                self._sampled_rates(weights, k, out)
        else:
            tangent.tangent_sums(
                factors.data, factors.offsets, self.split, weights, mode, self._z, out
            )
        if form.base != 1.0:
            out[first:last] *= form.base
        if form.slope:
            self._listed_rates(weights, 0.0, mode, out)

    def _products(self, without: int = -1) -> Array:
        product = np.zeros(self.factors.width)
        product[: self.factors.rank] = 1.0
        for k, view in enumerate(self.factors.views()):
            if k != without:
                product[: self.factors.rank] *= view.sum(axis=0)
        return product

    def _listed(self, weights: Array, base: float) -> tuple[float, Array]:
        cells, form, pull = self.cells, self.form, np.zeros(self.factors.width)
        value = weights_newton.listed_tangent(
            self.factors.data, self.factors.offsets, cells.seen_index, cells.seen_value,
            weights, form.linear, base, form.slope, pull, self._z,
        )  # fmt: skip
        return float(value), pull

    def _listed_rates(self, weights: Array, base: float, mode: int, out: Array) -> None:
        cells, form = self.cells, self.form
        responsibilities.listed_rates(
            self.factors.data, self.factors.offsets, cells.seen_index, cells.seen_value,
            weights, form.linear, base, form.slope, mode, out, self._z,
        )  # fmt: skip

    def _cells(self, draws: int) -> Array:
        if draws not in self._draws:
            factors = self.factors
            cumulative = np.empty_like(factors.data)
            for k in range(factors.ndim):
                rows = slice(factors.offsets[k], factors.offsets[k + 1])
                np.cumsum(factors.data[rows], axis=0, out=cumulative[rows])
            cells = np.empty((factors.rank * draws, factors.ndim), dtype=np.int64)
            tangent.draw_cells(
                cumulative, factors.offsets, factors.rank, draws, np.uint64(self.key), cells
            )
            self._draws[draws] = cells
        return self._draws[draws]

    def _sampled_rates(self, weights: Array, mode: int, out: Array) -> None:
        factors, sums = self.factors, self._products(without=mode)
        work = factors.rank * factors.width
        if factors.shape[mode] * work * DRAWS <= RATE_BUDGET:
            tangent.sampled_rates(
                factors.data, factors.offsets, weights, self._cells(DRAWS), DRAWS, factors.rank,
                sums, mode, out,
            )  # fmt: skip
            return
        # A row is met by few draws, so that what it lacks is lent by its component's mean: many
        # draws are needed before a popular row is known by its own.
        draws = int(min(MOST_DRAWS, max(DRAWS, RATE_BUDGET / (work * factors.ndim))))
        tangent.scattered_rates(
            factors.data, factors.offsets, weights, self._cells(draws), draws, factors.rank, sums,
            mode, 2.0, out,
        )  # fmt: skip


_NO_RATE = np.zeros((0, 0))
