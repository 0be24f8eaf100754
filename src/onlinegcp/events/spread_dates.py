"""Dates in several columns: a year, a month and perhaps a day become one column of dates.

The column is called like those it is made of, with commas between: "year,month".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from onlinegcp.errors import DataError
from onlinegcp.events.absent import known
from onlinegcp.events.table_parts import Block, Part, Tables

if TYPE_CHECKING:
    import polars as pl

LEAST, MOST = 2, 3  # a year and a month, or a day as well
_RANGES = ((1, 9999), (1, 12), (1, 31))


def spread_over(time: str, columns: Sequence[str] | None) -> list[str]:
    """The columns of a year, month and day that `time` names; none where it is a column itself.

    Examples
    --------
    >>> spread_over("year,month", ["year", "month", "sales"]), spread_over("a,b", ["a,b"])
    (['year', 'month'], [])
    """
    names = time.split(",")
    if not LEAST <= len(names) <= MOST:
        return []
    if columns is None:  # of what comes as it is; a comma separates columns elsewhere, too
        return names
    return names if time not in columns and set(names) <= set(columns) else []


def with_dates(tables: Tables, time: str) -> Tables:
    """Tables with a column more, where `time` names several that say together when."""
    if not spread_over(time, tables.parts[0].columns()):
        return tables
    return replace(tables, parts=tuple(_dated(part, time) for part in tables.parts))


def _dated(part: Part, time: str) -> Part:
    names = time.split(",")

    def columns() -> list[str] | None:
        there = part.columns()
        return None if there is None or not set(names) <= set(there) else [*there, time]

    def frames(wanted: Sequence[str]) -> Iterator[pl.DataFrame]:
        plain = [name for name in wanted if name != time]
        if len(plain) == len(wanted):
            yield from (block.frame for block in part.read(plain))
            return
        for block in part.read(list(dict.fromkeys([*plain, *names]))):
            dates = joined_dates(block, names).alias(time)
            yield block.frame.with_columns(dates).select(list(wanted))

    return Part(part.name, columns, frames, part.path, repeats=part.repeats)


def joined_dates(block: Block, names: Sequence[str]) -> pl.Series:
    """Dates of the rows; null where a part of one is null.

    Parameters
    ----------
    block
        Rows with these columns.
    names
        Those of the year, the month and perhaps the day.
    """
    import polars as pl

    parts = []
    for name, (low, high) in zip(names, _RANGES, strict=False):
        column = block.frame[name]
        column = known(column) if column.dtype == pl.String else column
        numbers = column.cast(pl.Float64, strict=False)
        wrong = column.is_not_null() & ~(
            numbers.is_between(low, high) & (numbers == numbers.round())
        ).fill_null(False)
        if wrong.any():
            _refuse(block, wrong, column, f"a whole number from {low} to {high:,}")
        parts.append(numbers.cast(pl.Int64))
    if len(parts) < MOST:
        parts.append(pl.repeat(1, block.frame.height, dtype=pl.Int64, eager=True))
    written = pl.DataFrame(dict(zip("ymd", parts, strict=True))).select(
        pl.format(
            "{}-{}-{}",
            *(pl.col(c).cast(pl.String).str.zfill(4 if c == "y" else 2) for c in "ymd"),
        )
    )
    dates = written.to_series().str.to_date("%Y-%m-%d", strict=False)
    missing = parts[0].is_null() | parts[1].is_null() | parts[2].is_null()
    if (wrong := dates.is_null() & ~missing).any():
        _refuse(block, wrong, block.frame[names[-1]], "a day that the month has")
    return dates


def _refuse(block: Block, wrong: pl.Series, column: pl.Series, wanted: str) -> None:
    row = int(wrong.arg_true()[0])
    raise DataError(
        f"Each {column.name!r} must be {wanted} to be a part of a date, but {block.where(row)} has "
        f"{str(column[row])!r}. Correct the row, leave it out, or name another column of times."
    )
