"""Rows of a table as integers: the time bin of each, its id in every mode, and its value.

This is the part of the work that is done for every event, so it is whole columns at a time.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
import numpy.typing as npt

from onlinegcp.errors import DataError
from onlinegcp.events.cut_off import Edges
from onlinegcp.events.label_ids import Ids
from onlinegcp.events.modes import Mode
from onlinegcp.events.numbers import numbers_of
from onlinegcp.events.table_parts import Block
from onlinegcp.events.time_bins import TimeBins
from onlinegcp.events.time_column import TimeColumn
from onlinegcp.events.vocabulary import Vocabulary
from onlinegcp.events.wall_clock import Ticks

if TYPE_CHECKING:
    import polars as pl

Flags = npt.NDArray[np.bool_]


@final
@dataclass(frozen=True)
class Rows:
    """Rows in the order they were read; a null has id -1 or value NaN.

    `n_outside` more lay before `since` or after `until`; `n_untimed` more had no time, and no row
    with a time before them.
    """

    keys: Ticks
    ids: tuple[Ids, ...]
    values: npt.NDArray[np.float64] | None
    where: Callable[[int], str]
    n_outside: int = 0
    n_untimed: int = 0
    row: Callable[[int], int] = int  # number of a row in its source

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, chosen: slice | Flags) -> Rows:
        """Some of the rows, which still know where they come from."""

        def before(position: int) -> int:
            if isinstance(chosen, slice):
                return position + (chosen.start or 0)
            return int(np.flatnonzero(chosen)[position])

        def where(position: int) -> str:
            return self.where(before(position))

        def row(position: int) -> int:
            return self.row(before(position))

        ids = tuple(part[chosen] for part in self.ids)
        values = None if self.values is None else self.values[chosen]
        return Rows(self.keys[chosen], ids, values, where, row=row)


@final
@dataclass(frozen=True)
class Parsed:
    """What the columns of a block say: times and which rows have one, ids, and values."""

    ticks: Ticks
    valid: Flags | None
    ids: tuple[Ids, ...]
    values: npt.NDArray[np.float64] | None


@final
class RowReader:
    """Turns blocks of a table into `Rows`.

    Parameters
    ----------
    time
        The time column.
    bins
        What its times are sorted into.
    modes
        The modes, in order.
    value
        Name of the value column, or None.
    since, until
        Rows before the one, or at or after the other, are left out.
    nulls
        Whether null times, keys and values are let through; they are refused otherwise.
    """

    def __init__(
        self,
        time: TimeColumn,
        bins: TimeBins,
        modes: Sequence[Mode],
        *,
        value: str | None,
        since: Any,
        until: Any,
        nulls: bool,
    ) -> None:
        self.time, self.bins, self.modes, self.value = time, bins, tuple(modes), value
        self.vocabularies: dict[str, Vocabulary] = {}
        self.clocks = {
            mode.source: TimeColumn(mode.source, timezone=time.zone, unit=time.unit)
            for mode in modes
            if mode.of_time and mode.source != time.name
        }
        self.since, self.until, self._nulls = since, until, nulls
        self._last_key: int | None = None
        self.edges: Edges | None = None  # of the source, once a row of it has been read
        self.n_rows: int | None = None  # of the source, once it has been looked through
        columns = [time.name, *(mode.source for mode in modes)]
        self.columns = list(dict.fromkeys(columns if value is None else [*columns, value]))

    def span(self, block: Block) -> tuple[int, int] | None:
        """The first and last bin of a block in order of time; None if it is not in order."""
        ticks, valid = self._ticks(block)
        keep = self._inside(ticks)
        if valid is not None:
            keep = valid if keep is None else keep & valid
        ticks = ticks if keep is None else ticks[keep]
        if not len(ticks):
            return 0, -1
        if (ticks[1:] >= ticks[:-1]).all():  # then so are the bins, and two of them will do
            ticks = ticks[[0, -1]]
        keys = self.bins.keys(ticks)
        return (int(keys[0]), int(keys[-1])) if (keys[1:] >= keys[:-1]).all() else None

    def keys(self, block: Block, *, note: bool = False) -> tuple[Ticks, Flags | None]:
        """Bins of the rows of a block, and which rows count: None if all do.

        With `note` they count for the edges of the source.
        """
        ticks, valid = self._ticks(block)
        keep = self._inside(ticks)
        if valid is not None:
            keep = valid if keep is None else keep & valid
        keys = self.bins.keys(ticks)
        if note:
            self._note(keys if keep is None else keys[keep], ticks if keep is None else ticks[keep])
        return keys, keep

    def place(self, block: Block) -> tuple[Ticks, tuple[Ids, ...]]:
        """Bin and ids of every row of a block, -1 where a row has no time or no key."""
        ticks, valid = self._ticks(block)
        ids = [self._identify(mode, block, ticks, valid) for mode in self.modes]
        if valid is not None:
            ids = [np.where(valid, part, np.int32(-1)) for part in ids]
        return self.bins.keys(ticks), tuple(ids)

    def read(self, block: Block) -> Rows:
        """Everything that is needed of a block."""
        return self.rows(self.parse(block), block)

    def parse(self, block: Block) -> Parsed:
        """What the columns of a block say, row by row; nothing is remembered but how they are read.

        Another process may do this, with a vocabulary of its own.
        """
        ticks, valid = self._ticks(block)
        ids = tuple(self._identify(mode, block, ticks, valid) for mode in self.modes)
        values = None
        if self.value is not None:
            values = _numbers(block, self.value, valid, "The value of an event")
        return Parsed(ticks, valid, ids, values)

    def rows(self, parsed: Parsed, block: Block) -> Rows:
        """The rows of a block that count, each in its time bin."""
        ticks, valid, values = parsed.ticks, parsed.valid, parsed.values
        keys, ids = self.bins.keys(ticks), parsed.ids
        if not self._nulls:
            self._refuse_nulls(block, valid, ids, values)
        inside = self._inside(ticks)
        good = valid if inside is None else inside if valid is None else inside & valid
        some = len(keys) > 0 if good is None else bool(good.any())
        if some:
            self._note(keys if good is None else keys[good], ticks if good is None else ticks[good])
        if valid is not None:
            if not some and self._last_key is None:
                n_untimed = len(valid) - int(np.count_nonzero(valid))
                rows = Rows(keys, ids, values, block.where).take(slice(0, 0))
                n_outside = len(valid) - n_untimed
                return dataclasses.replace(rows, n_outside=n_outside, n_untimed=n_untimed)
            # A row without a time is counted as null with the row before it that counts.
            keys = self._filled(keys, valid if good is None else good, ~valid)
            ids = tuple(np.where(valid, part, np.int32(-1)) for part in ids)
        if some:
            self._last_key = int(keys[-1] if good is None else keys[good][-1])
        rows = Rows(keys, ids, values, block.where, row=block.row)
        if inside is None:
            return rows
        if valid is not None:
            inside |= ~valid
        n_outside = len(inside) - int(np.count_nonzero(inside))
        return dataclasses.replace(rows.take(inside) if n_outside else rows, n_outside=n_outside)

    def alone(self) -> RowReader:
        """One that reads the same columns the same way, to be sent away: it knows no label."""
        reader = copy.copy(self)
        reader.vocabularies = {name: Vocabulary() for name in self.vocabularies}
        reader.edges, reader._last_key = None, None
        return reader

    def _ticks(self, block: Block) -> tuple[Ticks, Flags | None]:
        ticks, valid = self.time.read(block.frame[self.time.name], block.where)
        if self.time.kind == "date" and self.bins.unit == "tick":
            raise DataError(
                f"Bins shorter than a day need times of day, but column {self.time.name!r} holds "
                f"dates in {block.where(0)}. Use every='1d' or longer, or a column with times."
            )
        years = self.time.unit == "y" and not self.time.plain
        if years and (self.bins.unit != "month" or self.bins.length % 12):
            raise DataError(
                f"Bins shorter than a year need dates, but column {self.time.name!r} holds years "
                f"in {block.where(0)}. Use every='1y' or longer, or a column with dates."
            )
        return ticks, valid

    def _inside(self, ticks: Ticks) -> Flags | None:
        if self.since is None and self.until is None:
            return None
        inside = np.ones(len(ticks), dtype=bool)
        if self.since is not None:
            inside &= ticks >= self.bins.ticks(self.since, "since")
        if self.until is not None:
            inside &= ticks < self.bins.ticks(self.until, "until")
        return inside

    def _note(self, keys: Ticks, ticks: Ticks) -> None:
        if self.edges is None:
            limits = {"since": self.since, "until": self.until}
            known = {n: None if v is None else self.bins.ticks(v, n) for n, v in limits.items()}
            self.edges = Edges(self.bins, **known)
        self.edges.saw(keys, ticks)

    def _identify(self, mode: Mode, block: Block, ticks: Ticks, timed: Flags | None) -> Ids:
        column: pl.Series = block.frame[mode.source]
        if mode.derive == "column":
            return self.vocabularies[mode.name].identify(column, block.where)
        if mode.derive == "bins":
            what = f"The mode {mode.name!r}"
            return mode.of_numbers(_numbers(block, mode.source, timed, what))
        clock, valid = self.time, None
        if mode.source != self.time.name:
            clock = self.clocks[mode.source]
            ticks, valid = clock.read(column, block.where)
        if clock.kind == "number" or (clock.kind == "date" and mode.derive == "hour"):
            what = "numbers" if clock.kind == "number" else "dates"
            raise DataError(
                f"The mode {mode.name!r} needs a column of times, but {mode.source!r} holds {what} "
                f"in {block.where(0)}. Choose a column that says when."
            )
        codes = mode.of_wall(clock.wall(ticks))
        return codes if valid is None else np.where(valid, codes, np.int32(-1))

    def _filled(self, keys: Ticks, good: Flags, empty: Flags) -> Ticks:
        """Keys with that of the nearest good row before, or else after, where they are empty."""
        before = np.maximum.accumulate(np.where(good, np.arange(len(keys)), -1))
        filled = keys[np.where(before < 0, int(np.argmax(good)), before)]
        if self._last_key is not None:
            filled[before < 0] = self._last_key
        return np.where(empty, filled, keys)

    def _refuse_nulls(
        self,
        block: Block,
        valid: Flags | None,
        ids: Sequence[Ids],
        values: npt.NDArray[np.float64] | None,
    ) -> None:
        # The time first: what else a row without one holds is not read.
        found = {} if valid is None else {self.time.name: ~valid}
        for mode, part in zip(self.modes, ids, strict=True):
            found.setdefault(mode.source, part < 0)
        if values is not None and self.value is not None:
            found[self.value] = np.isnan(values)
        for column, null in found.items():
            if null.any():
                raise DataError(
                    f"Column {column!r} must have a value in every row, but "
                    f"{block.where(int(np.argmax(null)))} has none. Fill it in, or use "
                    "on_null='drop' to leave such rows out and count them."
                )

    def state(self) -> dict[str, Any]:
        """How times are read, as JSON."""
        clocks = {name: clock.state() for name, clock in self.clocks.items()}
        return {"time": self.time.state(), "clocks": clocks}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.time.restore(state["time"])
        for name, clock in self.clocks.items():
            clock.restore(state["clocks"][name])


def _numbers(block: Block, name: str, timed: Flags | None, purpose: str) -> npt.NDArray[np.float64]:
    """The numbers of a column in rows that have a time; a row of totals may hold what it likes."""
    import polars as pl

    column: pl.Series = block.frame[name]
    if timed is not None and not timed.all():
        column = block.frame.select(pl.when(pl.lit(pl.Series(timed))).then(name)).to_series()
    return numbers_of(column, block.where, purpose)
