"""Everything a page shows about a run, as plain JSON: the one input of the report and live page."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from onlinegcp.drawing.profiles import (
    ModeProfile,
    activations,
    matrix,
    mode_profiles,
    scale,
    time_profile,
)
from onlinegcp.report.fit import divisor, judge, loss_name, series
from onlinegcp.report.summary import summarize
from onlinegcp.report.words import Pattern, called, describe
from onlinegcp.runlog import COUNTS, Number, RunView, Step, anomaly_of
from onlinegcp.runlog.names import read_names
from onlinegcp.runlog.told import score, sentence
from onlinegcp.storage.older import todays_parameters
from onlinegcp.storage.printable import all_short, presentable, short, without_folders

# Points a page draws per series at most, numbers per matrix, and slices whose cells it keeps:
# with 50 components together under 4 MB.
MOST_POINTS = 6000
MOST_NUMBERS = 300_000
MOST_DETAILS = 400
# Bars per category mode.
TOP = 8

Json = dict[str, Any]


def build(view: RunView, *, live: bool = False, missing: str = "") -> Json:
    """The whole payload.

    Parameters
    ----------
    view
        The run; steps may have a field "global".
    live
        Whether the page follows the run.
    missing
        Why they do not have it.
    """
    return {
        "live": live,
        "name": short(view.path.resolve().name),
        "run": presentable({**describe_run(view), "no_global": without_folders(missing)}),
        "model": build_model(view),
        "steps": build_steps(view),
    }


def describe_run(view: RunView) -> Json:
    """Settings, environment and how to reproduce the run."""
    info = view.info
    model = info.get("model") or {}
    return {
        "created": info.get("created"),
        "version": info.get("version"),
        "environment": info.get("environment") or {},
        "method": model.get("method"),
        "parameters": _parameters(model),
        "events": info.get("events") or {},
        "command": [without_folders(str(word)) for word in info.get("command") or ()] or None,
        "loss": loss_name(view),
        "level": (info.get("anomaly") or {}).get("level", 0.01),
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


def build_model(view: RunView) -> Json:
    """What changes with every slice: components, words and the summary."""
    view = _readable(view)
    modes = mode_profiles(view)
    active = activations(view) if view.factors else np.zeros((len(view.steps), 0))
    found = describe(modes, active, view.times) if modes else []
    found = called(found, read_names(view.path))
    calendar = time_profile(view.times, active)
    fit = judge(view)
    return {
        "modes": [_mode(name, k, modes) for k, name in enumerate(view.modes)],
        "components": [_component(pattern, modes) for pattern in found],
        "calendar": {
            "weekday": _columns(calendar.weekday),
            "month": _columns(calendar.month),
            "hour": _columns(calendar.hour),
        },
        "scale": _rounded(scale(view.factors)) if view.factors else [],
        "fit": {"unit": fit.unit, "figure": fit.figure, "caption": fit.caption},
        "summary": summarize(view, found, fit, active),
    }


def _readable(view: RunView) -> RunView:
    """The run with names that can be shown."""
    labels = tuple(all_short(names) for names in view.labels)
    return dataclasses.replace(view, labels=labels, modes=all_short(view.modes))


def build_steps(view: RunView) -> Json:
    """All steps as columns, several in one where there are too many to draw."""
    steps = view.steps
    rank = max(view.rank, 1)
    stride = max(1, math.ceil(len(steps) / min(MOST_POINTS, max(1, MOST_NUMBERS // rank))))
    chosen = [steps[i : i + stride] for i in range(0, len(steps), stride)]
    kept, unit = _worth_details(steps), divisor(view)[0]
    return {
        "stride": stride,
        "count": len(steps),
        "events": float(np.nansum(series(steps, "total"))) if steps else 0.0,
        "seconds": float(np.nansum(series(steps, "seconds"))) if steps else 0.0,
        "flagged": sum(1 for step in steps if anomaly_of(step).get("flagged")),
        "scored": sum(1 for step in steps if step.get("anomaly")),
        "rows": [row(group, kept, unit) for group in chosen],
    }


def row(group: Sequence[Step], kept: Collection[int], unit: str) -> Json:
    """One drawn point: a step, or a few in a row, of which the oddest stands for all.

    Parameters
    ----------
    group
        The steps, in order.
    kept
        Numbers of the steps whose cells are sent along.
    unit
        What losses are divided by, from `divisor`.
    """
    odd = min(group, key=_surprise_key)
    anomaly = odd.get("anomaly")
    rank = max(len(step.get("weights") or ()) for step in group)
    out: Json = {
        "n": odd.get("number"),
        "t": odd.get("time"),
        "warm": bool(group[-1].get("warm")),
        "total": _mean(group, "total"),
        "pre": _loss(group, "prequential", unit),
        "local": _loss(group, "local", unit),
        "w": _rounded(_quiet_mean(matrix(group, "weights", rank))),
        "drift": _rounded(np.fmax.reduce(matrix(group, "drift", rank), axis=0, initial=0.0)),
    }
    if any("global" in step for step in group):
        out["global"] = _loss(group, "global", unit)
    for name in COUNTS:
        if count := sum(step.get(name) or 0 for step in group):
            out[name] = count
    if found := [step["regime"] for step in group if step.get("regime")]:
        out["regime"] = found[-1]
    if any(step.get("held") for step in group):
        out["held"] = True
    if anomaly:
        out["a"] = {
            name: _short(anomaly.get(name))
            for name in ("volume_p", "expected_total", "expected_low", "expected_high")
        }
        out["a"]["p"] = _short(10.0 ** -score(odd))
        out["a"]["total"] = _short(odd.get("total"))
        out["a"]["flagged"] = bool(anomaly.get("flagged"))
        out["a"]["kind"], out["a"]["severity"] = anomaly.get("kind"), anomaly.get("severity")
        if odd.get("number") in kept:
            out["a"]["said"] = short(sentence(odd), 600)
            out["a"]["cells"] = [_cell(cell) for cell in anomaly.get("cells") or ()]
            out["a"]["modes"] = [
                [_row(entry) for entry in mode if "observed" in entry]
                for mode in anomaly.get("modes") or ()
            ]
    return out


def _surprise_key(step: Step) -> tuple[bool, float]:
    return not anomaly_of(step).get("flagged"), -score(step)


def _worth_details(steps: Sequence[Step]) -> set[int]:
    """Numbers of the slices whose cells are kept: the oddest, and the newest."""
    odd = sorted((s for s in steps if s.get("anomaly")), key=_surprise_key)[:MOST_DETAILS]
    return {step["number"] for step in [*odd, *steps[-1:]]}


def _mode(name: str, k: int, modes: Sequence[ModeProfile]) -> Json:
    if k >= len(modes):
        return {"name": name, "kind": "category", "length": 0}
    mode = modes[k]
    out: Json = {"name": name, "kind": mode.kind, "length": len(mode.labels)}
    if mode.kind != "category":
        out["labels"] = list(mode.labels)
    return out


def _component(pattern: Pattern, modes: Sequence[ModeProfile]) -> Json:
    columns: list[Json] = []
    for mode in modes:
        column = mode.shares[:, pattern.component]
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
    return {
        "id": pattern.component,
        "share": _short(pattern.share),
        "headline": pattern.headline,
        "sentence": pattern.sentence,
        "modes": columns,
    }


def _cell(cell: Mapping[str, Any]) -> list[Any]:
    names = cell.get("labels") or cell.get("index") or ()
    return [[short(str(name)) for name in names], *_numbers(cell)]


def _row(entry: Mapping[str, Any]) -> list[Any]:
    return [short(str(entry["label"])), *_numbers(entry)]


def _numbers(entry: Mapping[str, Any]) -> list[Any]:
    return [_short(entry.get(name)) for name in ("observed", "expected", "low", "high", "p")]


def _loss(group: Sequence[Step], name: Number, unit: str) -> Any:
    size: Number = "total" if unit == "event" else "norm_squared"
    pairs = [(s.get(name), s.get(size)) for s in group]
    good = [(loss, n) for loss, n in pairs if loss is not None and math.isfinite(loss) and n]
    if not good:
        return None
    return _short(sum(loss for loss, _ in good) / sum(n for _, n in good))


def _mean(group: Sequence[Step], name: Number) -> Any:
    values = [value for step in group if (value := step.get(name)) is not None]
    return _short(sum(values) / len(values)) if values else None


def _quiet_mean(values: np.ndarray) -> np.ndarray:
    count = np.isfinite(values).sum(axis=0)
    return np.asarray(np.nansum(values, axis=0) / np.where(count, count, np.nan))


def _columns(profile: np.ndarray | None) -> list[list[float | None]] | None:
    return None if profile is None else [_rounded(column) for column in profile.T]


def _rounded(values: np.ndarray) -> list[float | None]:
    return [_short(v) for v in values.tolist()]


def _short(value: Any) -> Any:
    """Four significant digits, which is more than a screen shows."""
    if value is None or isinstance(value, bool | str):
        return value
    if not math.isfinite(value):
        return None
    short = float(f"{value:.4g}") if abs(value) < 1e5 else float(f"{value:.7g}")
    return int(short) if short.is_integer() else short
