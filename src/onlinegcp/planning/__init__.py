"""A plan: everything that must be chosen to learn a table, each choice with its reason.

One rule per function: `when` finds the time column and the bins, `what` the modes and values,
`losses` the loss. Whatever was asked for is taken as it is, and the rest is planned around it.
"""

from __future__ import annotations

import itertools
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from onlinegcp.drawing.text import and_list, how_many, plural, words_of
from onlinegcp.errors import DataError
from onlinegcp.events import from_events
from onlinegcp.events.modes import parse_mode
from onlinegcp.losses import get_loss
from onlinegcp.planning import words
from onlinegcp.planning.alike import written_alike
from onlinegcp.planning.columns import Column
from onlinegcp.planning.losses import Measured, choose_loss, natural_bound
from onlinegcp.planning.sample import Sample, read_sample
from onlinegcp.planning.what import Modes, Values, choose_modes, choose_values, label_columns
from onlinegcp.planning.when import Bins, When, choose_bins, choose_time, rows_between
from onlinegcp.planning.zone import as_written
from onlinegcp.slices import Slice
from onlinegcp.streaming.scaling import drowning_row, row_sizes, squared

_RANK = 10  # of the models that losses are tried with, at most
_TRIAL_SLICES, _TRIAL_ROWS, _TRIAL_RANK = 24, 2_000_000, 5


@final
@dataclass(frozen=True)
class Plan:
    """What to do with a table, and why.

    Attributes
    ----------
    events : dict
        Arguments of `from_events`, without the source.
    model : dict
        Parameters of the model: rank (a number or "auto"), loss as text (None for a method that
        has none), init_slices, lower where there is one, and scale where rows want units of their
        own.
    output : str
        Name for the run directory.
    lines : tuple of (str, str, str)
        The choices for people: what, the choice, the reason.
    """

    events: Mapping[str, Any]
    model: Mapping[str, Any]
    output: str
    lines: tuple[tuple[str, str, str], ...]

    def command(self, sources: Sequence[str], extra: Sequence[str] = ()) -> str:
        """The full command that says the same."""
        words = ["onlinegcp", "fit", *sources]
        events = self.events
        words += ["--time", events["time"], "--every", str(events["every"])]
        if events["modes"]:
            words += ["--modes", ",".join(events["modes"])]
        if events.get("value"):
            value = events["value"]
            words += ["--value", value if isinstance(value, str) else ",".join(value)]
        if events.get("agg"):
            words += ["--agg", events["agg"]]
        for group in events.get("share") or ():
            words += ["--share", "=".join(group)]
        if events.get("timezone"):
            words += ["--timezone", events["timezone"]]
        if events.get("time_format"):
            words += ["--time-format", events["time_format"]]
        if self.model.get("loss") is not None:
            words += ["--loss", self.model["loss"]]
        words += ["--rank", str(self.model["rank"])]
        words += ["--warm-start", str(self.model["init_slices"])]
        if self.model.get("lower") is not None:
            words += ["--set", f"lower={self.model['lower']:g}"]
        if self.model.get("scale") is not None:
            words += ["--set", f"scale={self.model['scale']}"]
        return shlex.join([*words, *extra, "-o", self.output])


def make_plan(
    source: Any,
    given: Mapping[str, Any] | None = None,
    *,
    format: str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Plan:
    """Choose whatever was not given.

    Parameters
    ----------
    source
        As for `from_events`; it must be possible to read it twice.
    given
        Choices that are made: time, every, modes, value, agg, share, loss, rank, init_slices,
        lower, scale, output. None stands for not given.
    format
        As for `from_events`.
    settings
        Other arguments of `from_events`, such as `time_format` or `empty`.

    Examples
    --------
    >>> days = [f"2024-{month:02}-{day:02}" for month in range(1, 5) for day in range(1, 29)]
    >>> rides = {
    ...     "day": [day for day in days for _ in range(60)],
    ...     "start": ["north", "south", "east"] * (len(days) * 20),
    ...     "end": ["south", "north", "east", "east"] * (len(days) * 15),
    ... }
    >>> plan = make_plan(rides)
    >>> plan.events["time"], plan.events["every"], plan.events["modes"], plan.events["share"]
    ('day', '1d', ['start', 'end'], [('start', 'end')])
    >>> plan.model["loss"]
    'poisson'
    """
    asked = {name: value for name, value in (given or {}).items() if value not in (None, [], ())}
    extra = dict(settings or {})
    sample = read_sample(source, format=format).dated(str(asked.get("time", "")))
    columns = sample.columns
    clock = _clock(asked, extra)
    when = choose_time(columns, asked.get("time"), clock)
    if when.name not in columns:  # several columns say it together
        sample = sample.dated(when.name)
        columns = sample.columns
    limits = extra.get("since"), extra.get("until")
    if limits != (None, None):
        inside = rows_between(when, columns[when.name], *limits, clock)
        sample = sample.between(inside)
        columns = sample.columns
        when = choose_time(columns, asked.get("time"), clock)
    if when.timed is not None:  # the others will be dropped, as those that hold totals
        sample = sample.only(when.timed)
        columns = sample.columns
    zone = None
    if extra.get("timezone") is None:
        when, zone = as_written(when, columns[when.name])
    value = asked.get("value")
    wanted = () if value is None else (value,) if isinstance(value, str) else tuple(value)
    labels = label_columns(columns, when)
    values = choose_values(columns, when, labels, value=wanted, agg=asked.get("agg"))
    bins = choose_bins(
        when,
        _events_per_row(sample, values),
        measured=values.keys is not None and bool(values.columns),
        step=values.step,
        more=sample.n_rows / sample.frame.height,
        given=None if asked.get("every") is None else str(asked["every"]),
    )
    modes = choose_modes(columns, when, labels, values, bins)
    names = [_spelt(mode) for mode in asked["modes"]] if "modes" in asked else list(modes.names)
    if not names and not values.columns:
        _refuse_nothing(sample, when, modes)
    share = asked.get("share", [] if "modes" in asked else [*modes.share])
    events: dict[str, Any] = {
        "time": when.name,
        "every": int(bins.every) if bins.every.isdigit() else bins.every,
        "modes": names,
        "value": _one_or_more(values.columns),
        "agg": values.agg if values.columns or values.agg != "count" else None,
        "share": [tuple(group) for group in share],
        **({} if zone is None else {"timezone": zone}),
        **({"time_format": when.layout} if when.layout else {}),
    }
    slices, shape = _first_slices(source, format, sample, bins, {**extra, **events})
    rank = asked.get("rank") or "auto"
    usual = _rank_for(shape, bins.n_slices) if rank == "auto" else int(rank)
    if "loss" in asked:
        cells = np.concatenate([x.value for x in slices]) if slices else np.empty(0)
        lower = asked.get("lower", natural_bound(str(asked["loss"]), cells))
        measured = Measured(str(asked["loss"]), "as you said", lower)
    else:
        measured = choose_loss(values.agg, slices, min(usual, _TRIAL_RANK))
    warm = int(asked.get("init_slices") or min(10, max(2, bins.n_slices // 5)))
    drowning = None
    if "scale" not in asked and squared(get_loss(measured.loss.partition(":")[0])):
        drowning = drowning_row(slices) or _apart(slices, _mode_of_units(names, values))
    model = {"rank": rank, "loss": measured.loss, "init_slices": warm, "lower": measured.lower}
    if drowning is not None:
        model["scale"] = drowning[0]
    output = str(asked.get("output") or free_name(sample.stem))
    alike = [] if "modes" in asked else _alike(names, columns)
    lines = _lines(when, bins, values, modes, events, shape, measured, model, asked, alike)
    if drowning is not None:
        what, choice, why = lines[-1]
        own = f"{why}; rows in units of their own, as one is {drowning[2]:,.0f} times another"
        lines = (*lines[:-1], (what, f"{choice}, scale {drowning[0]}", own))
    named = "as you said" if "output" in asked else "named after the source"
    return Plan(events, model, output, (*lines, ("run", output, named)))


def _refuse_nothing(sample: Sample, when: When, modes: Modes) -> None:
    out = [f"{name!r} {why}" for name, why in list(modes.left_out.items())[:6]]
    rows = "one row alone" if sample.frame.height == 1 else f"{sample.frame.height:,} rows"
    raise DataError(
        f"A stream needs labels or numbers that differ from row to row, but beside {when.name!r} "
        f"{rows} {'has' if sample.frame.height == 1 else 'have'} none"
        + (f": {'; '.join(out)}" if out else "")
        + ". Give more rows, or say what to learn with modes=... or value=..."
    )


def _first_slices(
    source: Any, format: str | None, sample: Sample, bins: Bins, settings: Mapping[str, Any]
) -> tuple[list[Slice], tuple[int, ...]]:
    """Slices to try losses on: of the sample, or of the source where the sample holds too few."""
    wanted = _TRIAL_SLICES * sample.n_rows / max(1, bins.n_slices)
    enough = wanted <= sample.frame.height or sample.n_rows <= sample.frame.height
    if enough or wanted > _TRIAL_ROWS:
        stream = from_events(sample.tables, **settings)
    else:
        stream = from_events(source, format=format, **settings)
    slices = list(itertools.islice(stream, _TRIAL_SLICES))
    shape = stream.shape
    stream.close()
    return slices, shape


def _clock(asked: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """How the time column is to be read, as far as it was said."""
    said = {"unit": settings.get("time_unit"), "layout": settings.get("time_format")}
    clock = {name: value for name, value in said.items() if value is not None}
    return clock | ({"plain": True} if str(asked.get("every", "")).isdigit() else {})


def _spelt(mode: Any) -> str:
    return mode if isinstance(mode, str) else parse_mode(mode).name


def _one_or_more(columns: Sequence[str]) -> str | list[str] | None:
    if not columns:
        return None
    return columns[0] if len(columns) == 1 else list(columns)


def _some(names: Sequence[str]) -> str:
    """Names for people, who need not read a hundred of them."""
    few = names if len(names) <= 8 else [*names[:4], "...", names[-1]]
    return ", ".join(few) + (f" ({len(names):,} columns)" if len(few) < len(names) else "")


def _events_per_row(sample: Sample, values: Values) -> float:
    """How much a row counts: what its count says, else 1."""
    if len(values.columns) == 1 and sample.columns[values.columns[0]].is_count:
        return float(sample.columns[values.columns[0]].present.mean())
    return 1.0


def _mode_of_units(names: Sequence[str], values: Values) -> int | None:
    """The mode of several columns of values, or whose labels say by their name what is measured."""
    if len(values.columns) > 1:
        return len(names)
    return next((k for k, name in enumerate(names) if words.MEASURES & set(words_of(name))), None)


def _apart(slices: Sequence[Slice], mode: int | None) -> tuple[int, int, float] | None:
    """A mode whose rows are in units of their own, where one would hardly count beside another.

    They are seldom in one unit: what has a tenth of the size has a hundredth of the squares.
    """
    if not slices or mode is None:
        return None
    sizes = row_sizes(slices, mode)
    held = sizes[sizes > 0.0]
    if not held.size or held.max() <= 10.0 * held.min():
        return None
    return mode, int(sizes.argmax()), float(held.max() / held.min())


def _alike(names: Sequence[str], columns: Mapping[str, Column]) -> list[str]:
    """What to say of labels that may be one, written in several ways."""
    import polars as pl

    told = []
    for name in names:
        if name not in columns or columns[name].written.dtype != pl.String:
            continue
        labels, more = written_alike(columns[name].written)
        if labels:
            others = f", and {more:,} more of that kind" if more else ""
            spelt = and_list(list(map(repr, labels[:3])))
            told.append(f"in {name}, {spelt} are different labels{others}")
    return told


def _rank_for(shape: Sequence[int], n_slices: int) -> int:
    """Ten patterns, but at most half as many as cells of a slice, a third as many as slices."""
    return max(1, min(_RANK, math.prod(shape) // 2, n_slices // 3))


def free_name(stem: str) -> str:
    """A name for a run directory, with a number where there is one already."""
    found = f"{stem}.run"
    number = 2
    while Path(found).exists():
        found = f"{stem}-{number}.run"
        number += 1
    return found


def _lines(
    when: When,
    bins: Bins,
    values: Values,
    modes: Modes,
    events: Mapping[str, Any],
    shape: Sequence[int],
    measured: Measured,
    model: Mapping[str, Any],
    asked: Mapping[str, Any],
    alike: Sequence[str],
) -> tuple[tuple[str, str, str], ...]:
    """The choices in words."""
    counted = not values.columns or "how often" in values.reason
    held = how_many(round(bins.n_events), "events" if counted else "rows")
    about = f"about {plural(bins.n_slices, 'slice')} of {held}"
    time = ("time", f"{when.name}, every {bins.every}", f"{when.reason}; {bins.reason}: {about}")
    sizes = " x ".join(f"{length:,}" for length in shape)
    wide = values.columns and (len(values.columns) > 1 or not events["modes"])
    names = [*events["modes"], *(["measure"] if wide else [])]
    reason = "as you said" if "modes" in asked else modes.reason
    spelt = ", ".join(names)
    if events["share"]:
        reason += "; " + ", ".join(" = ".join(group) for group in events["share"]) + " share labels"
    reason += "".join(f"; {told}" for told in alike)
    if modes.left_out and "modes" not in asked:
        out = [f"{name or 'one without a name'} ({why})" for name, why in modes.left_out.items()]
        reason += "; without " + ", ".join(out[:6]) + (", ..." if len(out) > 6 else "")
    held = f"{values.agg} of {_some(values.columns)}" if values.columns else "events are counted"
    rank = "as you said" if "rank" in asked else "as many patterns as predict best"
    bound = "" if measured.lower is None else f" from {measured.lower:g} on"
    return (
        time,
        ("modes", f"{spelt} ({sizes})", reason),
        ("values", held, values.reason),
        ("model", f"{measured.loss}{bound}, rank {model['rank']}", f"{measured.reason}; {rank}"),
    )
