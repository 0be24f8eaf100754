"""What a table is made of, wherever it lies: parts, read in blocks of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, final

from onlinegcp.events.table_text import check_columns

if TYPE_CHECKING:
    import polars as pl

    from onlinegcp.events.remote.place import Place
    from onlinegcp.events.scanned import Scanned

# 5e5 rows of three columns are 10 MB: larger blocks are no faster, smaller ones cost overhead.
BLOCK_ROWS = 500_000


@final
@dataclass(frozen=True)
class Block:
    """Some rows of a table, and where they come from."""

    frame: pl.DataFrame
    name: str
    first_row: int  # counted from 1
    repeats: int = 1  # times each row of the source is in it

    def where(self, position: int) -> str:
        """The place of a row, in words."""
        return f"row {self.row(position):,} of {self.name}"

    def row(self, position: int) -> int:
        """The number of a row in its source, counted from 1."""
        return self.first_row + position // self.repeats


@final
@dataclass(frozen=True)
class Part:
    """One file or table: its name, its columns, and its rows as often as asked for.

    `columns` is None where they are not known before reading, `path` where it is no file. Frames
    hold every row `repeats` times, one below the other. `anywhere` is there where rows can be read
    from the middle, by whoever sees the file.
    """

    name: str
    columns: Callable[[], list[str] | None]
    frames: Callable[[Sequence[str]], Iterator[pl.DataFrame]]
    path: Path | None = None
    repeats: int = 1
    anywhere: Scanned | None = None

    def read(self, columns: Sequence[str]) -> Iterator[Block]:
        """Blocks of rows with these columns, in this order."""
        known = self.columns()
        if known is not None:
            check_columns(columns, known, self.name)
        row = 1
        for frame in self.frames(columns):
            if frame.height:
                yield Block(frame, self.name, row, self.repeats)
                row += frame.height // self.repeats


@final
@dataclass(frozen=True)
class Tables:
    """What `open_tables` found: parts in the order given.

    `live` says that rows can be read only once, as they come; `place` is there where the source can
    be told how far a run has come.
    """

    parts: tuple[Part, ...]
    live: bool = False
    place: Place | None = None
