"""The line of a slice: what steps.jsonl says about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from onlinegcp.anomaly import drift
from onlinegcp.runlog import Anomaly, Step
from onlinegcp.slices import Slice, widen
from onlinegcp.streaming import StreamingModel

FloatArray = NDArray[np.float64]


def learned_line(
    x: Slice,
    number: int,
    model: StreamingModel,
    old: Sequence[FloatArray] | None,
    anomaly: dict[str, Any] | None,
    *,
    held: bool = False,
) -> Step:
    """The line of a slice the model has just learned, or gathered to learn it later.

    Parameters
    ----------
    x
        The slice.
    number
        Number of the line, from 1.
    model
        The model, after learning it.
    old
        Its factors before, for the drift.
    anomaly
        What was found before learning.
    held
        Whether odd rows of it were learned as they usually are.
    """
    if model.n_waiting_:
        weights, loss = seen(x, model)
        line = _line(x, model, number, loss, loss, weights)
        line["anomaly"] = cast("Anomaly | None", anomaly)
        return line
    record = model.last_
    assert record is not None
    moved = np.zeros(model.rank_) if old is None else _drift(old, model)
    line = _line(x, model, number, record.prequential, record.local, model.weights_)
    line["forget"] = record.forget
    line["newton_steps"] = record.newton_steps
    line["births"], line["deaths"] = record.births, record.deaths
    line["merges"], line["held"] = record.merges, held
    line["order"] = None if record.order is None else list(record.order)
    line["regime"], line["regime_since"] = record.regime, record.regime_since
    line["drift"], line["anomaly"] = moved, cast("Anomaly | None", anomaly)
    return line


def _drift(old: Sequence[FloatArray], model: StreamingModel) -> FloatArray:
    """How far each component has turned; a new one was nowhere before."""
    order = None if model.last_ is None else model.last_.order
    if order is not None:
        at = np.array(order)
        old = [np.where(at >= 0, a[:, at], 0.0) for a in old]
    return drift(old, model.factors_)


def warm_lines(slices: Sequence[Slice], number: int, model: StreamingModel) -> list[Step]:
    """Lines of the slices a warm start was made from, as the model now sees them."""
    lines = []
    for n, x in enumerate(slices, number):
        weights, loss = seen(x, model)
        line = _line(x, model, n, None, loss, weights)
        line["warm"] = True
        lines.append(line)
    return lines


def _line(
    x: Slice,
    model: StreamingModel,
    number: int,
    prequential: float | None,
    local: float,
    weights: FloatArray,
) -> Step:
    """Every field of a line, for a slice at which nothing happened."""
    return {
        "number": number,
        "time": written(x.time),
        "warm": False,
        "nnz": x.nnz,
        "n_observed": x.n_observed,
        "total": x.total,
        "norm_squared": model.recorded_norm(x),
        "prequential": prequential,
        "local": local,
        "forget": None,
        "newton_steps": 0,
        "births": 0,
        "deaths": 0,
        "merges": 0,
        "rank": len(weights),
        "order": None,
        "regime": "",
        "regime_since": None,
        "weights": weights,
        "drift": np.zeros(len(weights)),
        "held": False,
        "partial": False,
        "anomaly": None,
    }


def seen(x: Slice, model: StreamingModel) -> tuple[FloatArray, float]:
    """Weights of a slice, and its loss as recorded, under the factors as they are now."""
    factors = model.factors_
    shape = tuple(len(a) for a in factors)
    known = cropped(x, shape)
    # As the model sees a slice from before its newest labels: dense ones are left to it.
    known = known if known.array is not None else widen(known, shape)
    weights = model.transform([known])[0]
    return weights, model.recorded_loss(known, weights)


def cropped(x: Slice, shape: Sequence[int]) -> Slice:
    """The part of a slice that a model without its newest labels can see."""
    if all(n <= m for n, m in zip(x.shape, shape, strict=True)):
        return x
    inside = (x.index < np.array(shape)).all(axis=1)
    smaller = tuple(map(min, x.shape, shape))
    return Slice(x.index[inside], x.value[inside], smaller, time=x.time, unlisted=x.unlisted)


def unseen(x: Slice) -> Slice:
    """A slice of the same time and shape of which nothing is known."""
    return Slice([], [], x.shape, time=x.time, unlisted="missing")


def written(moment: Any) -> Any:
    """A time as ISO text or number."""
    if isinstance(moment, np.datetime64 | np.timedelta64):
        return str(moment)
    if isinstance(moment, np.generic):
        moment = moment.item()
    if moment is None or isinstance(moment, int | float | str):
        return moment
    return moment.isoformat() if hasattr(moment, "isoformat") else str(moment)
