"""What the tuning-free solver sees of a slice: the cells that count, and how they are cut for rows.

Where sums belong to rows of the factors, each chunk of cells has row sums of its own, which are
added up afterwards: the fewer rows a chunk can meet, the less there is to add. So large slices are
sorted into a grid over their two longest modes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.auto import grid
from onlinegcp.kernels.random import uniform
from onlinegcp.slices import Slice
from onlinegcp.sums import verbs
from onlinegcp.sums.chunks import RowChunks, chunk_count, evenly

Array = NDArray[Any]

# Cells of a slice visited one by one; above, unlisted zeros are sampled.
CELL_BUDGET = 1 << 20
# Cells per row of partial sums: adding a row up costs as much as a sixth of a cell.
CELLS_PER_ROW = 2
COUNTING = 4  # what it takes to count a cell, in multiply-adds


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


def row_chunks(index: Array, value: Array, shape: tuple[int, ...], width: int) -> RowChunks:
    """Cut the cells of a slice into chunks that meet few rows each.

    Parameters
    ----------
    index, value
        The cells in C order.
    shape
        Lengths of the modes.
    width
        Columns of the factors.
    """
    n = len(value)
    (first, lines), (second, columns) = grid_of(n, shape, width)
    ends = np.array(shape, dtype=np.int64)
    if columns == 1 and first == 0:
        # In order already. A row may be cut: both chunks then have sums of it.
        cuts = evenly(n, lines)
        lows, highs = np.zeros((lines, len(shape)), dtype=np.int64), np.tile(ends, (lines, 1))
        if lines > 1:
            lows[:, 0], highs[:, 0] = index[cuts[:-1], 0], index[cuts[1:] - 1, 0] + 1
        return RowChunks((index, value), cuts, lows, highs, listed=True)
    edges = [_edges(index, mode, shape[mode], k) for mode, k in ((first, lines), (second, columns))]
    boxes = [np.repeat(np.arange(len(e) - 1), np.diff(e)) for e in edges]
    count = lines * columns

    def count_boxes(low: int, high: int) -> Array:
        counts = np.zeros(count, dtype=np.int64)
        grid.count_boxes(index[low:high], first, second, *boxes, columns, counts)
        return counts

    counts = _counted(count_boxes, n, count)
    cuts = np.concatenate([[0], np.cumsum(counts)])
    cells, numbers = np.empty(index.shape, dtype=index.dtype), np.empty(n)
    where = (first, second, *boxes, columns, cuts[:-1].copy(), cells, numbers)

    def sort(low: int, high: int) -> None:
        grid.sort_into_boxes(index[low:high], value[low:high], *where)

    # Lines of the first mode lie one after the other, so that each can be sorted for itself.
    edges_of_lines = cuts[::columns].tolist() if first == 0 else [0, n]
    verbs.rows(sort, list(pairwise(edges_of_lines)), n * len(shape))
    lows, highs = np.zeros((count, len(shape)), dtype=np.int64), np.tile(ends, (count, 1))
    line, column = np.divmod(np.arange(count), columns)
    for mode, edge, box in ((first, edges[0], line), (second, edges[1], column)):
        lows[:, mode], highs[:, mode] = edge[box], edge[box + 1]
    return RowChunks((cells, numbers), cuts, lows, highs, listed=True, columns=columns)


def grid_of(n: int, shape: tuple[int, ...], width: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Two modes, and into how many parts each is cut: most chunks with few rows to add up.

    Rather more parts of the second: cells of a chunk lie in the order of the first, and meet rows
    of the second at random, which are at hand where a part of them fits into the cache.

    Examples
    --------
    >>> grid_of(5_000_000, (100_000, 100_000, 24), 52)
    ((0, 8), (1, 16))
    >>> grid_of(80_000, (263, 263, 24), 52), grid_of(1000, (263, 263, 24), 52)
    (((0, 4), (1, 1)), ((0, 1), (1, 1)))
    """
    order = sorted(range(len(shape)), key=lambda k: (-shape[k], k))
    first, second = sorted(order[:2]) if len(shape) > 1 else (0, 0)
    count = chunk_count(n, width)
    while count > 1:
        # One cut alone needs no sorting if it goes through the first mode.
        choices = [(0, count, second, 1)] if first == 0 or len(shape) == 1 else []
        if len(shape) > 1:
            choices += [(first, p, second, count // p) for p in _powers(count)]
        for a, p, b, q in choices:
            others = sum(shape) - shape[a] - (shape[b] if b != a else 0)
            rows = q * shape[a] + p * (shape[b] if b != a else 0) + count * others
            if rows * CELLS_PER_ROW <= n and p <= shape[a] and q <= shape[b]:
                return (a, p), (b, q)
        count //= 2
    return (0, 1), (second, 1)


def _powers(count: int) -> list[int]:
    """Powers of two that divide a power of two, nearest to its root first, rather below it."""
    powers = [1 << k for k in range(count.bit_length())]
    return sorted(powers, key=lambda p: (max(p, count // p), p))


def _edges(index: Array, mode: int, length: int, parts: int) -> NDArray[np.int64]:
    """Cut the rows of a mode so that all parts have about as many cells."""

    def count_rows(low: int, high: int) -> Array:
        counts = np.zeros(length, dtype=np.int64)
        grid.count_rows(index[low:high], mode, counts)
        return counts

    before = np.cumsum(_counted(count_rows, len(index), length))
    goals = before[-1] * np.arange(1, parts) // parts
    inside = np.searchsorted(before, goals) + 1
    return np.concatenate([[0], inside, [length]]).astype(np.int64)


def _counted(count: Callable[[int, int], Array], n: int, length: int) -> Array:
    """So many counts over n cells; they are whole numbers, which any order adds up to the same."""
    pieces = max(1, min(chunk_count(n, COUNTING), n // length))  # each has counts of its own
    return verbs.rows(count, list(pairwise(evenly(n, pieces).tolist())), n * COUNTING)
