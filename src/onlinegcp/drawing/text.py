"""Numbers, dates and lists as a person writes them."""

from __future__ import annotations

import datetime
import itertools
import math
import re
import unicodedata
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def number(value: float | None, digits: int = 3) -> str:
    """A number with that many significant digits and thousands apart.

    Examples
    --------
    >>> number(336776), number(0.01234), number(12.0), number(None), number(-1234.5)
    ('336,776', '0.0123', '12', 'unknown', '-1,234')
    """
    if value is None or not math.isfinite(value):
        return "unknown"
    if abs(value) >= 1000 or float(value).is_integer():
        return f"{value:,.0f}" if abs(value) < 1e15 else f"{value:.{digits - 1}e}"
    text = f"{value:.{digits}g}"
    if "e+" in text:  # 999.9 in three digits
        return f"{float(text):,.0f}"
    return text if "e" in text else text.rstrip("0").rstrip(".") if "." in text else text


def words_of(name: str) -> list[str]:
    """The words of a name, in small letters.

    Examples
    --------
    >>> words_of("pickupTime_UTC"), words_of("Quantité $")
    (['pickup', 'time', 'utc'], ['quantite'])
    """
    bare = unicodedata.normalize("NFKD", name)  # letters without what stands above them
    bare = "".join(mark for mark in bare if not unicodedata.combining(mark)).replace("_", " ")
    # PULocationID: a capital before a small letter begins a word, other capitals stay together.
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", bare)]


def signed(value: float, digits: int = 3) -> str:
    """A difference, with its sign.

    Examples
    --------
    >>> signed(16350.0), signed(-0.25)
    ('+16,350', '-0.25')
    """
    return f"+{number(value, digits)}" if value >= 0 else number(value, digits)


def percent(share: float | None) -> str:
    """A share as a percentage.

    Examples
    --------
    >>> percent(0.123), percent(0.004), percent(1), percent(0.0), percent(0.00001)
    ('12 %', '0.4 %', '100 %', '0 %', 'under 0.1 %')
    >>> percent(0.585), percent(0.58496)
    ('59 %', '59 %')
    """
    if share is None or not math.isfinite(share):
        return "unknown"
    # As pages have it, which are sent four digits and round halves up.
    value = 100 * float(f"{share:.4g}")
    if 0 < abs(value) < 0.1:
        return "under 0.1 %"
    if abs(value) > 1e6:
        return f"{value:,.0f} %"
    digits = "0.1" if 0 < abs(value) < 0.95 else "1"
    return f"{Decimal(value).quantize(Decimal(digits), ROUND_HALF_UP)} %"


_COUNTS = ("count", "counts", "n", "num", "number", "freq", "frequency", "value", "total")


def noun_for(unit: Any, value: Any) -> str:
    """The word for what is counted: the one given, the column that was summed, or events.

    Examples
    --------
    >>> noun_for(None, "Deaths"), noun_for("people", "count"), noun_for(None, "count")
    ('deaths', 'people', 'events')
    >>> noun_for(None, "num_patents"), noun_for(None, "number_of_bike_rides")
    ('patents', 'bike rides')
    """
    if isinstance(unit, str) and unit:
        return unit
    if not isinstance(value, str) or value.lower() in _COUNTS:
        return "events"
    said = re.sub(r"^(num|n|nb|no|number|count)_(of_)?(?=[^\W\d])", "", value).replace("_", " ")
    return said.lower() if said.istitle() else said


def say_mode(name: str) -> str:
    """The name of a mode as it is said before its labels.

    Examples
    --------
    >>> say_mode("device_id"), say_mode("primary_dx"), say_mode("Stop_Name"), say_mode("id")
    ('device', 'primary dx', 'Stop', 'id')
    """
    said = name.replace("_", " ").strip()
    return re.sub(r"(?i)(?<=\w) (id|name)$", "", said) or name


def capital(text: str) -> str:
    """A sentence with a capital, unless it begins with a name that is written otherwise.

    Examples
    --------
    >>> capital("to BOS and ORD"), capital("www.example.org"), capital("ann@example.org with bob")
    ('To BOS and ORD', 'www.example.org', 'ann@example.org with bob')
    """
    first = text.split(" ", 1)[0].rstrip(",.:;")
    return (
        text[:1].upper() + text[1:] if re.fullmatch(r"[^\W\d_]+\d*(-[^\W\d_]+)*", first) else text
    )


def and_list(words: Sequence[str]) -> str:
    """Words joined by commas and "and".

    Examples
    --------
    >>> and_list(["Boston", "Chicago", "Miami"]), and_list(["Boston"]), and_list([])
    ('Boston, Chicago and Miami', 'Boston', '')
    """
    if len(words) < 2:
        return "".join(words)
    return ", ".join(words[:-1]) + " and " + words[-1]


def plural(count: int, noun: str) -> str:
    """A count and its noun.

    Examples
    --------
    >>> plural(1, "slice"), plural(1200, "slice")
    ('1 slice', '1,200 slices')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def how_many(count: float, noun: str) -> str:
    """A count and a noun that is given as of many, as `noun_for` does.

    Examples
    --------
    >>> how_many(1, "events"), how_many(1200, "deaths"), how_many(1, "people"), how_many(1, "glass")
    ('1 event', '1,200 deaths', '1 people', '1 glass')
    """
    one = count == 1 and noun.endswith("s") and not noun.endswith("ss")
    return f"{number(count)} {noun[:-1] if one else noun}"


def parse_time(time: Any) -> datetime.datetime | None:
    """The time of a slice as a date and time of day, or None if it is neither.

    Examples
    --------
    >>> parse_time("2013-01-31"), parse_time("2013-01"), parse_time(7), parse_time("week 3")
    (datetime.datetime(2013, 1, 31, 0, 0), datetime.datetime(2013, 1, 1, 0, 0), None, None)
    """
    if not isinstance(time, str):
        return None
    try:
        # Without its zone: the calendar of the data is meant, and mixed offsets must compare.
        whole = f"{time}-01" if len(time) == 7 else time
        return datetime.datetime.fromisoformat(whole).replace(tzinfo=None)
    except ValueError:
        return None


def say_time(time: Any, interval: str = "") -> str:
    """The time of a slice in words.

    Parameters
    ----------
    time
        As its line has it.
    interval
        How far apart slices are, from `say_interval` or `interval_of`, where that is known: a month
        is told as a month, and not as its first day.

    Examples
    --------
    >>> say_time("2013-01-31"), say_time("2013-01-31T17:00:00"), say_time(7), say_time(None)
    ('31 January 2013', '31 January 2013, 17:00', '7', 'no time')
    >>> say_time("2013-01-31T00:00:00"), say_time("2013-01-31T00:00:00", "daily")
    ('31 January 2013, 00:00', '31 January 2013')
    >>> say_time("1992-11-01", "monthly"), say_time("1992-10-01", "quarterly")
    ('November 1992', '4th quarter of 1992')
    >>> say_time("2013-06-03", "weekly"), say_time("1992-01-01", "yearly")
    ('week of 3 June 2013', '1992')
    >>> say_time("2005-01-01", interval_of("5y")), say_time("2005-07-01", interval_of("6mo"))
    ('2005–2009', 'July 2005')
    >>> say_time("2013-01-31T17:00:00", interval_of("10s")), say_time("2013-01-31T17:00:00.25")
    ('31 January 2013, 17:00:00', '31 January 2013, 17:00:00.250')
    """
    moment = parse_time(time)
    if moment is None:
        return "no time" if time is None else str(time)
    month = f"{MONTHS[moment.month - 1]} {moment.year}"
    if interval == "yearly":
        return str(moment.year)
    if interval.endswith(_YEARS):
        return f"{moment.year}–{moment.year + int(interval.removesuffix(_YEARS)) - 1}"
    if interval == "quarterly":
        quarter = ("1st", "2nd", "3rd", "4th")[(moment.month - 1) // 3]
        return f"{quarter} quarter of {moment.year}"
    if interval == "monthly" or interval.endswith(_MONTHS):
        return month
    date = f"{moment.day} {month}"
    if interval == "weekly":
        return f"week of {date}"
    # Where others have a time of day, midnight is one, too.
    clock = len(time) > len("2013-01-31") and interval != "daily"
    if not clock and moment.time() == datetime.time():
        return date
    fine = "milliseconds" if moment.microsecond or interval == _FRACTIONS else "minutes"
    if fine == "minutes" and (moment.second or interval == _SECONDS):
        fine = "seconds"
    return f"{date}, {moment.time().isoformat(fine)}"


# How many of them; and how finely times are told where there is no word for how often they come.
_YEARS, _MONTHS, _SECONDS, _FRACTIONS = "-year", "-month", "in seconds", "in milliseconds"
_INTERVALS = {
    **{"1h": "hourly", "60m": "hourly", "1d": "daily", "24h": "daily", "1w": "weekly"},
    **{"7d": "weekly", "1mo": "monthly", "1q": "quarterly", "3mo": "quarterly"},
    **{"1y": "yearly", "12mo": "yearly", "4q": "yearly"},
}


def interval_of(every: Any) -> str:
    """The length of a time bin as `say_interval` calls it, or nothing.

    Examples
    --------
    >>> interval_of("1mo"), interval_of("15m"), interval_of(None), interval_of("5y")
    ('monthly', '', '', '5-year')
    """
    several = re.fullmatch(r"(\d+)(y|q|mo|s|ms)", str(every))
    if several is None or str(every) in _INTERVALS:
        return _INTERVALS.get(str(every), "")
    n, unit = int(several[1]), several[2]
    if unit in ("q", "mo"):
        return _of_months(n * (3 if unit == "q" else 1))
    return f"{n}{_YEARS}" if unit == "y" else _SECONDS if unit == "s" else _FRACTIONS


def _of_months(n: int) -> str:
    return f"{n // 12}{_YEARS}" if n % 12 == 0 else f"{n}{_MONTHS}"


def shown_modes(modes: Sequence[str]) -> tuple[str, ...]:
    """Names of modes for people: `hour`, not `pickup:hour`, unless two would be called alike.

    Examples
    --------
    >>> shown_modes(["pu", "pickup:hour", "fare:bins"])
    ('pu', 'hour', 'fare')
    >>> shown_modes(["pickup:hour", "dropoff:hour", "hour"])
    ('pickup hour', 'dropoff hour', 'hour')
    """
    parts = [str(mode).rpartition(":") for mode in modes]
    brief = [
        source if source and rule == "bins" else rule if rule in _DERIVED else str(mode)
        for mode, (source, _, rule) in zip(modes, parts, strict=True)
    ]
    return tuple(
        name if brief.count(name) == 1 else str(mode).replace(":", " ")
        for name, mode in zip(brief, modes, strict=True)
    )


_DERIVED = ("hour", "weekday", "month")


def say_interval(times: Sequence[Any]) -> str:
    """How far apart slices are: hourly, daily, weekly, monthly, quarterly, yearly, or nothing.

    Of several months or years each it says how many.

    Examples
    --------
    >>> say_interval(["2013-01-01", "2013-01-02", "2013-01-03"]), say_interval([1, 2])
    ('daily', '')
    >>> say_interval(["2010-01-01", "2014-01-01"]), say_interval(["2010-01-01", "2010-07-01"])
    ('4-year', '6-month')
    """
    moments = [moment for moment in map(parse_time, times) if moment is not None]
    gaps = sorted((b - a).total_seconds() / 3600 for a, b in itertools.pairwise(moments))
    if not gaps:
        return ""
    middle = gaps[len(gaps) // 2]
    for hours, name in ((1, "hourly"), (24, "daily"), (168, "weekly"), (8766, "yearly")):
        if 0.96 * hours <= middle <= 1.04 * hours:
            return name
    if 2140 <= middle <= 2240:
        return "quarterly"
    if 650 <= middle <= 760:
        return "monthly"
    months = round(middle / 730.5)
    firsts = all(m.day == 1 and m.time() == datetime.time() for m in moments)
    return _of_months(months) if firsts and months > 1 else ""
