"""Wide tables: several columns of numbers become one, and their names a mode of their own.

A row with the columns pm25, pm10 and so2 becomes three rows, one for each, which stay together and
in order; errors still name the row of the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from onlinegcp.errors import DataError
from onlinegcp.events.absent import known
from onlinegcp.events.numbers import numbers_of
from onlinegcp.events.table_parts import Block, Part, Tables

if TYPE_CHECKING:
    import polars as pl

# What the mode and the numbers are called; two underscores where a table has such columns.
MEASURE, NUMBER = "measure", "value"


def lengthened(tables: Tables, values: Sequence[str], time: str) -> tuple[Tables, str, str]:
    """Tables with the columns `values` one below the other.

    Parameters
    ----------
    tables
        What was opened.
    values
        Names of columns of numbers.
    time
        The column that says when: numbers of rows without one are not looked at.

    Returns
    -------
    tables, measure, number
        The longer tables, and the columns that hold the names and the numbers.
    """
    twice = [name for name in values if list(values).count(name) > 1]
    if twice or not values:
        raise DataError(
            f"Columns of values must differ, but {twice[0]!r} is named twice. Leave one out."
            if twice
            else "At least one column of values is needed, but the list is empty. Name one."
        )
    known = set(tables.parts[0].columns() or ())
    measure, number = MEASURE, NUMBER
    while measure in known:
        measure += "_"
    while number in known:
        number += "_"
    parts = tuple(_longer(part, list(values), measure, number, time) for part in tables.parts)
    return replace(tables, parts=parts), measure, number


def _longer(part: Part, values: list[str], measure: str, number: str, time: str) -> Part:
    def columns() -> list[str] | None:
        known = part.columns()
        return None if known is None else [*known, measure, number]

    def frames(wanted: Sequence[str]) -> Iterator[pl.DataFrame]:
        if not {measure, number} & set(wanted):
            wanted = list(wanted)
            for block in part.read(wanted):
                yield block.frame.select(_repeated(wanted, len(values)))
            return
        plain = [name for name in wanted if name not in (measure, number)]
        for block in part.read(list(dict.fromkeys([*plain, *values]))):
            block = replace(block, frame=_timed(block.frame, values, time))
            yield _stacked(block, plain, values, measure, number).select(list(wanted))

    return Part(part.name, columns, frames, part.path, repeats=part.repeats * len(values))


def _timed(frame: pl.DataFrame, values: Sequence[str], time: str) -> pl.DataFrame:
    """The same without the numbers of rows that have no time: rows of totals, for one."""
    import polars as pl

    if time not in frame.columns or time in values:
        return frame
    times = known(frame[time]) if frame[time].dtype == pl.String else frame[time]
    if not times.null_count():
        return frame
    return frame.with_columns(pl.when(times.is_not_null()).then(pl.col(*values)))


def _repeated(names: Sequence[str], times: int) -> list[pl.Expr]:
    import polars as pl

    # Said, because polars before 2 takes the other and warns of it; there are no empty lists here.
    return [pl.col(name).repeat_by(times).explode(empty_as_null=False) for name in names]


def _stacked(
    block: Block, plain: Sequence[str], values: Sequence[str], measure: str, number: str
) -> pl.DataFrame:
    import polars as pl

    frame, n = block.frame, len(values)
    numbers = [numbers_of(frame[name], block.where, "The value of an event") for name in values]
    place = np.repeat(np.arange(frame.height), n)
    rows = frame.select(plain)[place] if plain else pl.DataFrame()
    names = pl.Series(measure, list(values), dtype=pl.Enum(values))[
        np.tile(np.arange(n), frame.height)
    ]
    held = pl.Series(number, np.stack(numbers, axis=1).reshape(-1)).fill_nan(None)
    return rows.with_columns(names, held) if plain else pl.DataFrame([names, held])
