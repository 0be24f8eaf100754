"""Tables and arrays of any length written in pieces: memory is that of one piece.

Rows come once. What type a column has is known after the last of them only, so that the pieces
wait in a temporary file beside the target until then.
"""

from __future__ import annotations

import datetime
import itertools
import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, final

from onlinegcp.storage.atomic import replacing

if TYPE_CHECKING:
    import polars as pl

Row = Mapping[str, Any]
Piece = dict[str, list[Any]]

ROWS = 20_000  # of a piece
# What two pieces make together; anything else is text.
_BOTH = {
    frozenset(("whole", "number")): "number",
    frozenset(("date", "moment")): "moment",
    **{frozenset(("none", kind)): kind for kind in ("whole", "number", "text", "perhaps")},
    **{frozenset(("truth", kind)): "perhaps" for kind in ("none", "perhaps")},
}
_TIMES = {"date": "M8[D]", "moment": "M8[us]", "instant": "M8[us]"}


@final
class Pieces:
    """Rows in pieces, which can be gone through once more when all have come.

    Parameters
    ----------
    rows
        All rows, with the same columns.
    folder
        Where they wait if they are many.

    Attributes
    ----------
    kinds : dict
        What is in each column: "date", "moment", "instant" (with an offset), "truth", "perhaps"
        (where some have none), "whole", "number", "list", "text" or, where nothing is, "none".
    count : int
        How many rows there are.
    """

    def __init__(self, rows: Iterable[Row], folder: Path) -> None:
        self.kinds: dict[str, str] = {}
        self.count = 0
        self._only: Piece | None = None
        self._file: IO[bytes] | None = None
        source = iter(rows)
        while chunk := list(itertools.islice(source, ROWS)):
            piece = {name: [row[name] for row in chunk] for name in chunk[0]}
            for name, values in piece.items():
                self.kinds[name] = _joined(self.kinds.get(name, ""), kind_of(values))
            self.count += len(chunk)
            if self._only is None and self._file is None and len(chunk) < ROWS:
                self._only = piece
                return
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed in __exit__
            self._file.write(json.dumps(piece, separators=(",", ":")).encode() + b"\n")

    def __iter__(self) -> Iterator[Piece]:
        if self._only is not None:
            yield self._only
        if self._file is not None:
            self._file.seek(0)
            for line in self._file:
                yield json.loads(line)

    def __enter__(self) -> Pieces:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()


def kind_of(values: Sequence[Any]) -> str:
    """What is in a column, as `Pieces.kinds` calls it.

    Examples
    --------
    >>> kind_of([1, None]), kind_of([1, 2.5]), kind_of(["2013-01-01"]), kind_of(["a", 1])
    ('whole', 'number', 'date', 'text')
    """
    types = {type(value) for value in values}
    if types <= {type(None)}:
        return "none"
    if types == {bool}:
        return "truth"
    if types == {bool, type(None)}:
        return "perhaps"
    if types <= {int, type(None)}:
        return "whole"
    if types <= {int, float, type(None)}:
        return "number"
    if types == {list}:
        return "list"
    if types == {str} and moments(values) is not None:
        if all(len(value) == 10 for value in values):
            return "date"
        aware = datetime.datetime.fromisoformat(values[0]).tzinfo is not None
        return "instant" if aware else "moment"
    return "text"


def _joined(one: str, other: str) -> str:
    if not one or one == other:
        return other
    return _BOTH.get(frozenset((one, other)), "text")


def moments(values: Sequence[Any]) -> list[Any] | None:
    """Times as dates, or as dates and times of day in UTC where they have an offset.

    None where they are numbers, or words.

    Examples
    --------
    >>> moments(["2013-01-01", "2013-01-02"])
    [datetime.date(2013, 1, 1), datetime.date(2013, 1, 2)]
    >>> moments([1, 2]), moments(["week 1"])
    (None, None)
    """
    if not values or not all(isinstance(value, str) and len(value) >= 10 for value in values):
        return None
    try:
        if all(len(value) == 10 for value in values):
            return [datetime.date.fromisoformat(value) for value in values]
        found = [datetime.datetime.fromisoformat(value) for value in values]
    except ValueError:
        return None
    aware = [moment.tzinfo is not None for moment in found]
    if any(aware) and not all(aware):
        return None
    utc = datetime.UTC
    return [m.astimezone(utc).replace(tzinfo=None) if m.tzinfo else m for m in found]


def write_table(target: Path, rows: Iterable[Row]) -> None:
    """Rows as a file; its ending says how. A column called time has dates where it can."""
    with replacing(target) as file, Pieces(rows, target.resolve().parent) as pieces:
        tables = (_table(piece, pieces.kinds) for piece in pieces)
        if target.suffix == ".parquet":
            _write_parquet(file, tables, target.resolve().parent)
            return
        for number, table in enumerate(tables):
            if target.suffix == ".csv":
                table.write_csv(file, include_header=number == 0)
            else:
                table.write_ndjson(file)


def _table(piece: Piece, kinds: Mapping[str, str]) -> pl.DataFrame:
    import polars as pl

    dtypes: dict[str, Any] = {
        "truth": pl.Boolean, "perhaps": pl.Boolean, "whole": pl.Int64, "number": pl.Float64,
        "none": pl.Null,
    }  # fmt: skip
    columns = []
    for name, values in piece.items():
        kind = kinds[name]
        found = moments(values) if name == "time" and kind in _TIMES else None
        if found is not None:
            dtype = pl.Date if kind == "date" else pl.Datetime("us")
            columns.append(pl.Series(name, found).cast(dtype))
        elif kind in dtypes:
            columns.append(pl.Series(name, values, dtype=dtypes[kind], strict=False))
        else:
            texts = [None if value is None else str(value) for value in values]
            columns.append(pl.Series(name, texts, dtype=pl.String))
    return pl.DataFrame(columns)


def _write_parquet(file: IO[bytes], tables: Iterator[pl.DataFrame], folder: Path) -> None:
    import polars as pl

    first, second = next(tables, pl.DataFrame()), next(tables, None)
    if second is None:
        first.write_parquet(file)
        return
    with tempfile.TemporaryDirectory(dir=folder) as parts:
        names = []
        for number, table in enumerate(itertools.chain((first, second), tables)):
            names.append(Path(parts, f"{number:06}.parquet"))
            table.write_parquet(names[-1])
        # By its name: what is written through the open file would be held in memory.
        pl.scan_parquet(names).sink_parquet(file.name)


def write_arrays(target: Path, rows: Iterable[Row], others: Mapping[str, Any]) -> None:
    """Columns as arrays of one npz file.

    Parameters
    ----------
    target
        The file.
    rows
        What the columns hold; a column of lists becomes a matrix.
    others
        Further arrays.
    """
    import zipfile

    import numpy as np

    with (
        replacing(target) as file,
        Pieces(rows, target.resolve().parent) as pieces,
        zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive,
    ):
        for name in pieces.kinds:
            _write_column(archive, name, pieces)
        for name, array in others.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def _write_column(archive: Any, name: str, pieces: Pieces) -> None:
    import numpy as np

    kind = pieces.kinds[name]
    # The longest text or list decides, wherever it is.
    width = 0
    if kind in ("text", "list"):
        width = max(len(v) if kind == "list" else len(_said(v)) for p in pieces for v in p[name])
    dtypes = {**_TIMES, "truth": "?", "text": f"U{max(width, 1)}"}
    dtype = dtypes.get(kind, "f8")
    shape = (pieces.count, width) if kind == "list" else (pieces.count,)
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        head = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(member, head)
        for piece in pieces:
            values = piece[name]
            if kind in _TIMES:
                values = moments(values) or []
            elif kind == "text":
                values = [_said(value) for value in values]
            elif kind == "list":
                values = [_numbers(v) + [np.nan] * (width - len(v)) for v in values]
            elif kind != "truth":
                values = _numbers(values)
            member.write(np.array(values, dtype=dtype).tobytes())


def _said(value: Any) -> str:
    return "" if value is None else str(value)


def _numbers(values: Sequence[Any]) -> list[float]:
    return [float("nan") if value is None else value for value in values]
