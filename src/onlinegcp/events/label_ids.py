"""Labels numbered as they come, and the way back from a label to its number.

While labels are few that is a dictionary. Of many it is an array of ids, looked up by the lowest
bits of a hash and, where that slot is taken, some slots further on, how far by its other bits. What
is found has the same other bits, too; whether it has the same text is compared, so that no two
labels are ever taken for one. An array that is full is made anew, twice as long; one of millions is
left as it is and followed by another, so that no label comes at the cost of all before it.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, final

import numpy as np
import numpy.typing as npt

from onlinegcp.storage.labels import MANY, LabelColumn

if TYPE_CHECKING:
    import polars as pl

Ids = npt.NDArray[np.int32]
_Hashes = npt.NDArray[np.uint64]

BLOCK = 1 << 15  # labels that are worked on at the same time
# Slots of a table of labels: the first begins small, and one of the most is followed by another.
_FEWEST_SLOTS = 1 << 13
_MOST_SLOTS = 1 << 23
_FULL = 0.6  # share of the slots that is taken at most
_CLASH = -2  # in place of an id: there is one that looks the same, with another text


@final
class _Table:
    """Slots for the ids from `first` on, as many as there is room for."""

    def __init__(self, first: int, n_slots: int) -> None:
        self.first, self.end = first, first + int(_FULL * n_slots)
        self._slots = np.full(n_slots, -1, dtype=np.int32)  # ids less the first
        self._tags = np.empty(self.end - first, dtype=np.uint32)  # high bits of their hashes

    def __len__(self) -> int:
        return len(self._slots)

    def enter(self, ids: Ids, hashes: _Hashes) -> Ids:
        """Give slots to ids; get those that look like another one in all bits and have none."""
        slots, tags = self._places(hashes)
        own, clashes = ids - np.int32(self.first), [ids[:0]]
        self._tags[own] = tags
        while len(own):
            free = self._slots[slots] < 0
            self._slots[slots[free]] = own[free]  # of several for one slot the last gets it
            there = self._slots[slots]
            waiting = there != own
            clash = waiting & (self._tags[there] == tags)
            clashes.append(own[clash] + np.int32(self.first))
            slots, own, tags = self._further(slots, waiting & ~clash, own, tags)
        return np.concatenate(clashes)

    def find(self, hashes: _Hashes) -> Ids:
        """Ids that look like those with these hashes, -1 where there is none."""
        found = np.full(len(hashes), -1, dtype=np.int32)
        slots, tags = self._places(hashes)
        rows = np.arange(len(hashes), dtype=np.int32)
        while len(rows):
            there = self._slots[slots]
            taken = there >= 0
            same = taken & (self._tags[there] == tags)
            found[rows[same]] = there[same] + np.int32(self.first)
            slots, rows, tags = self._further(slots, taken & ~same, rows, tags)
        return found

    def _places(self, hashes: _Hashes) -> tuple[Ids, npt.NDArray[np.uint32]]:
        """Where to look first, and what to find there."""
        slots = (hashes & np.uint64(len(self._slots) - 1)).astype(np.int32)
        return slots, (hashes >> np.uint64(32)).astype(np.uint32)

    def _further(
        self, slots: Ids, left: npt.NDArray[np.bool_], ids: Ids, tags: npt.NDArray[np.uint32]
    ) -> tuple[Ids, Ids, npt.NDArray[np.uint32]]:
        """Where to look next, for those that are left; odd steps come to every slot."""
        ids, tags = ids[left], tags[left]
        slots = slots[left] + (tags | np.uint32(1)).view(np.int32)  # wraps around, as it may
        return slots & np.int32(len(self._slots) - 1), ids, tags


@final
class LabelIds:
    """Every label once, in the order they were added.

    Attributes
    ----------
    column
        The labels by id.

    Examples
    --------
    >>> import polars as pl
    >>> ids = LabelIds()
    >>> ids.add(pl.Series(["b", "a"]))
    >>> ids.find(pl.Series(["a", "c", "b"])).tolist()
    [1, -1, 0]
    """

    def __init__(self) -> None:
        self.column = LabelColumn()
        self._few: dict[str, int] | None = {}  # None once there are tables
        self._tables: list[_Table] = []
        self._clashes: dict[str, int] = {}  # labels that look like another one in all bits

    def __len__(self) -> int:
        return len(self.column)

    def find(self, labels: pl.Series) -> Ids:
        """Ids of labels, -1 where one is not known."""
        if self._few is not None:
            if len(labels) <= MANY:
                known = [self._few.get(label, -1) for label in labels.to_list()]
                return np.array(known, dtype=np.int32)
            self._leave_few()
        found = np.empty(len(labels), dtype=np.int32)
        for start in range(0, len(labels), BLOCK):
            found[start : start + BLOCK] = self._find_block(labels[start : start + BLOCK])
        return found

    def add(self, labels: pl.Series, more: int = 0) -> None:
        """Number labels that are not known yet, each of which is there once.

        So many `more` may soon follow: if slots have to be made, there is room for them.
        """
        first = len(self.column)
        self.column.extend(labels)
        if self._few is None:
            self._enter(first, more)
        elif len(self.column) > MANY:
            self._leave_few()
        else:
            self._few.update(zip(labels.to_list(), itertools.count(first)))

    def _leave_few(self) -> None:
        """Look labels up in tables from now on."""
        self._few = None
        self._enter(0)

    def _enter(self, first: int, more: int = 0) -> None:
        """Give slots to the ids from `first` on; where slots are made, there is room for `more`."""
        last = self._tables[-1] if self._tables else None
        if last is not None and len(last) < _MOST_SLOTS and len(self.column) > last.end:
            first = self._tables.pop().first
        while first < len(self.column):
            if not self._tables or first >= self._tables[-1].end:
                n_slots = _MOST_SLOTS if self._tables else _FEWEST_SLOTS
                while n_slots < _MOST_SLOTS and len(self.column) - first + more > _FULL * n_slots:
                    n_slots *= 2
                self._tables.append(_Table(first, n_slots))
            end = min(first + BLOCK, len(self.column), self._tables[-1].end)
            ids = np.arange(first, end, dtype=np.int32)
            clashes = self._tables[-1].enter(ids, label_hashes(self.column.take(ids)))
            self._clashes |= {self.column[identity]: identity for identity in clashes.tolist()}
            first = end

    def _find_block(self, labels: pl.Series) -> Ids:
        found = np.full(len(labels), -1, dtype=np.int32)
        hashes, rows = label_hashes(labels), np.arange(len(labels))
        for table in reversed(self._tables):
            seen = table.find(hashes[rows])
            alike = np.flatnonzero(seen >= 0)
            same = self.column.are(seen[alike], labels.gather(rows[alike]))
            found[rows[alike[same]]] = seen[alike[same]]
            found[rows[alike[~same]]] = _CLASH
            left = np.ones(len(rows), dtype=bool)
            left[alike[same]] = False
            rows = rows[left]
        other = np.flatnonzero(found == _CLASH)
        found[other] = [self._clashes.get(label, -1) for label in labels.gather(other).to_list()]
        return found


def label_hashes(labels: pl.Series) -> _Hashes:
    """A number of 64 bits for each label, good for this program only."""
    return labels.hash(0).to_numpy()
