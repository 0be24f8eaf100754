"""What stands around dates, and is no part of them: brackets, ends of intervals, GMT before +2.

[05/Mar/2024:10:11:12 +0100]          web servers
01.03.2024 00:00 - 01.03.2024 01:00   power markets: it begins at the first
2024/03/05 8:42:23 PM GMT+1           forms and browsers
Tue, 05 Mar 2024 10:11:12 -0800 (PST) mail
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

_BETWEEN = (" - ", " – ", " — ", " to ", " bis ", "--", "/")
_SHORTEST = 8  # characters of a date; what is shorter on both sides of a stroke is part of one
_NAME_OF_ZONE = r"(\d)\s*\([A-Za-z ]+\)$"
_GMT = r"(?i) ?(?:GMT|UTC) ?([+-])"
_OFFSETS = (  # as they are written, and with two digits for hours and for minutes
    (_GMT + r"(\d):?(\d\d)$", " ${1}0${2}:${3}"),
    (_GMT + r"(\d\d):?(\d\d)$", " ${1}${2}:${3}"),
    (_GMT + r"(\d)$", " ${1}0${2}:00"),
    (_GMT + r"(\d\d)$", " ${1}${2}:00"),
)


def without_surroundings(texts: pl.Series) -> pl.Series:
    """Dates alone; the first text tells what stands around them.

    Parameters
    ----------
    texts
        Dates as they are written; nulls stay.

    Examples
    --------
    >>> import polars as pl
    >>> def first(text):
    ...     return without_surroundings(pl.Series([text]))[0]
    >>> first("[05/Mar/2024:10:11:12 +0100]")
    '05/Mar/2024:10:11:12 +0100'
    >>> first("01.03.2024 00:00 - 01.03.2024 01:00"), first("2024-03-01T00:00Z/2024-03-01T01:00Z")
    ('01.03.2024 00:00', '2024-03-01T00:00Z')
    >>> first("2024/03/05 8:42:23 PM GMT+1"), first("Mar 05 2024 10:11 UTC-0330")
    ('2024/03/05 8:42:23 PM +01:00', 'Mar 05 2024 10:11 -03:30')
    >>> first("Mar 05 2024 10:11 GMT+0530 (India Standard Time)"), first("03/04/2024")
    ('Mar 05 2024 10:11 +05:30', '03/04/2024')
    """
    known = texts.drop_nulls()
    if not len(known):
        return texts
    one = str(known[0])
    if one.startswith("[") and one.endswith("]"):
        texts = texts.str.replace(r"^\[(.*)\]$", "${1}")
        one = one[1:-1]
    if re.search(_NAME_OF_ZONE, one):
        texts = texts.str.replace(_NAME_OF_ZONE, "${1}")
        one = re.sub(_NAME_OF_ZONE, r"\1", one)
    if (between := _of_interval(one)) is not None:
        texts = texts.str.splitn(between, 2).struct.field("field_0")
    for written, plain in _OFFSETS:
        if re.search(written, one):
            return texts.str.replace(written, plain)
    return texts


def _of_interval(text: str) -> str | None:
    """What stands between the two ends of an interval, which are written alike."""
    for between in _BETWEEN:
        ends = text.split(between)
        if len(ends) == 2 and len(ends[0]) >= _SHORTEST:
            first, last = (re.sub(r"\d", "0", end) for end in ends)
            if first == last:
                return between
    return None
