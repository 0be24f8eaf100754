"""Years beside parts of years: months and days make dates with them."""

from __future__ import annotations

from collections.abc import Mapping

from onlinegcp.errors import DataError
from onlinegcp.events.spread_dates import joined_dates
from onlinegcp.events.table_parts import Block
from onlinegcp.planning.columns import Column, column_of


def dates_beside(year: str, columns: Mapping[str, Column]) -> Column | None:
    """Dates that a column of years makes with numbers of months, and of days; None without parts.

    Names of months, weeks and quarters are refused, with how to join them.

    Parameters
    ----------
    year
        The column of years.
    columns
        All columns.
    """
    import polars as pl

    parts = ("month", "day", "week", "quarter")
    month, day, week, quarter = (
        next((c for c in columns.values() if {word} == {*parts} & {*c.words}), None)
        for word in parts
    )
    finer = month or week or quarter
    if finer is None:
        return None
    spread = [year, finer.name, *([day.name] if month and day else [])]
    if month and month.numbers is not None:
        if odd := [name for name in spread if "," in name]:
            raise DataError(
                f"{' and '.join(map(repr, spread))} say together when, and are named with a comma "
                f"between, but {odd[0]!r} has one itself. Rename it, or name another column of "
                "times."
            )
        frame = pl.DataFrame([columns[name].values for name in spread])
        name = ",".join(spread)
        dates = joined_dates(Block(frame, "the table", 1), spread).alias(name)
        return column_of(dates)
    if month:  # names of months
        blanks = " ".join(["{}"] * len(spread))
        joined = f"pl.format({blanks!r}, {', '.join(map(repr, spread[::-1]))})"
    else:
        number = f"pl.col({finer.name!r}).cast(str)"
        part = (
            f"'{{}}-W{{}}', {year!r}, {number}.str.zfill(2)"
            if week
            else (f"'{{}}-Q{{}}', {year!r}, {number}")
        )
        joined = f"pl.format({part})"
    raise DataError(
        f"One column that says when is needed, but {' and '.join(map(repr, spread))} say it "
        f"together. Put them into one first, for example in polars with {joined}; or choose years "
        f"with time={year!r}."
    )
