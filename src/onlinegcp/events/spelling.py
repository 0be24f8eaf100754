"""Spellings of dates and times: which format a text is written in.

A text is cut into words and numbers. A name of a month, a year of four digits and a clock leave
few numbers over, and what they mean follows from the order in which people write dates. Where two
orders are possible, as in 03/04/2015, the whole column decides, or nobody.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from onlinegcp.events.around_dates import without_surroundings
from onlinegcp.events.words_in_dates import in_english

if TYPE_CHECKING:
    import polars as pl

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_FULL_MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
_FULL_DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_CLOCK = r"\d{1,2}:\d\d(?::\d\d(?:\.\d+|,(?:\d{9}|\d{6}|\d{3})(?!\d))?)?(?: ?[aApP][mM])?"
_PART = r"[qQ][1-4](?!\d)|[1-4][qQ]|[wWmM]\d\d?(?!\d)"  # of a year
_OFFSET = r"(?<=[\d ])([+-]\d\d:?\d\d)$"
_WORDS = re.compile(rf"({_CLOCK})|{_OFFSET}|({_PART})|([A-Za-z]+)|(\d+)|([^A-Za-z\d])")
_NO_DAY = re.compile(r"%[djeDFxcsu+]")
_ZERO = ("utc", "gmt", "z")  # names of the zone without an offset
_FIELD = re.compile(r"%[-_0]?[.\d]*[A-Za-z%]")
_END_OF_DAY = r"(^|[T ])24:00(:00(?:[.,]0+)?)?([^\d:]|$)"


def layouts_of(text: str) -> list[str]:
    """Formats in which a text can be read as a date or time; the likeliest first.

    Examples
    --------
    >>> layouts_of("Jan 1 2000"), layouts_of("2015/01/01 01:00:00")
    (['%B %d %Y'], ['%Y/%m/%d %H:%M:%S'])
    >>> layouts_of("03/04/2015"), layouts_of("flight 12")
    (['%m/%d/%Y', '%d/%m/%Y'], [])
    >>> layouts_of("3. März 2023"), layouts_of("FY24 Q1"), layouts_of("1Q 2024")
    (['%d. %B %Y'], ['FY%y Q%q'], ['%qQ %Y'])
    """
    import polars as pl

    text = str(in_english(without_surroundings(pl.Series([text])))[0])
    pattern: list[str] = []
    numbers: list[tuple[int, str]] = []  # place in the pattern, and digits
    seen = {"month": False, "year": False, "clock": False}
    fiscal = False
    for clock, offset, part, word, digits, mark in _WORDS.findall(text.strip()):
        name = word.lower()
        if clock and not seen["clock"]:
            seen["clock"] = True
            pattern.append(_clock(clock))
        elif name in _ZERO and seen["clock"]:
            pattern.append(word)
        elif part and not seen["month"] and ({*part} & {*"qQ"} or "%Y" in pattern):
            seen["month"] = True
            if part[0] in "wW":  # weeks belong to years of their own
                pattern[pattern.index("%Y")] = "%G"
            field = "%V" if part[0] in "wW" else "%m" if part[0] in "mM" else "%q"
            pattern += [field, part[1]] if part[0].isdigit() else [part[0], field]
        elif offset and seen["clock"]:
            pattern.append("%z")
        elif offset and not seen["year"] and ":" not in offset:  # 31-12-2021
            seen["year"] = True
            pattern += [offset[0], "%Y"]
        elif name in _MONTHS + _FULL_MONTHS and not seen["month"]:
            seen["month"] = True
            pattern.append("%B")
        elif name in _DAYS + _FULL_DAYS:
            pattern.append("%a" if name in _DAYS else "%A")
        elif (name == "t" and pattern) or (name == "fy" and not seen["year"]):  # fiscal year
            pattern.append(word)
        elif len(digits) in (2, 4) and pattern and pattern[-1].lower() == "fy":
            seen["year"] = fiscal = True
            pattern.append("%y" if len(digits) == 2 else "%Y")
        elif len(digits) == 4 and not seen["year"]:
            seen["year"] = True
            pattern.append("%Y")
        elif len(digits) == 8 and not (numbers or seen["year"]):
            seen["year"] = seen["month"] = True
            pattern.append("%Y%m%d")
        elif len(digits) in (4, 6) and "%Y%m%d" in pattern and not seen["clock"]:
            seen["clock"] = True
            pattern.append("%H%M%S"[: len(digits)])
        elif 1 <= len(digits) <= 2 and len(numbers) < 3 and "%Y%m%d" not in pattern:
            numbers.append((len(pattern), digits))
            pattern.append("")
        elif mark:
            pattern.append(mark.replace("%", "%%"))
        else:
            return []
    if fiscal and not seen["month"]:
        return [] if numbers else ["".join(pattern)]
    return [
        "".join(_filled(pattern, numbers, parts))
        for parts in _orders(pattern, numbers, month=seen["month"], year=seen["year"])
        # A year has two digits at least: 1.4.2 is a version.
        if all(len(n) == 2 for (_, n), part in zip(numbers, parts, strict=False) if part == "%y")
    ]


def fitting(column: pl.Series) -> list[str]:
    """Formats in which every text of a column can be read.

    Parameters
    ----------
    column
        Texts; nulls do not count.
    """
    texts = column.drop_nulls().unique(maintain_order=True)
    if not len(texts):
        return []
    found = []
    for layout in layouts_of(str(texts[0])):
        read = functools.partial(read_as, layout=layout)
        if not with_ends_of_days(texts, read).null_count():
            found.append(layout)
    return found


def with_ends_of_days(column: pl.Series, read: Callable[[pl.Series], pl.Series]) -> pl.Series:
    """Times of texts some of which say 24:00, which is the first moment of the next day.

    Parameters
    ----------
    column
        Texts.
    read
        Reads those that do not.
    """
    import polars as pl

    late = column.str.contains(_END_OF_DAY)
    if not late.any():
        return read(column)
    times = read(column.str.replace(_END_OF_DAY, "${1}00:00${2}${3}"))
    next_day = pl.when(pl.lit(late)).then(pl.lit(times).dt.offset_by("1d")).otherwise(pl.lit(times))
    return pl.select(next_day.alias(column.name)).to_series()


def read_as(column: pl.Series, layout: str) -> pl.Series:
    """Times of texts in a format, null where they do not fit; dates if it has no clock.

    A format without a day, such as "%b %Y", means the first. "%q" is the number of a quarter.
    """
    import polars as pl

    if not layout.startswith("["):
        column = without_surroundings(column)
    if re.search("%[bBhp]", layout):
        column = in_english(column)
    if layout.endswith("%y"):  # 3.12.1 is a version, as 1.4.2 is
        texts = pl.lit(column)
        column = pl.select(pl.when(~texts.str.contains(r"\D\d$")).then(texts)).to_series()
    if "%q" in layout:
        for quarter in range(1, 5):
            written = f"{quarter}[qQ]" if re.search("%q[qQ]", layout) else f"[qQ]{quarter}"
            column = column.str.replace(written, f"Q{3 * quarter - 2:02d}")
        layout = re.sub("%q[qQ]|[qQ]%q", "Q%m", layout)
    if "%V" in layout and not _NO_DAY.search(layout):
        column, layout = column + " 1", layout + " %u"
    if not _NO_DAY.search(layout):
        column, layout = column + " 1", layout + " %d"
        if not re.search(r"%[mbBh]", layout):
            column, layout = column + " 1", layout + " %m"
    if re.search("%[HI]", layout) and "%M" not in layout:
        column, layout = column + " 00", layout + " %M"
    times = column.str.to_datetime(layout, time_unit="us", strict=False)
    if set(_ZERO) & set(re.findall("[a-z]+", _FIELD.sub(" ", layout).lower())):
        times = times.dt.replace_time_zone("UTC")
    clock = re.search(r"%[HIkljTRXcs+]", layout)
    return times if clock else times.dt.date()


def _clock(text: str) -> str:
    half = " %p" if " " in text else "%p"
    seconds = "%.f" if "." in text else ""
    if "," in text:
        seconds = f",%{len(text.rstrip('apmAPM ').split(',')[1])}f"
    seconds = ":%S" + seconds if text.count(":") == 2 else ""
    return f"%I:%M{seconds}{half}" if text[-1] in "mM" else f"%H:%M{seconds}"


def _orders(
    pattern: list[str], numbers: list[tuple[int, str]], *, month: bool, year: bool
) -> list[tuple[str, ...]]:
    """What the numbers may mean, in the order in which they stand."""
    if "%Y%m%d" in pattern:
        return [()]
    if month and year:
        return [()] if not numbers else [("%d",)] if len(numbers) == 1 else []
    if "%q" in pattern and len(numbers) == 1:  # Q1'24
        return [("%y",)]
    if month and len(numbers) == 1 and {"-", "'"} & set(pattern) and pattern[0] == "%B":
        return [("%y",)]  # Mar-24
    if month:  # 3-Mar-15
        return [("%d", "%y")] if len(numbers) == 2 else []
    if year and len(numbers) == 1:  # 2015-03 and 3/2015
        return [("%m",)]
    if year and len(numbers) == 2:
        if pattern.index("%Y") < numbers[0][0]:
            return [("%m", "%d")]
        # Whoever writes dots puts the day first.
        dots = "." in pattern
        return [("%d", "%m")] if dots else [("%m", "%d"), ("%d", "%m")]
    if len(numbers) == 3 and "." in pattern:
        return [("%d", "%m", "%y")]
    if len(numbers) == 3:
        return [("%m", "%d", "%y"), ("%d", "%m", "%y"), ("%y", "%m", "%d")]
    return []


def _filled(
    pattern: list[str], numbers: list[tuple[int, str]], parts: tuple[str, ...]
) -> list[str]:
    filled = list(pattern)
    for (place, _), part in zip(numbers, parts, strict=False):
        filled[place] = part
    return filled
