"""Telling rows that were read before from rows that come late.

A source that is given again, as after an interruption, starts with rows of bins that are closed.
Those were learned, and are passed over. But a file may also hold the rest of a day whose first half
was learned, and those rows are lost unless somebody says so. What tells the two apart is a
fingerprint of each of the bins closed last: number of rows, which cells, and their sum.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from onlinegcp.events.cells import Cells, Entries
from onlinegcp.events.label_ids import Ids
from onlinegcp.events.label_marks import Marks
from onlinegcp.events.modes import Mode
from onlinegcp.events.rows import Rows
from onlinegcp.events.vocabulary import Vocabulary

# A number for the label of each id or code; None where a code means the same always.
Mark = Callable[[Ids], Marks] | None

# Bins that are remembered. Rows of earlier ones are judged by what was found of these.
KEPT = 32
# What was offered for one bin, the rows that were learned first.
OFFERS = 4
BEFORE, NOW = 1, 2  # how labels are marked: in runs of before the first release, and now
_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: spreads what it multiplies


@final
@dataclass(frozen=True)
class Print:
    """Fingerprint of the rows of a bin: it does not depend on their order."""

    n_rows: int
    cells: int
    total: float
    marked: int = NOW

    def is_of(self, other: Print) -> bool:
        """Whether two are of the same rows; sums may differ by rounding."""
        same = (self.n_rows, self.cells) == (other.n_rows, other.cells)
        return same and math.isclose(self.total, other.total, rel_tol=1e-9, abs_tol=1e-300)


def print_of(entries: Entries, marks: Sequence[Mark], n_rows: int, marked: int = NOW) -> Print:
    """Fingerprint of one entry per cell.

    Parameters
    ----------
    entries
        The cells, by id or code.
    marks
        Of the ids or codes of each mode.
    n_rows
        Rows they were made of.
    marked
        How labels are marked.
    """
    mixed = np.zeros(len(entries), dtype=np.uint64)
    for ids, mark in zip(entries.ids, marks, strict=True):
        mixed = (mixed ^ (ids.astype(np.uint64) if mark is None else mark(ids))) * _ODD
        mixed ^= mixed >> np.uint64(29)
    total = 0.0 if entries.total is None else float(entries.total.sum())
    return Print(n_rows, int(mixed.sum()), total, marked)


def _print_of_bin(cells: Cells, marks: Sequence[Mark], marked: int = NOW) -> Print:
    if cells.empty:
        return Print(cells.n_rows, 0, 0.0)
    return print_of(cells.fold(), marks, cells.n_rows, marked)


def marks_of_codes(modes: Sequence[Mode], vocabularies: Mapping[str, Vocabulary]) -> list[Mark]:
    """How the codes of every mode are marked."""
    known = (vocabularies.get(mode.name) for mode in modes)
    return [None if vocabulary is None else vocabulary.marks_of_codes for vocabulary in known]


def marks_of_ids(
    modes: Sequence[Mode], vocabularies: Mapping[str, Vocabulary], marked: int
) -> list[Mark]:
    """How the ids of every mode are marked, now or before."""
    found: list[Mark] = []
    for mode in modes:
        vocabulary = vocabularies.get(mode.name)
        if vocabulary is None:
            found.append(None)
        elif marked == NOW:
            found.append(vocabulary.marks)
        else:
            found.append(functools.partial(_marked_before, vocabulary))
    return found


def _marked_before(vocabulary: Vocabulary, ids: Ids) -> Marks:
    distinct, places = np.unique(ids, return_inverse=True)
    digests = b"".join(
        hashlib.blake2b(label.encode(), digest_size=8).digest()
        for label in vocabulary.names(distinct)
    )
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)[places]


@final
class Seen:
    """Fingerprints of the bins closed last.

    For each bin it holds what was learned and what was offered and found late since, so that
    rows count as late once, however often their source is read.
    """

    def __init__(self) -> None:
        self.offers: dict[int, list[Print]] = {}

    def note(self, key: int, found: Print) -> None:
        """Remember a bin that has just been closed, or what was offered for it later."""
        self.offers.setdefault(key, []).append(found)
        del self.offers[key][OFFERS:]
        while len(self.offers) > KEPT:
            del self.offers[min(self.offers)]

    def state(self) -> list[list[Any]]:
        """What must be kept, ready for JSON."""
        return [
            [key, [[one.n_rows, f"{one.cells:016x}", one.total, one.marked] for one in prints]]
            for key, prints in self.offers.items()
        ]

    def restore(self, state: Sequence[Sequence[Any]]) -> None:
        self.offers = {
            int(key): [
                Print(int(n), int(cells, 16), float(total), *marked or [BEFORE])
                for n, cells, total, *marked in prints
            ]
            for key, prints in state
        }


@final
class Passing:
    """The rows at the start of a source whose bins are closed, while they are passed over.

    Parameters
    ----------
    seen
        What is known of the bins.
    cells
        Makes an empty bin.
    modes, vocabularies
        What the ids of every mode mean.

    Attributes
    ----------
    n_again
        Rows that were read before.
    late
        Rows that were not, by bin.
    first_late
        Where the first of them is.
    """

    def __init__(
        self,
        seen: Seen,
        cells: Callable[[], Cells],
        modes: Sequence[Mode],
        vocabularies: Mapping[str, Vocabulary],
    ) -> None:
        self.n_again = 0
        self.late: dict[int, int] = {}
        self.first_late: tuple[int, str] | None = None
        self._seen, self._cells, self._names = seen, cells, (modes, vocabularies)
        self._known = bool(seen.offers)  # states of older versions know nothing
        self._from = min(seen.offers, default=0)
        self._key: int | None = None
        self._whole = cells()  # all rows of the bin
        self._first: list[tuple[Print, Cells]] = []  # as many as each of the offers has
        self._where = ""
        self._doubtful: dict[int, int] = {}  # rows that are judged by the others
        self._n_same = 0

    def take(self, rows: Rows, latest: npt.NDArray[np.int64]) -> None:
        """Rows, and the latest bin that had been reached with each of them."""
        changes = np.flatnonzero(np.diff(rows.keys)) + 1
        for start, end in itertools.pairwise([0, *changes.tolist(), len(rows)]):
            key = int(rows.keys[start])
            if key < latest[start]:
                self.doubt(key, end - start)
                continue
            values = None if rows.values is None else rows.values[start:end]
            self.add(key, [p[start:end] for p in rows.ids], values, rows.where(start))

    def add(
        self,
        key: int,
        ids: Sequence[Ids],
        values: npt.NDArray[np.float64] | None,
        where: str,
    ) -> None:
        """Rows of one bin, in the order they come."""
        if self._key is not None and self._key != key:
            self._judge()
        if key < self._from or not self._known:
            self.doubt(key, len(ids[0]))
            return
        if self._key is None:
            self._key, self._where = key, where
            self._whole = self._cells()
            self._first = [(offer, self._cells()) for offer in self._seen.offers.get(key, ())]
        self._whole.add(ids, values)
        for offer, cells in self._first:
            if room := max(0, offer.n_rows - cells.n_rows):
                cells.add([part[:room] for part in ids], None if values is None else values[:room])

    def doubt(self, key: int, n_rows: int) -> None:
        """Rows of a bin that is not remembered, or that came out of order."""
        self._doubtful[key] = self._doubtful.get(key, 0) + n_rows

    def finish(self) -> None:
        """Judge what is left: the bins have been passed, or the source is at its end."""
        self._judge()
        # Who brought the same rows of the latest bins brings the same rows of earlier ones.
        again = not self._known or (self._n_same and not self.late)
        for key, n_rows in self._doubtful.items():
            if again:
                self.n_again += n_rows
            else:
                self.late[key] = self.late.get(key, 0) + n_rows
        self._doubtful = {}

    def _judge(self) -> None:
        if self._key is None:
            return
        key, self._key = self._key, None
        n_rows = self._whole.n_rows
        same = [
            offer.n_rows
            for offer, cells in self._first
            if offer.is_of(self._print(cells, offer.marked))
        ]
        learned = bool(self._first) and self._first[0][0].n_rows in same
        if n_rows in same:
            self.n_again += n_rows
            self._n_same += 1
            return
        # A file that has grown since brings the rows that were learned once more.
        n_again = self._first[0][0].n_rows if learned else 0
        self.n_again += n_again
        self._n_same += learned
        self.late[key] = self.late.get(key, 0) + n_rows - n_again
        if self.first_late is None:
            self.first_late = key, self._where
        self._seen.note(key, self._print(self._whole))

    def _print(self, cells: Cells, marked: int = NOW) -> Print:
        return _print_of_bin(cells, marks_of_ids(*self._names, marked), marked)


@final
class Returning:
    """Rows of the open bin that a source brings once more, after those of closed bins.

    Parameters
    ----------
    held
        The open bin, as far as it was read before.
    modes, vocabularies
        What the ids of every mode mean.

    """

    def __init__(
        self,
        held: Cells,
        modes: Sequence[Mode],
        vocabularies: Mapping[str, Vocabulary],
    ) -> None:
        self._held, self._first, self._n_rows = held, Cells(held.aggregation), held.n_rows
        self._marks = marks_of_ids(modes, vocabularies, NOW)
        self._known = _print_of_bin(held, self._marks)

    def add(self, ids: Sequence[Ids], values: npt.NDArray[np.float64] | None) -> None:
        """Rows of the bin: the first are held back to be compared, the others are added to it."""
        room = max(0, self._n_rows - self._first.n_rows)
        for cells, part in ((self._first, slice(room)), (self._held, slice(room, None))):
            cells.add([column[part] for column in ids], None if values is None else values[part])

    def finish(self) -> int:
        """Join what has come to the bin unless it was there, and tell how many rows were."""
        if _print_of_bin(self._first, self._marks).is_of(self._known):
            return self._n_rows
        self._held.join(self._first)
        return 0


def restored(state: Mapping[str, Any]) -> Seen:
    """What the state of a stream knows; nothing where an older version wrote it."""
    seen = Seen()
    seen.restore(state.get("seen", ()))
    return seen
