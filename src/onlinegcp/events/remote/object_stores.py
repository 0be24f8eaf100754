"""Objects of S3, Google Cloud Storage and Azure, by pattern, read by polars.

Credentials and endpoints are those of the environment, such as AWS_ENDPOINT_URL. Parquet and Arrow
are read in columns; CSV and JSON as lines, which are then parsed as those of a file are.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, final

from onlinegcp.errors import DataError
from onlinegcp.events.table_parts import Part, Tables
from onlinegcp.events.table_text import TextTable
from onlinegcp.events.tables import SUFFIXES
from onlinegcp.storage.secrets import redacted

if TYPE_CHECKING:
    import polars as pl

_ROWS = 500_000  # of a block
_LINES = 100_000  # of text at a time


def object_tables(pattern: str, format: str | None) -> Tables:
    """The objects a pattern finds, as one table in the order of their names.

    Parameters
    ----------
    pattern
        Such as ``s3://bucket/trips/*.parquet``.
    format
        "parquet", "arrow", "csv" or "jsonl", where the name does not tell.
    """
    name = redacted(pattern)
    kind = format or SUFFIXES.get(PurePosixPath(pattern).suffix.lower())
    if kind is None:
        raise DataError(
            f"The format of objects must be told by their name, but {name} ends in none of "
            f"{', '.join(SUFFIXES)}. Add one to the pattern, or give format=..."
        )
    if kind in ("parquet", "arrow"):
        scan = _scanner(pattern, kind)
        return Tables((Part(name, _columns(scan, name), _frames(scan, name)),))
    return Tables((Part(name, lambda: None, _text_frames(pattern, name, kind)),))


def storage_options() -> dict[str, str]:
    """What the environment says and polars does not find out by itself."""
    plain = os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
    return {"aws_allow_http": "true"} if plain else {}


def _scanner(pattern: str, kind: str) -> Callable[[], pl.LazyFrame]:
    import polars as pl

    read = pl.scan_parquet if kind == "parquet" else pl.scan_ipc
    return lambda: read(pattern, storage_options=storage_options())


def _columns(scan: Callable[[], pl.LazyFrame], name: str) -> Callable[[], list[str]]:
    def columns() -> list[str]:
        with _named(name):
            return scan().collect_schema().names()

    return columns


def _frames(
    scan: Callable[[], pl.LazyFrame], name: str
) -> Callable[[Sequence[str]], Iterator[pl.DataFrame]]:
    def frames(wanted: Sequence[str]) -> Iterator[pl.DataFrame]:
        with _named(name):
            rows = scan().select(list(wanted))
            yield from rows.collect_batches(chunk_size=_ROWS, maintain_order=True)

    return frames


def _text_frames(
    pattern: str, name: str, kind: str
) -> Callable[[Sequence[str]], Iterator[pl.DataFrame]]:
    def frames(wanted: Sequence[str]) -> Iterator[pl.DataFrame]:
        with _named(name):
            lines = _Lines(pattern)
            while (path := lines.next_object()) is not None:
                yield from TextTable(lines, redacted(path), kind).frames(wanted)

    return frames


@final
class _Lines(io.RawIOBase):
    """The lines of all objects as a file that ends with each of them."""

    def __init__(self, pattern: str) -> None:
        import polars as pl

        scan = pl.scan_lines(pattern, include_file_paths="path", storage_options=storage_options())
        self._batches: Iterator[Any] = iter(
            scan.collect_batches(chunk_size=_LINES, maintain_order=True)
        )
        self._waiting: list[tuple[str, Any]] = []
        self._path: str | None = None

    def next_object(self) -> str | None:
        """Go to the next object; None if there is none."""
        while self._more() and self._waiting[0][0] == self._path:
            self._waiting.pop(0)
        self._path = self._waiting[0][0] if self._waiting else None
        return self._path

    def read(self, size: int = -1) -> bytes:
        """Some whole lines of this object; nothing at its end."""
        if not self._more() or self._waiting[0][0] != self._path:
            return b""
        _, lines = self._waiting.pop(0)
        return ("\n".join(lines.to_list()) + "\n").encode()

    def close(self) -> None:
        """Nothing yet: the next object comes out of the same file."""

    def _more(self) -> bool:
        if not self._waiting:
            for batch in self._batches:
                parts = batch.partition_by("path", maintain_order=True)
                self._waiting = [(part["path"][0], part["line"]) for part in parts]
                break
        return bool(self._waiting)


@contextlib.contextmanager
def _named(name: str) -> Iterator[None]:
    """Turns what polars raises into an error that names the objects, without secrets."""
    import polars as pl

    try:
        yield
    except (pl.exceptions.PolarsError, OSError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        told = redacted(lines[0])[:500].rstrip(". ")
        raise DataError(
            f"Objects that can be read are needed, but reading {name} failed: {told}. Check the "
            "pattern, the credentials and the endpoint."
        ) from None
