"""Words in dates as a format can read them: months of other languages, 5th, p.m.

Twelve names and their abbreviations each, for the languages in which a name means one month only:
listopad is October in one and November in the other. Abbreviations that are words of another kind
(set, out, mag) count with their point alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

# German, French, Spanish, Italian, Portuguese, Dutch, Swedish, Danish, Norwegian; and English
# abbreviations with a point.
_NAMES = {
    "January": "januar januari jänner janvier janv enero gennaio janeiro",
    "February": "februar februari février févr fév febrero febbraio fevereiro febr",
    "March": "märz mär mrz mars marzo março maart mrt marts",
    "April": "avril avr abril abr aprile",
    "May": "mai mayo maggio maio mei maj",
    "June": "juni juin junio giugno junho giu",
    "July": "juli juillet juil julio luglio julho",
    "August": "août aout agosto augustus augusti",
    "September": "septembre septiembre setiembre settembre setembro sept sett",
    "October": "oktober okt octobre octubre ottobre outubro",
    "November": "novembre noviembre novembro",
    "December": "dezember dez décembre déc diciembre dicembre dezembro desember",
}
_WITH_POINT = {
    "January": "jan ene gen",
    "February": "feb fev",
    "March": "mar",
    "April": "apr",
    "May": "mag",
    "June": "jun giu",
    "July": "jul lug",
    "August": "aug ago",
    "September": "sep set",
    "October": "oct ott out",
    "November": "nov",
    "December": "dec des dic",
}


def _pattern(month: str) -> str:
    words, pointed = ("|".join(names[month].split()) for names in (_NAMES, _WITH_POINT))
    return rf"(?:\b(?:{words})\b\.?|\b(?:{pointed})\.)"


_MONTHS = {month: "(?i)" + _pattern(month) for month in _NAMES}
_ORDINAL = r"(?i)\b(\d{1,2})(?:st|nd|rd|th)\b"
_HALF = r"(?i)\b([ap])\.m\."  # of a day
_ANY = "(?i)" + "|".join(map(_pattern, _NAMES))


def in_english(texts: pl.Series) -> pl.Series:
    """Dates with their words in plain English; what holds no others as it is.

    Examples
    --------
    >>> import polars as pl
    >>> in_english(pl.Series(["3. März 2023", "12 févr. 2023", "1 de mayo de 2023"])).to_list()
    ['3. March 2023', '12 February 2023', '1 May 2023']
    >>> in_english(pl.Series(["Sept. 3, 2023", "May 3, 2023", "Marseille"])).to_list()
    ['September 3, 2023', 'May 3, 2023', 'Marseille']
    >>> in_english(pl.Series(["5th March 2023, 3:05 p.m."])).to_list()
    ['5 March 2023, 3:05 pm']
    """
    if texts.str.contains(_ORDINAL).any():
        texts = texts.str.replace(_ORDINAL, "${1}")
    if texts.str.contains(_HALF).any():
        texts = texts.str.replace(_HALF, "${1}m")
    if not texts.str.contains(_ANY).any():
        return texts
    for month, names in _MONTHS.items():
        texts = texts.str.replace(names, month)
    # 3 de March de 2023
    return texts.str.replace(r"(\d) de ", "${1} ").str.replace(r" del? (\d)", " ${1}")
