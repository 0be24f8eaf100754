"""Columns of numbers, also where they come as text: the one place that reads them.

People write 1234.5 as 1,234.5 in one country, as 1.234,5 or 1 234,5 or 1'234.5 in others, and
accountants write -5 as (5). Each text is read for itself, if it can mean one number only. What
1,234 means depends on who wrote it: on the mark before the decimals of the others beside it, and
where these do not tell, it is refused. Signs of currencies and percent are left out,
but two of them in one column are two units, which are refused as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from onlinegcp.errors import DataError
from onlinegcp.events.absent import known

if TYPE_CHECKING:
    import polars as pl

_SIGN = r"^[+-]?"
# Groups of three digits twice (the first of two in India), or once with decimals behind; a comma
# that cannot begin a group.
_THOUSANDS = _SIGN + r"[1-9]\d{0,2}((,\d{3}){2,}|(,\d{3})+\.\d+|(,\d\d)+,\d{3}(\.\d+)?)$"
_COMMA = _SIGN + r"(\d*,(\d{1,2}|\d{4,})|(0|\d{4,})?,\d+|[1-9]\d{0,2}(\.\d{3})+,\d+)$"
# Blanks and apostrophes between groups mean one thing only.
_GROUPS = _SIGN + r"[1-9]\d{0,2}([ \u00a0\u2009\u202f'\u2019]\d{3})+([.,]\d+)?$"
# What can mean two numbers, and what shows that a point begins the decimals.
_OPEN_COMMA = _SIGN + r"[1-9]\d{0,2},\d{3}$"
_OPEN_POINT = _SIGN + r"[1-9]\d{0,2}(\.\d{3})+$"
_POINT = _SIGN + r"(\d*\.(\d{1,2}|\d{4,})|(0|\d{4,})?\.\d+)$"
_SOME = 5  # different numbers, from which a habit shows
_BETWEEN = r"[ \u00a0\u2009\u202f'\u2019]"
# One of them before or behind, as spreadsheets write amounts and shares.
_UNIT = (
    r"(?:[A-Z]{0,2}\$|[€£¥₹₽₩₺₪₫₦%‰]|EUR|USD|GBP|CHF|JPY|CNY|INR|AUD|CAD|SEK|NOK|DKK|PLN|kr\.?|zł)"
)
_TWO_WAYS = re.compile(_SIGN + rf"{_UNIT}?\s*[+-]?\d{{1,3}},\d{{3}}\s*{_UNIT}?$")


def read_numbers(text: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Text without blanks around it, null where nothing is known, and its numbers, null if none.

    Examples
    --------
    >>> import polars as pl
    >>> text = pl.Series(["12.5", " 12,5", "1.234,50", "1,234.50", "1,234", "0,125", "a", "N/A"])
    >>> read_numbers(text)[1].to_list()
    [12.5, 12.5, 1234.5, 1234.5, None, 0.125, None, None]
    >>> read_numbers(pl.Series(["0,5", "1,234", "1.234"]))[1].to_list()
    [0.5, 1.234, 1234.0]
    >>> read_numbers(pl.Series(["$1,234.50", "-$5", "12,50 €", "4.2%", "$", "5$5"]))[1].to_list()
    [1234.5, -5.0, 12.5, 4.2, None, None]
    >>> read_numbers(pl.Series(["1'234.50", "1 234 567,5", "(12.00)", "1,23,456.00"]))[1].to_list()
    [1234.5, 1234567.5, -12.0, 123456.0]
    """
    import polars as pl

    given = known(text)
    numbers = given.cast(pl.Float64, strict=False)
    left = numbers.is_null() & given.is_not_null()
    # Most columns are numbers or words; only what is left and has digits is worth a look.
    if not given.filter(left).str.contains(r"\d").any():
        return given, numbers
    bare = given.str.replace("^[\u2212\u2013]", "-")
    bare = bare.str.replace(r"^\((.*\d.*)\)$", "-${1}")
    bare = bare.str.replace(rf"^([+-]?)\s*{_UNIT}\s*([+-]?)", "${1}${2}")
    bare = bare.str.replace(rf"\s*{_UNIT}$", "")
    groups = pl.lit(bare).str.contains(_GROUPS)
    joined = bare.str.replace_all(_BETWEEN, "").str.replace(",", ".", literal=True)
    english = bare.str.replace_all(",", "", literal=True)
    german = bare.str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
    by_comma, by_point = bare.str.contains(_COMMA), bare.str.contains(_THOUSANDS)
    opened = bare.str.contains(_OPEN_COMMA)
    if by_comma.any() != (by_point.any() or bare.str.contains(_POINT).any()):
        # All the others begin their decimals with the same mark.
        if by_comma.any():
            by_comma = by_comma | opened | bare.str.contains(_OPEN_POINT)
        else:
            by_point = by_point | opened
    elif not by_comma.any() and _in_thousands(bare, opened):
        by_point = opened
    plain = (
        pl.when(groups)
        .then(pl.lit(joined))
        .when(by_point)
        .then(pl.lit(english))
        .when(by_comma)
        .then(pl.lit(german))
        .otherwise(pl.lit(bare))
    )
    return given, pl.select(plain.cast(pl.Float64, strict=False).alias(text.name)).to_series()


def _in_thousands(bare: pl.Series, opened: pl.Series) -> bool:
    """Whether whole numbers have a comma exactly from 1,000 on, as decimals would not.

    Were they decimals, some would have one or two digits; were these filled up with zeros, none
    would be without a comma.
    """
    short = bare.filter(bare.str.contains(_SIGN + r"\d{1,3}$")).unique()
    long = bare.filter(opened).unique()
    known = bare.drop_nulls()
    return bool(
        min(len(short), len(long)) >= _SOME
        and short.str.contains(r"\d{3}$").sum() >= _SOME
        and (known.str.contains(_SIGN + r"\d{1,3}$") | known.str.contains(_OPEN_COMMA)).all()
    )


def two_ways(text: pl.Series) -> str | None:
    """A number that can mean two, if that is all that keeps a column from being one of numbers.

    Examples
    --------
    >>> import polars as pl
    >>> two_ways(pl.Series(["12", "1,234"])), two_ways(pl.Series(["a", "1,234"]))
    ('1,234', None)
    """
    given, numbers = read_numbers(text)
    left = given.filter(numbers.is_null() & given.is_not_null())
    found = len(left) and bool(left.str.contains(_TWO_WAYS.pattern).all())
    return str(left[0]) if found else None


def units_of(text: pl.Series) -> list[str]:
    """The signs of units that stand beside the numbers of a column, in order.

    Examples
    --------
    >>> import polars as pl
    >>> units_of(pl.Series(["$5", "5 €", "-€7", "8", None]))
    ['$', '€']
    """
    found = text.str.extract(rf"^[(+-]?\s*({_UNIT})\s*[+-]?[\d.,]").fill_null(
        text.str.extract(rf"\d\s*({_UNIT})\)?\s*$")
    )
    return sorted(found.drop_nulls().unique().to_list())


def in_seconds(durations: pl.Series) -> pl.Series:
    """How long things took, in seconds.

    Examples
    --------
    >>> import datetime
    >>> import polars as pl
    >>> in_seconds(pl.Series([datetime.timedelta(minutes=2), None])).to_list()
    [120.0, None]
    """
    ticks = {"ns": 1e9, "us": 1e6, "ms": 1e3}[durations.dtype.time_unit]  # type: ignore[attr-defined]
    return durations.to_physical() / ticks


def numbers_of(
    column: pl.Series, where: Callable[[int], str], purpose: str
) -> npt.NDArray[np.float64]:
    """A column as numbers, NaN where it is null; text is read as `read_numbers` does it.

    Parameters
    ----------
    column
        Numbers, booleans, durations (in seconds), or text as it comes out of a CSV file.
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
        if len(units := units_of(given)) > 1:
            raise DataError(
                f"{purpose} needs numbers of one unit, but column {column.name!r} has "
                f"{' and '.join(units)} from {where(0)} on. Convert them first, or choose rows of "
                "one unit."
            )
    elif given.dtype == pl.Duration:
        numbers = in_seconds(given)
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
        whole, part = re.sub(r"[^\d,-]", "", found).split(",")
        return f"Write {whole}{part} or {whole}.{part}: it can mean either."
    return "Correct it, or leave it empty where it is unknown."
