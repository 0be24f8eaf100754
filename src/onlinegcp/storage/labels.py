"""Labels by the million: text in columns of Arrow, read like a tuple, never a million objects.

A label as a Python object takes a hundred bytes and a place in a list; in a column it takes sixteen
and, if it is longer than twelve bytes, its text. A column only ever grows at its end, so that what
was taken from it before stays what it is.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast, final, overload

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import polars as pl

Places = npt.NDArray[np.integer[Any]]

MANY = 2000  # labels: with fewer, plain lists are quicker and nobody waits for polars
BLOCK = 1 << 14  # labels that are Python objects at the same time
_LONGEST_PART = 1 << 20  # labels: longer parts are not joined, which would hold them twice


@final
class LabelColumn:
    """Labels in the order they came, by their number; it grows at its end.

    Examples
    --------
    >>> column = LabelColumn(["b", "a"])
    >>> column.extend(["c"])
    >>> len(column), column[2], column.texts(np.array([1, 0]))
    (3, 'c', ['a', 'b'])
    """

    def __init__(self, labels: Iterable[str] = ()) -> None:
        self._parts: list[pl.Series] = []
        self._ends: list[int] = []  # of the parts
        self._tail: list[str] = []  # what came since, short
        self._odd = False  # whether the tail has to stay a list
        self.extend(labels)

    def __len__(self) -> int:
        return self._n_parts + len(self._tail)

    @property
    def _n_parts(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, place: int) -> str:
        if not 0 <= place < len(self):
            raise IndexError(place)
        if place >= self._n_parts:
            return self._tail[place - self._n_parts]
        part = bisect.bisect_right(self._ends, place)
        return str(self._parts[part][place - (self._ends[part - 1] if part else 0)])

    def extend(self, labels: Iterable[str]) -> None:
        """Add labels: any text, or a column of polars without nulls."""
        if hasattr(labels, "rechunk") and len(cast("pl.Series", labels)) >= MANY:
            self._put_away()
            if not self._tail:
                self._append(cast("pl.Series", labels))
                return
        for block in blocks_of(labels):
            self._tail += block
            if len(self._tail) >= MANY:
                self._put_away()

    def _put_away(self) -> None:
        """Make a part of what came last, unless some of it is no text to anybody but Python."""
        if not self._tail or self._odd:
            return
        import polars as pl

        try:
            part = pl.Series(self._tail, dtype=pl.String)
        except UnicodeEncodeError:  # halves of characters, from file names and the like
            self._odd = True
            return
        self._tail = []
        self._append(part)

    def _append(self, part: pl.Series) -> None:
        import polars as pl

        # Joined with nothing, text is written anew: taken out of a table, a few labels would
        # otherwise keep all text of that table in memory.
        self._parts.append((part + "").rechunk())
        self._ends.append(self._n_parts + len(part))
        while len(self._parts) > 1:
            before, last = len(self._parts[-2]), len(self._parts[-1])
            if before > 2 * last or before + last > _LONGEST_PART:
                break
            self._parts[-2:] = [pl.concat(self._parts[-2:]).rechunk()]
            del self._ends[-2]

    def texts(self, places: Places) -> list[str]:
        """Labels by their numbers, as objects: few at a time."""
        if not self._parts:
            return [self._tail[place] for place in places.tolist()]
        return list(self.take(places))

    def take(self, places: Places) -> pl.Series:
        """Labels by their numbers, as a column."""
        import polars as pl

        parts = self._columns()
        if len(parts) == 1:
            return parts[0][1].gather(places)
        found, order = [pl.Series([], dtype=pl.String)], []
        for start, part in parts:
            here = np.flatnonzero((places >= start) & (places < start + len(part)))
            if len(here):
                found.append(part.gather(places[here] - start))
                order.append(here)
        if len(order) < 2:
            return found[-1]
        back = np.empty(len(places), dtype=np.int64)
        back[np.concatenate(order)] = np.arange(len(places))
        return pl.concat(found).gather(back)

    def are(self, places: Places, labels: pl.Series) -> npt.NDArray[np.bool_]:
        """Whether the labels with these numbers are those of a column, one by one."""
        return np.asarray((self.take(places) == labels).to_numpy(), dtype=bool)

    def _columns(self) -> list[tuple[int, pl.Series]]:
        import polars as pl

        columns = [
            (end - len(part), part) for end, part in zip(self._ends, self._parts, strict=True)
        ]
        if self._tail or not columns:
            columns.append((self._n_parts, pl.Series(self._tail, dtype=pl.String)))
        return columns


@final
class Labels(Sequence[str]):
    """Many labels of a mode in the order of their codes; reads like a tuple of text.

    Parameters
    ----------
    column
        Holds the text; it may grow meanwhile.
    order
        Number in the column of every label; all of them in its own order by default.

    Examples
    --------
    >>> labels = Labels(LabelColumn(["b", "a", "c"]), np.array([1, 0, 2]))
    >>> labels[0], labels[-1], len(labels), labels[1:] == ("b", "c")
    ('a', 'c', 3, True)
    >>> labels
    Labels('a', 'b', 'c')
    """

    __slots__ = ("_column", "_order")

    def __init__(self, column: LabelColumn, order: Places | None = None) -> None:
        self._column = column
        self._order = np.arange(len(column), dtype=np.int32) if order is None else order

    def __len__(self) -> int:
        return len(self._order)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> Labels: ...
    def __getitem__(self, place: int | slice) -> str | Labels:
        if isinstance(place, slice):
            return Labels(self._column, self._order[place])
        return self._column[int(self._order[place])]

    def __iter__(self) -> Iterator[str]:
        for block in self.blocks():
            yield from block

    def blocks(self) -> Iterator[list[str]]:
        """All labels in lists of at most `BLOCK`."""
        for start in range(0, len(self), BLOCK):
            yield self._column.texts(self._order[start : start + BLOCK])

    def texts(self, places: Places) -> list[str]:
        """Some of them by their codes."""
        return self._column.texts(self._order[places])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (Labels, tuple, list)):
            return NotImplemented
        if len(self) != len(other):
            return False
        if isinstance(other, Labels) and self._column is other._column:
            return bool(np.array_equal(self._order, other._order))
        starts = range(0, len(self), BLOCK)
        return all(
            block == list(other[start : start + BLOCK])
            for start, block in zip(starts, self.blocks(), strict=True)
        )

    __hash__ = None  # type: ignore[assignment]  # as a list: nobody should hash a million labels

    def __repr__(self) -> str:
        shown = [repr(label) for label in self[:6]]
        more = [f"... {len(self):,} in all"] if len(self) > 6 else []
        return f"Labels({', '.join([*shown, *more])})"


def held(labels: Iterable[str] | LabelColumn) -> Sequence[str]:
    """Labels as they are kept: few as a tuple, many in a column.

    Examples
    --------
    >>> held(["a", "b"]), held(map(str, range(3000)))
    (('a', 'b'), Labels('0', '1', '2', '3', '4', '5', ... 3,000 in all))
    """
    if isinstance(labels, Labels) or (isinstance(labels, tuple) and len(labels) <= MANY):
        return labels
    column = labels if isinstance(labels, LabelColumn) else LabelColumn(labels)
    return Labels(column) if len(column) > MANY else tuple(column.texts(np.arange(len(column))))


def chosen(labels: Sequence[str], places: Places) -> list[str]:
    """Some labels by their codes.

    Examples
    --------
    >>> chosen(("a", "b", "c"), np.array([2, 0]))
    ['c', 'a']
    """
    if isinstance(labels, Labels):
        return labels.texts(places)
    return [labels[place] for place in places.tolist()]


def blocks_of(labels: Iterable[str]) -> Iterator[list[str]]:
    """Labels as lists of at most `BLOCK`."""
    if isinstance(labels, Labels):
        yield from labels.blocks()
        return
    rest = iter(labels)
    while block := list(itertools.islice(rest, BLOCK)):
        yield block
