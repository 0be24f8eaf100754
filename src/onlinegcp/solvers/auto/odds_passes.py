"""What one share of the cells adds to the sums of an odds slice: pure functions of their arguments.

They run wherever the verbs of `onlinegcp.sums` take them, another process included. `part` is some
of the chunks; results have one line per chunk. Functions for `spread` get one chunk, and add to
rows of `target`, where row i of mode k is row ``places[k] + i``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.auto import responsibilities, tangent, weights_newton
from onlinegcp.kernels.auto.arguments import Listed
from onlinegcp.kernels.layout import Blocks
from onlinegcp.losses import OddsForm
from onlinegcp.sums.chunks import Chunks

Array = NDArray[Any]


def listed(
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


def listed_tangent(
    part: Chunks, factors: Blocks, weights: Array, form: OddsForm, base: float
) -> tuple[Array, Array]:
    """The sum of v h(m) over listed cells, and its slope in the weights."""
    values, pulls = np.empty(part.count), np.empty((part.count, factors.width))
    weights_newton.listed_tangent_by_chunk(
        _listed(part, factors), part.cuts, weights, form.linear, base, form.slope, values, pulls
    )
    return values, pulls


def tangent_of_tiles(
    part: Chunks, factors: Blocks, split: int, weights: Array, wanted: int
) -> tuple[Array, Array]:
    """The sum of log(1 + m) over all cells of some rows, and its slope where it is wanted."""
    values, pulls = np.empty(part.count), np.empty((part.count, factors.width))
    (rows,) = part.arrays
    tangent.tangent_sums_by_chunk(
        factors.data, factors.offsets, split, weights, wanted, rows[0], part.cuts, values, pulls
    )
    return values, pulls


def rates_of_tiles(
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
    tangent.tangent_sums(
        factors.data, factors.offsets, split, weights, mode, rows[0], rows[-1] + 1,
        np.zeros(factors.width), places, target,
    )  # fmt: skip
    return ()


def shares(
    part: Chunks, places: Array, target: Array, factors: Blocks, weights: Array, mode: int
) -> tuple[()]:
    """The components' shares of the counts, in a mode or in each."""
    responsibilities.responsibilities(_listed(part, factors), weights, mode, places, target)
    return ()


def shares_and_slopes(
    part: Chunks, places: Array, target: Array, factors: Blocks, ratio: Array, weights: Array
) -> tuple[Array, Array, Array]:
    """The same, with slopes and curvatures in the log-memories, and (common curvature, x log m)."""
    slopes, bends = np.empty(factors.width), np.empty(factors.width)
    both = responsibilities.with_sensitivity(
        _listed(part, factors), ratio, weights, places, target, slopes, bends
    )
    return slopes, bends, np.array(both)


def listed_rates(
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
