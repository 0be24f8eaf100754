"""How well the past explains the present: the losses of a run on a scale a person can read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from onlinegcp.digest import Digest, as_digest
from onlinegcp.drawing.profiles import FloatArray
from onlinegcp.drawing.text import and_list, number, percent
from onlinegcp.runlog import RunView


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


def mean_losses(run: RunView | Digest) -> dict[str, float]:
    """Mean of the prequential, local and global loss over the slices that were predicted.

    All three over the same slices, so that they compare, and divided as in the charts. A loss
    that is not known for all of them is left out.
    """
    sums = as_digest(run).fit
    return {
        str(name): total / count
        for name, (total, count) in sums.means.items()
        if count and count == sums.count
    }


def say_means(run: RunView | Digest) -> str:
    """The same in a sentence; "" where nothing was predicted yet."""
    digest = as_digest(run)
    means = mean_losses(digest)
    if not means:
        return ""
    told = and_list([f"{number(mean, 4)} {name}" for name, mean in means.items()])
    return f"Mean loss per {digest.unit} after the warm start: {told}"


def judge(run: RunView | Digest) -> Fit:
    """How well the slices after the warm start were predicted before they were learned."""
    digest = as_digest(run)
    if not digest.fit.count:
        unit = digest.unit
        return Fit(unit, "", "", "No slice has been predicted yet: the warm start is not over")
    figure, caption, sentence = _quality(digest)
    trend = _trend(np.array([p.loss[0] for p in digest.series]))
    if not sentence:
        mean = mean_losses(digest)["prequential"]
        sentence = f"The mean prequential loss is {number(mean)} per {digest.unit}"
    return Fit(digest.unit, figure, caption, f"{sentence}; {trend}" if trend else sentence)


def _quality(digest: Digest) -> tuple[str, str, str]:
    sums, traits = digest.fit, digest.traits
    if traits.quadratic:
        share = 1 - sums.loss / sums.size
        text = f"Before learning a slice, the model explains {_most(share)} of its squared size"
        return _most(share), "of each slice explained before seeing it", text
    if traits.poisson:
        # The same loss for one rate everywhere; terms in the data alone cancel.
        times = float(np.exp((sums.even_counts - sums.loss) / sums.size))
        if times < 1.05:
            text = "Before learning a slice, the model predicts no better than an even spread"
            return "1×", "no better than an even spread", text
        text = (
            f"Before learning a slice, the model gave the cells where events then happened "
            f"{number(times, 2)} times the chance that an even spread would"
        )
        return f"{number(times, 2)}×", "better aimed than an even spread", text
    if traits.binary:
        share = 1 - sums.loss / sums.even_binary
        text = (
            f"Before learning a slice, the model removes {percent(share)} of the uncertainty "
            "that one rate for all cells leaves"
        )
        return percent(share), "of uncertainty removed before seeing a slice", text
    return "", "", ""


def _most(share: float) -> str:
    """A share as a percentage, and not all of it where a little is left.

    Examples
    --------
    >>> _most(0.9999), _most(0.9962), _most(0.98), _most(1.0)
    ('99.9 %', '99.6 %', '98 %', '100 %')
    """
    return f"{math.floor(1000 * share) / 10:.1f} %" if 0.995 <= share < 1.0 else percent(share)


def _trend(losses: FloatArray) -> str:
    """Whether the last quarter is predicted better than the first."""
    loss = losses[np.isfinite(losses)]
    quarter = len(loss) // 4
    if quarter < 5:
        return ""
    first, last = loss[:quarter], loss[-quarter:]
    gap = float(np.median(last) - np.median(first))
    noise = float(np.median(np.abs(loss - np.median(loss)))) + 1e-12
    if abs(gap) < noise:
        return "that stayed steady over the run"
    return "that got better over the run" if gap < 0 else "that got worse towards the end"
