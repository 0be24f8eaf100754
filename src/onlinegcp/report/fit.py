"""How well the past explains the present: the losses of a run on a scale a person can read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from onlinegcp.drawing.profiles import FloatArray
from onlinegcp.drawing.text import and_list, number, percent
from onlinegcp.losses import LOSS_NAMES, Traits, get_loss
from onlinegcp.runlog import Number, RunView, Step


@final
@dataclass(frozen=True)
class Fit:
    """The quality of a run.

    Attributes
    ----------
    unit
        What the losses are divided by: "event" (the sum of values) or "squared norm".
    figure, caption
        The one number to show, and what it means; "" where there is none.
    sentence
        The same in a sentence.
    """

    unit: str
    figure: str
    caption: str
    sentence: str


def loss_name(view: RunView) -> str:
    """Name of the loss the run was fitted with."""
    given = (view.info.get("model") or {}).get("parameters", {}).get("loss", "gaussian")
    if isinstance(given, dict):
        inner = given.get("loss", given)
        given = inner.get("name", "own") if isinstance(inner, dict) else given.get("own_loss")
    return str(given)


def loss_traits(view: RunView) -> Traits:
    """What is special about that loss; nothing if it is not a built-in one."""
    name = loss_name(view)
    return get_loss(name).traits if name in LOSS_NAMES else Traits()


def series(steps: Sequence[Step], name: Number) -> FloatArray:
    """A field of all steps, NaN where there is none."""
    values = [step.get(name) for step in steps]
    return np.array([np.nan if v is None else v for v in values], dtype=np.float64)


def divisor(view: RunView) -> tuple[str, FloatArray]:
    """What makes losses of large and small slices comparable, and its name."""
    traits = loss_traits(view)
    field: Number = "total" if traits.counts or traits.binary else "norm_squared"
    size = series(view.steps, field)
    return "event" if field == "total" else "squared norm", np.where(size > 0, size, np.nan)


def mean_losses(view: RunView) -> dict[str, float]:
    """Mean of the prequential, local and global loss over the slices that were predicted.

    All three over the same slices, so that they compare, and divided as in the charts. A loss
    that is not known for all of them is left out.
    """
    _, size = divisor(view)
    before = series(view.steps, "prequential")
    chosen = np.isfinite(before) & np.isfinite(size)
    means = {}
    for name in ("prequential", "local", "global"):
        losses = (series(view.steps, name) / size)[chosen]
        if losses.size and np.isfinite(losses).all():
            means[name] = float(losses.mean())
    return means


def say_means(view: RunView) -> str:
    """The same in a sentence; "" where nothing was predicted yet."""
    means = mean_losses(view)
    if not means:
        return ""
    told = and_list([f"{number(mean, 4)} {name}" for name, mean in means.items()])
    return f"Mean loss per {divisor(view)[0]} after the warm start: {told}"


def judge(view: RunView) -> Fit:
    """How well the slices after the warm start were predicted before they were learned."""
    unit, size = divisor(view)
    before = series(view.steps, "prequential")
    scored = np.isfinite(before) & np.isfinite(size)
    if not scored.any():
        return Fit(unit, "", "", "No slice has been predicted yet: the warm start is not over")
    loss, n = before[scored], size[scored]
    figure, caption, sentence = _quality(view, scored, loss, n)
    trend = _trend(loss / n)
    if not sentence:
        sentence = f"The mean prequential loss is {number(float((loss / n).mean()))} per {unit}"
    return Fit(unit, figure, caption, f"{sentence}; {trend}" if trend else sentence)


def _quality(
    view: RunView, scored: np.ndarray, loss: FloatArray, n: FloatArray
) -> tuple[str, str, str]:
    cells, traits = series(view.steps, "n_observed")[scored], loss_traits(view)
    if traits.quadratic:
        share = 1 - float(loss.sum() / n.sum())
        text = f"Before learning a slice, the model explains {percent(share)} of its squared size"
        return percent(share), "of each slice explained before seeing it", text
    if traits.poisson:
        # The same loss for one rate everywhere; terms in the data alone cancel.
        even = n - n * np.log(n / cells)
        times = float(np.exp((even - loss).sum() / n.sum()))
        if times < 1.05:
            text = "Before learning a slice, the model predicts no better than an even spread"
            return "1x", "no better than an even spread", text
        text = (
            f"Before learning a slice, the model gave the cells where events then happened "
            f"{number(times, 2)} times the chance that an even spread would"
        )
        return f"{number(times, 2)}×", "better aimed than an even spread", text
    if traits.binary:
        rate = np.clip(n / cells, 1e-12, 1 - 1e-12)
        even = -(n * np.log(rate) + (cells - n) * np.log1p(-rate))
        share = 1 - float(loss.sum() / even.sum())
        text = (
            f"Before learning a slice, the model removes {percent(share)} of the uncertainty "
            "that one rate for all cells leaves"
        )
        return percent(share), "of uncertainty removed before seeing a slice", text
    return "", "", ""


def _trend(loss: FloatArray) -> str:
    """Whether the last quarter is predicted better than the first."""
    quarter = len(loss) // 4
    if quarter < 5:
        return ""
    first, last = loss[:quarter], loss[-quarter:]
    gap = float(np.median(last) - np.median(first))
    noise = float(np.median(np.abs(loss - np.median(loss)))) + 1e-12
    if abs(gap) < noise:
        return "that stayed steady over the run"
    return "that got better over the run" if gap < 0 else "that got worse towards the end"
