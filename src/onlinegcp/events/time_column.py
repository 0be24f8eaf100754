"""Time columns: whatever says when a row happened, as whole microseconds.

A column may hold times with or without a zone, dates, text of a common or a given format, years, or
numbers counted from 1970. It must be one of these throughout, and what was found is remembered, so
that tomorrow's files are read the same way.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, final

import numpy as np
import numpy.typing as npt

from onlinegcp.errors import DataError, closest
from onlinegcp.events.absent import known
from onlinegcp.events.spelling import fitting, layouts_of, read_as, with_ends_of_days
from onlinegcp.events.wall_clock import DAY, EPOCH, SECOND, wall, zone_of
from onlinegcp.events.wall_clock import Ticks as Ticks

if TYPE_CHECKING:
    import polars as pl

Kind = Literal["number", "date", "local", "instant"]

_UNITS = {"y": 0, "d": DAY, "s": SECOND, "ms": 1000, "us": 1, "ns": 0}
_FIRST, _LAST = -62_135_596_800 * SECOND, 253_402_300_799 * SECOND  # years 1 and 9999
_ISO = re.compile(r"\d{4}-\d\d-\d\d(?:([T ])\d\d:\d\d(:\d\d(?:\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?")
_DAYS = r"(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])"
_DIGITS = {  # dates that look like numbers
    "%Y%m": r"(19|20)\d\d(0[1-9]|1[0-2])",
    "%G%V": r"(19|20)\d\d(0[1-9]|[1-4]\d|5[0-3])",
    "%Y%m%d": _DAYS,
    "%Y%m%d%H": _DAYS + r"([01]\d|2[0-3])",
    "%Y%m%d%H%M": _DAYS + r"([01]\d|2[0-3])[0-5]\d",
    "%Y%m%d%H%M%S": _DAYS + r"([01]\d|2[0-3])[0-5]\d[0-5]\d",
}
_KINDS = {
    "number": "plain numbers",
    "date": "dates",
    "local": "times without a zone",
    "instant": "times with a zone",
}


class AmbiguousDatesError(DataError):
    """Dates that can be read in several ways."""


@final
class TimeColumn:
    """Reader of one time column, block by block.

    Parameters
    ----------
    name
        Name of the column, for errors.
    timezone
        Zone of the calendar and the clock, such as "America/New_York". Times without a zone are
        then taken as UTC; dates stay the days they are. By default the column's own zone, or the
        times as they are written.
    unit
        Unit of whole numbers counted from 1970: "d", "s", "ms", "us" or "ns"; "y" for years of the
        calendar. By default it is guessed from their size, once.
    layout
        Format of text, such as "%d/%m/%Y %H:%M". By default ISO 8601, or whatever the first rows
        are written in, if that can mean one thing only.
    plain
        Whether numbers are taken as they are, without a calendar.

    Attributes
    ----------
    kind
        What was found: "number" (with `plain`), "date", "local" (no zone) or "instant" (UTC).
    zone
        Name of the zone, or None.
    """

    def __init__(
        self,
        name: str,
        *,
        timezone: str | None = None,
        unit: str | None = None,
        layout: str | None = None,
        plain: bool = False,
    ) -> None:
        if timezone is not None:
            zone_of(timezone)
        if unit is not None and unit not in _UNITS:
            raise DataError(
                f"time_unit must be one of {', '.join(_UNITS)}, but is {unit!r}."
                f"{closest(str(unit), _UNITS)} Use 's' for seconds since 1970."
            )
        self.name, self.unit, self.layout, self.plain = name, unit, layout, plain
        self.zone = timezone
        self.given_zone = timezone
        self._last: tuple[Ticks | None, Ticks] = None, np.empty(0, dtype=np.int64)
        self.kind: Kind | None = None
        self._found: str | None = None  # format that was recognised

    def read(
        self, column: pl.Series, where: Callable[[int], str]
    ) -> tuple[Ticks, npt.NDArray[np.bool_] | None]:
        """Ticks of every row, and which rows have one (None if all do)."""
        import polars as pl

        if column.null_count() == len(column):
            return np.zeros(len(column), dtype=np.int64), np.zeros(len(column), dtype=bool)
        dtype = column.dtype
        if dtype == pl.Categorical or dtype == pl.Enum:
            column = column.cast(pl.String)
        if dtype == pl.Decimal or (dtype.is_integer() and dtype.is_unsigned_integer()):
            column = column.cast(pl.Float64 if dtype == pl.Decimal else pl.Int64, strict=False)
        if self.layout is not None and column.dtype.is_numeric():  # 20240101 and the like
            column = column.cast(pl.Int64, strict=False).cast(pl.String)
        if column.dtype == pl.String:
            column = self._from_text(column, where)
        if column.dtype.is_numeric():
            column = self._from_numbers(column, where)
        elif self.plain:
            raise DataError(
                f"every was given as a number, which needs a column of numbers, but {self.name!r} "
                f"holds {column.dtype} in {where(0)}. Give a duration such as every='1d'."
            )
        elif column.dtype == pl.Date:
            self._expect("date", where)
            column = column.cast(pl.Int64) * DAY
        elif column.dtype == pl.Datetime:
            own = column.dtype.time_zone  # type: ignore[attr-defined]
            if own is not None and self.zone is None:
                self.zone = own
            self._expect("instant" if own or self.given_zone else "local", where)
            column = column.dt.cast_time_unit("us").to_physical()
        else:
            raise DataError(
                f"Column {self.name!r} must hold times, dates, ISO text or seconds since 1970, but "
                f"it holds {column.dtype} in {where(0)}. Choose another column, or convert it."
            )
        valid = column.is_not_null().to_numpy() if column.null_count() else None
        ticks = column.fill_null(0).to_numpy()
        if not self.plain and len(ticks) and (ticks.min() < _FIRST or ticks.max() > _LAST):
            row = int(np.flatnonzero((ticks < _FIRST) | (ticks > _LAST))[0])
            raise DataError(
                f"Times must lie in the years 1 to 9999, but {where(row)} has {ticks[row]:,} "
                f"microseconds since 1970 in {self.name!r}. Correct it, or give time_unit=..."
            )
        return ticks, valid

    def wall(self, ticks: Ticks) -> Ticks:
        """Ticks as the clock on the wall shows them."""
        if self.kind != "instant" or self.zone in (None, "UTC") or not len(ticks):
            return ticks
        if self._last[0] is not ticks:  # bins and modes ask for the same ones
            self._last = ticks, wall(ticks, str(self.zone))
        return self._last[1]

    def __getstate__(self) -> dict[str, Any]:
        # What was asked for last is of no use to another process, and long.
        return {**vars(self), "_last": (None, np.empty(0, dtype=np.int64))}

    def state(self) -> dict[str, Any]:
        """What must be remembered to read tomorrow's files the same way."""
        found = {} if self._found is None else {"layout": self._found}
        return {"kind": self.kind, "zone": self.zone, "unit": self.unit, **found}

    def restore(self, state: dict[str, Any]) -> None:
        self.kind, self.zone, self.unit = state["kind"], state["zone"], state["unit"]
        self._found = state.get("layout")

    def _expect(self, kind: Kind, where: Callable[[int], str]) -> None:
        known = self.kind
        if known is None or {known, kind} == {"date", "local"}:
            # A date among times without a zone is its midnight.
            self.kind = kind if known in (None, kind) else "local"
        elif known != kind:
            raise DataError(
                f"Column {self.name!r} must hold one kind of time, but it has {_KINDS[kind]} from "
                f"{where(0)} on and {_KINDS[known]} before. Write all of them the same way."
            )

    def _from_numbers(self, column: pl.Series, where: Callable[[int], str]) -> pl.Series:
        """Microseconds since 1970, or the numbers themselves."""
        import polars as pl

        if column.dtype.is_float():
            column = column.fill_nan(None)
            infinite = column.is_infinite().fill_null(value=False)
            if infinite.any():
                raise DataError(
                    f"Times must be finite, but {where(int(infinite.arg_max() or 0))} has infinity "
                    f"in {self.name!r}. Correct it or leave the row out."
                )
        if self.plain:
            if column.dtype.is_float() and not (column == column.round()).all():
                row = int((column != column.round()).arg_max() or 0)
                raise DataError(
                    f"every was given as a number, which needs whole numbers, but {where(row)} has "
                    f"{column[row]} in {self.name!r}. Round them first."
                )
            self._expect("number", where)
            return column.cast(pl.Int64)
        if column.null_count() == len(column):
            return column.cast(pl.Int64)
        if self.unit is None:
            self.unit = self._guessed_unit(column, where)
        calendar: Kind = "instant" if self.given_zone else "local"
        self._expect("date" if self.unit == "y" else calendar, where)
        if self.unit == "y":
            return self._from_years(column, where)
        if self.unit == "ns" and not column.dtype.is_float():
            return column.cast(pl.Int64) // 1000
        if self.unit == "ns":
            scaled = (
                (column / 1000.0).floor().clip(-(2.0**62), 2.0**62)
            )  # refused with the row later
            return scaled.cast(pl.Int64)
        scaled = column.cast(pl.Float64) * _UNITS[self.unit]
        if (scaled.abs() > 2.0**62).any():
            return scaled.clip(-(2.0**62), 2.0**62).cast(pl.Int64)  # refused with the row later
        if column.dtype.is_float():
            return scaled.round().cast(pl.Int64)
        return column.cast(pl.Int64) * _UNITS[self.unit]

    def _from_years(self, column: pl.Series, where: Callable[[int], str]) -> pl.Series:
        """The first of January of each year."""
        import polars as pl

        wrong = ((column < 1) | (column > 9999) | (column != column.round())).fill_null(value=False)
        if wrong.any():
            row = int(wrong.arg_max() or 0)
            raise DataError(
                f"Years must be whole numbers from 1 to 9999, but {where(row)} has {column[row]} "
                f"in {self.name!r}. Correct it, or give time_unit=... if it counts from 1970."
            )
        years = column.fill_null(1970).cast(pl.Int64).to_numpy() - 1970
        ticks = pl.Series(column.name, years.astype("M8[Y]").astype("M8[us]").astype(np.int64))
        return ticks.set(column.is_null(), None) if column.null_count() else ticks

    def _guessed_unit(self, column: pl.Series, where: Callable[[int], str]) -> str:
        largest = float(column.abs().max())  # type: ignore[arg-type]
        if layout := calendar_digits(column):
            example = f"{column.drop_nulls()[0]:.0f}"
            raise DataError(
                f"Numbers in a time column are counted from 1970, but those of {self.name!r} read "
                f"like dates written without separators: {where(0)} has {example}. "
                f"Give time_format='{layout}' if they are, or time_unit='s' (or 'ms', ...) if not."
            )
        # A calendar's years; a count of days or seconds hardly keeps to so narrow a range.
        if ((column >= 1000) & (column < 3000) & (column == column.round())).all():
            return "y"
        if largest < 1e8:
            raise DataError(
                f"Numbers in a time column must be seconds, milliseconds, microseconds or "
                f"nanoseconds since 1970, but {self.name!r} has none above {largest:,.0f} in the "
                f"rows from {where(0)} on. Give time_unit='d' (or 's', ...) if it counts days (or "
                "seconds), or a number such as every=1 to use it as it is."
            )
        limits = {"s": 1e11, "ms": 1e14, "us": 1e17}
        return next((unit for unit, limit in limits.items() if largest < limit), "ns")

    def _from_text(self, column: pl.Series, where: Callable[[int], str]) -> pl.Series:
        """Text as numbers, dates or times."""
        import polars as pl

        column = known(column)
        if column.null_count() == len(column):
            return column.cast(pl.Int64)
        first = str(column.drop_nulls()[0])
        counted = re.fullmatch(r"-?\d{9,}(\.\d+)?", first) or re.fullmatch(r"[12]\d{3}", first)
        numeric = counted or self.plain or self.unit
        if numeric and self.layout is None:
            whole = column.cast(pl.Int64, strict=False)
            read = whole
            if whole.null_count() > column.null_count():
                read = column.cast(pl.Float64, strict=False)
        else:
            read = with_ends_of_days(column, lambda plain: self._parsed(plain, where))
        lost = read.is_null() & column.is_not_null()
        if lost.any():
            row = int(lost.arg_max() or 0)
            layout = self.layout or self._found
            wanted = f"times written as {layout}" if layout else "dates or times"
            wanted = "numbers" if numeric and layout is None else wanted
            raise DataError(
                f"Column {self.name!r} must hold {wanted}, but {where(row)} has {column[row]!r}. "
                f"{_advice(str(column[row]), layout)}"
            )
        return read

    def _parsed(self, column: pl.Series, where: Callable[[int], str]) -> pl.Series:
        import polars as pl

        first = str(column.drop_nulls()[0])
        layout = self.layout or self._found
        if layout is not None:
            try:
                return read_as(column, layout)
            except pl.exceptions.PolarsError as error:
                raise DataError(
                    f"time_format must be a format such as '%d/%m/%Y %H:%M', but is "
                    f"{self.layout!r}: {error}. Correct it."
                ) from error
        shape = _ISO.fullmatch(first)
        if shape is not None and shape[1] is None:
            read = column.str.to_date("%Y-%m-%d", strict=False)
        elif shape is not None:
            seconds = "" if shape[2] is None else ":%S%.f"
            offset = {None: "", "Z": "Z"}.get(shape[3], "%z")
            pattern = f"%Y-%m-%d{shape[1]}%H:%M{seconds}{offset}"
            read = column.str.to_datetime(pattern, time_unit="us", strict=False)
            if shape[3] is not None:
                read = read.dt.replace_time_zone("UTC")
        else:
            read = pl.Series([None] * len(column), dtype=pl.Datetime("us"))
        lost = read.is_null() & column.is_not_null()
        if not lost.any():
            return read
        layout = None if shape else self._recognised(column, where)
        read = self._one_by_one(column, where) if layout is None else read_as(column, layout)
        if read.null_count() == column.null_count() or shape:
            self._found = layout
            return read
        # So that the row that is written otherwise than the first is the one that is named.
        self._found = next(iter(layouts_of(first)), None)
        return read if self._found is None else read_as(column, self._found)

    def _recognised(self, column: pl.Series, where: Callable[[int], str]) -> str | None:
        """The one format in which all texts can be read."""
        layouts = fitting(column)
        if len(layouts) > 1:
            row = int(column.is_not_null().arg_max() or 0)
            both = " or ".join(f"time_format={layout!r}" for layout in layouts)
            raise AmbiguousDatesError(
                f"Dates must be written so that they mean one day only, but in {self.name!r} all "
                f"can mean several; {where(row)} has {column[row]!r}. Give {both}."
            )
        return layouts[0] if layouts else None

    def _one_by_one(self, column: pl.Series, where: Callable[[int], str]) -> pl.Series:
        """ISO times that are not all written alike."""
        import polars as pl

        texts = column.unique().drop_nulls().to_list()
        times: dict[str, datetime.datetime] = {}
        for text in texts:
            try:
                times[text] = datetime.datetime.fromisoformat(text)
            except ValueError:
                continue
        aware = [text for text, time in times.items() if time.tzinfo is not None]
        if aware and len(aware) < len(times):
            row = int((column == aware[0]).fill_null(value=False).arg_max() or 0)
            raise DataError(
                f"Times in {self.name!r} must all have a zone or all have none, but {where(row)} "
                f"has {aware[0]!r} and others have none. Write all of them the same way."
            )
        if aware:
            times = {text: time.astimezone(datetime.UTC) for text, time in times.items()}
        numbers = {
            text: (time.replace(tzinfo=None) - EPOCH) // datetime.timedelta(microseconds=1)
            for text, time in times.items()
        }
        dates = bool(numbers) and all(re.fullmatch(r"[\d-]{8,10}", text) for text in numbers)
        read = column.replace_strict(
            list(numbers), list(numbers.values()), default=None, return_dtype=pl.Int64
        )
        if dates:
            return (read // DAY).cast(pl.Int32).cast(pl.Date)
        return read.cast(pl.Datetime("us", "UTC" if aware else None))


def _advice(text: str, tried: str | None) -> str:
    """What to do about a text that is no time, as far as it tells."""
    import polars as pl

    layouts = [layout for layout in fitting(pl.Series([text])) if layout != tried]
    if not layouts:
        return (
            "Correct it, or leave it empty where it is unknown; choose another column, or give "
            "time_format=... with %Y, %m, %d, %H, %M and %S where year, month, day, hour, minute "
            "and second stand."
        )
    formats = " or ".join(f"time_format={layout!r}" for layout in layouts)
    return f"Write all of them the same way, or give {formats} if they are written like this one."


def calendar_digits(column: pl.Series) -> str | None:
    """The format of numbers such as 20240101 or 20240101123000, if all of them are like that.

    Examples
    --------
    >>> import polars as pl
    >>> [calendar_digits(pl.Series([202412, n])) for n in (202501, 202452, 202499)]
    ['%Y%m', '%G%V', None]
    >>> calendar_digits(pl.Series([20240131, 20240201]))
    '%Y%m%d'
    """
    import polars as pl

    numbers = column.drop_nulls()
    if numbers.dtype.is_float() and not bool((numbers == numbers.round()).all()):
        return None
    digits = numbers.cast(pl.Int64, strict=False).cast(pl.String)
    for layout, pattern in _DIGITS.items():
        if bool(digits.str.contains(f"^{pattern}$").fill_null(value=False).all()):
            return layout
    return None
