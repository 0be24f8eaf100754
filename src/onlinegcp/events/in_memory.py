"""Tables in memory, polars, pandas, Arrow or a dict of columns, as parts to be read in blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from onlinegcp.errors import DataError
from onlinegcp.events import table_parts
from onlinegcp.events.table_parts import Part
from onlinegcp.events.table_text import check_columns

if TYPE_CHECKING:
    import polars as pl


def is_table(source: Any) -> bool:
    """Whether an object is a table of some package, or a dict of columns."""
    kind = type(source)
    return isinstance(source, dict) or any(
        hasattr(kind, name) for name in ("__dataframe__", "__arrow_c_stream__", "collect_schema")
    )


def table_part(source: Any, name: str) -> Part:
    """A table in memory as a part."""
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
    for start in range(0, table.height, table_parts.BLOCK_ROWS):
        yield table.slice(start, table_parts.BLOCK_ROWS)


def _slices(table: pl.LazyFrame, wanted: Sequence[str]) -> Iterator[pl.DataFrame]:
    import polars as pl

    n_rows = int(table.select(pl.len()).collect().item())
    rows = table.select(list(wanted))
    for start in range(0, n_rows, table_parts.BLOCK_ROWS):
        yield rows.slice(start, table_parts.BLOCK_ROWS).collect()


def iterator_part(tables: Iterator[Any]) -> Part:
    """Tables that an iterator hands out, one below the other."""

    def frames(wanted: Sequence[str]) -> Iterator[pl.DataFrame]:
        for number, item in enumerate(tables):
            if not is_table(item):
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
