"""A moment as a database compares it with its time column."""

from __future__ import annotations

import datetime
import re
from typing import TYPE_CHECKING, final

from onlinegcp.errors import DataError
from onlinegcp.events.time_column import TimeColumn
from onlinegcp.events.wall_clock import DAY, EPOCH

if TYPE_CHECKING:
    import polars as pl

# Text that sorts as the times it stands for.
_SORTED = re.compile(r"\d{4}-\d{2}-\d{2}(?:([ T])\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?Z?)?")
_MICROSECONDS = {"d": DAY, "s": 1_000_000, "ms": 1000, "us": 1}


@final
class TimeLiteral:
    """Writes ticks as literals for one time column.

    Parameters
    ----------
    sample
        A time of the column, as it comes out of the database.
    clock
        Reads the column.
    name
        Of the database, for errors.
    """

    def __init__(self, sample: pl.Series, clock: TimeColumn, name: str) -> None:
        self._clock, self._dtype = clock, sample.dtype
        self._between = ""
        if sample.dtype.is_temporal():
            clock.read(sample, lambda _: f"the first row of {name}")  # its kind and its zone
        elif not sample.dtype.is_numeric():
            found = _SORTED.fullmatch(str(sample[0]))
            if found is None or clock.layout is not None:
                raise DataError(
                    f"A database must be able to sort its times, but column {sample.name!r} of "
                    f"{name} has {str(sample[0])!r}. Convert it in the query, as in "
                    f'"select cast({sample.name} as timestamp) as {sample.name}, ...".'
                )
            self._between = found[1] or ""

    @property
    def settled(self) -> bool:
        """Whether a literal can be written before a row has been read."""
        return self._dtype.is_temporal() or self._clock.plain or self._clock.kind is not None

    def of(self, tick: int) -> str:
        """A tick of the column; ISO text has the length it needs, and sorts before all later."""
        import polars as pl

        if self._clock.plain:
            return str(tick)
        moment = EPOCH + datetime.timedelta(microseconds=tick)
        if self._dtype == pl.Date:
            return f"date '{moment.date().isoformat()}'"
        if self._dtype.is_temporal():
            zoned = getattr(self._dtype, "time_zone", None) is not None
            if zoned:
                return f"cast('{moment.isoformat(' ')}+00' as timestamp with time zone)"
            return f"timestamp '{moment.isoformat(' ')}'"
        if self._dtype.is_numeric():
            return self._number(tick, moment)
        if moment.time() == datetime.time() or not self._between:
            return f"'{moment.date().isoformat()}'"
        return f"'{moment.isoformat(self._between, 'auto' if moment.second else 'minutes')}'"

    def _number(self, tick: int, moment: datetime.datetime) -> str:
        unit = self._clock.unit
        assert unit is not None, "it is known when a bin has been closed"
        if unit == "y":
            return str(moment.year)
        if unit == "ns":
            return str(tick * 1000)
        whole, rest = divmod(tick, _MICROSECONDS[unit])
        return str(whole) if not rest else repr(tick / _MICROSECONDS[unit])
