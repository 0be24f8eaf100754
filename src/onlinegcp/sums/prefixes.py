"""Which row sums the holder of some chunks may add up before it sends them.

Row sums are added in the order of chunks, whoever has these. So the first chunks that meet a row
may be added up where they are, as long as no other holder's chunk comes in between: the sum is the
same to the last bit, and is sent once instead of once per chunk. In a grid shared out by columns,
that is all there is to the rows of its second mode, and the first holder's part of the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.sums.adding import InOrder
from onlinegcp.sums.chunks import RowChunks
from onlinegcp.sums.local import WAITING, engine, spread_chunk

Array = NDArray[Any]


@dataclass
class _Met:
    """Rows that chunks have met so far, whose these were, and the sum they are in (-1: none)."""

    low: int
    high: int
    owner: int
    sum: int


def first_sums(chunks: RowChunks, modes: range, owners: Sequence[int]) -> list[list[int]]:
    """For every chunk and mode, the owner's sum that it is part of; -1 where it is sent alone.

    Parameters
    ----------
    chunks
        The cells.
    modes
        The modes whose sums are wanted.
    owners
        Who has each chunk; sums are counted for each.

    Examples
    --------
    Of two chunks with the same rows in mode 1, the second of another owner is on its own:

    >>> ends = np.array([[3, 5], [6, 5]])
    >>> chunks = RowChunks((), np.arange(3), np.array([[0, 0], [3, 0]]), ends)
    >>> first_sums(chunks, range(2), [0, 1])
    [[0, 1], [0, -1]]
    >>> first_sums(chunks, range(2), [0, 0])
    [[0, 2], [1, 2]]
    """
    found: list[list[int]] = [[] for _ in owners]
    counts = dict.fromkeys(owners, 0)
    for mode in modes:
        known = list[_Met]()
        for chunk, owner in enumerate(owners):
            low, high = chunks.spans[chunk][mode]
            met = [rows for rows in known if rows.low < high and low < rows.high]
            here = _Met(low, high, owner, -1)
            if not met:
                here.sum = counts[owner]
                counts[owner] += 1
            elif len(met) == 1 and (met[0].low, met[0].high, met[0].owner) == (low, high, owner):
                here.sum = met[0].sum
            if here.sum < 0:
                for rows in met:  # whatever comes now comes after this chunk
                    rows.sum = -1
            if here.sum < 0 or not met:
                known.append(here)
            found[chunk].append(here.sum)
    return found


@dataclass(frozen=True)
class ShareSums:
    """Row sums of the chunks that one has.

    Attributes
    ----------
    first
        Those that could be added up.
    others
        For every chunk those that could not, mode by mode.
    rests
        What else the chunks gave.
    """

    first: list[Array]
    others: list[list[Array]]
    rests: list[tuple[Array, ...]]


class _ShareRows:
    """Row sums of a share as they are kept: added up where that is right, else by themselves."""

    def __init__(
        self,
        parts: Sequence[RowChunks],
        sums: Sequence[Sequence[int]],
        modes: range,
        width: int,
        keep: Callable[[Array], Array],
    ) -> None:
        self.modes = modes
        self.first = dict[int, Array]()
        self._parts, self._sums, self._keep = parts, sums, keep
        self._others = [dict[int, Array]() for _ in parts]
        self._shape = max(part.longest(modes) for part in parts), width

    def scratch(self) -> Array:
        return np.empty(self._shape)

    def add(self, chunk: int, mode: int, place: int, sums: Array) -> None:
        low, high = self._parts[chunk].spans[0][mode]
        here, number = sums[place + low : place + high], self._sums[chunk][mode - self.modes.start]
        if number < 0:
            self._others[chunk][mode] = self._keep(here)
        elif number in self.first:
            self.first[number] += here
        else:
            self.first[number] = self._keep(here)

    def others(self) -> list[list[Array]]:
        return [[sums for _, sums in sorted(by_mode.items())] for by_mode in self._others]


def sums_of_share(
    function: Callable[..., tuple[Array, ...]],
    parts: Sequence[RowChunks],
    sums: Sequence[Sequence[int]],
    modes: range,
    width: int,
    *small: Any,
    keep: Callable[[Array], Array] = np.copy,
) -> ShareSums:
    """Row sums of some chunks, each of which is a part of its own, in their order.

    Parameters
    ----------
    function, modes, small
        As for `spread`.
    parts
        The chunks.
    sums
        What `first_sums` says of them.
    width
        Numbers per row.
    keep
        Copies sums out of memory that is used again; several threads may call it.
    """
    rows = _ShareRows(parts, sums, modes, width, keep)
    rests: list[Any] = [None] * len(parts)
    order = InOrder(rows, len(parts), WAITING * engine().jobs)

    def work(piece: int) -> None:
        def make(memory: Array) -> tuple[list[int], Array]:
            part = parts[piece]
            places, target, rests[piece] = spread_chunk(function, part, 0, modes, memory, small)
            return places, target

        order.make(piece, make)

    engine().run(work, len(parts))
    return ShareSums([rows.first[number] for number in sorted(rows.first)], rows.others(), rests)
