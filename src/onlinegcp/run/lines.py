"""The line of a slice: what steps.jsonl says about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.anomaly import drift
from onlinegcp.slices import Slice
from onlinegcp.solvers.objective import slice_loss
from onlinegcp.streaming import StreamingModel
from onlinegcp.streaming.admission import widen

FloatArray = NDArray[np.float64]
Line = dict[str, Any]

_OF_THE_STEP = ("prequential", "local", "forget", "newton_steps", "births", "deaths", "merges")
_NO_STEP = {"forget": None, "newton_steps": 0, "births": 0, "deaths": 0, "merges": 0}


def learned_line(
    x: Slice,
    number: int,
    model: StreamingModel,
    old: Sequence[FloatArray] | None,
    anomaly: dict[str, Any] | None,
) -> Line:
    """The line of a slice the model has just learned.

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
    """
    record = model.last_
    assert record is not None
    step = {name: getattr(record, name) for name in _OF_THE_STEP}
    moved = np.zeros(model.rank) if old is None else drift(old, model.factors_)
    return _line(x, number, step, model.weights_, moved, anomaly)


def held_line(x: Slice, number: int, model: StreamingModel, anomaly: dict[str, Any]) -> Line:
    """The line of a flagged slice that was not learned."""
    weights, loss = seen(x, model)
    step = {"prequential": loss, "local": loss, **_NO_STEP}
    return _line(x, number, step, weights, np.zeros(model.rank), anomaly, held=True)


def warm_lines(slices: Sequence[Slice], number: int, model: StreamingModel) -> list[Line]:
    """Lines of the slices a warm start was made from, as the model now sees them."""
    lines = []
    for x in slices:
        weights, loss = seen(x, model)
        step = {"prequential": None, "local": loss, **_NO_STEP}
        lines.append(_line(x, number, step, weights, np.zeros(model.rank), None, warm=True))
        number += 1
    return lines


def _line(
    x: Slice,
    number: int,
    step: dict[str, Any],
    weights: FloatArray,
    moved: FloatArray,
    anomaly: dict[str, Any] | None,
    *,
    warm: bool = False,
    held: bool = False,
) -> Line:
    return {
        "number": number,
        "time": written(x.time),
        "warm": warm,
        "nnz": x.nnz,
        "n_observed": x.n_observed,
        "total": x.total,
        "norm_squared": x.norm_squared,
        **step,
        "weights": weights,
        "drift": moved,
        "held": held,
        "anomaly": anomaly,
    }


def seen(x: Slice, model: StreamingModel) -> tuple[FloatArray, float]:
    """Weights of a slice, and its loss with them, under the factors as they are now."""
    factors = model.factors_
    shape = tuple(len(a) for a in factors)
    known = cropped(x, shape)
    # As the model sees a slice from before its newest labels: dense ones are left to it.
    known = known if known.array is not None else widen(known, shape)
    weights = model.transform([known])[0]
    return weights, slice_loss(known, factors, weights, model._get_loss(), seed=model._seed)


def cropped(x: Slice, shape: Sequence[int]) -> Slice:
    """The part of a slice that a model without its newest labels can see."""
    if all(n <= m for n, m in zip(x.shape, shape, strict=True)):
        return x
    inside = (x.index < np.array(shape)).all(axis=1)
    smaller = tuple(map(min, x.shape, shape))
    return Slice(x.index[inside], x.value[inside], smaller, time=x.time, unlisted=x.unlisted)


def written(moment: Any) -> Any:
    """A time as ISO text or number."""
    if isinstance(moment, np.datetime64 | np.timedelta64):
        return str(moment)
    if isinstance(moment, np.generic):
        moment = moment.item()
    if moment is None or isinstance(moment, int | float | str):
        return moment
    return moment.isoformat() if hasattr(moment, "isoformat") else str(moment)
