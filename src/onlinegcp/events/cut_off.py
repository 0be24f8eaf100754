"""Bins that are cut off: a source that ends at noon has half of its last day.

Whether it does is told by `since` and `until`, or by how long before their ends the other bins had
their last event. A bin that is closed though it is not whole looks like a collapse, and is none.
"""

from __future__ import annotations

from typing import final

import numpy as np

from onlinegcp.events.time_bins import TimeBins
from onlinegcp.events.wall_clock import Ticks

# Bins that are remembered, and that are needed to know what is usual.
KEPT, LEAST = 32, 7
# A bin is cut off if its last event lies this many times the longest silence so far before its
# end, and this part of its length.
LONGER, PART = 1.5, 0.1


@final
class Edges:
    """The last event of each of the newest bins of a source.

    Parameters
    ----------
    bins
        The time bins.
    since, until
        What was asked for, as ticks, if anything was.

    Examples
    --------
    >>> from onlinegcp.events.time_column import TimeColumn
    >>> edges = Edges(TimeBins(100, TimeColumn("t")))
    >>> ticks = np.arange(0, 950)  # ends in the middle of the tenth bin
    >>> edges.saw(ticks // 100, ticks)
    >>> edges.cut_at_end(9), edges.cut_at_end(8)
    (True, False)
    """

    def __init__(self, bins: TimeBins, since: int | None = None, until: int | None = None) -> None:
        self._bins, self._since, self._until = bins, since, until
        self._last: dict[int, int] = {}  # by key of the bin

    def saw(self, keys: Ticks, ticks: Ticks) -> None:
        """Rows of a source, in any order."""
        if len(self._last) >= KEPT:
            newer = keys >= min(self._last)
            if not newer.all():
                keys, ticks = keys[newer], ticks[newer]
        if not len(keys):
            return
        starts = np.concatenate([[0], np.flatnonzero(np.diff(keys)) + 1])
        found, latest = keys[starts], np.maximum.reduceat(ticks, starts)
        for key in np.unique(found)[-KEPT:].tolist():
            newest = int(latest[found == key].max())
            self._last[key] = max(newest, self._last.get(key, newest))
        for key in sorted(self._last)[:-KEPT]:
            del self._last[key]

    def cut_at_start(self, key: int) -> bool:
        """Whether `since` lies within a bin."""
        if self._since is None:
            return False
        return self._key(self._since) == key == self._key(self._since - 1)

    def cut_at_end(self, key: int) -> bool:
        """Whether the source, or `until`, ends within a bin that would have gone on."""
        if self._until is not None and self._key(self._until) == key:
            return True
        silences = {k: self._end(k, tick) - tick for k, tick in self._last.items()}
        others = [silence for k, silence in silences.items() if k < key]
        if key not in silences or len(others) < LEAST:
            return False
        length = self._end(key, self._last[key]) - self._start(key, self._last[key])
        return silences[key] > LONGER * max(others) + PART * length

    def _key(self, tick: int) -> int:
        return int(self._bins.keys(np.array([tick], dtype=np.int64))[0])

    def _end(self, key: int, inside: int) -> int:
        """The first tick after a bin; keys grow with ticks, whatever the calendar."""
        step = 1
        while self._key(inside + step) <= key:
            step *= 2
        low, high = inside + step // 2, inside + step
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._key(middle) <= key else (low, middle)
        return high

    def _start(self, key: int, inside: int) -> int:
        """The first tick of a bin."""
        step = 1
        while self._key(inside - step) >= key:
            step *= 2
        low, high = inside - step, inside - step // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._key(middle) >= key else (middle, high)
        return high
