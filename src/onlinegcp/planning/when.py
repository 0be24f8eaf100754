"""Which column says when, and how long a time bin is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np
import numpy.typing as npt

from onlinegcp.errors import DataError
from onlinegcp.events.absent import known
from onlinegcp.events.spelling import layouts_of
from onlinegcp.events.table_text import check_columns
from onlinegcp.events.time_bins import TimeBins
from onlinegcp.events.time_column import Ticks, TimeColumn
from onlinegcp.planning import words
from onlinegcp.planning.columns import Column, column_of
from onlinegcp.planning.year_parts import dates_beside
from onlinegcp.storage.printable import short

# Bins people think in, short to long.
LADDER = (
    "1ms",
    "10ms",
    "100ms",
    "1s",
    "1m",
    "5m",
    "15m",
    "30m",
    "1h",
    "6h",
    "1d",
    "1w",
    "1mo",
    "1q",
    "1y",
    "2y",
    "5y",
    "10y",
)
# Steps that clocks and instruments take, short to long.
STEPS = (
    *("1ms", "2ms", "5ms", "10ms", "20ms", "50ms", "100ms", "200ms", "500ms"),
    *("1s", "2s", "5s", "10s", "15s", "20s", "30s"),
    *("1m", "2m", "5m", "10m", "15m", "20m", "30m"),
    *("1h", "2h", "3h", "4h", "6h", "8h", "12h"),
    *("1d", "2d", "1w", "2w", "1mo", "2mo", "1q", "6mo", "1y", "2y", "3y", "4y", "5y", "10y"),
)
_YEAR = re.compile(r"(1[5-9]|20)\d\d")
ENOUGH_EVENTS = 50
ENOUGH_SLICES = 40  # about 50
MANY_SLICES = 1000
_SECONDS = 1e8  # since 1970: larger numbers may have fractions and still be times
_UNITS = (1.0, 1e3, 1e6, 1e9)  # in a second
_EARLIEST, _LATEST = 946_684_800.0, 2_208_988_800.0  # 2000 and 2040 in seconds
_DIFFERENT = 20  # times at least, for numbers to be times
_MOSTLY = 0.9  # of the bins have rows where events come at a steady pace


@final
@dataclass(frozen=True)
class When:
    """A column that says when, with the ticks of its rows.

    Attributes
    ----------
    name
        The column.
    ticks
        Microseconds since 1970 as the clock shows them, or the numbers themselves where `plain`.
    reason
        Why this column.
    plain
        Whether its numbers are no calendar times.
    timed
        Which rows have a time, those that ticks are of; None if all do.
    years
        Whether it holds bare years.
    layout
        How it is written, if nothing but the order of its rows tells.
    """

    name: str
    ticks: Ticks
    reason: str
    plain: bool = False
    timed: npt.NDArray[np.bool_] | None = None
    years: bool = False
    layout: str = ""

    @cached_property
    def resolution(self) -> str:
        """The longest step that still keeps different times apart; empty if none does."""
        if self.plain:
            return "1"
        times = np.unique(self.ticks)
        # What the first times tell apart settles most of it.
        start, few = replace(self, ticks=times[:500]), min(500, len(times))
        found = ""
        for every in STEPS:
            if len(np.unique(bin_keys(start, every))) < few:
                break
            if len(np.unique(bin_keys(replace(self, ticks=times), every))) < len(times):
                break
            found = every
        return found


def is_shorter(every: str, other: str) -> bool:
    """Whether one of the steps is shorter than another, or is none."""
    return not every or (bool(other) and STEPS.index(every) < STEPS.index(other))


def choose_time(
    columns: Mapping[str, Column], given: str | None = None, clock: Mapping[str, Any] | None = None
) -> When:
    """The column that says when: of times, else of years or seconds, else one that counts on.

    Parameters
    ----------
    columns
        All columns.
    given
        The column that was asked for.
    clock
        How it is written, if that was said: arguments of `TimeColumn`.
    """
    if given is not None:
        check_columns([given], list(columns), "the source")
        if clock:
            return _read_as_said(columns[given], clock)
        return _as_time(columns[given], "as you said", insist=True)
    times = [column for column in columns.values() if column.kind == "time"]
    times = [column for column in times if column.values.null_count() < len(column.values) / 2]
    if times and not any(map(_varies, times)) and (found := _numbered(columns)) is not None:
        return found  # what is the same in all rows may be a version
    times = [column for column in times if _varies(column)] or times
    if times:
        # Of two moments of one event, it happened at the earlier; what a record within it says is
        # of something else, such as the session or the user.
        chosen = min(times, key=lambda c: (c.name.count("."), bool(words.LATER & set(c.words))))
        reason = "the only column of times" if len(times) == 1 else "the first column of times"
        if chosen is not times[0]:
            inner = times[0].name.count(".") > chosen.name.count(".")
            why = "belongs to a record within" if inner else "comes later, as its name says"
            reason = f"{times[0].name} {why}"
        if chosen.layout:
            leap = "" if chosen.numbers is not None else ", or rows would leap to and fro"
            reason += f"; written as {chosen.layout}{leap}"
        if _fiscal(chosen):
            reason += "; fiscal years as if they began in January"
        _refuse_data_as_names(chosen)
        return _as_time(chosen, reason)
    for names in (words.CLOCKS, words.COUNTERS):
        for column in columns.values():
            if column.numbers is not None and set(column.words) & names:
                found = _as_time(column, "its numbers are times")
                if found.years:
                    found = _with_parts(found, columns)
                if not found.plain:
                    return found
                if _counts_on(column, 3):
                    return replace(found, reason="it counts on from row to row")
        for column in columns.values():
            # And no numbers say the same.
            if column.ambiguous or (column.problem and _mostly_times(column)):
                raise DataError(column.problem)
    for column in columns.values():
        if column.numbers is not None and _counts_on(column, 10):
            return _as_time(column, "it counts on from row to row")
    if (found := _numbered(columns)) is not None:
        return found
    if len(columns) == 1:
        raise DataError(
            "A table with a column that says when was needed, but it has one column only, called "
            f"{short(next(iter(columns)), 60)!r}, which holds no times. Lines of a log must be "
            "taken apart first: write them as CSV with a line of names, or as JSON lines."
        )
    sideways = [name for name in columns if _YEAR.fullmatch(name) or layouts_of(name)]
    if len(sideways) > 2:
        kept = [name for name in columns if name not in sideways][:6]
        raise DataError(
            f"A column that says when is needed, but {sideways[0]!r}, {sideways[1]!r} and "
            f"{len(sideways) - 2:,} more are names of columns that are times themselves: the table "
            "lies on its side. Turn it first, so that each row has one time and one value: "
            f"unpivot in polars, or in pandas table.melt(id_vars={kept}, var_name='time')."
        )
    raise DataError(
        "A column that says when is needed, but none of "
        + ", ".join(map(repr, list(columns)[:20]))
        + f" holds times, years or a count that goes on. {_nearly(columns)}Name it with time=..., "
        "and how it is written with time_format=... or time_unit=..."
    )


def _varies(column: Column) -> bool:
    """Whether rows have different times."""
    return column.ticks is None or bool(column.ticks.min() < column.ticks.max())


def _numbered(columns: Mapping[str, Column]) -> When | None:
    """The first column of seconds since 1970, or parts of them, whatever it is called.

    Nothing else has so many digits and lies within so few years.
    """
    for column in columns.values():
        if column.numbers is None or len(found := column.present) < len(column.values) / 2:
            continue
        size = float(found.max()) if len(found) else 0.0
        unit = next((unit for unit in _UNITS if _SECONDS * unit <= size < 100 * _SECONDS * unit), 0)
        recent = unit and _EARLIEST * unit <= found.min() and size <= _LATEST * unit
        if recent and len(np.unique(found)) >= _DIFFERENT:
            return _as_time(column, "its numbers are times")
    return None


def _fiscal(column: Column) -> bool:
    first = column.values.drop_nulls().head(1).to_list()
    return isinstance(first[0], str) and "fy" in first[0].lower()


def _with_parts(years: When, columns: Mapping[str, Column]) -> When:
    """Years with months and days beside them, unless there are enough to have these as modes."""
    if len(np.unique(years.ticks)) >= ENOUGH_SLICES:
        return years
    dates = dates_beside(years.name, columns)
    if dates is None:
        return years
    return _as_time(dates, f"{' and '.join(dates.name.split(','))} say it together")


def _mostly_times(column: Column) -> bool:
    """Whether at least half of its texts are times, of one spelling or another."""
    texts = known(column.values).drop_nulls().unique().head(200).to_list()
    return sum(bool(layouts_of(text)) for text in texts) >= max(1, len(texts) / 2)


def _nearly(columns: Mapping[str, Column]) -> str:
    """What some column lacks to be a time."""
    for column in columns.values():
        if column.hours:
            return (
                f"{column.name!r} holds times of day without a day: put the day before them, as in "
                "2024-01-31 08:15. "
            )
        if column.numbers is not None and not column.whole and _goes_on(column, 10):
            return (
                f"{column.name!r} goes on from row to row, but has fractions: round it to whole "
                "numbers. "
            )
    return ""


def _refuse_data_as_names(column: Column) -> None:
    """Refuse a column of times whose name is a time: the first line is no line of names."""
    import polars as pl

    if column_of(pl.Series(column.name, [column.name])).kind == "time":
        raise DataError(
            f"The first line of a table must name its columns, but {column.name!r} is a time, as "
            "the lines below it. Put a line of names before it, for example with "
            "`sed -i '1i time,from,to' FILE`; or name the column with time=... if it is called so."
        )


def _as_time(column: Column, reason: str, *, insist: bool = False) -> When:
    if column.ticks is not None:
        lacking = column.values.null_count() / len(column.values)
        if lacking >= 0.005:
            reason += f"; the {lacking:.0%} of rows without it are dropped"
        return When(column.name, column.ticks, reason, timed=_timed(column), layout=column.layout)
    if column.numbers is None:
        raise DataError(
            column.problem
            or f"The time column must hold times or numbers, but {column.name!r} holds labels. "
            "Name another one."
        )
    found = column.present
    if len(found) and (column.whole or found.min() >= _SECONDS):
        try:
            reader = TimeColumn(column.name)
            ticks, valid = reader.read(column.values.drop_nulls(), lambda row: f"row {row + 1:,}")
            if _plausible(ticks):
                assert valid is None  # nulls were dropped
                timed = _timed(column)
                return When(column.name, ticks, reason, timed=timed, years=reader.unit == "y")
        except DataError:
            pass  # too small for a calendar: it may count days from somewhere
    if insist and not column.whole:
        raise DataError(
            f"The time column must hold times or whole numbers, but {column.name!r} holds "
            "fractions. Name another one, or round it."
        )
    return When(column.name, found.astype(np.int64), reason, plain=True, timed=_timed(column))


def _timed(column: Column) -> npt.NDArray[np.bool_] | None:
    timed = column.values.is_not_null().to_numpy()
    if column.numbers is not None:
        timed = timed & ~np.isnan(column.numbers)
    return None if timed.all() else timed


def _read_as_said(column: Column, clock: Mapping[str, Any]) -> When:
    reader = TimeColumn(column.name, **clock)
    ticks, valid = reader.read(column.written, lambda row: f"row {row + 1:,}")
    ticks = reader.wall(ticks)
    plain = reader.kind == "number"
    ticks = ticks if valid is None else ticks[valid]
    return When(column.name, ticks, "as you said", plain=plain, timed=valid)


def rows_between(
    when: When, column: Column, since: Any, until: Any, clock: Mapping[str, Any]
) -> npt.NDArray[np.bool_]:
    """Which rows lie between two limits, as `from_events` has them; those without a time do."""
    written = {"layout": when.layout} if when.layout else {}
    reader = TimeColumn(column.name, **{**clock, **written, "plain": when.plain})
    ticks, valid = reader.read(column.written, lambda row: f"row {row + 1:,}")
    bins = TimeBins(1 if when.plain else "1y", reader)
    inside = np.ones(len(ticks), dtype=bool)
    if since is not None:
        inside &= ticks >= bins.ticks(since, "since")
    if until is not None:
        inside &= ticks < bins.ticks(until, "until")
    return inside if valid is None else inside | ~valid


def _plausible(ticks: Ticks) -> bool:
    years = ticks.view("M8[us]").astype("M8[Y]").astype(np.int64) + 1970
    return bool(years.min() >= 1500 and years.max() <= 2200)


def _counts_on(column: Column, least: int) -> bool:
    """Whether whole numbers never go back, and take on at least so many values."""
    return column.whole and _goes_on(column, least)


def _goes_on(column: Column, least: int) -> bool:
    found = column.present
    if len(found) < len(column.values):
        return False
    return len(np.unique(found)) >= least and bool((np.diff(found) >= 0).all())


def bin_keys(when: When, every: str | int) -> Ticks:
    """The time bin of each row."""
    column = TimeColumn(when.name, plain=when.plain)
    column.kind = "number" if when.plain else "local"
    return TimeBins(every, column).keys(when.ticks)


def occupancy(when: When, every: str) -> float:
    """Share of the time bins from first to last that have a row."""
    keys = np.unique(bin_keys(when, int(every) if every.isdigit() else every))
    column = TimeColumn(when.name, plain=when.plain)
    column.kind = "number" if when.plain else "local"
    bins = TimeBins(int(every) if every.isdigit() else every, column)
    return len(keys) / (bins.between(int(keys[0]), int(keys[-1])) + 1)


@final
@dataclass(frozen=True)
class Bins:
    """A length of time bins, about how many there are, and events in each."""

    every: str
    n_slices: int
    n_events: float
    reason: str


def choose_bins(
    when: When,
    events: float,
    *,
    measured: bool,
    step: str = "",
    more: float = 1.0,
    given: str | None = None,
) -> Bins:
    """How long a bin is.

    Parameters
    ----------
    when
        The time column.
    events
        Events per row of the sample.
    measured
        Whether rows are measurements at regular times, of which every one counts.
    step
        How often, where times do not tell it by themselves.
    more
        Rows of the source for each of the sample.
    given
        A length that was asked for.
    """
    if given is not None:
        return _bins(when, events, given, "as you said", more)
    if when.plain:
        return _counter_bins(when, events, more)
    if when.ticks.min() == when.ticks.max():
        guess = "1y" if when.years else "1d"
        return _bins(when, events, guess, "a guess, as all rows have the same time", more)
    finest = step or when.resolution
    start = max((at for at, every in enumerate(LADDER) if not is_shorter(finest, every)), default=0)
    if measured:
        if is_shorter(finest, "1d"):
            daily = _bins(when, events, "1d", "days, with the hour as a mode", more)
            if daily.n_slices >= ENOUGH_SLICES:
                return daily
        reason = "one for each time of measurement" if not step else "about one reading in each"
        return _bins(when, events, finest, reason, more)
    at = max(start, LADDER.index("1d"))
    found = _bins(when, events, LADDER[at], "the column tells no shorter ones", more)
    if found.n_events >= ENOUGH_EVENTS:
        own = "days, as" if LADDER[at] == "1d" else f"{found.reason};"
        found = replace(found, reason=f"{own} they hold enough events")
    while found.n_events < ENOUGH_EVENTS and LADDER[at] != "1y" and at + 1 < len(LADDER):
        longer = _bins(
            when, events, LADDER[at + 1], f"so that a slice holds {ENOUGH_EVENTS} events", more
        )
        if longer.n_slices < ENOUGH_SLICES:
            return replace(found, reason="longer ones would leave too few slices")
        found, at = longer, at + 1
    while at + 1 < len(LADDER) and occupancy(when, LADDER[at]) < 0.5:
        longer = _bins(when, events, LADDER[at + 1], "shorter ones would mostly be empty", more)
        if longer.n_slices < ENOUGH_SLICES or occupancy(when, longer.every) < _MOSTLY:
            break
        found, at = longer, at + 1
    if LADDER[at] == "1y" and at > start and found.n_events < ENOUGH_EVENTS:
        return replace(found, reason=f"even years hold less than {ENOUGH_EVENTS} events")
    while found.n_slices < ENOUGH_SLICES and at > start:
        reason = f"so that there are {ENOUGH_SLICES} slices"
        shorter = _bins(when, events, LADDER[at - 1], reason, more)
        if shorter.n_events < ENOUGH_EVENTS:
            return replace(
                found, reason=f"shorter ones would hold less than {ENOUGH_EVENTS} events"
            )
        found, at = shorter, at - 1
    if found.n_slices < ENOUGH_SLICES and at < max(start, LADDER.index("1d")):
        found = replace(found, reason="the shortest that it tells apart")
    return found


def _bins(when: When, events: float, every: str, reason: str, more: float) -> Bins:
    n_bins = len(np.unique(bin_keys(when, int(every) if every.isdigit() else every)))
    # Events per bin that has some: gaps are no reason for longer bins.
    n_events = events * len(when.ticks) / n_bins
    # Rows in order go on where the sample ends; others fill the same bins.
    if (np.diff(when.ticks) >= 0).all():
        return Bins(every, round(n_bins * more), n_events, reason)
    return Bins(every, n_bins, n_events * more, reason)


def _counter_bins(when: When, events: float, more: float) -> Bins:
    """Bins of 1, 2 or 5 times a power of ten, for numbers without a calendar."""
    found = _bins(when, events, "1", "one for each number", more)
    alone = found.n_events < 2.0  # it numbers the rows, and any length is as good
    every = [digit * 10**power for power in range(12) for digit in (1, 2, 5)]
    for length in every[1:]:
        if found.n_events >= ENOUGH_EVENTS and (alone is False or found.n_slices <= MANY_SLICES):
            break
        longer = _bins(
            when, events, str(length), f"so that a slice holds {ENOUGH_EVENTS} events", more
        )
        if longer.n_slices < ENOUGH_SLICES:
            break
        found = longer
    return found
