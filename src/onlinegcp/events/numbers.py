"""Columns of numbers, also where they come as text: the one place that reads them.

People write 1234.5 as 1,234.5 in one country and as 1.234,5 in another. Each text is read for
itself, if it can mean one number only: what 1,234 means depends on who wrote it, so it is refused.
Signs of currencies and percent are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from onlinegcp.errors import DataError

if TYPE_CHECKING:
    import polars as pl

_SIGN = r"^[+-]?"
# Groups of three digits twice, or once with decimals behind; a comma that cannot begin a group.
_THOUSANDS = _SIGN + r"[1-9]\d{0,2}((,\d{3}){2,}|(,\d{3})+\.\d+)$"
_COMMA = _SIGN + r"(\d*,(\d{1,2}|\d{4,})|(0|\d{4,})?,\d+|[1-9]\d{0,2}(\.\d{3})+,\d+)$"
_UNITS = "$€£¥%"  # one of them before or behind, as spreadsheets write amounts and shares
_TWO_WAYS = re.compile(_SIGN + r"\d{1,3},\d{3}$")


def read_numbers(text: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Text without blanks around it, null where nothing is left, and its numbers, null if none.

    Examples
    --------
    >>> import polars as pl
    >>> text = pl.Series(["12.5", " 12,5", "1.234,50", "1,234.50", "1,234", "0,125", "a", ""])
    >>> read_numbers(text)[1].to_list()
    [12.5, 12.5, 1234.5, 1234.5, None, 0.125, None, None]
    >>> read_numbers(pl.Series(["$1,234.50", "-$5", "12,50 €", "4.2%", "$", "5$5"]))[1].to_list()
    [1234.5, -5.0, 12.5, 4.2, None, None]
    """
    import polars as pl

    given = text.str.strip_chars()
    given = given.set(given == "", None)
    numbers = given.cast(pl.Float64, strict=False)
    left = given.filter(numbers.is_null() & given.is_not_null())
    if not left.str.contains(f"[,{_UNITS}]").any():
        return given, numbers
    bare = given.str.replace(rf"^([+-]?)\s*[{_UNITS}]\s*", "${1}")
    bare = bare.str.replace(rf"\s*[{_UNITS}]$", "")
    english = bare.str.replace_all(",", "", literal=True)
    german = bare.str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
    plain = (
        pl.when(pl.lit(bare).str.contains(_THOUSANDS))
        .then(pl.lit(english))
        .when(pl.lit(bare).str.contains(_COMMA))
        .then(pl.lit(german))
        .otherwise(pl.lit(bare))
    )
    return given, pl.select(plain.cast(pl.Float64, strict=False).alias(text.name)).to_series()


def numbers_of(
    column: pl.Series, where: Callable[[int], str], purpose: str
) -> npt.NDArray[np.float64]:
    """A column as numbers, NaN where it is null; text is read as `read_numbers` does it.

    Parameters
    ----------
    column
        Numbers, booleans, or text as it comes out of a CSV file.
    where
        Names a row, by its position, in errors.
    purpose
        What needs the numbers, for errors.
    """
    import polars as pl

    dtype = column.dtype
    given = column.cast(pl.String) if dtype in (pl.Categorical, pl.Enum) else column
    if given.dtype == pl.String:
        given, numbers = read_numbers(given)
    elif given.dtype.is_numeric() or given.dtype in (pl.Boolean, pl.Null):
        numbers = given.cast(pl.Float64)
    else:
        raise DataError(
            f"{purpose} needs a column of numbers, but {column.name!r} holds {dtype} in "
            f"{where(0)}. Choose another column."
        )
    wrong = (numbers.is_null() & given.is_not_null()) | numbers.is_infinite().fill_null(value=False)
    if wrong.any():
        row = int(wrong.arg_max() or 0)
        raise DataError(
            f"{purpose} needs finite numbers in column {column.name!r}, but {where(row)} has "
            f"{given[row]!r}. {_remedy(given[row])}"
        )
    return numbers.fill_null(float("nan")).to_numpy()


def _remedy(found: Any) -> str:
    if isinstance(found, str) and _TWO_WAYS.match(found):
        whole, part = found.split(",")
        return f"Write {whole}{part} or {whole}.{part}: it can mean either."
    return "Correct it, or leave it empty where it is unknown."
