"""One slice of a run: scored, learned, and told as lines. Nothing here knows a directory."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from onlinegcp import runlog
from onlinegcp.anomaly import held_back, is_counted, score_slice
from onlinegcp.errors import DataError
from onlinegcp.events.stream import EventStream
from onlinegcp.kernels.blas import one_blas_thread
from onlinegcp.run.checkpoint import Checkpoint
from onlinegcp.run.lines import learned_line, unseen, warm_lines, written
from onlinegcp.run.settings import spoken
from onlinegcp.slices import Slice
from onlinegcp.streaming import StreamingModel
from onlinegcp.streaming.scaling import calling


def advance(
    point: Checkpoint, info: Mapping[str, Any], x: Slice, events: EventStream | None, *, hold: bool
) -> list[runlog.Step]:
    """Score and learn one slice; its line, or none or many around the end of the warm start.

    Parameters
    ----------
    point
        Where the run stands, which then is after the slice, but for lines and sources.
    info
        Settings of the run.
    x
        The slice.
    events
        The stream it came from, if its data are events.
    hold
        Whether its odd rows are learned as they usually are, if it is flagged.
    """
    start, kept = time.perf_counter(), point.labels
    partial = False
    if events is not None:
        point.labels, partial = events.labels, events.partial
    try:
        with one_blas_thread(), calling(info.get("modes") or (), point.labels):
            lines = _lines(point, info, x, hold, partial)
    except BaseException as error:
        labels, point.labels = point.labels, kept
        if not isinstance(error, DataError):
            raise
        cell = getattr(error, "cell", None)
        named = "" if x.time is None else f"In the slice of {written(x.time)}: "
        if cell is not None and labels is not None:
            names = (of[i] for of, i in zip(labels, cell, strict=True))
            named += f"in the cell of {', '.join(map(repr, names))}: "
        if not named:
            raise
        raise DataError(f"{named}{error}") from error
    seconds = time.perf_counter() - start
    point.last_time = x.time
    if events is not None:
        point.events = events.state(vocabularies=False)
    return [{**line, "seconds": round(seconds / len(lines), 6)} for line in lines]


def collected(model: StreamingModel) -> tuple[Slice, ...] | None:
    """Slices a warm start has collected so far; None when it is over."""
    if model.started_:
        return None
    return tuple(model.get_state()["buffer"]) if model.__sklearn_is_fitted__() else ()


def after(last: Any, slices: Iterable[Slice]) -> Iterator[Slice]:
    """Slices without the first ones whose time is not after `last`, which were learned before."""
    passed = last is None
    for x in slices:
        with contextlib.suppress(TypeError):  # of another kind than `last`
            if not passed and x.time is not None and x.time <= last:
                continue
        passed = True
        yield x


def _lines(
    point: Checkpoint, info: Mapping[str, Any], x: Slice, hold: bool, partial: bool
) -> list[runlog.Step]:
    model, number = point.model, point.n_steps + 1
    buffer = collected(model)
    if buffer is not None:
        model.partial_fit([x])
        point.tracker.update_unscored(x, counted=is_counted(model.loss_))
        if collected(model) is not None:
            return []
        if model.init is None:
            return warm_lines([*buffer, x], number, model)
        return [learned_line(x, number, model, None, None)]
    old = model.factors_
    if partial or not x.n_observed:  # half a day is no collapse: it is learned, and not judged
        model.partial_fit([x])
        point.tracker.update_unscored(unseen(x), counted=is_counted(model.loss_))
        return [{**learned_line(x, number, model, old, None), "partial": partial}]
    anomaly = score_slice(model, x, point.labels, history=point.tracker, **spoken(info))
    learned = held_back(x, anomaly) if hold and anomaly.flagged else x
    model.partial_fit([learned])
    line = learned_line(x, number, model, old, anomaly.to_json(), held=learned is not x)
    point.tracker.update(anomaly)
    return [line]
