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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, final

import numpy as np
import numpy.typing as npt

from onlinegcp.errors import DataError, closest
from onlinegcp.events.folders import files_below, with_folders
from onlinegcp.events.packed import PACKED, is_damage, unpacker
from onlinegcp.events.table_text import TextTable, check_columns
from onlinegcp.events.tasting import Tasted
from onlinegcp.storage.secrets import redacted

if TYPE_CHECKING:
    import polars as pl

    from onlinegcp.events.remote.place import Place

FORMATS = ("parquet", "arrow", "csv", "jsonl")
# 5e5 rows of three columns are 10 MB: larger blocks are no faster, smaller ones cost overhead.
BLOCK_ROWS = 500_000
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
class Scanned:
    """A file that polars can read from anywhere in it; it may be sent to another process."""

    path: Path
    parquet: bool

    def columns(self) -> list[str]:
        """Names of the columns."""
        with _named_errors(str(self.path)):
            self._tasted.check_whole()
            return self._table().collect_schema().names()

    def pieces(self) -> list[tuple[int, int, int]]:
        """Where blocks of rows begin and how long they are, with the number of all rows."""
        import polars as pl

        with _named_errors(str(self.path)):
            self._tasted.check_whole()
            n_rows = int(self._table().select(pl.len()).collect().item())
        return [(start, BLOCK_ROWS, n_rows) for start in range(0, n_rows, BLOCK_ROWS)]

    def frame(self, wanted: Sequence[str], start: int, length: int, n_rows: int) -> pl.DataFrame:
        """One of the pieces."""
        with _named_errors(str(self.path)):
            self._tasted.check_rows(wanted, start, length, n_rows)
            return self._table().select(list(wanted)).slice(start, length).collect()

    @property
    def _tasted(self) -> Tasted:
        return Tasted(self.path, parquet=self.parquet)

    def _table(self) -> pl.LazyFrame:
        import polars as pl

        return pl.scan_parquet(self.path, glob=False) if self.parquet else pl.scan_ipc(self.path)


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
    if _is_table(source):
        return Tables((table_part(source, "the table"),))
    if isinstance(source, (list, tuple)):
        if len(source) == 1 and isinstance(source[0], (str, os.PathLike)) and source[0] != "-":
            return open_tables(source[0], format=format)  # which may be a pipe
        if not source:
            raise DataError("A source must be a table or file, but the list is empty. Add some.")
        parts = []
        for number, item in enumerate(source):
            if _is_table(item):
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
        return Tables((_iterator_part(iter(source)),), live=True)
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
            missing = f"the directory {text} has no file ending in {', '.join(SUFFIXES)}"
        elif path.exists() or not glob.has_magic(text):
            return [path]
        else:
            found = [Path(match) for match in glob.glob(text, recursive=True)]  # noqa: PTH207
            found = [entry for entry in found if entry.is_file()]
            missing = f"no file matches {text!r} from {Path.cwd()}"
    except OSError as error:
        raise _unreadable(text, error) from error
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
        raise _unreadable(str(path), error) from error


def _suffix(path: Path) -> str | None:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in PACKED:
        suffixes.pop()
    return SUFFIXES.get(suffixes[-1]) if suffixes else None


def _file_part(path: Path, format: str | None) -> Part:
    name = str(path)
    try:
        with path.open("rb") as file:
            start = file.read(8)
    except OSError as error:
        raise _unreadable(name, error) from error
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
            raise _unreadable(name, error) from error
        return TextTable(file, name, None if kind == "text" else kind)

    def columns() -> list[str] | None:
        with _named_errors(name):
            return text().columns()

    def frames(wanted: Sequence[str]) -> Iterator[pl.DataFrame]:
        with _named_errors(name):
            yield from text().frames(wanted)

    return Part(name, columns, frames, path.absolute())


def _scanned_part(path: Path, kind: str) -> Part:
    scanned = Scanned(path, kind == "parquet")

    def frames(wanted: Sequence[str]) -> Iterator[pl.DataFrame]:
        for piece in scanned.pieces():
            yield scanned.frame(wanted, *piece)

    return Part(str(path), scanned.columns, frames, path.absolute(), anywhere=scanned)


def _slices(table: pl.LazyFrame, wanted: Sequence[str]) -> Iterator[pl.DataFrame]:
    import polars as pl

    n_rows = int(table.select(pl.len()).collect().item())
    rows = table.select(list(wanted))
    for start in range(0, n_rows, BLOCK_ROWS):
        yield rows.slice(start, BLOCK_ROWS).collect()


def _live_text(file: Any, name: str, format: str | None) -> Tables:
    if format in ("parquet", "arrow"):
        raise DataError(
            f"{format} must be read from a file, but it was to come from {name}. Give the path of "
            "the file, or send CSV or JSON lines."
        )

    def frames(wanted: Sequence[str]) -> Iterator[pl.DataFrame]:
        with _named_errors(name):
            yield from TextTable(file, name, format, live=True).frames(wanted)

    return Tables((Part(name, lambda: None, frames),), live=True)


def _is_table(source: Any) -> bool:
    kind = type(source)
    return isinstance(source, dict) or any(
        hasattr(kind, name) for name in ("__dataframe__", "__arrow_c_stream__", "collect_schema")
    )


def table_part(source: Any, name: str) -> Part:
    import polars as pl

    if isinstance(source, pl.LazyFrame):
        return Part(
            name,
            lambda: source.collect_schema().names(),
            lambda wanted: _slices(source, wanted),
        )
    pandas = not isinstance(source, (pl.DataFrame, dict)) and hasattr(type(source), "iloc")
    if pandas and _index_tells(source.index) and not {*source.index.names} & {*source.columns}:
        source = source.reset_index()
    columns = [str(column) for column in getattr(source, "columns", [])]
    if pandas:
        return Part(name, lambda: columns, lambda wanted: _rows(_from_pandas(source, wanted, name)))
    if isinstance(source, dict):
        source = {column: _as_polars_takes_it(values) for column, values in source.items()}
    try:
        table = source if isinstance(source, pl.DataFrame) else pl.DataFrame(source, strict=False)
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise DataError(
            f"{name} must have columns of equal length and plain values, but it could not be read: "
            f"{error}. Make a polars or pandas table of it."
        ) from error
    return Part(name, lambda: table.columns, lambda wanted: _rows(table.select(list(wanted))))


def _index_tells(index: Any) -> bool:
    """Whether an index of pandas is a column in all but name: it has one, or holds times."""
    return any(name is not None for name in index.names) or getattr(index.dtype, "kind", "") == "M"


def _rows(table: pl.DataFrame) -> Iterator[pl.DataFrame]:
    for start in range(0, table.height, BLOCK_ROWS):
        yield table.slice(start, BLOCK_ROWS)


def _iterator_part(tables: Iterator[Any]) -> Part:
    def frames(wanted: Sequence[str]) -> Iterator[pl.DataFrame]:
        for number, item in enumerate(tables):
            if not _is_table(item):
                raise DataError(
                    f"An iterator of tables must give tables, but item {number} is a "
                    f"{type(item).__qualname__}. Make a polars or pandas table of it."
                )
            part = table_part(item, f"table {number}")
            check_columns(wanted, part.columns() or [], part.name)
            yield from part.frames(wanted)

    return Part("the iterator of tables", lambda: None, frames)


def _from_pandas(table: Any, wanted: Sequence[str], name: str) -> pl.DataFrame:
    """Columns of a pandas table; its own conversion would need pyarrow."""
    import polars as pl

    columns = {}
    for column in wanted:
        series = table[column]
        if series.ndim != 1:
            raise DataError(
                f"Names of columns must differ, but {name} has {column!r} more than once. "
                "Rename one of them."
            )
        if hasattr(series.dtype, "freq"):  # periods
            series = series.dt.to_timestamp()
        kind = getattr(series.dtype, "kind", "O")
        zone = getattr(series.dtype, "tz", None)
        if kind == "M":
            ticks = series.to_numpy(dtype="datetime64[us]")
            found = pl.Series(column, ticks)
            if zone is not None:
                found = found.dt.replace_time_zone("UTC").dt.convert_time_zone(str(zone))
        elif kind in "iufb" and not series.isna().any():
            plain = getattr(series.dtype, "numpy_dtype", series.dtype)
            found = pl.Series(column, series.to_numpy(dtype=plain))
        elif kind in "iufb":
            found = pl.Series(column, series.to_numpy(dtype="float64", na_value=float("nan")))
            found = found.fill_nan(None)
            found = found.cast(pl.Boolean) if kind == "b" else found
        else:
            values = series.astype(object).to_numpy()
            found = pl.Series(column, [*_plain_values(values)], strict=False)
        columns[column] = found
    return pl.DataFrame(columns)


def _as_polars_takes_it(values: Any) -> Any:
    """A column of a dict: arrays of objects as lists of them, times of any resolution."""
    if not isinstance(values, np.ndarray) or values.ndim != 1:
        return values
    if values.dtype.kind == "M" and np.datetime_data(values.dtype)[0] in ("h", "m", "s"):
        return values.astype("M8[us]")
    return [*_plain_values(values)] if values.dtype.kind == "O" else values


def _plain_values(values: npt.NDArray[np.object_]) -> Iterator[Any]:
    """Python values of a column of objects: None for missing ones, text where types are mixed."""
    # NaN is not itself; what pandas has for missing ones may not be compared.
    missing = [
        value is None or type(value).__name__ in ("NAType", "NaTType") or value != value
        for value in values
    ]
    kinds = {type(value) for value, gone in zip(values, missing, strict=True) if not gone}
    mixed = len(kinds) > 1
    for value, gone in zip(values, missing, strict=True):
        if gone:
            yield None
        elif mixed and isinstance(value, bool):
            yield str(value).lower()
        else:
            yield str(value) if mixed else value


def _unreadable(name: str, error: OSError) -> DataError:
    return DataError(
        f"A file that can be read is needed, but {name} cannot be: {error.strerror or error}. "
        "Check the path and its permissions."
    )


@final
class _named_errors:  # noqa: N801 - used as a statement
    """Turns whatever a reader raises into a DataError that names the file."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, (DataError, GeneratorExit, KeyboardInterrupt)):
            return
        import polars as pl

        # A damaged file can make the reader panic, which is not an Exception.
        panicked = type(error).__name__ == "PanicException"
        broken = (pl.exceptions.PolarsError, EOFError, UnicodeError)
        if isinstance(error, broken) or is_damage(error) or panicked:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise DataError(
                f"A whole table is needed, but {self.name} is damaged or of another format: "
                f"{lines[0]}. Write the file again, or say what it is with format=..."
            ) from error
        if isinstance(error, OSError):
            raise _unreadable(self.name, error) from error
