"""The first rows of a source, and about how many there are in all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
import numpy.typing as npt

from onlinegcp.errors import DataError
from onlinegcp.events.packed import is_packed
from onlinegcp.events.spread_dates import joined_dates, spread_over
from onlinegcp.events.table_parts import Block, Part, Tables
from onlinegcp.events.tables import open_tables
from onlinegcp.events.tasting import Tasted
from onlinegcp.planning.columns import Column, column_of

if TYPE_CHECKING:
    import polars as pl

# Enough for the shares of labels, little enough for a second of reading.
ROWS = 100_000


@final
@dataclass(frozen=True)
class Sample:
    """Rows that a plan is made from.

    Attributes
    ----------
    frame
        The first rows, all columns.
    n_rows
        About how many rows there are in all.
    paths
        Files of the source; empty where it is none.
    partial
        Columns that only some of the files have.
    name
        What the source is called, if it is no file.
    """

    frame: pl.DataFrame
    n_rows: float
    paths: Sequence[Path]
    partial: frozenset[str] = frozenset()
    name: str = "events"

    @property
    def tables(self) -> Tables:
        """The rows as a source, whose errors name the file they come from."""
        name = str(self.paths[0]) if self.paths else "the table"
        return Tables(
            (
                Part(
                    name,
                    lambda: self.frame.columns,
                    lambda wanted: iter([self.frame.select(list(wanted))]),
                ),
            )
        )

    @property
    def stem(self) -> str:
        """What to call a run on it: the first file, or the folder of several."""
        if not self.paths:
            return Path(self.name).stem or "events"
        path = self.paths[0]
        if len(self.paths) > 1:
            path = Path(os.path.commonpath([entry.parent for entry in self.paths]))
        while "=" in path.name:  # the folder says what is in it, not what all of it is
            path = path.parent
        return path.name.split(".")[0] or "events"

    @cached_property
    def columns(self) -> dict[str, Column]:
        """Its columns by name."""
        return {
            name: Column(name, "none", self.frame[name], "only some of the files have it")
            if name in self.partial
            else column_of(self.frame[name])
            for name in self.frame.columns
        }

    def between(self, inside: npt.NDArray[np.bool_]) -> Sample:
        """Those of its rows that are wanted, of a source of which as large a part is."""
        if not inside.any():
            raise DataError(
                f"Rows between since and until are needed, but none of the first "
                f"{self.frame.height:,} lies there. Give other limits, or say what to do with "
                "time=..., every=... and modes=..."
            )
        return self.only(inside)

    def dated(self, time: str) -> Sample:
        """The same with a column of dates, where `time` names several that say together when."""
        if not spread_over(time, self.frame.columns):
            return self
        name = str(self.paths[0]) if self.paths else "the table"
        dates = joined_dates(Block(self.frame, name, 1), time.split(","))
        return replace(self, frame=self.frame.with_columns(dates.alias(time)))

    def only(self, wanted: npt.NDArray[np.bool_]) -> Sample:
        """Some of its rows, of a source of which as large a part is wanted."""
        return replace(self, frame=self.frame.filter(wanted), n_rows=self.n_rows * wanted.mean())


def read_sample(source: Any, *, format: str | None = None, rows: int = ROWS) -> Sample:
    """Read the first rows of a source that can be read again.

    Parameters
    ----------
    source
        As for `from_events`.
    format
        As for `from_events`.
    rows
        Most rows to take.
    """
    import polars as pl

    tables = open_tables(source, format=format)
    if tables.live:
        raise DataError(
            "A source that can be read twice is needed to make a plan from, but this one comes as "
            "it is. Say what to do with time=..., every=... and modes=..., or save it to a file."
        )
    frames: list[pl.DataFrame] = []
    n_rows = 0
    more = False
    for part in tables.parts:
        more = n_rows >= rows
        if more:
            break
        for block in part.read(part.columns() or []):
            frames.append(block.frame.head(rows - n_rows))
            n_rows += frames[-1].height
            more = frames[-1].height < block.frame.height or n_rows >= rows
            if more:
                break
    if not n_rows:
        names = ", ".join(part.name for part in tables.parts[:3])
        more_names = ", ..." if len(tables.parts) > 3 else ""
        raise DataError(
            f"A table with rows is needed to make a plan from, but {names}{more_names} "
            f"{'has' if len(tables.parts) == 1 else 'have'} none. Give files that have some."
        )
    in_all = None
    if more:
        counted = getattr(tables.place, "height", None)  # a database knows it
        in_all = rows_in_all(tables.parts) if counted is None else counted()
    called = "events" if tables.place is None else tables.parts[0].name
    frame = pl.concat(frames, how="diagonal_relaxed")
    partial = {name for name in frame.columns if not all(name in part.columns for part in frames)}
    paths = [part.path for part in tables.parts if part.path is not None]
    return Sample(frame, max(in_all or n_rows, n_rows), paths, frozenset(partial), called)


def busiest(source: Any, by: str, format: str | None = None) -> tuple[pl.DataFrame, str]:
    """The rows of a sample that have its most frequent label, without that column; and its stem.

    Parameters
    ----------
    source, format
        As for `read_sample`.
    by
        The column of labels.
    """
    from onlinegcp.events.table_text import check_columns

    sample = read_sample(source, format=format)
    name = str(sample.paths[0]) if sample.paths else "the table"
    check_columns([by], sample.frame.columns, name)
    labels = sample.frame[by].drop_nulls()
    if not len(labels):
        raise DataError(
            f"Column {by!r} must tell streams apart, but has no value in the first "
            f"{sample.frame.height:,} rows of {name}. Choose another column."
        )
    most = labels.value_counts(sort=True)[by][0]
    rows = sample.frame.filter(sample.frame[by] == most)
    return rows.drop(by), sample.stem


def rows_in_all(parts: Iterable[Part]) -> float | None:
    """About how many rows files hold; None if that takes reading them."""
    total = 0.0
    for part in parts:
        rows = None if part.path is None else _rows_of(part.path)
        if rows is None:
            return None
        total += rows
    return total


def _rows_of(path: Path) -> float | None:
    import polars as pl

    with path.open("rb") as file:
        start = file.read(1 << 18)
    if is_packed(start) or start.lstrip()[:1] == b"[":
        return None
    parquet, arrow = start[:4] == b"PAR1", start[:6] == b"ARROW1"
    try:
        if parquet or arrow:
            Tasted(path, parquet=parquet).check_whole()
            table = pl.scan_parquet(path, glob=False) if parquet else pl.scan_ipc(path)
            return float(table.select(pl.len()).collect().item())
    except (DataError, pl.exceptions.PolarsError):
        return None
    lines = start.count(b"\n")
    return path.stat().st_size / len(start) * lines if lines else 1.0
