"""Files of columns, parquet and Arrow: read from anywhere in them, by whoever sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, final

from onlinegcp.events import table_parts
from onlinegcp.events.broken import named_errors
from onlinegcp.events.tasting import Tasted

if TYPE_CHECKING:
    import polars as pl


@final
@dataclass(frozen=True)
class Scanned:
    """A file that polars can read from anywhere in it; it may be sent to another process."""

    path: Path
    parquet: bool

    def columns(self) -> list[str]:
        """Names of the columns."""
        with named_errors(str(self.path)):
            self._tasted.check_whole()
            return self._table().collect_schema().names()

    def pieces(self) -> list[tuple[int, int, int]]:
        """Where blocks of rows begin and how long they are, with the number of all rows."""
        import polars as pl

        with named_errors(str(self.path)):
            self._tasted.check_whole()
            n_rows = int(self._table().select(pl.len()).collect().item())
        length = table_parts.BLOCK_ROWS
        return [(start, length, n_rows) for start in range(0, n_rows, length)]

    def frame(self, wanted: Sequence[str], start: int, length: int, n_rows: int) -> pl.DataFrame:
        """One of the pieces."""
        with named_errors(str(self.path)):
            self._tasted.check_rows(wanted, start, length, n_rows)
            return self._table().select(list(wanted)).slice(start, length).collect()

    @property
    def _tasted(self) -> Tasted:
        return Tasted(self.path, parquet=self.parquet)

    def _table(self) -> pl.LazyFrame:
        import polars as pl

        return pl.scan_parquet(self.path, glob=False) if self.parquet else pl.scan_ipc(self.path)
