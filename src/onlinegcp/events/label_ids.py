"""Labels numbered as they come, and the way back from a label to its number.

While labels are few that is a dictionary. Of many it is an array of ids, looked up by the lowest
bits of a hash and, where that slot is taken, some slots further on, how far by its other bits. What
is found has the same other bits, too; whether it has the same text is compared, so that no two
labels are ever taken for one.
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

BLOCK = 1 << 16  # labels that are worked on at the same time
_FEWEST_SLOTS = 1 << 13
_FULL = 0.6  # share of the slots that is taken at most


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
        self._few: dict[str, int] | None = {}  # None once there are slots
        self._slots = np.empty(0, dtype=np.int32)
        self._tags = np.empty(0, dtype=np.uint32)  # the high bits of the hash of every id
        self._clashes: dict[str, int] = {}  # labels that look like an earlier one in all bits

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
        """Look labels up in slots from now on."""
        self._few = None
        self._enter(0)

    def _enter(self, first: int, more: int = 0) -> None:
        """Give slots to the ids from `first` on, and if need be new slots to all and to `more`."""
        if not len(self._slots) or len(self.column) > _FULL * len(self._slots):
            n_slots = max(_FEWEST_SLOTS, len(self._slots))
            while len(self.column) + more > _FULL * n_slots:
                n_slots *= 2
            self._slots, first = np.full(n_slots, -1, dtype=np.int32), 0
            self._tags = np.empty(int(_FULL * n_slots) + 1, dtype=np.uint32)
        for start in range(first, len(self.column), BLOCK):
            end = min(start + BLOCK, len(self.column))
            self._enter_block(np.arange(start, end, dtype=np.int32))

    def _enter_block(self, ids: Ids) -> None:
        slots, tags = self._places(label_hashes(self.column.take(ids)))
        self._tags[ids] = tags
        while len(ids):
            there = self._slots[slots]
            free = there < 0
            self._slots[slots[free]] = ids[free]  # of several for one slot the last gets it
            there = self._slots[slots]
            waiting = there != ids
            clash = waiting & (self._tags[there] == tags)
            for identity in ids[clash].tolist():
                self._clashes[self.column[identity]] = identity
            slots, ids, tags = self._further(slots, waiting & ~clash, ids, tags)

    def _find_block(self, labels: pl.Series) -> Ids:
        found = np.full(len(labels), -1, dtype=np.int32)
        slots, tags = self._places(label_hashes(labels))
        rows = np.arange(len(labels), dtype=np.int32)
        while len(rows):
            there = self._slots[slots]
            taken = there >= 0
            same = taken & (self._tags[there] == tags)
            found[rows[same]] = there[same]
            slots, rows, tags = self._further(slots, taken & ~same, rows, tags)
        known = np.flatnonzero(found >= 0)
        other = known[~self.column.are(found[known], labels.gather(known))]
        found[other] = [self._clashes.get(label, -1) for label in labels.gather(other).to_list()]
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


def label_hashes(labels: pl.Series) -> _Hashes:
    """A number of 64 bits for each label, good for this program only."""
    return labels.hash(0).to_numpy()
