"""What rows are, events or measurements, and which of their columns are modes and values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np

from onlinegcp.drawing.text import words_of
from onlinegcp.events.time_column import Ticks
from onlinegcp.events.wall_clock import DAY
from onlinegcp.planning import words
from onlinegcp.planning.columns import Codes, Column
from onlinegcp.planning.pace import steady_pace
from onlinegcp.planning.telling import MOST_COLUMNS, is_pair, joint, missing, most_telling
from onlinegcp.planning.when import STEPS, Bins, When, bin_keys, is_shorter, occupancy

SELDOM = 5  # rows of a label: one that occurs less often names a single thing
# Values whose typical sizes lie further apart than this are not measured with one loss.
SCALES = 1000.0
_AMOUNTS = 5  # different whole numbers may be amounts: fewer are flags or grades


@final
@dataclass(frozen=True)
class Values:
    """What a cell holds.

    Attributes
    ----------
    columns
        Columns of numbers; empty where events are counted.
    agg
        As for `from_events`.
    reason
        Why.
    keys
        Where rows are measurements, the labels that tell them apart; None where rows are events.
    left_out
        Columns of numbers that would not do, and why.
    step
        How often they are measured, where times do not tell it by themselves.
    """

    columns: tuple[str, ...]
    agg: str
    reason: str
    keys: tuple[str, ...] | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    step: str = ""


@final
@dataclass(frozen=True)
class Modes:
    """The modes as the command line spells them, pairs that share labels, and what was left out."""

    names: tuple[str, ...]
    share: tuple[tuple[str, str], ...]
    reason: str
    left_out: Mapping[str, str] = field(default_factory=dict)


# ---- labels


def repeats_the_time(column: Column, when: When) -> bool:
    """Whether the time tells what a column says.

    By its year, month, day, weekday or hour; or each label has a stretch of time of its own, as
    seasons have.
    """
    if when.plain or column.ticks is not None:
        return False
    days = when.ticks.view("M8[us]").astype("M8[D]")
    months = days.astype("M8[M]").astype(np.int64)
    clocks = (
        months // 12,
        months % 12,
        (days - days.astype("M8[M]").astype("M8[D]")).astype(np.int64),
        days.astype(np.int64) % 7,
        when.ticks // 3_600_000_000 % 24,
    )
    return any(_tells(clock - clock.min(), column.codes) for clock in clocks) or _stretches(
        when.ticks, column.codes
    )


def _stretches(ticks: Ticks, codes: Codes) -> bool:
    """Whether one label follows the other for good, of at least three."""
    known = codes >= 0
    ticks, codes = ticks[known], codes[known]
    n_labels = len(np.unique(codes))
    if not 2 < n_labels < len(codes) / 3:
        return False
    order = np.argsort(ticks, kind="stable")
    other = np.diff(codes[order]) != 0  # than the row before
    later = np.diff(ticks[order]) > 0
    return int(np.count_nonzero(other)) == n_labels - 1 and bool(later[other].all())


def _tells(clock: Codes, codes: Codes) -> bool:
    """Whether each hour, month, ... has one label only."""
    # The first rows mostly settle that it has not.
    for rows in (slice(2000), slice(None)):
        part = clock[rows]
        n_values = len(np.unique(part))
        if len(np.unique(joint([part, codes[rows]]))) > n_values:
            return False
    # Of few rows for each of them any column could be told.
    return 1 < n_values < len(codes) / 3


@final
@dataclass(frozen=True)
class Labels:
    """Columns that can be modes, why others cannot, and those whose labels are too seldom."""

    columns: Sequence[Column]
    left_out: Mapping[str, str]
    seldom: Sequence[Column] = ()


def label_columns(columns: Mapping[str, Column], when: When) -> Labels:
    """Columns that can be modes, and why others cannot."""
    found: list[Column] = []
    seldom: list[Column] = []
    out: dict[str, str] = {}
    n_times = len(np.unique(when.ticks))
    for name, column in columns.items():
        if name == when.name:
            continue
        if column.kind == "none":
            # A clock beside the calendar is half of a time.
            half = column.hours and not when.plain and not (when.ticks % DAY).any()
            joined = f"; behind {when.name} in one column it would tell hours" if half else ""
            out[name] = column.reason + joined
        elif "," in name:
            out[name] = "a comma in a name separates columns"
        elif column.kind == "time":
            out[name] = "says when, too"
        elif repeats_the_time(column, when):
            out[name] = f"repeats {when.name}"
        elif column.kind == "label":
            each = column.rows_each
            # In a table of measurements a label occurs once at each time, however few these are.
            if each < SELDOM and not (n_times > 1 and each >= 0.5 * n_times):
                out[name] = f"{column.n_labels:,} labels, about {each:.1f} rows each"
                seldom.append(column)
            elif column.values.null_count() > len(column.values) / 2:
                out[name] = "empty in most rows"
            else:
                found.append(column)
    return Labels(found, out, seldom)


# ---- events or measurements


def choose_values(
    columns: Mapping[str, Column],
    when: When,
    labels: Labels,
    *,
    value: Sequence[str] = (),
    agg: str | None = None,
) -> Values:
    """Whether rows are events to be counted, or hold values, and which.

    Parameters
    ----------
    columns
        All columns.
    when
        The time column.
    labels
        From `label_columns`.
    value, agg
        What was asked for, if anything.
    """
    numbers = [
        column
        for column in columns.values()
        if column.kind == "number" and column.name not in (*labels.left_out, when.name)
    ]
    keys, repeated = _keys(labels.columns, numbers, when)
    step = ""
    measures = any(not column.is_count for column in numbers)
    if keys is None and measures and (pace := steady_pace(labels.columns, when)) is not None:
        keys, step = pace
    numbers += _amounts([*labels.columns, *labels.seldom], keys)
    if value:
        said = "as you said" if agg else "the column as you said"
        return Values(tuple(value), agg or _agg(columns, value), said, keys, step=step)
    if agg in ("count", "any"):
        return Values((), agg, "as you said", None)
    counts = [column.name for column in numbers if column.is_count]
    if counts:
        chosen = tuple(counts[:1])
        return Values(chosen, agg or "sum", f"{chosen[0]} says how often", keys, step=step)
    if keys is None or not numbers:
        return Values((), agg or "count", "rows are events", None)
    key = joint([np.zeros(len(when.ticks), np.int64), *(columns[name].codes for name in keys)])
    fixed = {c.name for c in numbers if not _changes(c, key)}
    if len(fixed) == len(numbers):
        fixed = set()
    numbers = [column for column in numbers if column.name not in fixed]
    running = {c.name for c in numbers if _running_total(c, when, key)}
    fresh = [column for column in numbers if column.name not in running]
    chosen = _of_one_scale(fresh or numbers)
    told = " and ".join(keys) if keys else ""
    reason = f"one row for each {when.name}" + (f" and {told}" if told else "")
    best = _agg(columns, chosen)
    if step:
        best = "mean"
        reason = f"one reading every {step} or so" + (f" for each {told}" if told else "")
    if repeated >= 0.005:
        best = "mean"
        reason += f"; {repeated:.1%} of rows are there twice, which means leave as they are"
    if not fresh:
        best = "mean"
        reason += "; running totals, so levels: their differences would be counts"
        running = set()
    out = dict.fromkeys(running, "only grows, as a running total does")
    out |= dict.fromkeys(fixed, f"the same at all times for each {told}")
    out |= {
        column.name: f"typically {_typical(column):.3g}, too far from those of {chosen[0]}"
        for column in fresh
        if column.name not in chosen
    }
    return Values(chosen, agg or best, reason, keys, out, step)


def _amounts(labels: Sequence[Column], keys: Sequence[str] | None) -> list[Column]:
    """Small whole numbers that tell no measurements apart: not which, but how many."""
    return [
        column
        for column in labels
        if column.numbers is not None
        and keys is not None
        and column.name not in keys
        and column.n_labels >= _AMOUNTS
        and not words.CODES & set(column.words)
    ]


def _changes(column: Column, key: Codes) -> bool:
    """Whether the numbers of some key are not always the same."""
    known = column.codes >= 0
    both = joint([key[known], column.codes[known]])
    return len(np.unique(both)) > len(np.unique(key[known]))


def _typical(column: Column) -> float:
    """The middle of its sizes, or their mean where most are zero."""
    return float(np.median(np.abs(column.present))) or float(np.mean(np.abs(column.present)))


def _running_total(column: Column, when: When, key: Codes) -> bool:
    """Whether whole numbers only grow from time to time, for each key, but for corrections."""
    if not column.whole or len(column.present) < len(column.values):
        return False
    order = np.lexsort((when.ticks, key))
    same = np.diff(key[order]) == 0
    steps = np.diff(column.present[order])[same]
    # Few steps of small numbers may all go up by chance.
    return len(steps) >= 20 and bool((steps < 0).mean() <= 0.01 and (steps > 0).mean() >= 0.2)


def _keys(
    labels: Sequence[Column], numbers: Sequence[Column], when: When
) -> tuple[tuple[str, ...] | None, float]:
    """Labels that, with the time, tell rows of measurements apart; None if rows are events.

    Rows are measurements where each time and key occurs once, and most combinations of them occur.
    Rows that are there twice, with the same numbers, were delivered twice: their share comes
    second.
    """
    times = np.unique(when.ticks, return_inverse=True)[1].reshape(-1).astype(np.int64)
    codes = {column.name: column.codes for column in labels[:8]}
    repeated = 0.0
    if any(not column.is_count for column in numbers):
        whole = joint([times, *codes.values(), *(column.codes for column in numbers)])
        rows = np.sort(np.unique(whole, return_index=True)[1])
        repeated = 1.0 - len(rows) / len(times)
        times, codes = times[rows], {name: part[rows] for name, part in codes.items()}
    n_rows, n_times = len(times), int(times.max()) + 1
    regular = bool(when.resolution) and occupancy(when, when.resolution) >= 0.5
    if n_times > 0.99 * n_rows:
        # One row at a time beside labels is an event, unless a clock took it.
        return (() if regular and not (labels and not _by_the_clock(when)) else None), repeated
    for size in (1, 2, 3):
        for names in itertools.combinations(codes, size):
            key = joint(codes[name] for name in names)
            n_keys = len(np.unique(key))
            # Of two labels one is there at every time, whenever events come.
            if n_rows < (0.5 if regular else 0.75 if n_keys == 2 else 0.5) * n_times * n_keys:
                continue
            if len(np.unique(joint([times, key]))) > 0.99 * n_rows:
                return names, repeated
    return None, repeated


def _by_the_clock(when: When) -> bool:
    """Whether times are whole days, or almost all at the same moment of their bins."""
    if when.plain or not when.resolution or not is_shorter(when.resolution, "1d"):
        return True
    moments = when.ticks - bin_keys(when, when.resolution)
    return bool(np.unique(moments, return_counts=True)[1].max() >= 0.9 * len(moments))


def _agg(columns: Mapping[str, Column], chosen: Sequence[str]) -> str:
    """Sums of amounts, means of levels."""
    found = [columns[name] for name in chosen if name in columns]
    extensive = all(
        c.numbers is not None and (c.whole or c.counts_both_ways) and not c.intensive for c in found
    )
    return "sum" if found and extensive else "mean"


def _of_one_scale(numbers: Sequence[Column]) -> tuple[str, ...]:
    """The largest group of columns whose sizes can be compared; of equal ones, the first."""
    sizes = {}
    for column in numbers:
        sizes[column.name] = math.log(_typical(column) or 1.0)
    best: tuple[str, ...] = ()
    for low in sorted(sizes.values(), key=list(sizes.values()).index):
        group = tuple(n for n, size in sizes.items() if low <= size <= low + math.log(SCALES))
        if len(group) > len(best):
            best = group
    return best


# ---- modes


def choose_modes(
    columns: Mapping[str, Column], when: When, labels: Labels, values: Values, bins: Bins
) -> Modes:
    """Which columns are modes, which of them share labels, and what else of the time is one."""
    out = {**labels.left_out, **values.left_out}
    out = {name: why for name, why in out.items() if name not in values.columns}
    out |= {
        name: "a number, which could be --value" if not values.columns else "another number"
        for name, column in columns.items()
        if column.kind == "number" and name not in (*values.columns, when.name) and name not in out
    }
    if values.keys is not None:
        names = [column.name for column in labels.columns if column.name in values.keys]
        taken = {*names, *values.columns, *out}
        others = [column.name for column in labels.columns if column.name not in taken]
        out |= dict.fromkeys(others, "not needed to tell rows apart")
        reason = "they tell rows apart"
    else:
        names, more_out = most_telling(labels.columns)
        out |= more_out
        reason = "labels that occur often and tell most" if names else "nothing else has labels"
        reason += "".join(
            f"; the {missing(columns[name]):.0%} of rows without {name} are dropped"
            for name in names
            if missing(columns[name]) >= 0.005
        )
    names.sort(key=list(columns).index)
    share = tuple(
        (first, second)
        for first, second in itertools.combinations(names, 2)
        if _same_labels(columns[first], columns[second])
    )
    clock = _clock_mode(when, bins, names)
    if not names and values.keys is not None:
        one = "the columns of values are one" if len(values.columns) > 1 else "there is one value"
        reason = one if clock is None else f"{one}, the clock tells rows of a bin apart"
    return Modes((*names, *([] if clock is None else [clock])), share, reason, out)


def _same_labels(first: Column, second: Column) -> bool:
    """Whether two columns have the same labels: by name for codes, by the labels for text."""
    a, b = first.labels, second.labels
    common = len(a & b) / max(1, len(a | b))
    if is_pair(first.name, second.name):
        return common >= 0.3
    texts = first.numbers is None and second.numbers is None
    return texts and common >= 0.5 and len(a & b) >= 5


def _clock_mode(when: When, bins: Bins, names: Sequence[str]) -> str | None:
    """The hour, weekday or month of the time, where bins are longer and it is finer."""
    if when.plain or bins.every not in STEPS:
        return None
    months = when.ticks.view("M8[us]").astype("M8[M]").astype(np.int64)
    clocks = {
        ("hour", "1d", "1d"): when.ticks // 3_600_000_000 % 24,
        ("weekday", "1w", "2d"): when.ticks // 86_400_000_000 % 7,
        ("month", "1y", "1y"): months % 12,
    }
    for (clock, longer, coarse), values in clocks.items():
        known = any(clock in words_of(name) for name in names)
        room = len(names) < MOST_COLUMNS or (clock == "hour" and bins.n_events >= 10 * 24)
        fits = not is_shorter(bins.every, longer) and is_shorter(when.resolution, coarse)
        if fits and room and not known and len(np.unique(values)) > 1:
            return f"{when.name}:{clock}"
    return None
