"""Row sums of chunks, added in the order of chunks while others are still being made.

A sum is added as soon as those of all chunks before it are, mode by mode, by whichever thread has
made it possible: what was just written is still in its cache, and nobody waits for a round to end.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Condition
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from onlinegcp.sums.chunks import RowChunks

Array = NDArray[Any]


class Kept(Protocol):
    """Where row sums of chunks go, mode by mode."""

    modes: range

    def scratch(self) -> Array:
        """Memory for the sums of one chunk."""

    def add(self, chunk: int, mode: int, place: int, sums: Array) -> None:
        """Take the sums of a chunk in one mode, row i of which is row ``place + i`` of `sums`."""


class Rows:
    """The rows of some modes, to be set to sums over chunks.

    Parameters
    ----------
    chunks
        The cells.
    modes
        The modes wanted.
    offsets
        Where the rows of each mode begin in `out`.
    out
        The rows of all modes.
    fresh
        Whether what is in the rows goes; else it is added to.
    """

    def __init__(
        self,
        chunks: RowChunks,
        modes: range,
        offsets: NDArray[np.int64],
        out: Array,
        *,
        fresh: bool,
    ) -> None:
        self.modes = modes
        self._chunks, self._out, self._fresh = chunks, out, fresh
        self._begins = offsets.tolist()
        self._longest = chunks.longest(modes)

    @property
    def numbers(self) -> int:
        """The most that the sums of one chunk can be."""
        return self._longest * int(self._out.shape[1])

    def scratch(self) -> Array:
        """Memory for the sums of one chunk."""
        return np.empty((self._longest, self._out.shape[1]))

    def add(self, chunk: int, mode: int, place: int, sums: Array) -> None:
        """Add the sums of a chunk in one mode, row i of which is row ``place + i`` of `sums`."""
        begin, (low, high) = self._begins[mode], self._chunks.spans[chunk][mode]
        if self._fresh:
            self._clear(chunk, mode)
        self._out[begin + low : begin + high] += sums[place + low : place + high]

    def finish(self) -> None:
        """When all chunks are added: see to the rows that none of them can meet."""
        if self._fresh:
            for mode in self.modes:
                self._clear(self._chunks.count, mode)

    def _clear(self, chunk: int, mode: int) -> None:
        begin, end = self._begins[mode], self._begins[mode + 1]
        for low, high in self._chunks.new_rows[mode][chunk]:
            self._out[begin + low : min(begin + high, end)] = 0.0


class InOrder:
    """Sums of chunks that threads make side by side, and add in the order of chunks.

    Parameters
    ----------
    rows
        Where they are added.
    count
        Chunks, which are begun in order.
    most
        Sums that may be there at a time, for the sake of memory.
    """

    def __init__(self, rows: Kept, count: int, most: int) -> None:
        self._rows, self._most, self._broken = rows, most, False
        self._change = Condition()
        self._free = list[Array]()  # memory that is used again, the last first: it is in a cache
        self._made = dict[int, tuple[list[int], Array, Array]]()
        self._next = dict.fromkeys(rows.modes, 0)  # chunk to be added, by mode
        self._busy = dict.fromkeys(rows.modes, False)  # modes somebody adds to
        self._left = [len(rows.modes)] * count  # modes to which each is still to be added

    def make(self, chunk: int, sums: Callable[[Array], tuple[list[int], Array]]) -> None:
        """Make the sums of a chunk; add whatever can be added by then."""
        try:
            memory = self._lend(chunk)
            if memory is None:
                return
            places, target = sums(memory)
            with self._change:
                self._made[chunk] = places, target, memory
            for mode in self._rows.modes:
                self._add_to(mode)
        except BaseException:  # others may wait for this chunk
            with self._change:
                self._broken = True
                self._change.notify_all()
            raise

    def _lend(self, chunk: int) -> Array | None:
        """Memory, as soon as few enough chunks wait; None where one has failed."""
        with self._change:
            while chunk >= min(self._next.values()) + self._most and not self._broken:
                self._change.wait()
            if self._broken:
                return None
            if self._free:
                return self._free.pop()
        return self._rows.scratch()

    def _add_to(self, mode: int) -> None:
        """Add the sums of one mode whose turn it is, unless somebody else does."""
        with self._change:
            if self._busy[mode] or self._next[mode] not in self._made:
                return
            self._busy[mode] = True
        while self._busy[mode]:
            chunk = self._next[mode]
            places, target, memory = self._made[chunk]
            self._rows.add(chunk, mode, places[mode], target)
            with self._change:
                self._next[mode] += 1
                self._left[chunk] -= 1
                if not self._left[chunk]:
                    del self._made[chunk]
                    self._free.append(memory)
                    self._change.notify_all()
                self._busy[mode] = self._next[mode] in self._made
