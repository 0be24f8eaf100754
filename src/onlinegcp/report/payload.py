"""Everything a page shows about a run, as plain JSON: the one input of the report and live page."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onlinegcp.digest import Digest, as_digest, loss_name
from onlinegcp.digest.thinning import Point, point
from onlinegcp.drawing.profiles import ModeProfile, mode_profiles
from onlinegcp.drawing.text import shown_modes
from onlinegcp.report.changes import changes
from onlinegcp.report.fit import judge
from onlinegcp.report.outlook import drawn, outlook
from onlinegcp.report.sentences import said
from onlinegcp.report.steady import SteadyNames
from onlinegcp.report.summary import data, summarize, unit_of
from onlinegcp.report.words import Pattern, called, described
from onlinegcp.runlog import COUNTS, SMALLEST_P, RunView, Step, anomaly_of
from onlinegcp.runlog.names import read_names
from onlinegcp.runlog.sources import commands, told_sources
from onlinegcp.runlog.told import score
from onlinegcp.storage.older import todays_parameters
from onlinegcp.storage.printable import all_short, presentable, short, without_folders

# Labels per category mode and component, and alarms of late, that a page has.
TOP = 24
LATELY = 8

Json = dict[str, Any]


def build(
    run: RunView | Digest,
    *,
    live: bool = False,
    missing: str = "",
    names: SteadyNames | None = None,
) -> Json:
    """The whole payload.

    Parameters
    ----------
    run
        The run; its steps may have a field "global".
    live
        Whether the page follows the run.
    missing
        Why they do not have it.
    names
        What its reader has seen the patterns called.
    """
    digest = as_digest(run)
    return {
        "live": live,
        "name": short(digest.view.path.resolve().name),
        "title": title_of(digest),
        "run": presentable({**describe_run(digest), "no_global": without_folders(missing)}),
        "model": build_model(digest, names),
        "steps": build_steps(digest),
    }


def title_of(digest: Digest) -> str:
    """What the run is about: what was counted, and where it was read."""
    stem = digest.view.path.resolve().name.removesuffix(".run")
    for source in told_sources(digest.view.path)[:1]:
        files = source.get("files")
        if isinstance(files, list) and len(files) == 1 and isinstance(files[0], list) and files[0]:
            stem = Path(str(files[0][0])).name.split(".")[0] or stem
    told = stem.replace("_", " ").replace("-", " ").strip() or stem
    unit = digest.view.info.get("unit") or ""
    whole = told if not unit or unit.lower() in told.lower() else f"{unit}, {told}"
    return short(whole[:1].upper() + whole[1:])


def describe_run(digest: Digest) -> Json:
    """Settings, environment and how to reproduce the run."""
    info = digest.view.info
    given = info.get("model") or {}
    told = [without_folders(command) for command in commands(digest.view.path, info)]
    return {
        "created": info.get("created"),
        "version": info.get("version"),
        "environment": info.get("environment") or {},
        "method": given.get("method"),
        "parameters": _parameters(given),
        "events": info.get("events") or {},
        "commands": told,
        "loss": loss_name(digest.view),
        "unit": unit_of(digest),
        "level": (info.get("anomaly") or {}).get("level", 0.01),
        "smallest_p": SMALLEST_P,
    }


def _parameters(model: Json) -> Json:
    """The parameters that did something, as a reader writes them."""
    given = todays_parameters(model.get("method"), model.get("parameters") or {})
    solver = given.get("solver")
    if isinstance(solver, dict):
        given = {**given, "solver": "sgd", **solver["sgd"]}
    return {name: _written(value) for name, value in given.items()}


def _written(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if "ktensor" in value:
        return "a K-tensor of the caller's"
    if "own_loss" in value:
        return f"{value['own_loss']} (the caller's own)"
    if "step" in value:
        step = value["step"]
        return "{name} (beta_1={beta_1}, beta_2={beta_2}, epsilon={epsilon})".format(**step)
    loss = value.get("loss", value)
    options = ", ".join(f"{name}={item}" for name, item in (loss.get("parameters") or {}).items())
    return f"{loss.get('name')}({options})" if options else loss.get("name")


def build_model(run: RunView | Digest, names: SteadyNames | None = None) -> Json:
    """What changes with every slice: components, words, what is new and what comes next."""
    digest = as_digest(run)
    readable = _readable(digest.view)
    modes = mode_profiles(readable)
    found = described(digest, modes) if modes else []
    if names is not None:
        found = names.keep(found, digest.view.factors)
    found = called(found, read_names(digest.view.path))
    calendar, fit, changed = digest.calendar, judge(digest), changes(digest, found)
    told = copy.copy(digest)
    told.view = readable
    return {
        "modes": [_mode(name, k, modes) for k, name in enumerate(readable.modes)],
        "components": [_component(pattern, modes) for pattern in found],
        "calendar": {
            "weekday": _columns(calendar.weekday),
            "month": _columns(calendar.month),
            "hour": _columns(calendar.hour),
        },
        "scale": _rounded(digest.scale),
        "fit": {
            "unit": fit.unit,
            "figure": fit.figure,
            "caption": fit.caption,
            "sentence": fit.sentence,
        },
        "interval": digest.interval,
        "about": data(told),
        "changes": [dataclasses.asdict(change) for change in changed],
        "forecast": drawn(outlook(digest)),
        "summary": summarize(told, found, fit, changed),
    }


def _readable(view: RunView) -> RunView:
    """The run with names that can be shown."""
    labels = tuple(all_short(names) for names in view.labels)
    return dataclasses.replace(view, labels=labels, modes=tuple(all_short(shown_modes(view.modes))))


def build_steps(digest: Digest) -> Json:
    """All slices as points, several in one where there are too many, and the newest in full."""
    kept = {step.get("number") for step in (*digest.odd, *digest.alarms)}
    kept |= {step.get("number") for step in list(digest.newest)[-1:]}
    points = list(digest.series)
    rows = [row(p, kept) for p in points]
    if digest.series.stride > 1 and digest.newest:
        first = digest.newest[0].get("number", 0)
        at = next((i for i, p in enumerate(points) if p.first >= first), len(points))
        since = points[at].first if at < len(points) else math.inf
        newest = [step for step in digest.newest if step.get("number", 0) >= since]
        rows[at:] = [row(point([step], digest.divisor), kept) for step in newest]
    return {"stride": digest.series.stride, "rows": rows, **counts(digest)}


def counts(digest: Digest) -> Json:
    """What is known about all slices together, and of late."""
    return {
        "count": digest.count,
        "events": digest.events,
        "seconds": digest.seconds,
        "flagged": digest.flagged,
        "scored": digest.scored,
        "first": digest.first_time,
        # Each whole: of several alarms in one point only the oddest is drawn.
        "lately": [
            row(point([step], digest.divisor), {step.get("number")})
            for step in digest.alarms[:LATELY]
        ],
    }


def row(drawn_point: Point, kept: set[int | None]) -> Json:
    """One drawn point: a slice, or a few in a row, of which the oddest stands for all.

    Parameters
    ----------
    drawn_point
        The slices.
    kept
        Numbers of the slices whose cells are sent along.
    """
    p, odd = drawn_point, drawn_point.odd
    anomaly, (total, known) = odd.get("anomaly"), p.total
    out: Json = {
        "n": odd.get("number"),
        "t": odd.get("time"),
        "warm": p.warm,
        "total": _fine(total / known) if known else None,
        **dict(zip(("pre", "local"), map(_short, p.loss[:2]), strict=True)),
        "w": _rounded(p.size),
        "drift": _rounded(p.drift),
    }
    if p.count > 1:
        out |= {"k": p.count, "low": _fine(p.low), "high": _fine(p.high)}
        if p.flagged > 1:
            out["flags"] = p.flagged
    if p.expected[1]:
        out["expected"] = _fine(p.expected[0] / p.expected[1])
    if p.losses[2, 1]:
        out["global"] = _short(p.loss[2])
    out |= {name: int(n) for name, n in zip(COUNTS, p.happened, strict=True) if n}
    out |= {name: True for name in ("held", "partial") if getattr(p, name)}
    if p.regime:
        out["regime"] = p.regime
    if anomaly:
        out["a"] = {
            name: _fine(anomaly.get(name))
            for name in ("expected_low", "expected_high", "expected_total")
        }
        out["a"]["volume_p"] = _short(anomaly.get("volume_p"))
        out["a"]["p"] = _short(max(10.0 ** -min(score(odd), 400.0), SMALLEST_P))
        out["a"]["total"] = _fine(odd.get("total"))
        out["a"]["flagged"] = bool(anomaly.get("flagged"))
        out["a"]["kind"], out["a"]["severity"] = anomaly.get("kind"), anomaly.get("severity")
        if odd.get("number") in kept:
            out["a"] |= details(odd)
    return out


def details(step: Step) -> Json:
    """Why a slice was odd: its sentence, and the rows and cells that stand out."""
    anomaly = anomaly_of(step)
    return {
        "said": short(said(step), 600),
        "cells": [_cell(cell) for cell in anomaly.get("cells") or ()],
        "modes": [
            [_row(entry) for entry in mode if "observed" in entry]
            for mode in anomaly.get("modes") or ()
        ],
    }


def _mode(name: str, k: int, modes: Sequence[ModeProfile]) -> Json:
    if k >= len(modes):
        return {"name": name, "kind": "category", "length": 0}
    mode = modes[k]
    out: Json = {"name": name, "kind": mode.kind, "length": len(mode.labels)}
    if mode.kind != "category":
        out["labels"] = list(mode.labels)
    return out


def _component(pattern: Pattern, modes: Sequence[ModeProfile]) -> Json:
    return {
        "id": pattern.component,
        "share": _short(pattern.share),
        "headline": pattern.headline,
        "sentence": pattern.sentence,
        "modes": columns_of(pattern.component, modes),
    }


def columns_of(r: int, modes: Sequence[ModeProfile]) -> list[Json]:
    """A component along each mode: all of an ordered one, the strongest labels of others."""
    columns: list[Json] = []
    for mode in modes:
        column = mode.shares[:, r]
        if mode.kind != "category":
            columns.append({"values": _rounded(column)})
            continue
        best = np.argsort(-np.abs(column), kind="stable")[:TOP]
        best = best[np.abs(column[best]) > 0]
        columns.append(
            {
                "labels": [mode.labels[i] for i in best],
                "values": _rounded(column[best]),
                "rest": _short(1 - float(np.abs(column[best]).sum())),
                "others": len(column) - len(best),
            }
        )
    return columns


def _cell(cell: Mapping[str, Any]) -> list[Any]:
    names = cell.get("labels") or cell.get("index") or ()
    return [[short(str(name)) for name in names], *_numbers(cell)]


def _row(entry: Mapping[str, Any]) -> list[Any]:
    return [short(str(entry["label"])), *_numbers(entry)]


def _numbers(entry: Mapping[str, Any]) -> list[Any]:
    return [_short(entry.get(name)) for name in ("observed", "expected", "low", "high", "p")]


def _columns(profile: np.ndarray | None) -> list[list[float | None]] | None:
    return None if profile is None else [_rounded(column) for column in profile.T]


def _rounded(values: np.ndarray) -> list[float | None]:
    return [_short(v) for v in values.tolist()]


def _short(value: Any) -> Any:
    """Four significant digits, which is more than a screen shows where an axis begins at 0."""
    return _to_digits(value, 4)


def _fine(value: Any) -> Any:
    """Seven, where the axis does not: levels may hardly move."""
    return _to_digits(value, 7)


def _to_digits(value: Any, digits: int) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if not math.isfinite(value):
        return None
    short = float(f"{value:.{digits if abs(value) < 1e5 else 7}g}")
    return int(short) if short.is_integer() else short
