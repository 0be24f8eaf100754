"""Tables as text: CSV and JSON, cut into blocks of whole rows and parsed by polars.

The cutting is ours so that a pipe can be followed row by row, memory stays bounded, and a bad row
is named. Every field of a CSV file is text at first: what it means is decided by who asks for it,
not by the first rows of the file.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from onlinegcp.errors import DataError, closest
from onlinegcp.events.above_names import refuse_lines_above
from onlinegcp.events.json_array import ArrayLines
from onlinegcp.events.json_depth import refuse_depths
from onlinegcp.events.json_document import refuse_document

if TYPE_CHECKING:
    import polars as pl

_BLOCK_BYTES = 1 << 23
_LONGEST_ROW = 1 << 26  # bytes; what has no line end by then is no table
_BYTE_ORDER_MARK = codecs.BOM_UTF8
_TWO_BYTES = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # text as spreadsheets export it
_SEPARATORS = (",", ";", "\t", "|")
_START = 1 << 16  # bytes that show which line names the columns
_LOOK = 2000  # records that name the columns


@final
class TextTable:
    """One pass over a table written as text.

    Parameters
    ----------
    file
        Open binary file or pipe.
    name
        For errors.
    format
        "csv", "jsonl" or None to tell by the first character.
    live
        Whether to hand on rows as they arrive instead of waiting for a full block.
    """

    def __init__(self, file: Any, name: str, format: str | None, *, live: bool = False) -> None:
        self._file, self._name, self._format, self._live = file, name, format, live
        self._rest = b""
        self._ended = False
        self._n_rows = 0
        self._blank: list[str] = []  # lines at the start

    def columns(self) -> list[str] | None:
        """Names of the columns: those of the header or of the first records."""
        try:
            if not self._recognise():
                return []
            if self._format == "csv":
                names = self._header()[0]
                unnamed = names.count("") > 1  # which of them is meant cannot be said
                return [name for name in names if name or not unnamed]
            line, _, others = self._rest.partition(b"\n")
            if not (others.strip() or self._more()):
                refuse_document(line, self._name)  # one record is all there is
            elif line.strip() in (b"{", b"{}") or not line.rstrip().endswith(b"}"):
                while len(self._rest) < _LONGEST_ROW and self._more():
                    pass
                refuse_document(self._rest, self._name)
            return self._named_by(line, others.split(b"\n")[:_LOOK])
        finally:
            self._file.close()

    def _named_by(self, first: bytes, others: Sequence[bytes]) -> list[str]:
        """Names of the columns of the first records, as one alone may lack some."""
        found = _flat(self._record(first, 1))
        for line in others:
            # One that is cut off, or wrong, is for whoever reads the rows.
            with contextlib.suppress(ValueError, RecursionError):
                record = json.loads(line)
                said = _flat(record) if isinstance(record, dict) else {}
                found |= {name: value for name, value in said.items() if found.get(name) is None}
        # Null in some records, a record of its own in others.
        parts = [name.split(".") for name in found]
        outer = {".".join(part[:n]) for part in parts for n in range(1, len(part))}
        return [name for name in found if found[name] is not None or name not in outer]

    def frames(self, wanted: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Blocks of rows; columns of CSV are text, those of JSON what they are."""
        try:
            if not self._recognise():
                return
            reader = self._csv_frames if self._format == "csv" else self._json_frames
            yield from reader(wanted)
        finally:
            if not self._live:
                self._file.close()

    def _read(self) -> bytes:
        # read1 returns what a pipe holds at the moment; read waits for all of it.
        read = getattr(self._file, "read1", None) if self._live else None
        found: bytes | str = (read or self._file.read)(_BLOCK_BYTES)
        return found.encode() if isinstance(found, str) else found

    def _more(self) -> bool:
        """Read on; False at the end."""
        if self._ended:
            return False
        found = self._read()
        self._ended = not found
        self._take(found)
        return bool(found)

    def _take(self, found: bytes) -> None:
        if b"\0" in found:
            raise DataError(
                f"A table of text is needed, but {self._name} holds binary data. Give the file its "
                "proper name (.parquet?), or say what it is with format=..."
            )
        self._rest += found

    def _recognise(self) -> bool:
        """Settle the format; False if there is nothing but white space."""
        first = b""
        while len(first) < 2 and (found := self._read()):
            first += found
        if first[:2] in _TWO_BYTES:
            self._file, first = _TwoBytes(self._file, first, self._name), b""
        self._take(first)
        while len(self._rest) < len(_BYTE_ORDER_MARK) and self._more():
            pass
        self._rest = self._rest.removeprefix(_BYTE_ORDER_MARK)
        while not self._rest.strip() and self._more():
            pass
        if not self._rest.strip():
            return False
        start = self._rest.lstrip(b"\r\n")
        self._blank = [""] * self._rest.removesuffix(start).count(b"\n")
        self._rest = start
        if self._format != "csv" and not self._unwrap_array():
            return False
        while b"\n" not in self._rest and len(self._rest) < _LONGEST_ROW and self._more():
            pass
        if self._format is None:
            self._format = "jsonl" if self._rest.lstrip()[:1] == b"{" else "csv"
        return True

    def _unwrap_array(self) -> bool:
        """Read an array as lines; False if there is none, or nothing in it."""
        if self._rest.lstrip()[:1] != b"[":
            return bool(self._rest.strip())
        self._file, self._rest = ArrayLines(self._file, self._rest, self._name), b""
        self._ended = False
        return self._more()

    def _chunks(self) -> Iterator[bytes]:
        """Whole rows, about a block at a time."""
        while True:
            cut = self._rest.rfind(b"\n") + 1
            if self._format == "csv":
                cut = _outside_quotes(self._rest, cut)
            if cut:
                chunk, self._rest = self._rest[:cut], self._rest[cut:]
                yield chunk
            elif len(self._rest) > _LONGEST_ROW:
                raise DataError(
                    f"A row must be shorter than {_LONGEST_ROW >> 20} MB, but row "
                    f"{self._n_rows + 1:,} of {self._name} is longer. Is a quote missing there, or "
                    "is this no table?"
                )
            if not self._more():
                break
        if self._rest.strip():
            chunk, self._rest = self._rest, b""
            yield chunk

    def _header(self) -> tuple[list[str], str]:
        line, _, self._rest = self._rest.partition(b"\n")
        text = line.decode("utf-8", errors="replace").rstrip("\r")
        if "\ufffd" in text:
            raise DataError(
                f"A table of text must be UTF-8, but the first line of {self._name} is not. "
                "Convert it (iconv -f windows-1252 -t utf-8), or is it a binary file?"
            )
        below = self._rest[:_START].decode("utf-8", errors="replace").split("\n")
        refuse_lines_above([*self._blank, text, *below], self._name, _SEPARATORS)
        separator = max(_SEPARATORS, key=text.count)
        try:
            names = [name.strip() for name in next(csv.reader([text], delimiter=separator), [])]
        except csv.Error as error:
            raise DataError(
                f"The first line of a CSV file must name its columns, but in {self._name} it "
                f"cannot be read: {error}. Correct it."
            ) from error
        twice = {name for name in names if name and names.count(name) > 1}
        if twice:
            raise DataError(
                f"The columns of a CSV file must differ, but {self._name} has {min(twice)!r} more "
                "than once. Rename one of them in the first line."
            )
        return names, separator

    def _csv_frames(self, wanted: Sequence[str]) -> Iterator[pl.DataFrame]:
        import polars as pl

        names, separator = self._header()
        check_columns(wanted, names, self._name)
        # Every block gets a header of its own, with the columns numbered.
        header = (separator.join(map(str, range(len(names)))) + "\n").encode()
        positions = {str(names.index(name)): name for name in wanted}
        last = str(len(names) - 1)
        for chunk in self._chunks():
            if not chunk.strip():
                continue
            try:
                frame = pl.read_csv(
                    io.BytesIO(header + chunk),
                    separator=separator,
                    columns=list(dict.fromkeys([*positions, last])),
                    infer_schema=False,
                )
            except (pl.exceptions.PolarsError, OSError) as error:  # it unpacks what looks packed
                self._blame(chunk, len(names), separator, error)
            # polars leaves out fields that nobody asked for without a word, and so shifts the rest.
            if not _even(chunk, separator, frame[last].null_count(), frame.height, len(names)):
                self._blame(chunk, len(names), separator)
            self._n_rows += frame.height
            # Before version 2 polars gave the columns in the order of the file.
            yield frame.select(list(positions)).rename(positions)

    def _blame(
        self, chunk: bytes, n_fields: int, separator: str, error: Exception | None = None
    ) -> None:
        """Say which row of a chunk cannot be read, or has too many fields."""
        row = self._n_rows
        try:
            lines = io.TextIOWrapper(io.BytesIO(chunk), encoding="utf-8", newline="")
            for fields in csv.reader(lines, delimiter=separator):
                row += bool(fields)
                if len(fields) > n_fields == 1:
                    raise DataError(
                        f"The first line of a CSV file must name its columns, but in {self._name} "
                        f"it is one field, while row {row:,} has {len(fields)}. Remove the lines "
                        f"above the names: tail -n +{row + 1} FILE > rows.csv, if row {row:,} is "
                        "the line of names."
                    ) from error
                if len(fields) > n_fields:
                    raise DataError(
                        f"A row must have {n_fields} fields, as the first line, but row {row:,} of "
                        f"{self._name} has {len(fields)}. Correct the row, or put quotes around "
                        f"text that contains {separator!r}."
                    ) from error
        except (UnicodeError, csv.Error) as found:
            raise DataError(
                f"A table of text must be UTF-8, but {self._name} is not, at or after row "
                f"{row + 1:,}: {found}. Convert it (iconv -f windows-1252 -t utf-8), or is it a "
                "binary file?"
            ) from error
        if error is not None:
            raise DataError(
                f"A CSV file with equal rows is needed, but {self._name} cannot be read after row "
                f"{self._n_rows:,}: {str(error).splitlines()[0]}. Correct it there."
            ) from error

    def _json_frames(self, wanted: Sequence[str]) -> Iterator[pl.DataFrame]:
        import polars as pl

        seen: set[str] = set()
        for chunk in self._chunks():
            if not chunk.strip():
                continue
            refuse_depths(chunk, self._name, self._n_rows)
            try:
                frame = pl.read_ndjson(io.BytesIO(chunk), infer_schema_length=None)
            except (pl.exceptions.PolarsError, OSError):  # it unpacks what looks packed
                frame = self._one_by_one(chunk, wanted)
            frame = self._flat_frame(frame, chunk, wanted)
            if any(_inexact(frame[name]) for name in wanted if name in frame.columns):
                frame = self._one_by_one(chunk, wanted)
            if not seen:
                # A record may lack a column, but not the whole first block of them.
                check_columns(wanted, frame.columns, self._name)
            seen.update(frame.columns)
            self._n_rows += frame.height
            absent = [pl.lit(None).alias(name) for name in wanted if name not in frame.columns]
            yield frame.with_columns(absent).select(list(wanted))

    def _flat_frame(self, frame: pl.DataFrame, chunk: bytes, wanted: Sequence[str]) -> pl.DataFrame:
        """Rows whose inner records are columns of their own."""
        flat = _unnested(frame, wanted)
        # polars loses rows of some inner records, those without a field.
        if flat is frame or flat.height == sum(bool(line.strip()) for line in chunk.split(b"\n")):
            return flat
        return self._one_by_one(chunk, wanted)

    def _one_by_one(self, chunk: bytes, wanted: Sequence[str]) -> pl.DataFrame:
        """Records whose types differ from row to row, or one of which is wrong."""
        import polars as pl

        records: list[dict[str, Any]] = []
        for line in chunk.split(b"\n"):
            if line.strip():
                record = self._record(line, self._n_rows + len(records) + 1)
                records.append(_flat(record, wanted))
        columns = {}
        for name in dict.fromkeys(key for record in records for key in record):
            # Columns nobody asked for still say that they exist, and how many records there are.
            values = [record.get(name) if name in wanted else None for record in records]
            plain = {type(value) for value in values if value is not None}
            # Nested values become text, too: polars miscounts the rows of some of them.
            mixed = len(plain) > 1 or plain & {list, dict}
            values = [_text(value) for value in values] if mixed else values
            columns[name] = pl.Series(name, values, strict=False)
        return pl.DataFrame(columns)

    def _record(self, line: bytes, row: int) -> dict[str, Any]:
        refuse_depths(line, self._name, row - 1)
        try:
            record = json.loads(line)
        except ValueError as error:
            raise DataError(
                f"Every line must be a JSON record, but row {row:,} of {self._name} is not: "
                f"{error}. Correct or remove the line."
            ) from error
        if isinstance(record, dict):
            return record
        raise DataError(
            f"Every line must be a JSON record, but row {row:,} of {self._name} holds a "
            f'{type(record).__name__}. Write {{"column": value, ...}}.'
        )


class _TwoBytes:
    """A file of UTF-16, of which the beginning has been read, as one of UTF-8."""

    def __init__(self, file: Any, beginning: bytes, name: str) -> None:
        self._file, self._beginning, self._name = file, beginning, name
        self._decode = codecs.getincrementaldecoder("utf-16")().decode

    def read(self, size: int) -> bytes:
        """About so much of it; nothing at the end only."""
        return self._through(self._file.read, size)

    def read1(self, size: int) -> bytes:
        """What a pipe holds at the moment."""
        return self._through(getattr(self._file, "read1", self._file.read), size)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _through(self, read: Callable[[int], bytes], size: int) -> bytes:
        while True:
            found, self._beginning = self._beginning or read(size), b""
            try:
                text = self._decode(found, not found)
            except UnicodeError as error:
                raise DataError(
                    f"{self._name} begins as UTF-16, but does not go on so: {error}. Save it "
                    "again, as UTF-8."
                ) from error
            if text or not found:
                return text.encode("utf-8", errors="replace")


def _outside_quotes(text: bytes, cut: int) -> int:
    """The last line break up to `cut` that ends a row: one inside quotes does not."""
    quotes = text.count(b'"', 0, cut)
    while cut and quotes % 2:
        before = text.rfind(b"\n", 0, cut - 1) + 1
        quotes -= text.count(b'"', before, cut)
        cut = before
    return cut


def _even(chunk: bytes, separator: str, n_short: int, n_rows: int, n_fields: int) -> bool:
    """Whether no row of a chunk has more fields than the header.

    Parameters
    ----------
    chunk
        Whole rows.
    separator
        What stands between two fields.
    n_short
        Rows whose last field is empty or not there.
    n_rows, n_fields
        Rows in the chunk, and fields in the header.
    """
    text = np.frombuffer(chunk, dtype=np.uint8)
    between = text == ord(separator)
    if not n_short and np.count_nonzero(between) == n_rows * (n_fields - 1):
        return True  # no row has fewer, so that none has more
    places = np.flatnonzero(between | (text == ord("\n")) | (text == ord('"')))
    kinds = np.append(text[places], ord("\n"))
    plain = np.cumsum(kinds == ord('"')) % 2 == 0
    fields = np.cumsum(plain & (kinds == ord(separator)))
    ends = fields[plain & (kinds == ord("\n"))]
    return int(np.diff(ends, prepend=0).max(initial=0)) < n_fields


def _inexact(column: pl.Series) -> bool:
    """Whether whole numbers may have been read as floats that cannot hold them."""
    return column.dtype.is_float() and bool((column.abs() >= 2.0**53).any())


def check_columns(wanted: Iterable[str], known: Sequence[str], name: str) -> None:
    """Refuse a table that lacks a column."""
    for column in wanted:
        if column not in known:
            listed = ", ".join(map(repr, known[:20])) + (", ..." if len(known) > 20 else "")
            raise DataError(
                f"Column {column!r} is needed, but {name} has only {listed or 'no columns'}."
                f"{closest(column, known)} Name one of its columns."
            )


def _flat(record: dict[str, Any], whole: Sequence[str] = ()) -> dict[str, Any]:
    """A record whose inner records are columns of their own, but for those asked for as a whole.

    Examples
    --------
    >>> _flat({"at": 7, "user": {"id": 3, "from": {"city": "Bonn"}}})
    {'at': 7, 'user.id': 3, 'user.from.city': 'Bonn'}
    """
    flat: dict[str, Any] = {}
    for name, value in record.items():
        if value == {}:
            flat[name] = None  # says that there is a record, even if nothing else does
        elif isinstance(value, dict) and name not in whole:
            flat |= {f"{name}.{inner}": part for inner, part in _flat(value).items()}
        else:
            flat[name] = value
    return flat


def _unnested(frame: pl.DataFrame, whole: Sequence[str]) -> pl.DataFrame:
    """The same for all rows at once."""
    import polars as pl

    while any(isinstance(d, pl.Struct) and n not in whole for n, d in frame.schema.items()):
        columns: dict[str, pl.Series] = {}
        for column in frame:
            if isinstance(column.dtype, pl.Struct) and column.name not in whole:
                inner = column.struct.unnest()
                columns |= {f"{column.name}.{part.name}": part for part in inner}
            else:
                columns[column.name] = column
        frame = pl.DataFrame(columns)
    return frame


def _text(value: Any) -> str | None:
    """A JSON value as text, the way it is written in JSON."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value)
