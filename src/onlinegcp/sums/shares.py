"""Which rows of the factors a share of the cells meets: all that whoever sums it up needs of them.

Of a mode that a share fills, it takes the rows in which its cells may lie, in a row, under the
numbers they have. Where these would be more rows than it has cells, it takes only those it meets,
and numbers them anew. So what a worker holds is bounded by its cells, however long the modes are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from onlinegcp.sums.chunks import Chunks, RowChunks

Array = NDArray[Any]
Rows = range | NDArray[np.int64]  # of a mode: some in a row, or these
Run = tuple[int, int]  # chunks from the first to before the last


@runtime_checkable
class HasRows(Protocol):
    """Numbers for every row of every mode."""

    data: Array

    def some_rows(self, rows: Sequence[Rows]) -> Self:
        """Those of some rows of each mode; cells with these numbers find them."""


@dataclass(frozen=True)
class Share:
    """Pieces of a slice that one worker sums up.

    Attributes
    ----------
    pieces
        Runs of chunks, which may have numbers of its own for rows.
    rows
        The rows of each mode it meets; None where it may be any.
    """

    pieces: tuple[Chunks, ...]
    rows: tuple[Rows, ...] | None

    @property
    def n_rows(self) -> int:
        """How many rows of all modes these are."""
        return sum(map(len, self.rows or ()))

    @property
    def renumbered(self) -> bool:
        """Whether rows of some mode have numbers of its own."""
        return any(isinstance(rows, np.ndarray) for rows in self.rows or ())

    def of(self, value: HasRows) -> HasRows:
        """What the share needs of a value."""
        return value if self.rows is None else value.some_rows(self.rows)

    def met(self, piece: int, mode: int) -> Rows:
        """The rows of a mode for which the only chunk of a piece has sums."""
        chunk = self.pieces[piece]
        assert isinstance(chunk, RowChunks)
        low, high = chunk.spans[0][mode]
        rows = None if self.rows is None else self.rows[mode]
        return rows[low:high] if isinstance(rows, np.ndarray) else range(low, high)


def share(chunks: Chunks, runs: Sequence[Run]) -> Share:
    """The share that is made of some runs of chunks."""
    pieces = [_piece(chunks, run) for run in runs]
    if not chunks.listed:
        return Share(tuple(pieces), None)
    lists = [piece.arrays[0] for piece in pieces]
    cells = sum(map(len, lists))
    rows: list[Rows] = []
    for mode in range(lists[0].shape[1]):
        if (known := _known_rows(pieces, mode)) is not None and len(known) <= cells:
            rows.append(known)
            continue
        columns = [index[:, mode] for index in lists if len(index)]
        low = min((int(column.min()) for column in columns), default=0)
        high = max((int(column.max()) + 1 for column in columns), default=0)
        if high - low <= cells:
            rows.append(range(low, high))
            continue
        met = np.zeros(high - low, dtype=bool)
        for column in columns:
            met[column - low] = True
        rows.append(low + np.flatnonzero(met))
        number = np.cumsum(met, dtype=np.int32)  # of those met before, counted from one
        pieces = [_renumbered(piece, mode, low, number) for piece in pieces]
    return Share(tuple(pieces), tuple(rows))


def _known_rows(pieces: Sequence[Chunks], mode: int) -> range | None:
    """Rows in which the cells may lie, where that is known without looking at them."""
    edges = [(p.lows[:, mode], p.highs[:, mode]) for p in pieces if isinstance(p, RowChunks)]
    if len(edges) < len(pieces) or not edges:
        return None
    lows, highs = zip(*edges, strict=True)
    return range(int(np.concatenate(lows).min()), int(np.concatenate(highs).max()))


def _piece(chunks: Chunks, run: Run) -> Chunks:
    first, last = run
    part = chunks.part(first, last)
    if not isinstance(chunks, RowChunks):
        return part
    return RowChunks(
        part.arrays,
        part.cuts,
        chunks.lows[first:last],
        chunks.highs[first:last],
        listed=part.listed,
    )


def _renumbered(piece: Chunks, mode: int, low: int, number: NDArray[np.int32]) -> Chunks:
    """A piece whose cells count the rows of a mode that are met, not all of them."""
    index = piece.arrays[0].copy()
    index[:, mode] = number[index[:, mode] - low] - 1
    arrays = (index, *piece.arrays[1:])
    if not isinstance(piece, RowChunks):
        return replace(piece, arrays=arrays)
    lows, highs = piece.lows.copy(), piece.highs.copy()
    before = np.concatenate(([0], number))
    for edges in (lows, highs):
        edges[:, mode] = before[np.clip(edges[:, mode] - low, 0, len(number))]
    return replace(piece, arrays=arrays, lows=lows, highs=highs)


def deal(chunks: Chunks, runs: Sequence[Run], workers: int) -> list[list[int]]:
    """Numbers of the runs for each of so many workers: of a grid, blocks that meet few rows.

    Examples
    --------
    >>> deal(Chunks((), np.arange(5)), [(0, 1), (1, 2), (2, 3), (3, 4)], 2)
    [[0, 1], [2, 3]]
    """
    columns = 1
    if isinstance(chunks, RowChunks) and len(runs) == chunks.count:
        columns = chunks.columns
    lines = len(runs) // columns
    blocks = [
        (down, across)
        for across in range(1, min(columns, workers) + 1)
        for down in [min(lines, workers // across)]
    ]
    # As many as there are workers, if possible, as nearly square as these can be, and rather cut
    # where the grid has fewer parts: sums of what is cut cannot all be added up where they are.
    fewer = 0 if lines < columns else 1
    down, across = max(blocks, key=lambda b: (b[0] * b[1], -max(b), b[fewer]))
    groups: list[list[int]] = [[] for _ in range(down * across)]
    for number in range(len(runs)):
        line, column = divmod(number, columns)
        groups[line * down // lines * across + column * across // columns].append(number)
    return groups
