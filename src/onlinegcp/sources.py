"""Tensor files: FROSTT text (.tns, also gzipped) and NumPy archives, to slices and back.

A file that is not there raises MissingFileError, which is a StateError and a FileNotFoundError, and
one that cannot be opened StateError. Anything wrong inside text raises DataError with the file's
name and the line, a damaged archive StateError.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, NoReturn, cast

import numpy as np
import numpy.typing as npt

from onlinegcp.errors import DataError, StateError
from onlinegcp.slices import Slice, Unlisted, as_slice
from onlinegcp.storage.archive import opened, read_archive, write_archive
from onlinegcp.storage.atomic import replacing
from onlinegcp.storage.times import pack_time, unpack_time
from onlinegcp.storage.unpacking import gunzip

Pathlike = str | os.PathLike[str]

_GZIP_MAGIC = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_KIND = "slice"


def read_tns(
    path: Pathlike,
    *,
    base: Literal["auto", 0, 1] = "auto",
    shape: Sequence[int] | None = None,
    unlisted: Unlisted = "zero",
) -> Slice:
    """Read a FROSTT text tensor, plain or gzipped.

    Each line holds the d positions of an entry and its value; `#` starts a comment. A header may
    come first: a line with d, a line with the d mode lengths and, if you like, a line with the
    number of entries; all of it may follow a line ``sptensor``, as in files written by pyttb.

    Parameters
    ----------
    path
        The file. Compression is recognised by content, not by name.
    base
        Whether positions count from 0 or from 1; "auto" means 0 if a position 0 occurs, else 1.
    shape
        Mode lengths; by default those of the header or, without one, the largest positions.
    unlisted
        What a cell without a line is: "zero" or "missing".

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "small.tns")
    >>> _ = file.write_text("1 1 5.0\\n2 3 1.5\\n")
    >>> read_tns(file).to_dense()
    array([[5. , 0. , 0. ],
           [0. , 0. , 1.5]])
    """
    if base not in ("auto", 0, 1):
        raise DataError(f"base must be 'auto', 0 or 1, but {base!r} was found. Choose one of them.")
    text = _Text(Path(path))
    dims = text.shape if shape is None else Slice([], [], shape).shape
    if dims is not None and text.n_columns not in (None, len(dims) + 1):
        _complain(text, len(dims) + 1)
    if text.n_columns is None:
        if dims is None:
            raise DataError(
                f"A .tns file needs at least one entry or a header, but {text.path} has neither. "
                "Give shape=... to read it as an empty tensor."
            )
        index, value = np.empty((0, len(dims)), dtype=np.int32), np.empty(0)
    else:
        index, value = _parse(text)
    if text.n_entries not in (None, len(value)):
        raise DataError(
            f"The header of {text.path} promises {text.n_entries} entries, but {len(value)} were "
            "found. The file is incomplete, or its header has to be corrected."
        )
    start = base if base != "auto" else int(not (index == 0).any())
    if dims is None:
        dims = tuple(int(largest) + 1 - start for largest in index.max(axis=0))
    inside = (index >= start).all() and (index < np.array(dims) + start).all()
    if not inside or not np.isfinite(value).all():
        _complain(text, len(dims) + 1, dims, start)
    try:
        return Slice(index - start, value, dims, unlisted=unlisted)
    except DataError as error:
        raise DataError(f"{text.path}: {error}") from error


def write_tns(
    path: Pathlike,
    x: Any,
    *,
    base: Literal[0, 1] = 1,
    header: bool | Literal["sptensor"] = True,
) -> None:
    """Write the listed cells of a slice as FROSTT text, gzipped if the name ends in .gz.

    Values keep every bit. The time and the meaning of unlisted cells have no place in this format
    (see `save_npz`); without a header neither have the mode lengths. An existing file is replaced
    only once the new one is complete.

    Parameters
    ----------
    path
        The file.
    x
        A slice, or anything `as_slice` takes.
    base
        Whether positions count from 0 or from 1.
    header
        True writes the number of modes and their lengths first, "sptensor" the header that
        ``pyttb.import_data`` asks for, False none.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "small.tns")
    >>> write_tns(file, Slice([[0, 0], [1, 2]], [5.0, 1.5], shape=(2, 3)))
    >>> print(file.read_text(), end="")
    2
    2 3
    1 1 5.0
    2 3 1.5
    """
    if base not in (0, 1):
        raise DataError(f"base must be 0 or 1, but {base!r} was found. Choose one of them.")
    if header not in (True, False, "sptensor"):
        raise DataError(
            f"header must be True, False or 'sptensor', but {header!r} was found. "
            "Choose one of them."
        )
    import polars as pl

    x = as_slice(x)
    columns = {str(k): x.index[:, k].astype(np.int64) + base for k in range(x.ndim)}
    table = pl.DataFrame({**columns, "value": x.value})
    lines = [str(x.ndim), " ".join(str(dim) for dim in x.shape)]
    if header == "sptensor":
        lines = ["sptensor", *lines, str(x.n_listed)]
    with replacing(path) as file:
        # Level 3 takes at most half the time of level 6, for files at most 13 percent larger.
        # No name and no date inside: equal slices give equal files.
        zipped = Path(path).suffix.lower() == ".gz"
        packer = gzip.GzipFile("", "wb", 3, file, mtime=0) if zipped else None
        with packer or contextlib.nullcontext(file) as out:
            if header:
                out.write(("\n".join(lines) + "\n").encode())
            table.write_csv(cast(IO[bytes], out), separator=" ", include_header=False)


def save_npz(path: Pathlike, x: Any) -> None:
    """Write a slice, its time included, as a NumPy archive without pickles.

    The time may be None, a bool, number, string, date, datetime, timedelta or NumPy time. An
    existing file is replaced only once the new one is complete.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "small.npz")
    >>> save_npz(file, Slice.dense(np.eye(2), time="Monday"))
    >>> load_npz(file).time, load_npz(file).total
    ('Monday', 2.0)
    """
    x = as_slice(x)
    record = {"shape": x.shape, "unlisted": x.unlisted, "time": pack_time(x.time)}
    arrays = {"index": x.index, "value": x.value} if x.array is None else {"array": x.array}
    write_archive(path, _KIND, arrays, record)


def load_npz(path: Pathlike) -> Slice:
    """Read a slice written by `save_npz`.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "small.npz")
    >>> save_npz(file, np.eye(2))
    >>> load_npz(file).to_dense()
    array([[1., 0.],
           [0., 1.]])
    """
    arrays, record = read_archive(path, _KIND)
    try:
        time = unpack_time(record["time"])
        if "array" in arrays:
            return Slice.dense(arrays["array"], time=time)
        index, value, shape = arrays["index"], arrays["value"], record["shape"]
        return Slice(index, value, shape, time=time, unlisted=record["unlisted"])
    except StateError:
        raise
    except Exception as error:  # which of a dozen it is depends on the damaged byte
        raise StateError(
            f"load_npz needs a file written by save_npz, but {path} contradicts itself ({error}). "
            "It is damaged: write it again, or use an earlier copy."
        ) from error


class _Line(NamedTuple):
    number: int
    words: list[bytes]
    start: int  # offset of the line in the data
    end: int  # and of the next one


class _Text:
    """The text of a tensor file, split into what the header says and the entries."""

    shape: tuple[int, ...] | None = None
    n_entries: int | None = None
    n_columns: int | None = None  # words in the first entry, None without entries

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data = _unpacked(path)
        self.first: _Line | None = None  # the first entry
        lines = self.lines()
        line = next(lines, None)
        if line is not None and line.words == [b"sptensor"]:
            line = next(lines, None)
        # An entry has two words at least, so that a line with one word starts a header.
        if line is not None and len(line.words) == 1:
            (n_modes,) = self._whole_numbers(line, 1, "the number of modes")
            line = next(lines, _Line(line.number + 1, [], len(self.data), len(self.data)))
            self.shape = self._whole_numbers(line, n_modes, f"the lengths of {n_modes} modes")
            line = next(lines, None)
            if line is not None and len(line.words) == 1:
                (self.n_entries,) = self._whole_numbers(line, 1, "the number of entries")
                line = next(lines, None)
        if line is not None:
            self.first, self.n_columns = line, len(line.words)

    def lines(self, start: int = 0, number: int = 1) -> Iterator[_Line]:
        """Yield the lines that hold more than a comment."""
        while start < len(self.data):
            end = self.data.find(b"\n", start) + 1 or len(self.data)
            words = self.data[start:end].partition(b"#")[0].split()
            if words:
                yield _Line(number, words, start, end)
            start, number = end, number + 1

    def _whole_numbers(self, line: _Line, count: int, what: str) -> tuple[int, ...]:
        digits = all(word.isdigit() and len(word) < 20 for word in line.words)
        if len(line.words) == count and digits:
            return tuple(int(word) for word in line.words)
        raise DataError(
            f"The header of {self.path} needs {what} in line {line.number}, but "
            f"{_quoted(line.words)} was found. Correct the header, or delete it."
        )


def _unpacked(path: Path) -> bytes:
    with opened(path, "a tensor file") as file:
        data = file.read()
    if data.startswith(_GZIP_MAGIC):
        try:
            data = gunzip(path, data)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise DataError(
                f"A gzipped file must be complete, but {path} could not be unpacked ({error}). "
                "Copy or download it again."
            ) from error
    return data.removeprefix(_BYTE_ORDER_MARK)


def _parse(text: _Text) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]:
    """Return positions as they stand in the file, and values."""
    import polars as pl

    assert text.first is not None
    assert text.n_columns is not None
    n_modes = text.n_columns - 1
    entries = text.data[text.first.start :] if text.first.start else text.data
    names = [str(k) for k in range(n_modes)]
    with contextlib.suppress(pl.exceptions.PolarsError):
        # Polars is eight times as fast as NumPy, but single spaces are all it understands. It
        # fills short lines with nulls, which send us on to the exact reader.
        table = pl.read_csv(
            entries,
            has_header=False,
            separator=" ",
            comment_prefix="#",
            quote_char=None,
            schema={**dict.fromkeys(names, pl.Int32()), "value": pl.Float64()},
        )
        if sum(table.null_count().row(0)) == 0:
            return table.select(names).to_numpy(), table["value"].to_numpy()
    try:
        numbers = np.loadtxt(io.BytesIO(entries), comments="#", ndmin=2, encoding="latin1")
    except ValueError:
        _complain(text, text.n_columns)
    with np.errstate(invalid="ignore"):  # NaN and numbers beyond 32 bits fail the comparison
        index = numbers[:, :-1].astype(np.int32)
    if numbers.shape[1] != text.n_columns or (index != numbers[:, :-1]).any():
        _complain(text, text.n_columns)
    return index, numbers[:, -1]


def _complain(
    text: _Text, n_columns: int, shape: tuple[int, ...] | None = None, base: int = 0
) -> NoReturn:
    """Raise DataError for the first line at fault; slow, but only ever run on a bad file."""
    assert text.first is not None
    limits = [dim - 1 + base for dim in shape] if shape else [2**31 - 1] * (n_columns - 1)
    for line in text.lines(text.first.start, text.first.number):
        place = f"line {line.number} of {text.path}"
        if len(line.words) != n_columns:
            raise DataError(
                f"Every entry needs {n_columns - 1} positions and a value, but {place} has "
                f"{len(line.words)} words: {_quoted(line.words)}. Correct or delete that line."
            )
        for k, (word, limit) in enumerate(zip(line.words[:-1], limits, strict=True)):
            position = _number(word)
            if position is None or not position.is_integer() or not base <= position <= limit:
                raise DataError(
                    f"Positions in mode {k} must be whole numbers from {base} to {limit}, but "
                    f"{place} has {_quoted([word])}. Correct that line, or give another base or "
                    "shape."
                )
        value = _number(line.words[-1])
        if value is None or not np.isfinite(value):
            raise DataError(
                f"Values must be finite numbers, but {place} has {_quoted(line.words[-1:])}. "
                "Delete that line if the cell is unknown, or correct it."
            )
    raise DataError(
        f"A .tns file needs lines of whole positions and a value, but {text.path} could not be "
        "read. Separate the words by spaces and the lines by newlines."
    )


def _number(word: bytes) -> float | None:
    try:
        return None if b"_" in word else float(word)
    except ValueError:
        return None


def _quoted(words: list[bytes]) -> str:
    text = b" ".join(words).decode("utf-8", errors="replace")
    return repr(text if len(text) <= 60 else text[:57] + "...")
