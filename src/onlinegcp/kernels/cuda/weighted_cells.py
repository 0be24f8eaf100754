"""Cells that stand for several, on the card: by the rows of every mode, and cut into pieces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.auto.grid import sort_by_row
from onlinegcp.kernels.cuda.card import Card
from onlinegcp.kernels.cuda.plan import size_class

Array = NDArray[Any]

SHORTEST_PIECE = 128  # cells
MOST_PIECES = 1024  # besides one per row
MOST_RUNS = 528  # pieces for the weights, all of whose matrices are added up


@dataclass(frozen=True)
class Listing:
    """The cells by the rows of one mode.

    Attributes
    ----------
    order, starts
        Cells by row, and where each row begins; on the card.
    pieces, piece_starts
        First and last place and row of every piece, and which are a row's; on the card.
    count
        Pieces (1,), on the card.
    made
        Pieces a recording is made for.
    """

    order: Any
    starts: Any
    pieces: Any
    piece_starts: Any
    count: Any
    made: int


class WeightedCells:
    """The cells of the newest slice.

    Attributes
    ----------
    index, value, weight
        Buffers on the card.
    n
        Cells.
    runs
        The cut of all cells for sums that belong to no row.
    by_mode
        One listing per mode.
    made
        What a recording depends on: cells, runs and pieces of every mode that it is made for.
    """

    def __init__(self, card: Card) -> None:
        self._card, self.n, self._far = card, 0, False
        self.index: Any = None
        self.value: Any = None
        self.weight: Any = None
        self.runs: Listing
        self.by_mode: tuple[Listing, ...] = ()
        self.made: tuple[int, ...] = ()

    def load(self, index: Array, value: Array, weight: Array, offsets: NDArray[np.int64]) -> None:
        """Copy cells (n, d), values and weights (n,) to the card, and list them by row."""
        self.n = len(value)
        self._far = self.n * (16 + 8 * index.shape[1]) > self._card.most_cell_bytes
        self.index = self._put("weighted index", index.reshape(-1), np.int32)
        self.value = self._put("weighted value", value)
        self.weight = self._put("weighted weight", weight)
        none = np.empty(0, np.int32)
        cut = -(-self.n // max(1, min(MOST_RUNS, -(-self.n // SHORTEST_PIECE)))) if self.n else 1
        self.runs = self._listing("runs", none, np.array([0, self.n]), cut, 0)
        cut = max(SHORTEST_PIECE, -(-self.n // MOST_PIECES))
        listings = []
        for k in range(index.shape[1]):
            rows = int(offsets[k + 1] - offsets[k])
            starts = np.zeros(rows + 1, np.int64)
            np.cumsum(np.bincount(index[:, k], minlength=rows), out=starts[1:])
            order = np.empty(self.n, np.int32)
            sort_by_row(index, k, starts[:-1].copy(), order)
            listings.append(self._listing(f"mode {k}", order, starts, cut, int(offsets[k])))
        self.by_mode = tuple(listings)
        self.made = (size_class(self.n), self.runs.made, *(one.made for one in self.by_mode))

    def _listing(
        self, name: str, order: Array, starts: NDArray[np.int64], cut: int, first_row: int
    ) -> Listing:
        pieces, piece_starts = cut_rows(starts, cut, first_row)
        made = size_class(len(pieces))
        # Room for all that a recording is made for: a block looks at its piece's number first.
        return Listing(
            self._put(f"{name} order", order, np.int32),
            self._put(f"{name} starts", starts, np.int64),
            self._put(f"{name} pieces", pieces.reshape(-1), np.int64, least=3 * made),
            self._put(f"{name} piece starts", piece_starts, np.int64),
            self._put(f"{name} count", np.array([len(pieces)]), np.int64),
            made,
        )

    def _put(self, name: str, array: Array, dtype: Any = np.float64, least: int = 0) -> Any:
        buffer = self._card.room(name, max(array.size, least), dtype, far=self._far)
        self._card.push(np.ascontiguousarray(array, dtype=dtype), buffer)
        return buffer


def cut_rows(
    starts: NDArray[np.int64], cut: int, first_row: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Cut rows into pieces of at most so many cells; a row without cells has none.

    Returns (first, last, row) of every piece, and the first piece of every row.

    Examples
    --------
    >>> cut_rows(np.array([0, 3, 3, 4]), 2)[0].tolist()
    [[0, 2, 0], [2, 3, 0], [3, 4, 2]]
    """
    counts = np.diff(starts)
    per_row = -(-counts // cut)
    piece_starts = np.zeros(len(starts), np.int64)
    np.cumsum(per_row, out=piece_starts[1:])
    row = np.repeat(np.arange(len(counts)), per_row)
    first = starts[row] + (np.arange(len(row)) - piece_starts[row]) * cut
    last = np.minimum(first + cut, starts[row + 1])
    return np.stack([first, last, row + first_row], axis=1), piece_starts
