"""Labels and their codes: a vocabulary grows at its end, and no code ever changes.

A column is read in two steps. `identify` gives every row an id in the order labels happen to
arrive, which costs one look-up per distinct label. `settle` gives codes to the ids of a finished
time bin, new labels in sorted order, so that codes depend on which bin a label first appears in and
not on the order of rows, the size of batches or what was read ahead.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, final

import numpy as np
import numpy.typing as npt

from onlinegcp.errors import DataError, closest

if TYPE_CHECKING:
    import polars as pl

Ids = npt.NDArray[np.int32]
OnNew = Literal["grow", "other", "error"]
Where = Callable[[int], str]

OTHER = "other"
# Whole numbers within a span of this many are looked up in a table, a nanosecond each.
_TABLE_SPAN = 1 << 22
_MANY = 2000  # labels: below, a millisecond is lost with columns


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

    def __init__(self, labels: Sequence[str] = (), *, on_new: OnNew = "grow") -> None:
        self.on_new = on_new
        self._settled: list[str] = []  # code -> label
        self._arrived: list[str] = []  # id -> label
        self._ids: dict[str, int] = {}
        self._codes = np.full(16, -1, dtype=np.int32)  # id -> code, -1 while its bin is open
        self._table, self._base = np.empty(0, dtype=np.int32), 0  # whole number -> id, -1 unknown
        self._labels: tuple[str, ...] = ()
        for label in labels:
            self._add(label)
        self._other = self._add(OTHER) if on_new == "other" else -1

    def __len__(self) -> int:
        return len(self._settled)

    @property
    def labels(self) -> tuple[str, ...]:
        if len(self._labels) != len(self._settled):
            self._labels = tuple(self._settled)
        return self._labels

    @property
    def arrived(self) -> Sequence[str]:
        """Labels in the order of their ids."""
        return self._arrived

    @property
    def n_ids(self) -> int:
        """Number of ids given out."""
        return len(self._arrived)

    def name(self, identity: int) -> str:
        """The label of an id."""
        return self._arrived[identity]

    def _add(self, label: str) -> int:
        """A label known from the start: its code is the next one."""
        if label not in self._ids:
            self._new_ids([label])
            self._codes[self._ids[label]] = len(self._settled)
            self._settled.append(label)
        return self._ids[label]

    def _new_ids(self, labels: Sequence[str]) -> None:
        self._ids.update(zip(labels, itertools.count(len(self._arrived))))
        self._arrived.extend(labels)
        if len(self._arrived) > len(self._codes):
            more = np.full(len(self._arrived), -1, dtype=np.int32)  # at least doubles it
            self._codes = np.concatenate([self._codes, more])

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
        if dtype == pl.Boolean:
            names = ["false", "true"]
            column = column.cast(pl.Int8)
            present = sorted(column.unique().drop_nulls().to_list())
            lookup = np.full(2, -1, dtype=np.int32)
            lookup[present] = self._look_up([names[p] for p in present], present, column, where)
            return _through(lookup, column)
        if dtype == pl.Categorical or dtype == pl.Enum:
            return self._identify_categories(column, where)
        if dtype.is_float():
            column = column.fill_nan(None)
            if not _whole(column):
                return self._identify_numbers(column, where, number_text)
            column = column.cast(pl.Int64)
        if column.dtype.is_integer() and str(column.dtype) not in ("Int128", "UInt128"):
            return self._identify_integers(column, where)
        if dtype == pl.Null:
            return np.full(len(column), -1, dtype=np.int32)
        if dtype.is_nested() or dtype == pl.Binary or dtype == pl.Object:
            raise DataError(
                f"A mode needs a column of text, whole numbers, booleans or dates, but column "
                f"{column.name!r} holds {dtype} in {where(0)}. Choose a plain column, or take the "
                "parts of this one into columns of their own first."
            )
        return self._identify_text(column.cast(pl.String), where)

    def settle(self, ids: Iterable[Ids]) -> None:
        """Give codes to the ids that have none yet, in the order of their labels."""
        if len(self._settled) == len(self._arrived):
            return
        unsettled = [np.empty(0, dtype=np.int32)]
        for part in ids:
            seen = part[part >= 0] if len(part) and part.min() < 0 else part
            unsettled.append(seen[self._codes[seen] < 0])
        fresh = _distinct(np.concatenate(unsettled))
        names = [self._arrived[identity] for identity in fresh.tolist()]
        order = in_order(names)
        self._codes[fresh[order]] = np.arange(len(self._settled), len(self._settled) + len(fresh))
        self._settled.extend(names[place] for place in order)

    def codes(self, ids: Ids) -> Ids:
        """Codes of settled ids; -1 stays -1."""
        codes = self._codes[ids]
        if len(ids) and ids.min() < 0:
            codes[ids < 0] = -1
        return codes

    def _look_up(
        self,
        labels: Sequence[str],
        values: Sequence[Any] | pl.Series,
        column: pl.Series,
        where: Where,
    ) -> list[int]:
        """Ids of distinct labels; `values` are what stands for them in the column."""
        found = [self._ids.get(label, -1) for label in labels]
        strangers = [n for n, identity in enumerate(found) if identity < 0]
        if not strangers:
            return found
        if self.on_new == "grow":
            new = list(dict.fromkeys(labels[n] for n in strangers))
            first = len(self._arrived)
            self._new_ids(new)
            if len(new) == len(strangers):  # as they come: no need to look them up again
                for identity, n in enumerate(strangers, first):
                    found[n] = identity
                return found
            return [self._ids[label] for label in labels]
        if self.on_new == "other":
            # They are not remembered: they can be many.
            return [self._other if identity < 0 else identity for identity in found]
        label, value = labels[strangers[0]], values[strangers[0]]
        row = int((column == value).fill_null(value=False).arg_max() or 0)
        raise DataError(
            f"Column {column.name!r} may only hold the {len(self):,} labels of its vocabulary, "
            f"but {where(row)} has {label!r}.{closest(label, self._settled)} Add the label to "
            "the vocabulary, or use on_new='grow' or 'other'."
        )

    def _identify_text(self, column: pl.Series, where: Where) -> Ids:
        import polars as pl

        name = column.name
        labels = column.unique(maintain_order=True)
        labels = labels.filter(labels.is_not_null() & (labels != ""))
        found = np.array(self._look_up(_plain_text(labels), labels, column, where), dtype=np.int32)
        if len(labels) == len(column):  # each row has its own, and they are in order
            return found
        table = pl.DataFrame({"label": labels, "id": found})
        rows = column.alias("label").to_frame()
        joined = rows.join(table, on="label", how="left", maintain_order="left")
        return joined["id"].alias(name).fill_null(-1).to_numpy()

    def _identify_categories(self, column: pl.Series, where: Where) -> Ids:
        import polars as pl

        present = column.unique().drop_nulls()
        labels = _plain_text(present.cast(pl.String))
        numbers = present.to_physical().to_numpy()
        lookup = np.full(int(numbers.max(initial=0)) + 1, -1, dtype=np.int32)
        named = [(label, number) for label, number in zip(labels, numbers, strict=True) if label]
        text = [label for label, _ in named]
        lookup[[number for _, number in named]] = self._look_up(text, text, column, where)
        return _through(lookup, column.to_physical())

    def _identify_integers(self, column: pl.Series, where: Where) -> Ids:
        if column.null_count() == len(column):
            return np.full(len(column), -1, dtype=np.int32)
        low, high = int(column.min()), int(column.max())  # type: ignore[arg-type]
        if high - low >= _TABLE_SPAN or high >= 1 << 63 or not self._widen_table(low, high):
            return self._identify_numbers(column, where)
        values, absent = _plain(column, low)
        # The table is as narrow as the values, so that the subtraction cannot wrap around.
        positions = values.astype(np.int64) - self._base if self._base else values
        ids = self._table[positions]
        if ids.min() < 0:
            unknown = _distinct(values[ids < 0]).tolist()
            found = self._look_up([str(value) for value in unknown], unknown, column, where)
            self._table[np.array(unknown, dtype=np.int64) - self._base] = found
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

    def _identify_numbers(
        self, column: pl.Series, where: Where, text: Callable[[Any], str] = str
    ) -> Ids:
        """Fractions, and whole numbers too far apart for a table, such as hashed keys."""
        values, absent = _plain(column, column.drop_nulls()[0])
        present = _distinct(values)
        numbers = present.tolist()
        found = self._look_up([text(number) for number in numbers], numbers, column, where)
        ids = np.array(found, dtype=np.int32)[np.searchsorted(present, values)]
        if absent is not None:
            ids[absent] = -1
        return ids


def _plain_text(labels: pl.Series) -> list[str]:
    """Text as labels: a whole number with a decimal point is the whole number."""
    pointed = labels.str.ends_with("0") & labels.str.contains(".", literal=True)
    if pointed.any():
        labels = labels.str.replace(r"^(-?\d+)\.0+$", "${1}").str.replace(r"^-0$", "0")
    return labels.to_list()


def number_text(number: float) -> str:
    """A number as a label: whole ones without a decimal point."""
    return str(int(number)) if float(number).is_integer() else repr(float(number))


def label_order(label: str) -> str:
    """Key that sorts whole numbers by size, before all other labels, which go by text."""
    # One text, not a tuple: a million tuples keep the garbage collector busy for seconds.
    digits = label[1:] if label.startswith("-") else label
    if digits.isascii() and digits.isdecimal() and len(digits) < 30:
        return f"0{int(label) + 10**30:031} {label}"
    return f"1{label}"


def in_order(labels: list[str]) -> list[int]:
    """Places of labels in the order of `label_order`; of many, columns find it sooner.

    Examples
    --------
    >>> in_order(["b", "10", "9", "a"])
    [2, 1, 3, 0]
    """
    if len(labels) < _MANY:
        return sorted(range(len(labels)), key=lambda place: label_order(labels[place]))
    import polars as pl

    column = pl.Series(labels, dtype=pl.String)
    whole = column.str.contains(r"^-?[0-9]{1,29}$")
    places = whole.arg_true()
    table = pl.DataFrame({"place": places, "label": column.gather(places)})
    table = table.with_columns(number=pl.col("label").cast(pl.Int64, strict=False))
    if table["number"].null_count():  # longer than 64 bits
        return sorted(range(len(labels)), key=lambda place: label_order(labels[place]))
    text = sorted((~whole).arg_true().to_list(), key=labels.__getitem__)
    return [*table.sort("number", "label")["place"].to_list(), *text]


def read_vocabulary(
    given: Mapping[str, Sequence[Any]] | str | os.PathLike[str],
) -> dict[str, list[str]]:
    """Labels by mode, from a mapping or from a JSON file that holds one.

    Examples
    --------
    >>> read_vocabulary({"pu": [3, "JFK", True]})
    {'pu': ['3', 'JFK', 'true']}
    """
    origin = "vocabulary"
    if isinstance(given, (str, os.PathLike)):
        origin = os.fspath(given)
        try:
            given = json.loads(Path(given).read_text(encoding="utf-8"))
        except OSError as error:
            raise DataError(
                f"vocabulary must name a JSON file of labels, but {origin} could not be read: "
                f"{error.strerror or error}. Check the path and its permissions."
            ) from error
        except ValueError as error:
            raise DataError(
                f"vocabulary must name a JSON file of labels, but {origin} is not JSON: {error}. "
                'Write something like {"origin": ["EWR", "JFK"]}.'
            ) from error
    if not isinstance(given, Mapping):
        raise DataError(
            f"vocabulary must map modes to lists of labels, but {origin} holds a "
            f'{type(given).__name__}. Write something like {{"origin": ["EWR", "JFK"]}}.'
        )
    read = {}
    for mode, labels in given.items():
        if isinstance(labels, (str, bytes)) or not isinstance(labels, Iterable):
            raise DataError(
                f"vocabulary must map modes to lists of labels, but {origin} has {labels!r} for "
                f'{mode!r}. Write something like {{"{mode}": ["a", "b"]}}.'
            )
        names = [_label(label, mode, origin) for label in labels]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise DataError(
                f"The labels of a mode must differ, but {origin} has {twice!r} twice for {mode!r}. "
                "Remove one of them."
            )
        read[str(mode)] = names
    return read


def _label(label: Any, mode: str, origin: str) -> str:
    if isinstance(label, (bool, np.bool_)):
        return str(bool(label)).lower()
    if isinstance(label, (int, np.integer)):
        return str(int(label))
    if isinstance(label, float):
        return number_text(label)
    if isinstance(label, str) and label:
        return label
    raise DataError(
        f"Labels must be text, numbers or booleans, but {origin} has {label!r} for {mode!r}. "
        "Null and empty text are no labels: leave them out."
    )


def _whole(column: pl.Series) -> bool:
    """Whether all numbers are whole and exact as 64-bit integers."""
    small = bool((column.abs() < 2.0**53).all())
    return small and bool((column == column.round()).all())


def _distinct(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Distinct numbers in order: np.unique takes ten times as long where most are."""
    ordered = np.sort(values)
    return np.concatenate([ordered[:1], ordered[1:][ordered[1:] != ordered[:-1]]])


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
