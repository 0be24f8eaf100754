"""Folders whose names say what the files in them have in common: year=2024/city=Oslo/part.parquet.

Such a name is a column of every table below it, as Hive and Spark write them.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

    from onlinegcp.events.table_parts import Part

_NOTHING = "__HIVE_DEFAULT_PARTITION__"


def files_below(folder: Path) -> Iterator[Path]:
    """Files in a folder and in those below it, but for what programs keep for themselves there."""
    for entry in sorted(folder.rglob("*")):
        own = any(name[0] in "._" for name in entry.relative_to(folder).parts)
        if not own and entry.is_file():
            yield entry


def said_by_folders(path: Path) -> dict[str, str | None]:
    """Columns that the folders of a file name, with their values.

    Examples
    --------
    >>> said_by_folders(Path("sales/year=2024/city=New%20York/a.csv"))
    {'year': '2024', 'city': 'New York'}
    """
    said: dict[str, str | None] = {}
    for folder in path.parts[:-1]:
        name, found, value = folder.partition("=")
        if name and found:
            said[name] = None if value == _NOTHING else urllib.parse.unquote(value)
    return said


def with_folders(part: Part, path: Path) -> Part:
    """A table with the columns that its folders name, unless it has them itself."""
    said = said_by_folders(path)
    if not said:
        return part

    def columns() -> list[str] | None:
        own = part.columns()
        return None if own is None else [*own, *(name for name in said if name not in own)]

    def frames(wanted: Sequence[str]) -> Iterator[pl.DataFrame]:
        import polars as pl

        own = part.columns() or []
        kept = [name for name in wanted if name in own or name not in said]
        added = [
            pl.lit(said[name], dtype=pl.String).alias(name) for name in wanted if name not in kept
        ]
        for frame in part.frames(kept or own[:1]):  # something must say how many rows there are
            yield frame.with_columns(added).select(list(wanted))

    return replace(part, columns=columns, frames=frames, anywhere=None)
