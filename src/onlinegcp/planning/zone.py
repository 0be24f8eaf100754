"""Whose clock times with an offset were written by: a place whose clocks had those offsets then.

09:00+02:00 is nine in the morning for whoever wrote it; as UTC it would be seven, and eight in
winter, so that each change of the clocks looked like a change of habits.
"""

from __future__ import annotations

import datetime
import functools
import zoneinfo
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from onlinegcp.events.around_dates import without_surroundings
from onlinegcp.events.time_column import Ticks, TimeColumn
from onlinegcp.events.wall_clock import EPOCH, zone_of
from onlinegcp.planning.columns import Column
from onlinegcp.planning.when import When

_HOUR = 3_600_000_000
_OFFSET = r"([+-]\d\d):?(\d\d)$"
# Asked first, so that the name is one that people know; others may have the same clocks.
_KNOWN = (
    *("Europe/Berlin", "Europe/London", "America/New_York", "America/Chicago", "America/Denver"),
    *("America/Los_Angeles", "Europe/Helsinki", "Australia/Sydney", "Pacific/Auckland"),
)


def as_written(when: When, column: Column) -> tuple[When, str | None]:
    """The time column by the clock it was written by, and the zone of that clock, if there is one.

    Parameters
    ----------
    when
        The time column; texts with an offset were read as UTC.
    column
        The same, with its rows as they stand in the source.
    """
    offsets = _offsets(column, when)
    if offsets is None or not offsets.any():
        return when, None
    if (offsets == offsets[0]).all():
        shown = _shown(int(offsets[0]))
        zone, told = _fixed(int(offsets[0])), f"by the clock it was written by, {shown}"
        otherwise = f"in UTC, though written in {shown}: --timezone names a place"
    else:
        zone = _place(when, offsets)
        told = f"its offsets are those of {zone}, among others"
        otherwise = "in UTC, as its offsets are of no one place"
    if zone is None:
        return replace(when, reason=f"{when.reason}; {otherwise}"), None
    reader = TimeColumn(when.name, timezone=zone)
    reader.kind = "instant"
    return replace(when, ticks=reader.wall(when.ticks), reason=f"{when.reason}; {told}"), zone


def _offsets(column: Column, when: When) -> Ticks | None:
    """Minutes from UTC that each row writes; None unless all of them write some."""
    import polars as pl

    written = column.written
    if written.dtype != pl.String:
        return None
    written = without_surroundings(written.str.strip_chars())
    if not written.head(200).str.contains(_OFFSET + "|Z$").any():
        return None
    known = written.drop_nulls()
    if len(known) != len(when.ticks):
        return None
    hours = known.str.extract(_OFFSET, 1)
    minutes = known.str.extract(_OFFSET, 2).cast(pl.Int64)
    signs = pl.select(pl.when(hours.str.starts_with("-")).then(-1).otherwise(1)).to_series()
    found = hours.cast(pl.Int64) * 60 + signs * minutes
    return None if found.null_count() else np.asarray(found.to_numpy(), dtype=np.int64)


def _shown(minutes: int) -> str:
    return f"UTC{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


def _fixed(minutes: int) -> str | None:
    """The zone without changes that is so far from UTC; its name has the sign of the way back."""
    name = f"Etc/GMT{-minutes // 60:+d}"
    return name if minutes % 60 == 0 and name in zoneinfo.available_timezones() else None


def _place(when: When, offsets: Ticks) -> str | None:
    """A zone whose clocks had all of these offsets then."""
    # Clocks hardly change within an hour: one moment of each is enough.
    hours, rows = np.unique(when.ticks // _HOUR, return_index=True)
    if len(np.unique(np.stack([when.ticks // _HOUR, offsets]), axis=1).T) > len(hours):
        return None  # written at two places
    moments = [
        (EPOCH.replace(tzinfo=datetime.UTC) + datetime.timedelta(microseconds=tick), minutes)
        for tick, minutes in zip(when.ticks[rows].tolist(), offsets[rows].tolist(), strict=True)
    ]
    changes = [0, *(np.flatnonzero(np.diff(offsets[rows])) + 1)]
    first = [moments[at] for at in changes]  # settles most places at once
    return next((zone for zone in _zones() if _had(zone, first) and _had(zone, moments)), None)


def _zones() -> Iterable[str]:
    others = sorted(name for name in zoneinfo.available_timezones() if "/" in name)
    return dict.fromkeys([*_KNOWN, *others])


def _had(zone: str, moments: Iterable[tuple[datetime.datetime, int]]) -> bool:
    offset = functools.partial(_minutes, zone_of(zone))
    return all(offset(moment) == minutes for moment, minutes in moments)


def _minutes(zone: zoneinfo.ZoneInfo, moment: datetime.datetime) -> float:
    return (moment.astimezone(zone).utcoffset() or datetime.timedelta()).total_seconds() / 60
