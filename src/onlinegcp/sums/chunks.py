"""How a problem is cut: by its own size, never by the number of workers, so that no sum can tell.

Cells lie in chunks, rows in blocks. A chunk that is to be spread over rows of the factors knows
which rows of each mode its cells can lie in.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# Multiply-adds (cells times columns) worth a chunk of their own: a third of a millisecond.
LEAST_WORK = 1 << 19
# Partial sums of so many chunks are short work to add up, and keep 128 threads busy.
MOST_CHUNKS = 256
# Rows that are updated together: at rank 50 a sixth of a millisecond.
BLOCK_ROWS = 2048


@dataclass(frozen=True)
class Chunks:
    """Cells of a slice in chunks: chunk c holds those from ``cuts[c]`` to ``cuts[c + 1]``.

    Attributes
    ----------
    arrays
        What is known of every cell, one array each, cells along the first axis.
    cuts
        First cell of every chunk, and the number of cells: (count + 1,) int64.
    listed
        Whether the first array holds the positions of the cells, one row for each: then they meet
        no other rows of the factors.
    """

    arrays: tuple[Array, ...]
    cuts: NDArray[np.int64]
    listed: bool = field(default=False, kw_only=True)

    @property
    def count(self) -> int:
        """Number of chunks."""
        return len(self.cuts) - 1

    def part(self, first: int, last: int) -> Chunks:
        """Chunks `first` to `last` alone, sharing memory."""
        low, high = self.cuts[first], self.cuts[last]
        cuts = self.cuts[first : last + 1] - low
        arrays = tuple(array[low:high] for array in self.arrays)
        return Chunks(arrays, cuts, listed=self.listed)


@dataclass(frozen=True)
class RowChunks(Chunks):
    """Chunks of cells whose sums belong to rows.

    Attributes
    ----------
    lows, highs
        The rows of every mode, from low to high, in which the cells of a chunk may lie:
        (count, d) int64.
    columns
        Chunks of one line of a grid, which follow each other.
    """

    lows: NDArray[np.int64]
    highs: NDArray[np.int64]
    columns: int = field(default=1, kw_only=True)

    @cached_property
    def spans(self) -> list[list[tuple[int, int]]]:
        """Low and high of every chunk and mode, as Python's numbers: these are quicker."""
        pairs = zip(self.lows.tolist(), self.highs.tolist(), strict=True)
        return [list(zip(low, high, strict=True)) for low, high in pairs]

    @cached_property
    def new_rows(self) -> list[list[list[tuple[int, int]]]]:
        """For every mode and chunk the rows that no chunk before it can meet; last, what none can.

        That is open-ended: a mode is as long as it is.
        """
        found = []
        for spans in zip(*self.spans, strict=True):
            missing, of_mode = [(0, sys.maxsize)], list[list[tuple[int, int]]]()
            for low, high in spans:
                here = [(max(a, low), min(b, high)) for a, b in missing]
                of_mode.append([(a, b) for a, b in here if a < b])
                rest = [part for a, b in missing for part in ((a, min(b, low)), (max(a, high), b))]
                missing = [(a, b) for a, b in rest if a < b]
            found.append([*of_mode, missing])
        return found

    def longest(self, modes: range) -> int:
        """Rows of some modes that a chunk may have sums of, at most."""
        lengths = (self.highs - self.lows)[:, modes.start : modes.stop]
        return int(lengths.sum(axis=1).max())


def even_cuts(n: int, work: int) -> NDArray[np.int64]:
    """Cut `n` cells of `work` multiply-adds each into a power of two of even chunks.

    Examples
    --------
    >>> even_cuts(30_000, 52).tolist()
    [0, 15000, 30000]
    >>> even_cuts(100, 52).tolist()
    [0, 100]
    """
    count = chunk_count(n, work)
    return evenly(n, count)


def evenly(n: int, count: int) -> NDArray[np.int64]:
    """Cut `n` cells into so many even chunks."""
    return np.arange(count + 1, dtype=np.int64) * n // count


def chunk_count(n: int, work: int) -> int:
    """The largest power of two of chunks that are worth it, `n` cells of `work` multiply-adds."""
    count = 1
    while count < MOST_CHUNKS and n * work >= 2 * count * LEAST_WORK and n >= 2 * count:
        count *= 2
    return count


def row_blocks(first: int, last: int) -> list[tuple[int, int]]:
    """Cut rows into blocks.

    Examples
    --------
    >>> row_blocks(100, 5000)
    [(100, 2148), (2148, 4196), (4196, 5000)]
    """
    starts = range(int(first), int(last), BLOCK_ROWS)
    return [(start, min(start + BLOCK_ROWS, int(last))) for start in starts]


def row_cuts(starts: NDArray[np.int64], work: int) -> list[tuple[int, int]]:
    """Cut rows, of which row i has cells ``starts[i]`` to ``starts[i + 1]``, into blocks alike.

    Examples
    --------
    >>> row_cuts(np.array([0, 19_000, 19_100, 19_200, 41_000]), 52)
    [(0, 1), (1, 4)]
    """
    n_rows, n = len(starts) - 1, int(starts[-1])
    goals = even_cuts(n, work)[1:-1]
    edges = np.unique(np.concatenate([[0], np.searchsorted(starts, goals), [n_rows]])).tolist()
    return list(pairwise(edges))


def add_tree(parts: Sequence[Any] | Array) -> Any:
    """Add arrays, or what lies along the first axis of one, in pairs, pairs of pairs, and so on.

    One array is used up: its lines are added up where they are, all pairs at a time.

    Examples
    --------
    >>> float(add_tree([1.0, 2.0, 3.0])), float(add_tree(np.array([1.0, 2.0, 3.0])))
    (6.0, 6.0)
    """
    if isinstance(parts, np.ndarray):
        while len(parts) > 1:
            even = len(parts) // 2 * 2
            parts[0:even:2] += parts[1:even:2]
            parts = parts[::2]
        return parts[0]
    parts = list(parts)
    while len(parts) > 1:
        pairs = [a + b for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[2 * len(pairs) :]
    return parts[0]
