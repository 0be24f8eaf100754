"""Labels and their codes: a vocabulary grows at its end, and no code ever changes.

A column is read in two steps. `identify` gives every row an id in the order labels happen to
arrive, which costs one look-up per distinct label. `settle` gives codes to the ids of a finished
time bin, new labels in sorted order, so that codes depend on which bin a label first appears in and
not on the order of rows, the size of batches or what was read ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, final

import numpy as np
import numpy.typing as npt

from onlinegcp.errors import DataError, closest
from onlinegcp.events.label_ids import BLOCK, Ids, LabelIds
from onlinegcp.events.label_marks import Marks, label_marks
from onlinegcp.events.label_order import ids_in_order
from onlinegcp.storage.labels import MANY, Labels, blocks_of

if TYPE_CHECKING:
    import polars as pl

OnNew = Literal["grow", "other", "error"]
Where = Callable[[int], str]

OTHER = "other"
# Whole numbers within a span of this many are looked up in a table, a nanosecond each.
_TABLE_SPAN = 1 << 22


@final
class Vocabulary:
    """The labels of a mode, as text, in the order of their codes.

    Whole numbers, text, categories, booleans and dates are all read as text: 7, 7.0, "7" and "7.0"
    are one label, so that parquet, CSV and JSON files of the same data agree. Null, NaN and empty
    text are no labels.

    Parameters
    ----------
    labels
        Known from the start, with codes 0, 1, ...
    on_new
        What happens to a label that is not known: "grow" adds it, "other" reads it as the label
        "other" (added at the end if it is not among `labels`), "error" refuses it.

    Examples
    --------
    >>> import polars as pl
    >>> zones = Vocabulary(["JFK"])
    >>> ids = zones.identify(pl.Series(["b", "JFK", "a", None]))
    >>> zones.settle([ids])
    >>> zones.labels, zones.codes(ids).tolist()
    (('JFK', 'a', 'b'), [2, 0, 1, -1])
    """

    def __init__(self, labels: Iterable[str] = (), *, on_new: OnNew = "grow") -> None:
        self.on_new = on_new
        self._ids = LabelIds()
        self._order = np.empty(16, dtype=np.int32)  # code -> id, and room for more
        self._n_settled = 0
        self._codes = np.full(16, -1, dtype=np.int32)  # id -> code, -1 while its bin is open
        self._table, self._base = np.empty(0, dtype=np.int32), 0  # whole number -> id, -1 unknown
        self._marks, self._n_marked = np.empty(0, dtype=np.uint64), 0
        self._labels: Sequence[str] = ()
        self._start_with(labels)
        self._other = -1
        if on_new == "other":
            self._start_with([OTHER])
            self._other = int(self._ids.find(_texts([OTHER]))[0])

    def __len__(self) -> int:
        return self._n_settled

    @property
    def labels(self) -> Sequence[str]:
        """Labels in the order of their codes: few as a tuple, many as `Labels`."""
        if len(self._labels) != self._n_settled:
            order = self._order[: self._n_settled]
            many = len(order) > MANY
            column = self._ids.column
            self._labels = Labels(column, order) if many else tuple(column.texts(order))
        return self._labels

    @property
    def n_ids(self) -> int:
        """Number of ids given out."""
        return len(self._ids)

    def arrived(self) -> pl.Series:
        """All labels in the order of their ids."""
        return self._ids.column.take(np.arange(len(self._ids)))

    def name(self, identity: int) -> str:
        """The label of an id."""
        return self._ids.column[identity]

    def names(self, ids: Ids) -> list[str]:
        """The labels of ids."""
        return self._ids.column.texts(ids)

    def marks(self, ids: Ids) -> Marks:
        """A number for the label of each id, the same in every program."""
        start, end = self._n_marked, len(self._ids)
        if end > len(self._marks):
            more = np.empty(max(end, 2 * start), dtype=np.uint64)
            more[:start] = self._marks[:start]
            self._marks = more
        for first in range(start, end, BLOCK):
            some = np.arange(first, min(first + BLOCK, end))
            self._marks[some] = label_marks(self._ids.column.take(some))
        self._n_marked = end
        return _looked_up(self._marks, ids)

    def marks_of_codes(self, codes: Ids) -> Marks:
        """A number for the label of each code, the same in every program."""
        return self.marks(self._order[codes])

    def _start_with(self, labels: Iterable[str]) -> None:
        """Labels known from the start: their codes are the next ones, in their order."""
        for block in blocks_of(labels):
            texts = _texts(block).unique(maintain_order=True)
            self._new_ids(texts.filter(self._ids.find(texts) < 0))
        new = np.arange(self._n_settled, len(self._ids), dtype=np.int32)
        self._settle([new], len(new))

    def _new_ids(self, labels: pl.Series, soon: int = 0) -> None:
        self._ids.add(labels, soon)
        known, room = len(self._ids), len(self._codes)
        if known > room:
            more = np.full(max(known + soon, 2 * room), -1, dtype=np.int32)
            more[:room] = self._codes
            self._codes = more

    def _settle(self, ids: Iterable[Ids], count: int) -> None:
        """Give the next codes to so many ids."""
        start, end = self._n_settled, self._n_settled + count
        if end > len(self._order):
            more = np.empty(max(end, 2 * len(self._order)), dtype=np.int32)
            more[:start] = self._order[:start]
            self._order = more  # the old one may be that of labels handed out
        for some in ids:
            self._order[start : start + len(some)] = some
            start += len(some)
        for first in range(self._n_settled, end, BLOCK):  # all have been found: nothing fails now
            last = min(first + BLOCK, end)
            self._codes[self._order[first:last]] = np.arange(first, last, dtype=np.int32)
        self._n_settled = end

    def identify(self, column: pl.Series, where: Where | None = None) -> Ids:
        """Give every row the id of its label, -1 where there is none.

        Parameters
        ----------
        column
            Labels of any plain type.
        where
            Names a row, by its position, in errors.
        """
        import polars as pl

        where = where or (lambda row: f"row {row + 1:,}")
        dtype = column.dtype
        if dtype == pl.Null:
            return np.full(len(column), -1, dtype=np.int32)
        if dtype.is_nested() or dtype == pl.Binary or dtype == pl.Object:
            raise DataError(
                f"A mode needs a column of text, whole numbers, booleans or dates, but column "
                f"{column.name!r} holds {dtype} in {where(0)}. Choose a plain column, or take the "
                "parts of this one into columns of their own first."
            )
        if dtype == pl.Boolean or dtype == pl.Categorical or dtype == pl.Enum:
            return self._identify_numbered(column, where)
        if dtype.is_float():
            column = column.fill_nan(None)
            if not _whole(column):
                return self._identify_values(column, where)
            column = column.cast(pl.Int64)
        if column.dtype.is_integer() and str(column.dtype) not in ("Int128", "UInt128"):
            return self._identify_integers(column, where)
        return self._identify_values(column.cast(pl.String), where)

    def settle(self, ids: Iterable[Ids]) -> None:
        """Give codes to the ids that have none yet, in the order of their labels."""
        if self._n_settled == len(self._ids):
            return
        unsettled = [np.empty(0, dtype=np.int32)]
        for part in ids:
            for start in range(0, len(part), BLOCK):
                seen = part[start : start + BLOCK]
                seen = seen[seen >= 0] if seen.min() < 0 else seen
                unsettled.append(seen[self._codes[seen] < 0])
        fresh = np.concatenate(unsettled)
        del unsettled
        fresh = _distinct(fresh)
        self._settle(ids_in_order(self._ids, fresh), len(fresh))

    def codes(self, ids: Ids) -> Ids:
        """Codes of settled ids; -1 stays -1."""
        codes = _looked_up(self._codes, ids)
        if len(ids) and ids.min() < 0:
            codes[ids < 0] = -1
        return codes

    def _look_up(
        self, values: pl.Series, column: pl.Series, where: Where, share: float = 1.0
    ) -> Ids:
        """Ids of distinct values, -1 where one is no label; `column` has them, for errors.

        They are those of a `share` of the column: the rest may hold as many new ones.
        """
        labels, repeat = _as_labels(values)
        absent = labels.is_null() | (labels == "")
        if not (repeat or absent.any()):
            return self._look_up_labels(labels, column, where, share)
        distinct = labels.filter(~absent).unique(maintain_order=True)
        return _joined(labels, distinct, self._look_up_labels(distinct, column, where, share))

    def _look_up_labels(
        self, labels: pl.Series, column: pl.Series, where: Where, share: float
    ) -> Ids:
        found = self._ids.find(labels)
        strange = found < 0
        if not strange.any():
            return found
        if self.on_new == "grow":
            first, count = len(self._ids), int(np.count_nonzero(strange))
            found[strange] = np.arange(first, first + count)
            self._new_ids(labels.filter(strange), int(count * (1.0 - share) / share))
            return found
        if self.on_new == "other":
            return np.where(strange, np.int32(self._other), found)  # not remembered: can be many
        label = labels[int(np.argmax(strange))]
        row = int((_as_labels(column)[0] == label).fill_null(value=False).arg_max() or 0)
        raise DataError(
            f"Column {column.name!r} may only hold the {len(self):,} labels of its vocabulary, "
            f"but {where(row)} has {label!r}.{closest(label, self.labels)} Add the label to "
            "the vocabulary, or use on_new='grow' or 'other'."
        )

    def _identify_values(self, column: pl.Series, where: Where) -> Ids:
        """Text, fractions, and whole numbers too far apart for a table, such as hashed keys."""
        ids = np.empty(len(column), dtype=np.int32)
        for start in range(0, len(column), BLOCK):  # what is found on the way takes more than ids
            rows = column[start : start + BLOCK]
            values = rows.unique(maintain_order=True)
            share = len(rows) / (len(column) - start)  # of what has not been looked at
            found = self._look_up(values, column, where, share)
            # If each row has its own they are in order.
            same = len(values) == len(rows)
            ids[start : start + BLOCK] = found if same else _joined(rows, values, found)
        return ids

    def _identify_numbered(self, column: pl.Series, where: Where) -> Ids:
        """Booleans and categories, which are numbers with names already."""
        import polars as pl

        present, boolean = column.unique().drop_nulls(), column.dtype == pl.Boolean
        numbers, rows = (
            c.cast(pl.UInt8) if boolean else c.to_physical() for c in (present, column)
        )
        lookup = np.full(int(numbers.to_numpy().max(initial=0)) + 1, -1, dtype=np.int32)
        lookup[numbers.to_numpy()] = self._look_up(present, column, where)
        return _through(lookup, rows)

    def _identify_integers(self, column: pl.Series, where: Where) -> Ids:
        import polars as pl

        if column.null_count() == len(column):
            return np.full(len(column), -1, dtype=np.int32)
        low, high = int(column.min()), int(column.max())  # type: ignore[arg-type]
        if high - low >= _TABLE_SPAN or high >= 1 << 63 or not self._widen_table(low, high):
            return self._identify_values(column, where)
        values, absent = _plain(column, low)
        # The table is as narrow as the values, so that the subtraction cannot wrap around.
        positions = values.astype(np.int64) - self._base if self._base else values
        ids = self._table[positions]
        if ids.min() < 0:
            unknown = _distinct(values[ids < 0])
            found = self._look_up(pl.Series(unknown), column, where)
            self._table[unknown.astype(np.int64) - self._base] = found
            ids = self._table[positions]
        if absent is not None:
            ids[absent] = -1
        return ids

    def _widen_table(self, low: int, high: int) -> bool:
        """Make the table reach from low to high, unless it would become too long."""
        if len(self._table) and low >= self._base and high < self._base + len(self._table):
            return True
        # Counting from 0 saves a subtraction per row, which most columns of numbers can have.
        base = 0 if low >= 0 and high < _TABLE_SPAN else low
        end = high + 1
        if len(self._table):
            base, end = min(base, self._base), max(end, self._base + len(self._table))
        if end - base > _TABLE_SPAN:
            return False
        table = np.full(min(max(end - base, 256), _TABLE_SPAN), -1, dtype=np.int32)
        table[self._base - base :][: len(self._table)] = self._table
        self._table, self._base = table, base
        return True


def _as_labels(values: pl.Series) -> tuple[pl.Series, bool]:
    """Values as text, and whether two of them may have become one.

    A whole number with a decimal point is the whole number.
    """
    import polars as pl

    if values.dtype.is_float():
        numbers = values.to_list()
        texts = [None if number is None else number_text(number) for number in numbers]
        return pl.Series(texts, dtype=pl.String), False
    labels = values.cast(pl.String)
    if values.dtype.is_integer():
        return labels, False
    pointed = labels.str.ends_with("0") & labels.str.contains(".", literal=True)
    if not pointed.any():
        return labels, False
    return labels.str.replace(r"^(-?\d+)\.0+$", "${1}").str.replace(r"^-0$", "0"), True


def number_text(number: float) -> str:
    """A number as a label: whole ones without a decimal point."""
    return str(int(number)) if float(number).is_integer() else repr(float(number))


def _joined(rows: pl.Series, values: pl.Series, ids: Ids) -> Ids:
    """The ids of rows, by their values; -1 for what is not among these."""
    import polars as pl

    table = pl.DataFrame({"value": values, "id": ids})
    found = (
        rows.alias("value").to_frame().join(table, on="value", how="left", maintain_order="left")
    )
    return found["id"].fill_null(-1).to_numpy()


def _texts(labels: list[str]) -> pl.Series:
    import polars as pl

    return pl.Series(labels, dtype=pl.String)


def _whole(column: pl.Series) -> bool:
    """Whether all numbers are whole and exact as 64-bit integers."""
    small = bool((column.abs() < 2.0**53).all())
    return small and bool((column == column.round()).all())


def _distinct(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Distinct numbers in order, of an array that is used up.

    np.unique takes ten times as long where most are distinct, and more memory.
    """
    values.sort()
    new = np.ones(len(values), dtype=bool)
    np.not_equal(values[1:], values[:-1], out=new[1:])
    return values if new.all() else values[new]


def _looked_up(table: npt.NDArray[Any], places: Ids) -> npt.NDArray[Any]:
    """What lies at these places, of which NumPy would make long integers, all at the same time."""
    found = np.empty(len(places), dtype=table.dtype)
    for start in range(0, len(places), BLOCK):
        found[start : start + BLOCK] = table[places[start : start + BLOCK]]
    return found


def _plain(column: pl.Series, fill: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_] | None]:
    """Values as an array with `fill` for nulls, and where these are."""
    if not column.null_count():
        return column.to_numpy(), None
    return column.fill_null(fill).to_numpy(), column.is_null().to_numpy()


def _through(lookup: Ids, column: pl.Series) -> Ids:
    positions, absent = _plain(column, 0)
    ids: Ids = lookup[positions]
    if absent is not None:
        ids[absent] = -1
    return ids
