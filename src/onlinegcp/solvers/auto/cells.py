"""What the tuning-free solver sees of a slice: the cells that count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.random import uniform
from onlinegcp.slices import Slice

Array = NDArray[Any]

# Cells of a slice visited one by one; above, unlisted zeros are sampled.
CELL_BUDGET = 1 << 20


@dataclass(frozen=True)
class Cells:
    """The cells of one slice, split as the conjugate losses need them.

    Attributes
    ----------
    index, value
        Listed cells that are not zero.
    full
        Whether every cell of the slice is observed.
    seen_index, seen_value
        All listed cells; used when not `full`, where the sums run over these only.
    total
        Sum of the values.
    """

    index: NDArray[np.int32]
    value: Array
    full: bool
    seen_index: NDArray[np.int32]
    seen_value: Array
    total: float


def cells_of(x: Slice) -> Cells:
    """Split a slice into its nonzeros and, where cells are missing, everything listed."""
    full = x.n_observed == x.size
    nonzero = x.value != 0.0
    index, value = x.index, x.value
    if not nonzero.all():
        # compress is three times faster than a boolean index here.
        index = np.ascontiguousarray(np.compress(nonzero, x.index, axis=0))
        value = np.compress(nonzero, x.value)
    return Cells(index, value, full, x.index, x.value, x.total)


@dataclass(frozen=True)
class Weighted:
    """Cells to sum over, each standing for `weight` cells."""

    index: NDArray[np.int32]
    value: Array
    weight: Array


def weighted_cells(x: Slice, key: int, *, most: int = CELL_BUDGET) -> Weighted:
    """List the observed cells, sampling unlisted zeros where the slice has more cells than `most`.

    Zeros are drawn, by the 64-bit key, by rank among the zeros, so no draw is ever rejected.
    """
    if x.n_unlisted_zeros == 0:
        return listed_cells(x)
    linear = np.ravel_multi_index(tuple(x.index.astype(np.int64).T), x.shape).reshape(-1)
    if x.size <= most:
        value = np.zeros(x.size)
        value[linear] = x.value
        every = np.unravel_index(np.arange(x.size), x.shape)
        index = np.ascontiguousarray(np.stack(every, axis=1), dtype=np.int32)
        return Weighted(index, value, np.ones(x.size))
    count = min(x.n_unlisted_zeros, max(4 * x.n_listed, most // 16))
    draws = uniform(key, count)
    rank = ((np.arange(count) + draws) / count * x.n_unlisted_zeros).astype(np.int64)
    # The zero of rank q lies behind as many listed cells as have fewer than q + 1 zeros before.
    zeros = rank + np.searchsorted(linear - np.arange(linear.size), rank, side="right")
    index = np.stack(np.unravel_index(zeros, x.shape), axis=1).astype(np.int32)
    return Weighted(
        np.ascontiguousarray(np.concatenate([x.index, index])),
        np.concatenate([x.value, np.zeros(count)]),
        np.concatenate([np.ones(x.n_listed), np.full(count, x.n_unlisted_zeros / count)]),
    )


def listed_cells(x: Slice) -> Weighted:
    """The listed cells, each standing for itself."""
    return Weighted(x.index, x.value, np.ones(x.n_listed))
