"""Tables, wherever they are: parquet, CSV, JSON, packed or not, standard input, in memory.

All are read as a sequence of `Block`, a few hundred thousand rows each and only the columns asked
for, so that memory does not depend on the size of the source. Files are recognised by content
first and by name second. Text is cut into blocks here and parsed by polars.
"""

from __future__ import annotations

import glob
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from onlinegcp.errors import DataError, closest
from onlinegcp.events.broken import named_errors, unreadable
from onlinegcp.events.folders import files_below, with_folders
from onlinegcp.events.in_memory import is_table, iterator_part, table_part
from onlinegcp.events.packed import PACKED, unpacker
from onlinegcp.events.scanned import Scanned
from onlinegcp.events.table_parts import Part, Tables
from onlinegcp.events.table_text import TextTable
from onlinegcp.storage.secrets import redacted

if TYPE_CHECKING:
    import polars as pl


FORMATS = ("parquet", "arrow", "csv", "jsonl")
SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}


def open_tables(source: Any, *, format: str | None = None) -> Tables:
    """Find out what a source is, without reading it.

    Parameters
    ----------
    source
        A path, a glob pattern, a directory, "-" for standard input, an open binary file, a polars,
        pandas or Arrow table, a dict of columns, a list of paths or tables, or an iterator of
        tables, which is read as they come.
    format
        "parquet", "arrow", "csv" or "jsonl", where neither content nor name tell.
    """
    if format is not None and format not in FORMATS:
        raise DataError(
            f"format must be one of {', '.join(FORMATS)}, but is {format!r}."
            f"{closest(str(format), FORMATS)} Leave it out to have it recognised."
        )
    if isinstance(source, Tables):
        return source
    from onlinegcp.events.remote import open_remote

    if (found := open_remote(source, format)) is not None:
        return found
    if isinstance(source, (str, os.PathLike)):
        if os.fspath(source) == "-":
            return _live_text(sys.stdin.buffer, "standard input", format)
        paths = _paths(source)
        if any(map(_is_pipe, paths)):
            if len(paths) > 1:
                raise DataError(
                    f"A pipe must be the only source, but {len(paths)} files were found with "
                    f"{os.fspath(source)!r}. Give it on its own."
                )
            return _live_text(_opened(paths[0]), str(paths[0]), format)
        return Tables(tuple(with_folders(_file_part(path, format), path) for path in paths))
    if hasattr(source, "read"):
        return _live_text(source, str(getattr(source, "name", "the open file")), format)
    if is_table(source):
        return Tables((table_part(source, "the table"),))
    if isinstance(source, (list, tuple)):
        if len(source) == 1 and isinstance(source[0], (str, os.PathLike)) and source[0] != "-":
            return open_tables(source[0], format=format)  # which may be a pipe
        if not source:
            raise DataError("A source must be a table or file, but the list is empty. Add some.")
        parts = []
        for number, item in enumerate(source):
            if is_table(item):
                parts.append(table_part(item, f"table {number}"))
            else:
                inner = open_tables(item, format=format)
                if inner.live or inner.place or isinstance(item, (list, tuple)):
                    raise DataError(
                        f"A list of sources must hold files and tables, but item {number} is "
                        f"{redacted(repr(item))}. Give standard input, databases, logs and "
                        "iterators on their own."
                    )
                parts.extend(inner.parts)
        return Tables(tuple(parts))
    if isinstance(source, Iterable):
        return Tables((iterator_part(iter(source)),), live=True)
    raise DataError(
        "A source must be a path, a pattern, '-', a polars, pandas or Arrow table, or a list of "
        f"these, but {type(source).__qualname__} was found. Convert it to one of them."
    )


def _paths(source: str | os.PathLike[str]) -> list[Path]:
    text = os.fspath(source)
    path = Path(text)
    try:
        if path.is_dir():
            found = [entry for entry in path.iterdir() if _suffix(entry) and entry.is_file()]
            found = found or [entry for entry in files_below(path) if _suffix(entry)]
            # Beside tables of other names, text is a note to those who read them.
            found = [entry for entry in found if not _is_note(entry)] or found
            missing = f"the directory {text} has no file ending in {', '.join(SUFFIXES)}"
        elif path.exists() or not glob.has_magic(text):
            return [path]
        else:
            found = [Path(match) for match in glob.glob(text, recursive=True)]  # noqa: PTH207 - a path may be absolute
            found = [entry for entry in found if entry.is_file()]
            missing = f"no file matches {text!r} from {Path.cwd()}"
    except OSError as error:
        raise unreadable(text, error) from error
    if not found:
        raise DataError(f"At least one file is needed, but {missing}. Check the path.")
    return sorted(found)


def _is_pipe(path: Path) -> bool:
    """Whether what is read from a path is gone, as with a named pipe or the shell's <(...)."""
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False  # whoever opens it says it better


def _opened(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as error:
        raise unreadable(str(path), error) from error


def _suffix(path: Path) -> str | None:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in PACKED:
        suffixes.pop()
    return SUFFIXES.get(suffixes[-1]) if suffixes else None


def _is_note(path: Path) -> bool:
    return ".txt" in [suffix.lower() for suffix in path.suffixes]


def _file_part(path: Path, format: str | None) -> Part:
    name = str(path)
    try:
        with path.open("rb") as file:
            start = file.read(8)
    except OSError as error:
        raise unreadable(name, error) from error
    if not start:
        raise DataError(f"A table needs rows, but the file {name} is empty. Leave it out.")
    if start[:4] == b"PAR1" or start[:6] == b"ARROW1":
        kind = "parquet" if start[:4] == b"PAR1" else "arrow"
    else:
        kind = format or _suffix(path) or "text"
    if kind in ("parquet", "arrow"):
        return _scanned_part(path, kind)
    unpack = unpacker(start, name)

    def text() -> TextTable:
        try:
            file = unpack(path)
        except OSError as error:
            raise unreadable(name, error) from error
        return TextTable(file, name, None if kind == "text" else kind)

    def columns() -> list[str] | None:
        with named_errors(name):
            return text().columns()

    def frames(wanted: Sequence[str]) -> Iterator[pl.DataFrame]:
        with named_errors(name):
            yield from text().frames(wanted)

    return Part(name, columns, frames, path.absolute())


def _scanned_part(path: Path, kind: str) -> Part:
    scanned = Scanned(path, kind == "parquet")

    def frames(wanted: Sequence[str]) -> Iterator[pl.DataFrame]:
        for piece in scanned.pieces():
            yield scanned.frame(wanted, *piece)

    return Part(str(path), scanned.columns, frames, path.absolute(), anywhere=scanned)


def _live_text(file: Any, name: str, format: str | None) -> Tables:
    if format in ("parquet", "arrow"):
        raise DataError(
            f"{format} must be read from a file, but it was to come from {name}. Give the path of "
            "the file, or send CSV or JSON lines."
        )

    def frames(wanted: Sequence[str]) -> Iterator[pl.DataFrame]:
        with named_errors(name):
            yield from TextTable(file, name, format, live=True).frames(wanted)

    return Tables((Part(name, lambda: None, frames),), live=True)
