"""Logs: rows that are appended and read in order, each batch with its position.

The position is stored in the run together with what was learned, and given back when the run goes
on. So a kill neither loses a row nor repeats one, whatever the log itself remembers. The log hears
of a position only when it is stored.

`RedisStream` is one; Kafka and its relatives need an object with the two methods of `EventLog`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, final, runtime_checkable

from onlinegcp.events.in_memory import table_part
from onlinegcp.events.table_parts import Part, Tables
from onlinegcp.events.table_text import check_columns

if TYPE_CHECKING:
    import polars as pl

    from onlinegcp.events.rows import RowReader


@final
@dataclass(frozen=True)
class LogBatch:
    """Some rows of a log.

    Attributes
    ----------
    table : polars, pandas or Arrow table, or dict of columns
        The rows.
    position : callable
        The position after the first n rows, for n from 0 to their number: anything JSON can hold.

    Examples
    --------
    >>> batch = LogBatch({"t": ["2024-01-01", "2024-01-02"]}, lambda n: 100 + n)
    >>> batch.position(len(batch.table["t"]))
    102
    """

    table: Any
    position: Callable[[int], Any]


@runtime_checkable
class EventLog(Protocol):
    """What a log must be able to do to be a source of events.

    Attributes
    ----------
    name : str
        Names it in errors and in the run; without secrets, and never changing: its position is
        kept under it.

    Examples
    --------
    >>> from onlinegcp.events import from_events
    >>> class Clicks:
    ...     name = "clicks"
    ...     def read_after(self, position):
    ...         yield LogBatch({"t": ["2024-01-01", "2024-01-02"], "page": ["a", "b"]}, int)
    ...     def acknowledge(self, position):
    ...         pass
    >>> stream = from_events(Clicks(), time="t", every="1d", modes=["page"])
    >>> next(stream).total
    1.0
    """

    @property
    def name(self) -> str: ...

    def read_after(self, position: Any) -> Iterator[LogBatch]:
        """All batches after a position, or from the start if it is None.

        The iterator ends when there are no more rows, or waits for them.
        """
        ...

    def acknowledge(self, position: Any) -> None:
        """All rows up to a position are stored in the run and will never be asked for again."""
        ...


def is_log(source: Any) -> bool:
    """Whether an object is a log."""
    return not isinstance(source, type) and isinstance(source, EventLog)


def log_tables(log: EventLog) -> Tables:
    """A log as what `from_events` reads."""
    place = LogPlace(log)
    return Tables((Part(log.name, lambda: None, place.frames),), live=True, place=place)


@final
class LogPlace:
    """A log as a place; see `Place`."""

    keeps_open = True

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self.name = log.name
        self._key: int | None = None  # the bin that is being filled
        self._position: Any = None  # before its first row
        self._told: Any = None
        self._batch: LogBatch | None = None  # the last that was read
        self._first_row, self._next_row = 1, 1

    @property
    def described(self) -> dict[str, Any]:
        return {"kind": "log", "name": self.name}

    def continues(self, positions: Mapping[str, Any]) -> bool:
        return self.name in positions

    def begin(self, reader: RowReader, closed: int | None, position: Any) -> int:
        self._position = position
        return 0

    def frames(self, wanted: Sequence[str]) -> Iterator[pl.DataFrame]:
        import polars as pl

        new = self._position is None
        for batch in self._log.read_after(self._position):
            part = table_part(batch.table, self.name)
            known = part.columns() or []
            if new:  # later a row without some column is one with a null
                check_columns(wanted, known, self.name)
                new = False
            frames = list(part.frames(known))
            if not frames:
                continue
            frame = pl.concat(frames)
            absent = [pl.lit(None).alias(name) for name in wanted if name not in known]
            self._batch, self._first_row = batch, self._next_row
            self._next_row += frame.height
            yield frame.with_columns(absent).select(list(wanted))

    def reached(self, key: int, row: int, n_rows: int) -> None:
        if key != self._key:
            assert self._batch is not None
            self._key = key
            self._position = self._batch.position(row - self._first_row)

    def ended(self) -> None:
        if self._batch is not None:
            self._position = self._batch.position(self._next_row - self._first_row)

    def position(self, closed: int | None) -> Any:
        self._told = self._position
        return self._told

    def stored(self) -> None:
        if self._told is not None:
            self._log.acknowledge(self._told)
