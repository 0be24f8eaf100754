"""What people write where they know nothing: the one list of such words.

They stand for no number and for no time. As a label they are kept: NA may be Namibia.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

# Spreadsheets, R, SQL and statistics offices, in small letters.
_WORDS = [
    *("-", "--", "---", "–", "—", ".", "..", "...", "?"),
    *("na", "n/a", "#n/a", "n.a.", "n.a", "nan", "#nan", "nat"),
    *("null", "(null)", "\\n", "none", "nil"),
    *("missing", "unknown", "undefined"),
    *("#value!", "#ref!", "#div/0!"),
]


def stripped(text: pl.Series) -> pl.Series:
    """Text without blanks around it, null where nothing is left."""
    given = text.str.strip_chars()
    return given.set(given == "", None)


def known(text: pl.Series) -> pl.Series:
    """Text without blanks around it, null also where a word says that nothing is known.

    Examples
    --------
    >>> import polars as pl
    >>> known(pl.Series(["12", " N/A", "-", "-5", "", "Nan Bread"])).to_list()
    ['12', None, None, '-5', None, 'Nan Bread']
    """
    given = stripped(text)
    short = given.str.len_chars() <= max(map(len, _WORDS))
    if not short.any():
        return given
    return given.set(short & given.str.to_lowercase().is_in(_WORDS), None)
