"""What clocks on a wall show: times in UTC by the rules of a zone, of any year of the calendar."""

from __future__ import annotations

import calendar
import datetime
import functools
import zoneinfo

import numpy as np
import numpy.typing as npt

from onlinegcp.errors import DataError, closest

Ticks = npt.NDArray[np.int64]  # microseconds since 1970

SECOND = 1_000_000
DAY = 86_400 * SECOND
EPOCH = datetime.datetime(1970, 1, 1)
_MANY_YEARS = 64  # from which on only years that occur are asked for their clocks


def wall(ticks: Ticks, zone: str) -> Ticks:
    """Ticks of UTC, at least one, as the clocks of a zone show them."""
    # From Python's database, as the starts of days are: polars has one of its own, and of the
    # years before 1970 the two tell different stories.
    first, last = (np.array([ticks.min(), ticks.max()]).view("M8[us]")).astype("M8[Y]").view("i8")
    years = range(int(first), int(last) + 1)
    if len(years) > _MANY_YEARS:  # 31 December 9999 often stands for never
        years = np.unique(ticks.view("M8[us]").astype("M8[Y]").view("i8")).tolist()
    parts = [_offsets(zone, 1970 + year) for year in years]
    starts: Ticks = np.concatenate([part[0] for part in parts])
    offsets: Ticks = np.concatenate([part[1] for part in parts])
    found: Ticks = ticks + offsets[np.searchsorted(starts, ticks, side="right") - 1]
    return found


@functools.lru_cache(maxsize=4096)
def _offsets(zone: str, year: int) -> tuple[Ticks, Ticks]:
    """When clocks were set in a year of UTC, in ticks, and how far they are ahead from then on."""
    known = zone_of(zone)
    begin = (datetime.datetime(year, 1, 1) - EPOCH) // datetime.timedelta(seconds=1)
    days = 366 if calendar.isleap(year) else 365
    starts, offsets = [begin], [_ahead(begin, known)]
    for day in range(1, days + 1):
        late = begin + 86_400 * day - (day == days)  # the last second of the year at the end
        if _ahead(late, known) == offsets[-1]:
            continue
        early = begin + 86_400 * (day - 1)
        while late - early > 1:
            middle = (early + late) // 2
            early, late = (
                (middle, late) if _ahead(middle, known) == offsets[-1] else (early, middle)
            )
        starts.append(late)
        offsets.append(_ahead(late, known))
    return np.array(starts, dtype=np.int64) * SECOND, np.array(offsets, dtype=np.int64)


def _ahead(second: int, zone: zoneinfo.ZoneInfo) -> int:
    """How far local clocks are ahead of UTC, in ticks."""
    try:
        local = datetime.datetime.fromtimestamp(second, zone)
        return (local.utcoffset() or datetime.timedelta()) // datetime.timedelta(microseconds=1)
    except (OverflowError, ValueError, OSError):  # on the first or last day of the calendar
        return 0


@functools.lru_cache(maxsize=64)
def zone_of(name: str) -> zoneinfo.ZoneInfo:
    """The time zone of that name."""
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, TypeError, OSError) as error:
        raise DataError(
            f"timezone must be a name such as 'America/New_York' or 'UTC', but is {name!r}."
            f"{closest(str(name), zoneinfo.available_timezones())} Names of cities are in the "
            "IANA list."
        ) from error
