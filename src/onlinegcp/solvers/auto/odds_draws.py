"""Sums of log(1 + m) over the cells of a slice too large to visit, from cells that components draw.

A component draws cells by its own columns, so that a cell is drawn as often as it counts. The cells
of a slice are drawn once and serve until the factors change.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.auto import component_draws
from onlinegcp.kernels.layout import Blocks
from onlinegcp.kernels.random import COMPONENT_ZEROS, stream_key
from onlinegcp.sums import verbs
from onlinegcp.sums.chunks import chunk_count

Array = NDArray[Any]

# Draws per component. 100 left an error of 1e-4 in the streamed loss of the 24 x 77 x 32 problem.
DRAWS = 128
# Multiply-adds for the rates of one mode from draws; above, each draw informs its own row only, and
# as many draws are made as the budget allows.
RATE_BUDGET = 3e7
MOST_DRAWS = 8192


def row_draws(length: int, rank: int, width: int, ndim: int) -> tuple[int, bool]:
    """Draws per component for the rates of a mode, and whether each informs its own row only."""
    work = rank * width
    if length * work * DRAWS <= RATE_BUDGET:
        return DRAWS, False
    return int(min(MOST_DRAWS, max(DRAWS, RATE_BUDGET / (work * ndim)))), True


class ComponentDraws:
    """Cells drawn by the components of a model, and sums over all cells from them.

    Parameters
    ----------
    factors
        Factors whose columns sum to one.
    seed, number
        Of the draws: the model's seed, and the number of the slice.
    """

    def __init__(self, factors: Blocks, seed: int, number: int) -> None:
        self.factors, self._draw = factors, (seed, number)
        self._drawn: dict[int, Array] = {}

    def refresh(self) -> None:
        """Draw anew: the factors have changed."""
        self._drawn = {}

    def tangent(self, weights: Array, sums: Array) -> tuple[float, Array]:
        """The sum of log(1 + m) and its slope in the weights; `sums` of the components' cells."""
        factors = self.factors
        pull, logs = np.zeros(factors.width), np.zeros(factors.width)
        cells = self._cells(DRAWS)

        def estimate(first: int, last: int) -> None:
            component_draws.sampled_tangent(
                factors.data, factors.offsets, weights, cells, DRAWS, first, last, sums, pull, logs
            )

        verbs.rows(estimate, self._components(), cells.size * factors.width)
        return float(weights @ logs), pull

    def rates(self, weights: Array, mode: int, sums: Array, out: Array) -> None:
        """Add the slopes in the rows of a mode to `out`; `sums` over the other modes."""
        factors = self.factors
        data, offsets, rank = factors.data, factors.offsets, factors.rank
        draws, scattered = row_draws(factors.shape[mode], rank, factors.width, factors.ndim)
        cells = self._cells(draws)
        if not scattered:
            work = rank * factors.width * draws

            def replace(first: int, last: int) -> None:
                component_draws.sampled_rates(
                    data, offsets, weights, cells, draws, rank, sums, mode, first, last, out
                )

            parts = chunk_count(factors.shape[mode], work)
            edges = np.linspace(offsets[mode], offsets[mode + 1], parts + 1).astype(int).tolist()
            verbs.rows(replace, list(pairwise(edges)), work * parts)
            return
        # A row is met by few draws, so that what it lacks is lent by its component's mean: many
        # draws are needed before a popular row is known by its own.
        chance, mean = np.empty(len(cells)), np.empty(rank)

        def scatter(first: int, last: int) -> None:
            component_draws.draw_chances(
                data, offsets, weights, cells, draws, first, last, chance, mean
            )
            component_draws.scattered_rates(
                offsets, weights, cells, draws, sums, mode, 2.0, chance, mean, first, last, out
            )

        verbs.rows(scatter, self._components(), cells.size * factors.width)

    def _cells(self, draws: int) -> Array:
        if draws not in self._drawn:
            factors = self.factors
            cumulative = np.empty_like(factors.data)

            def add_up(first: int, last: int) -> None:
                for k in range(factors.ndim):
                    rows = slice(factors.offsets[k], factors.offsets[k + 1])
                    columns = factors.data[rows, first:last]
                    np.cumsum(columns, axis=0, out=cumulative[rows, first:last])

            verbs.rows(add_up, self._components(), factors.data.size)
            cells = np.empty((factors.rank * draws, factors.ndim), dtype=np.int64)
            key = np.uint64(stream_key(*self._draw, COMPONENT_ZEROS))

            def draw(first: int, last: int) -> None:
                component_draws.draw_cells(
                    cumulative, factors.offsets, first, last, draws, key, cells
                )

            verbs.rows(draw, self._components(2), 64 * cells.size)
            self._drawn[draws] = cells
        return self._drawn[draws]

    def _components(self, some: int = 8) -> list[tuple[int, int]]:
        """Some components each, whose draws are their own affair; eight columns share a line."""
        rank = self.factors.rank
        return [(first, min(first + some, rank)) for first in range(0, rank, some)]
