"""From a table of events to a stream of slices, one per time bin, with labels that stay put.

Here the options are checked; `stream` does the work.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

from onlinegcp.errors import DataError, closest
from onlinegcp.events.cells import Aggregation
from onlinegcp.events.given_labels import read_vocabulary
from onlinegcp.events.modes import Mode, column, parse_mode
from onlinegcp.events.options import Empty, Groups, OnLate, Options
from onlinegcp.events.reading import Workers
from onlinegcp.events.remote import scheme_of
from onlinegcp.events.rows import RowReader
from onlinegcp.events.spread_dates import with_dates
from onlinegcp.events.stream import EventStream
from onlinegcp.events.table_parts import Tables
from onlinegcp.events.table_text import check_columns
from onlinegcp.events.tables import open_tables
from onlinegcp.events.time_bins import TimeBins, parse_every
from onlinegcp.events.time_column import TimeColumn
from onlinegcp.events.vocabulary import OTHER, OnNew
from onlinegcp.events.wide import lengthened

OnNull = Literal["drop", "error"]


def from_events(
    source: Any,
    *,
    time: str,
    every: str | int | datetime.timedelta,
    modes: Sequence[str | Mode] = (),
    value: str | Sequence[str] | None = None,
    agg: Aggregation | None = None,
    share: Iterable[Sequence[str]] = (),
    top: int | Mapping[str, int] | None = None,
    vocabulary: Mapping[str, Sequence[Any]] | str | os.PathLike[str] | None = None,
    on_new: OnNew = "grow",
    on_late: OnLate = "drop",
    on_null: OnNull = "drop",
    empty: Empty | None = None,
    timezone: str | None = None,
    time_unit: str | None = None,
    time_format: str | None = None,
    since: Any = None,
    until: Any = None,
    in_order: bool | None = None,
    close_last: bool = True,
    max_gap: int | None = None,
    format: str | None = None,
    cluster: Any = None,
) -> EventStream:
    """Turn a table of events into slices, one per time bin.

    Parameters
    ----------
    source
        Files (parquet, Arrow, CSV, JSON, perhaps packed; a path, a pattern, a directory or a list),
        "-" for standard input, a polars, pandas or Arrow table, or an iterator of tables; a pattern
        in an object store, a Redis stream or another `EventLog`, or what `database` returns.
    time
        Column that says when: times, dates, text in a common spelling, years, or numbers since
        1970. Where a year, a month and perhaps a day are columns of numbers, all of them, with
        commas between, such as "year,month".
    every
        Length of a bin: "1d", "1h", "15m", "1w", "1mo", ...; a whole number if `time` is a column
        of plain numbers.
    modes
        Names of columns, or `hour`, `weekday`, `month` and `bins` of one, such as
        ``og.hour("pickup")`` or ``"pickup:hour"``.
    value
        Column of numbers to aggregate; without one events are counted. Several columns become a
        mode of their own, "measure", whose labels are their names; so does one column where there
        are no modes.
    agg
        "count", "sum", "any" (1 where there is an event, or a value other than 0), "mean" or "max".
        Cells without events are zeros, except for "mean" and "max", where they are missing. By
        default "count", or "sum" with a value.
    share
        Groups of modes with one vocabulary, such as ``[("pu", "do")]``.
    top
        Keep that many of the most frequent labels of each column, or of the columns named in a
        mapping, and read the rest as "other". Needs a source that can be read twice.
    vocabulary
        Labels by mode, known from the start; a mapping or the path of a JSON file.
    on_new
        What happens to labels outside a given or restored vocabulary: "grow", "other" or "error".
    on_late
        What happens to rows whose bin is closed already: "drop" (they are counted) or "error".
    on_null
        What happens to rows without a time, key or value: "drop" (counted) or "error".
    empty
        What a bin without events becomes: "zero", "missing" or "skip". By default zero, or missing
        for "mean" and "max".
    timezone
        Zone of the calendar and the clock. Times without a zone are then taken as UTC.
    time_unit
        Unit of numbers in `time`: "y" (years of the calendar), "d", "s", "ms", "us" or "ns";
        guessed by default.
    time_format
        Format of times, such as "%d/%m/%Y %H:%M", where it is not recognised.
    since, until
        Leave out rows before the one, and at or after the other.
    in_order
        Whether rows are in order of time: True reads them once, as they come, False sorts them,
        None looks first. Standard input and iterators are always read as they come.
    close_last
        Whether the end of the source closes the last bin. If not, `state` keeps its rows. That of a
        log never does.
    max_gap
        Most empty bins in a row; more of them mostly mean a wrong time stamp. By default 100 for
        bins of a day or longer, else as many as there are in a week, and at least 100.
    format
        "parquet", "arrow", "csv" or "jsonl", should it not be recognised.
    cluster
        A `distributed.Client`, or an address as `OnlineGCP` takes it: its workers read the pieces
        of parquet and Arrow files, which they must see under the same names. Slices are the same.

    Examples
    --------
    >>> rides = {
    ...     "when": ["2018-01-01T08:10", "2018-01-01T09:00", "2018-01-03T08:59"],
    ...     "pu": ["JFK", "SoHo", "JFK"],
    ...     "do": ["SoHo", "SoHo", "Harlem"],
    ... }
    >>> stream = from_events(
    ...     rides, time="when", every="1d", modes=["pu", "do", "when:hour"], share=[("pu", "do")]
    ... )
    >>> for x in stream:
    ...     print(x.time, x.shape, x.total)
    2018-01-01 (2, 2, 24) 2.0
    2018-01-02 (2, 2, 24) 0.0
    2018-01-03 (3, 3, 24) 1.0
    >>> stream.labels[0]
    ('JFK', 'SoHo', 'Harlem')
    """
    aggregation: Aggregation = agg if agg is not None else "count" if value is None else "sum"
    nothing: Empty = empty or ("missing" if aggregation in ("mean", "max") else "zero")
    _choose("agg", aggregation, get_args(Aggregation))
    _choose("empty", nothing, get_args(Empty))
    _choose("on_new", on_new, get_args(OnNew))
    _choose("on_late", on_late, get_args(OnLate))
    _choose("on_null", on_null, get_args(OnNull))
    _check_value(aggregation, value)
    unit, _ = parse_every(every)
    clock = TimeColumn(
        time, timezone=timezone, unit=time_unit, layout=time_format, plain=unit == "number"
    )
    bins = TimeBins(every, clock)

    tables = with_dates(open_tables(source, format=format), time)
    modes = [modes] if isinstance(modes, (str, Mode)) else list(modes)
    number = value if isinstance(value, str) else None
    if value is not None and (number is None or not modes):
        wide = [value] if isinstance(value, str) else list(value)
        if (present := tables.parts[0].columns()) is not None:
            check_columns(wide, present, tables.parts[0].name)
        tables, measure, number = lengthened(tables, wide, time)
        modes = [*modes, column(measure)]
    columns = tables.parts[0].columns()
    chosen = _modes(modes, columns or ())
    reader = RowReader(
        clock, bins, chosen, value=number, since=since, until=until, nulls=on_null == "drop"
    )
    if columns is not None:
        check_columns(reader.columns, columns, tables.parts[0].name)
    groups = _groups(chosen, share)
    known = {} if vocabulary is None else read_vocabulary(vocabulary)
    options = Options(
        aggregation=aggregation,
        empty=nothing,
        on_new=on_new,
        on_late=on_late,
        in_order=True if tables.live or tables.place is not None else in_order,
        close_last=close_last and not (tables.place is not None and tables.place.keeps_open),
        max_gap=max_gap if max_gap is not None else bins.usual_gap,
        workers=None if cluster is None else _workers(cluster),
        known=_known(known, groups),
        top=_top(top, groups, known, tables),
    )
    stream = EventStream(tables, reader, groups, options)
    paths = [part.path for part in tables.parts]
    stream.source = {
        "kind": _kind(tables),
        "files": [str(path) for path in paths if path is not None],
        "options": {
            "since": since,
            "until": until,
            "in_order": in_order,
            "close_last": close_last,
            "format": format,
        },
        **({} if tables.place is None else tables.place.described),
    }
    return stream


def _workers(cluster: Any) -> Workers:
    from onlinegcp.sums.crowd import Crowd

    return Crowd(cluster)


def _kind(tables: Tables) -> str:
    """What a source is, for who wants to read it again."""
    if tables.live:
        return "live"
    if any(scheme_of(part.name) for part in tables.parts):
        return "objects"
    return "table" if any(part.path is None for part in tables.parts) else "files"


def _choose(name: str, given: Any, allowed: Sequence[str]) -> None:
    if given not in allowed:
        raise DataError(
            f"{name} must be one of {', '.join(map(repr, allowed))}, but is {given!r}."
            f"{closest(str(given), allowed)} Choose one of them."
        )


def _check_value(aggregation: str, value: object) -> None:
    if value is None and aggregation in ("sum", "mean", "max"):
        raise DataError(
            f"agg={aggregation!r} needs a column of numbers, but value is None. Name one with "
            "value=..., or use agg='count'."
        )
    if value is not None and aggregation == "count":
        raise DataError(
            f"agg='count' counts rows, but value={value!r} was given. Use agg='sum', 'mean', 'max' "
            "or 'any', or leave value out."
        )


def _modes(given: Sequence[Any], columns: Sequence[str]) -> list[Mode]:
    modes = [parse_mode(mode, columns) for mode in given]
    if not modes:
        raise DataError("At least one mode is needed, but there are none. Name a column.")
    names = [mode.name for mode in modes]
    for name in names:
        if names.count(name) > 1:
            raise DataError(
                f"Modes must have different names, but {name!r} occurs twice. Leave one out, or "
                "give it a name, as in og.hour('pickup', name='hour')."
            )
    return modes


def _groups(modes: Sequence[Mode], share: Iterable[Sequence[str]]) -> Groups:
    """Modes that are columns as they are, those with one vocabulary together."""
    plain = [mode.name for mode in modes if mode.derive == "column"]
    home = {name: {name} for name in plain}
    for group in share:
        if isinstance(group, str) or len(tuple(group)) < 2:
            raise DataError(
                f"share must hold groups of modes, but {group!r} was found. Write for example "
                "share=[('pu', 'do')]."
            )
        for name in group:
            if name not in home:
                raise DataError(
                    f"share must name modes that are columns as they are, which are "
                    f"{', '.join(map(repr, plain)) or 'none'}, but {name!r} was found."
                    f"{closest(str(name), plain)} Correct it or leave it out."
                )
        joined = set().union(*(home[name] for name in group))
        home |= dict.fromkeys(joined, joined)
    groups = [tuple(name for name in plain if name in home[first]) for first in plain]
    return tuple(dict.fromkeys(groups))


def _known(vocabulary: Mapping[str, Sequence[str]], groups: Groups) -> dict[str, Sequence[str]]:
    """Labels given for each group, by its first mode."""
    names = [name for group in groups for name in group]
    for mode in vocabulary:
        if mode not in names:
            raise DataError(
                f"vocabulary must name modes that are columns as they are, which are "
                f"{', '.join(map(repr, names)) or 'none'}, but {mode!r} was found."
                f"{closest(mode, names)} Correct it or leave it out."
            )
    known: dict[str, Sequence[str]] = {}
    for group in groups:
        lists = [vocabulary[name] for name in group if name in vocabulary]
        if len(lists) == 1:
            known[group[0]] = lists[0]
        elif lists:
            known[group[0]] = list(dict.fromkeys(label for labels in lists for label in labels))
    return known


def _top(
    top: Any, groups: Groups, vocabulary: Mapping[str, Sequence[str]], tables: Tables
) -> dict[str, int]:
    """How many labels to keep of each group, by its first mode."""
    if top is None:
        return {}
    homes = {name: group[0] for group in groups for name in group}
    wanted = dict(top) if isinstance(top, Mapping) else dict.fromkeys(homes, top)
    for name, number in wanted.items():
        if name not in homes:
            raise DataError(
                f"top must name modes that are columns as they are, which are "
                f"{', '.join(map(repr, homes)) or 'none'}, but {name!r} was found."
                f"{closest(str(name), homes)} Correct it or leave it out."
            )
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise DataError(
                f"top must be a whole number from 1, but for {name!r} it is {number!r}. "
                "Write for example top=50, or top={'user': 1000}."
            )
        if name in vocabulary:
            raise DataError(
                f"The labels of {name!r} are given by the vocabulary, but top={number} asks for "
                f"the most frequent ones. Leave one of them out; on_new={OTHER!r} joins the rest."
            )
    if wanted and tables.live:
        raise DataError(
            "top must count all labels before the first slice, but this source can be read only "
            "once. Save it to a file, or give vocabulary=... with on_new='other'."
        )
    return {homes[name]: number for name, number in wanted.items()}
