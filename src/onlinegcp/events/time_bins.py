"""Time bins: which bin a moment falls into, which bin follows, and when a bin starts.

A bin is known by its key, an integer that grows with time. Days, weeks and months are those of the
local calendar; shorter bins count elapsed time from local midnight, so that a day on which clocks
change has 23 or 25 bins of an hour.
"""

from __future__ import annotations

import datetime
import functools
import re
import zoneinfo
from typing import Any, final

import numpy as np

from onlinegcp.errors import DataError
from onlinegcp.events.time_column import TimeColumn
from onlinegcp.events.wall_clock import DAY, EPOCH, SECOND, Ticks, zone_of

_TICKS = {"h": 3600 * SECOND, "m": 60 * SECOND, "s": SECOND, "ms": SECOND // 1000}


@final
class TimeBins:
    """Bins of equal length in calendar time.

    Parameters
    ----------
    every
        A number and a unit: ms, s, m, h (which must divide a day), d, w (from Monday), mo, q, y,
        such as "15m" or "1mo"; or a whole number for a column of plain numbers.
    column
        The time column that gives the ticks.

    Examples
    --------
    >>> TimeBins("1w", TimeColumn("t")).time(0)
    datetime.date(1970, 1, 5)
    """

    def __init__(self, every: str | int | datetime.timedelta, column: TimeColumn) -> None:
        self.column = column
        self.unit, self.length = parse_every(every)

    @property
    def every(self) -> str:
        """The length in one spelling, however it was given."""
        if self.unit == "number":
            return str(self.length)
        if self.unit == "tick":
            unit = next(name for name, n in _TICKS.items() if self.length % n == 0)
            return f"{self.length // _TICKS[unit]}{unit}"
        return str(self.length) + {"day": "d", "week": "w", "month": "mo"}[self.unit]

    @property
    def usual_gap(self) -> int:
        """Empty bins in a row that are nothing to wonder at: a week of short ones, and 100."""
        return max(100, 7 * DAY // max(self.length, SECOND)) if self.unit == "tick" else 100

    def keys(self, ticks: Ticks) -> Ticks:
        """The bin of every tick."""
        if self.unit == "number":
            return ticks // self.length
        if self.unit == "tick":
            return self._starts(ticks)
        wall = self.column.wall(ticks)
        if self.unit == "month":
            return wall.view("M8[us]").astype("M8[M]").view(np.int64) // self.length
        days = wall // DAY
        if self.unit == "week":
            return (days - 4) // (7 * self.length)  # day 4 was the first Monday of 1970
        return days // self.length if self.length > 1 else days

    def after(self, key: int) -> int:
        """The bin that follows."""
        if self.unit != "tick":
            return key + 1
        zone = self._zone()
        if zone is None:
            return key + self.length
        day = _local(key, zone).date().toordinal()
        while (midnight := _midnight(day + 1, zone)) <= key:
            day += 1
        return min(key + self.length, midnight)

    def between(self, first: int, second: int) -> int:
        """About how many bins lie from one to the other."""
        return (second - first) // (self.length if self.unit == "tick" else 1)

    def time(self, key: int) -> Any:
        """When the bin starts: a date for whole days, else a datetime, or a plain number."""
        if self.unit == "number":
            return key * self.length
        if self.unit == "tick":
            start = EPOCH + datetime.timedelta(microseconds=key)
            if self.column.kind != "instant":
                return start
            # With its offset only: in one zone, Python takes 1:00 and 1:00 an hour later for equal.
            local = _local(key, zone_of(self.column.zone or "UTC"))
            return local.replace(
                tzinfo=datetime.timezone(local.utcoffset() or datetime.timedelta())
            )
        if self.unit == "month":
            months = max(key * self.length, -1969 * 12)  # calendars begin with the year 1
            return datetime.date(1970 + months // 12, months % 12 + 1, 1)
        days = key * self.length if self.unit == "day" else key * 7 * self.length + 4
        return EPOCH.date() + datetime.timedelta(days=days)

    def ticks(self, limit: Any, name: str) -> int:
        """A limit given by the user (text, date, datetime or number) on the scale of the ticks."""
        if self.unit == "number":
            if isinstance(limit, (int, np.integer)) and not isinstance(limit, bool):
                return int(limit)
            raise DataError(
                f"{name} must be a whole number, as every is one, but is {limit!r}. Give a number."
            )
        try:
            given = str(limit) if isinstance(limit, np.datetime64) else limit
            if isinstance(given, str):
                given = datetime.datetime.fromisoformat(given.strip())
            if not isinstance(given, datetime.datetime):
                given = datetime.datetime(given.year, given.month, given.day)
        except (ValueError, AttributeError, TypeError) as error:
            raise DataError(
                f"{name} must be a date or a time, but is {limit!r}. Write it as 2018-01-31 or "
                "2018-01-31T06:00."
            ) from error
        if self.column.kind == "instant":
            zone = zone_of(self.column.zone or "UTC")
            aware = given if given.tzinfo is not None else given.replace(tzinfo=zone)
            given = aware.astimezone(datetime.UTC)
        return (given.replace(tzinfo=None) - EPOCH) // datetime.timedelta(microseconds=1)

    def _zone(self) -> zoneinfo.ZoneInfo | None:
        """The zone, if its clocks may differ from the ticks."""
        if self.column.kind != "instant" or self.column.zone in (None, "UTC"):
            return None
        return zone_of(str(self.column.zone))

    def _starts(self, ticks: Ticks) -> Ticks:
        zone = self._zone()
        if zone is None:
            return ticks // self.length * self.length
        if not len(ticks):
            return ticks
        days = self.column.wall(ticks) // DAY
        first, last = int(days.min()), int(days.max())
        if last - first < max(len(days), 1000):
            present, which = np.arange(first, last + 1), days - first
        else:
            present, which = np.unique(days, return_inverse=True)
        ordinals = (present + EPOCH.toordinal()).tolist()
        start = np.array([_midnight(day, zone) for day in ordinals], dtype=np.int64)[which]
        return start + (ticks - start) // self.length * self.length


def parse_every(every: Any) -> tuple[str, int]:
    """Unit and length of time bins: ("number", n), ("tick", microseconds), ("day", n), ...

    Examples
    --------
    >>> parse_every("15m"), parse_every("1q"), parse_every(7)
    (('tick', 900000000), ('month', 3), ('number', 7))
    """
    if isinstance(every, datetime.timedelta):
        seconds = every.total_seconds()
        days = seconds / 86_400
        thousandths, rest = divmod(every, datetime.timedelta(milliseconds=1))
        fine = f"{seconds:g}s" if rest or seconds.is_integer() else f"{thousandths}ms"
        every = f"{days:.0f}d" if days >= 1 and days.is_integer() else fine
    if isinstance(every, str) and every.strip().isdecimal():
        every = int(every)
    if isinstance(every, (int, np.integer)) and not isinstance(every, bool) and every > 0:
        return "number", int(every)
    found = re.fullmatch(r"\s*(\d*)\s*([a-z]+)\s*", every) if isinstance(every, str) else None
    count = int(found[1] or 1) if found else 0
    ticks = _TICKS | {"min": _TICKS["m"]}
    unit = found[2] if found else ""
    if count and unit in ticks:
        length = count * ticks[unit]
        if DAY % length == 0:
            return ("day", 1) if length == DAY else ("tick", length)
        raise DataError(
            f"Bins shorter than a day must divide it, but every={every!r} does not. Use 1, 2, 3, "
            "4, 6, 8 or 12 hours, or a number of minutes that divides an hour, or days as '2d'."
        )
    calendar = {"d": ("day", 1), "w": ("week", 1), "mo": ("month", 1), "q": ("month", 3)}
    calendar["y"] = ("month", 12)
    if count and unit in calendar and count < 100_000:
        name, factor = calendar[unit]
        return name, count * factor
    raise DataError(
        f"every must be a number and a unit out of ms, s, m, h, d, w, mo, q, y, but is {every!r}. "
        "Write for example '1d', '1h', '15m', '1w' or '1mo'."
    )


def _local(tick: int, zone: zoneinfo.ZoneInfo) -> datetime.datetime:
    instant = EPOCH.replace(tzinfo=datetime.UTC) + datetime.timedelta(microseconds=tick)
    try:
        return instant.astimezone(zone)
    except OverflowError:  # on the first or last day of the calendar
        return instant


@functools.lru_cache(maxsize=4096)
def _midnight(ordinal: int, zone: zoneinfo.ZoneInfo) -> int:
    """The first instant of a local day, in ticks."""
    if not 2 < ordinal < datetime.date.max.toordinal():  # where no zone can be asked
        return (ordinal - EPOCH.toordinal()) * DAY
    start = datetime.datetime.fromordinal(ordinal)
    offset = start.replace(tzinfo=zone).utcoffset() or datetime.timedelta()
    tick = (start - EPOCH - offset) // datetime.timedelta(microseconds=1)
    if _local(tick, zone).replace(tzinfo=None) == start:
        return tick
    # Clocks jump over midnight there (Beirut, Asunción): the day starts where they land.
    early, late = (tick - DAY) // SECOND, -(-tick // SECOND)
    while late - early > 1:
        middle = (early + late) // 2
        if _local(middle * SECOND, zone).date().toordinal() >= ordinal:
            late = middle
        else:
            early = middle
    return late * SECOND
