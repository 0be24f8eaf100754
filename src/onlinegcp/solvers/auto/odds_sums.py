"""Every pass over the cells of one slice, for losses v h(m) - x log m and factors held fixed.

Listed cells are summed one by one. The cells nobody lists cost v h(m): linear h needs column sums
only; log(1 + m) is summed exactly while cells times rank stay below a budget, and from component
samples above it. Results are short vectors, or one row of numbers per row of the factors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.auto import (
    component_draws,
    conjugate_rows,
    responsibilities,
    tangent,
    weights_newton,
)
from onlinegcp.kernels.auto.arguments import Listed
from onlinegcp.kernels.layout import ALL_MODES, Blocks
from onlinegcp.kernels.random import COMPONENT_ZEROS, stream_key
from onlinegcp.losses import OddsForm
from onlinegcp.solvers.auto.cells import Cells

Array = NDArray[Any]

# Multiply-adds an exact sum over all cells may take; above, cells are drawn from the components.
EXACT_BUDGET = 5e7
# Draws per component. 100 left an error of 1e-4 in the streamed loss of the 24 x 77 x 32 problem.
DRAWS = 128
# Multiply-adds for the rates of one mode from draws; above, each draw informs its own row only, and
# as many draws are made as the budget allows.
RATE_BUDGET = 3e7
MOST_DRAWS = 8192
_NOTHING = np.zeros((0, 0))


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
        self.factors, self.cells, self.form, self._draw = factors, cells, form, (seed, number)
        self.listed_cells = Listed(factors.data, factors.offsets, cells.index, cells.value)
        self.empty = cells.value.size == 0
        # Poisson with every cell observed: all rows of a component have the same exposure.
        self.shares_exposure = form.linear and cells.full
        work = math.prod(factors.shape) * factors.width
        self.sampled = not form.linear and cells.full and work > EXACT_BUDGET
        self._z = np.zeros(factors.width)
        self._block = np.zeros((weights_newton.BLOCK, factors.width))
        self._draws: dict[int, Array] = {}

    def refresh(self) -> None:
        """Forget draws made from factors that have changed since."""
        self._draws = {}

    def loss(self, weights: Array) -> float:
        """Loss of the slice."""
        if self.empty:
            return 0.0
        pull = np.zeros(self.factors.width)
        return self.value(weights) - self.listed(weights, pull)

    def listed(self, weights: Array, pull: Array, hessian: Array | None = None) -> float:
        """Return the sum of x log m; set its slope and, where asked, minus its curvature."""
        curved = hessian is not None
        out = hessian if curved else _NOTHING
        return float(
            weights_newton.listed_sums(self.listed_cells, weights, curved, pull, out, self._block)
        )

    def responsibilities(self, weights: Array, mode: int, phi: Array) -> None:
        """Set `phi` to the components' shares of the counts, in a mode (ALL_MODES: in each)."""
        responsibilities.responsibilities(self.listed_cells, weights, mode, phi, self._z)

    def slopes(self, weights: Array, sensitivity: Array) -> Slopes:
        """What the slice says at the factors as they are, and how it changes with the memory."""
        data, width = self.factors.data, self.factors.width
        # Single precision is plenty for a slope, and halves what a large slice reads at random.
        ratio, phi = np.empty(data.shape, dtype=np.float32), np.empty_like(data)
        slopes, bends = np.zeros(width), np.zeros(width)
        conjugate_rows.ratios(sensitivity, data, ratio)
        bend, logs = responsibilities.with_sensitivity(
            self.listed_cells, ratio, weights, phi, slopes, bends, np.zeros(width), np.zeros(width)
        )
        if self.shares_exposure:
            # The model total does not depend on eta: columns of the sensitivity sum to zero.
            exposure = weights[None, :]
        else:
            exposure = np.empty_like(data)
            self.rates(weights, ALL_MODES, exposure)
            slopes += np.einsum("ir,ir->r", exposure, sensitivity)
        return Slopes(phi, exposure, float(logs), slopes, bends, float(bend))

    def column_sums(self) -> Array:
        """Sum of z over the observed cells, for linear h."""
        if self.cells.full:
            return self._products()
        return self._listed(np.zeros(self.factors.width), self.form.base)[1]

    def value(self, weights: Array) -> float:
        """Return the sum of v h(m) alone, which is cheaper where cells are summed one by one."""
        form = self.form
        if form.linear or form.slope or not self.cells.full or self.sampled:
            return self.tangent(weights)[0]
        return form.base * self._by_tiles(weights, tangent.VALUE, self._z, _NOTHING)

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
            component_draws.sampled_tangent(
                factors.data, factors.offsets, weights, self._cells(DRAWS), DRAWS, factors.rank,
                self._products(), pull, logs,
            )  # fmt: skip
            value = float(weights @ logs)
        else:
            value = self._by_tiles(weights, tangent.VALUE_AND_SLOPE, pull, _NOTHING)
        value *= form.base
        pull *= form.base
        if form.slope:
            more, slope = self._listed(weights, 0.0)
            value, pull = value + more, pull + slope
        return value, pull

    def rates(self, weights: Array, mode: int, out: Array) -> None:
        """Set `out` (rows, width) to the slope in the rows of a mode (ALL_MODES: of each)."""
        form, factors = self.form, self.factors
        modes = range(factors.ndim) if mode == ALL_MODES else (mode,)
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
            self._by_tiles(weights, mode, self._z, out)
        if form.base != 1.0:
            out[first:last] *= form.base
        if form.slope:
            self._listed_rates(weights, 0.0, mode, out)

    def _by_tiles(self, weights: Array, wanted: int, pull: Array, rate: Array) -> float:
        data, offsets = self.factors.data, self.factors.offsets
        split = tangent.split_modes(self.factors.shape)
        return float(tangent.tangent_sums(data, offsets, split, weights, wanted, pull, rate))

    def _products(self, without: int = -1) -> Array:
        product = np.zeros(self.factors.width)
        product[: self.factors.rank] = 1.0
        for k, view in enumerate(self.factors.views()):
            if k != without:
                product[: self.factors.rank] *= view.sum(axis=0)
        return product

    def _listed(self, weights: Array, base: float) -> tuple[float, Array]:
        form, pull = self.form, np.zeros(self.factors.width)
        value = weights_newton.listed_tangent(
            self._seen(), weights, form.linear, base, form.slope, pull, self._z
        )
        return float(value), pull

    def _listed_rates(self, weights: Array, base: float, mode: int, out: Array) -> None:
        form = self.form
        responsibilities.listed_rates(
            self._seen(), weights, form.linear, base, form.slope, mode, out, self._z
        )

    def _seen(self) -> Listed:
        cells, factors = self.cells, self.factors
        return Listed(factors.data, factors.offsets, cells.seen_index, cells.seen_value)

    def _cells(self, draws: int) -> Array:
        if draws not in self._draws:
            factors = self.factors
            cumulative = np.empty_like(factors.data)
            for k in range(factors.ndim):
                rows = slice(factors.offsets[k], factors.offsets[k + 1])
                np.cumsum(factors.data[rows], axis=0, out=cumulative[rows])
            cells = np.empty((factors.rank * draws, factors.ndim), dtype=np.int64)
            key = np.uint64(stream_key(*self._draw, COMPONENT_ZEROS))
            component_draws.draw_cells(cumulative, factors.offsets, factors.rank, draws, key, cells)
            self._draws[draws] = cells
        return self._draws[draws]

    def _sampled_rates(self, weights: Array, mode: int, out: Array) -> None:
        factors, sums = self.factors, self._products(without=mode)
        work = factors.rank * factors.width
        if factors.shape[mode] * work * DRAWS <= RATE_BUDGET:
            component_draws.sampled_rates(
                factors.data, factors.offsets, weights, self._cells(DRAWS), DRAWS, factors.rank,
                sums, mode, out,
            )  # fmt: skip
            return
        # A row is met by few draws, so that what it lacks is lent by its component's mean: many
        # draws are needed before a popular row is known by its own.
        draws = int(min(MOST_DRAWS, max(DRAWS, RATE_BUDGET / (work * factors.ndim))))
        component_draws.scattered_rates(
            factors.data, factors.offsets, weights, self._cells(draws), draws, factors.rank, sums,
            mode, 2.0, out,
        )  # fmt: skip
