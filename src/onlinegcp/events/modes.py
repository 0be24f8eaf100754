"""Modes of an event tensor: a column as it is, or a part of the day, week or year, or a range.

Two spellings mean the same: objects in Python, ``og.hour("pickup")``, and text without quotes or
brackets for a command line, ``pickup:hour``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, final

import numpy as np
import numpy.typing as npt

from onlinegcp.errors import DataError, closest
from onlinegcp.events.label_ids import Ids
from onlinegcp.events.vocabulary import number_text
from onlinegcp.events.wall_clock import DAY, SECOND, Ticks

if TYPE_CHECKING:
    pass

Derive = Literal["column", "hour", "weekday", "month", "bins"]

_CLOCK: dict[str, tuple[str, ...]] = {
    "hour": tuple(f"{hour:02}" for hour in range(24)),
    "weekday": ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"),
    # Not those of the calendar module, which change with the locale.
    "month": (
        *("Jan", "Feb", "Mar", "Apr", "May", "Jun"),
        *("Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
    ),
}
_EXAMPLE = "Write pu, pickup:hour, pickup:weekday, pickup:month or fare:bins=0/5/10/20."


@final
@dataclass(frozen=True)
class Mode:
    """One mode and the column it comes from; made by `hour`, `weekday`, `month`, `bins`, `column`.

    Attributes
    ----------
    source
        Name of the column.
    derive
        "column" (its values are the labels), "hour", "weekday", "month" or "bins".
    name
        What the mode is called.
    edges
        Limits of the ranges, for "bins".

    Examples
    --------
    >>> hour("pickup").name, bins("fare", edges=[0, 2.5]).labels
    ('pickup:hour', ('<0', '0 to 2.5', '>=2.5'))
    """

    source: str
    derive: Derive
    name: str
    edges: tuple[float, ...] = ()

    @property
    def labels(self) -> tuple[str, ...] | None:
        """All labels where they are known beforehand; None for a column as it is."""
        if self.derive != "bins":
            return _CLOCK.get(self.derive)
        texts = [number_text(edge) for edge in self.edges]
        inner = [f"{low} to {high}" for low, high in itertools.pairwise(texts)]
        return (f"<{texts[0]}", *inner, f">={texts[-1]}")

    @property
    def of_time(self) -> bool:
        """Whether the mode reads a clock or a calendar."""
        return self.derive in _CLOCK

    def of_wall(self, wall: Ticks) -> Ids:
        """Codes from times as shown by the local clock, in microseconds since 1970."""
        if self.derive == "hour":
            return (wall // (3600 * SECOND)).astype(np.int32) % np.int32(24)
        if self.derive == "weekday":
            return ((wall // DAY + 3) % 7).astype(np.int32)  # 1970 began on a Thursday
        return (wall.view("M8[us]").astype("M8[M]").view(np.int64) % 12).astype(np.int32)

    def of_numbers(self, numbers: npt.NDArray[np.float64]) -> Ids:
        """Codes from numbers; NaN gives -1. A number on an edge belongs to the range above."""
        codes = np.searchsorted(np.array(self.edges), numbers, side="right").astype(np.int32)
        codes[np.isnan(numbers)] = -1
        return codes


def column(source: str, *, name: str | None = None) -> Mode:
    """The values of a column as labels.

    Examples
    --------
    >>> column("user", name="who").name
    'who'
    """
    return Mode(_named(source), "column", name or source)


def hour(source: str, *, name: str | None = None) -> Mode:
    """Hour of the day, "00" to "23", by the local clock; on a command line ``pickup:hour``.

    Examples
    --------
    >>> hour("pickup").labels[:3]
    ('00', '01', '02')
    """
    return Mode(_named(source), "hour", name or f"{source}:hour")


def weekday(source: str, *, name: str | None = None) -> Mode:
    """Day of the week, "Mon" to "Sun"; on a command line ``pickup:weekday``.

    Examples
    --------
    >>> weekday("pickup").labels[:3]
    ('Mon', 'Tue', 'Wed')
    """
    return Mode(_named(source), "weekday", name or f"{source}:weekday")


def month(source: str, *, name: str | None = None) -> Mode:
    """Month of the year, "Jan" to "Dec"; on a command line ``pickup:month``.

    Examples
    --------
    >>> month("pickup").labels[:3]
    ('Jan', 'Feb', 'Mar')
    """
    return Mode(_named(source), "month", name or f"{source}:month")


def bins(source: str, edges: Sequence[float], *, name: str | None = None) -> Mode:
    """Ranges of a number, one more than there are edges: the outer ones have no end.

    On a command line ``fare:bins=0/5/10/20``.

    Parameters
    ----------
    source
        Name of a column of numbers.
    edges
        Limits between the ranges, increasing; a number on a limit belongs to the range above.
    name
        What the mode is called.

    Examples
    --------
    >>> bins("fare", [5, 10]).labels
    ('<5', '5 to 10', '>=10')
    """
    try:
        limits = tuple(float(edge) for edge in edges)
    except (TypeError, ValueError):
        limits = ()
    increasing = all(low < high for low, high in itertools.pairwise(limits))
    if not limits or not increasing or not all(map(math.isfinite, limits)):
        raise DataError(
            f"The edges of bins must be increasing finite numbers, but for {source!r} they are "
            f"{edges!r}. Write for example edges=[0, 5, 10, 20], or fare:bins=0/5/10/20."
        )
    return Mode(_named(source), "bins", name or f"{source}:bins", limits)


_MAKERS: dict[str, Callable[..., Mode]] = {"hour": hour, "weekday": weekday, "month": month}


def parse_mode(given: Any, columns: Collection[str] = ()) -> Mode:
    """A mode from its command-line spelling; a `Mode` is returned as it is.

    Parameters
    ----------
    given
        ``pu``, ``pickup:hour``, ``fare:bins=0/5/10``, or a `Mode`.
    columns
        Names of columns, should one of them contain a colon.

    Examples
    --------
    >>> parse_mode("pickup:hour") == hour("pickup")
    True
    >>> parse_mode("fare:bins=0/5").labels
    ('<0', '0 to 5', '>=5')
    """
    if isinstance(given, Mode):
        return given
    if not isinstance(given, str) or not given.strip():
        raise DataError(
            f"A mode must be the name of a column or a Mode, but {given!r} was found. {_EXAMPLE}"
        )
    if given in columns or ":" not in given:
        return column(given)
    source, _, rule = given.rpartition(":")
    kind, equals, rest = rule.partition("=")
    if kind == "bins" and equals:
        try:
            edges = [float(edge) for edge in rest.split("/")]
        except ValueError:
            raise DataError(
                f"The edges of bins must be numbers with / between them, but {given!r} was found. "
                "Write for example fare:bins=0/5/10/20."
            ) from None
        return bins(source, edges)
    if kind in _MAKERS and not equals:
        return _MAKERS[kind](source)
    known = [*_MAKERS, "bins"]
    raise DataError(
        f"After the colon a mode must have one of {', '.join(known)}, but {given!r} was found."
        f"{closest(kind, known)} {_EXAMPLE}"
    )


def parse_share(given: str) -> tuple[str, ...]:
    """Modes that share one vocabulary, from their command-line spelling.

    Examples
    --------
    >>> parse_share("pu=do")
    ('pu', 'do')
    """
    names = tuple(name.strip() for name in given.split("="))
    if len(names) < 2 or not all(names):
        raise DataError(
            f"share must name at least two modes with = between them, but {given!r} was found. "
            "Write for example pu=do."
        )
    return names


def _named(source: Any) -> str:
    if isinstance(source, str) and source:
        return source
    raise DataError(f"A mode needs the name of a column, but {source!r} was found. {_EXAMPLE}")
