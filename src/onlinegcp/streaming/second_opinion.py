"""Whether the first slices say enough about each pattern, and a second start where they do not.

A pattern is told from noise in n slices if its sum over them stands out of the summed noise. Where
the least one hardly does, the likelihood of so few slices has several optima almost as good as the
best, and the right one may not be it. Then a second start is made from other draws. If both find
the same patterns, that is what the slices say; if not, the better one goes on, and the patterns
are looked for again in more slices, as many as make the least one clear.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onlinegcp.losses import Loss
from onlinegcp.slices import Slice, stack
from onlinegcp.streaming.matching import n_replaced
from onlinegcp.streaming.residuals import (
    cells,
    component_sizes,
    full,
    measurable,
    noise_edge,
    residuals,
    squared_sizes,
)
from onlinegcp.streaming.warm_start import WarmStart, begin, static_start

# Squared sizes over the edge of the noise. Planted patterns at 1.5 are confused in 7 of 100 cases,
# at 3 in none; a pattern below FAINTEST would not be clear in any number of slices that is kept.
CLEAR, FAINTEST = 4.0, 0.5
MOST_LOOKED_AT = 4  # times the slices of a warm start


@dataclass(frozen=True)
class Clearness:
    """How far a model of some slices stands above their noise.

    Attributes
    ----------
    least
        Squared size of the least component in the sum of the slices, over the edge of the noise.
    left
        The same of the largest pattern that the model leaves unexplained.
    loss
        Loss of the slices.
    """

    least: float
    left: float
    loss: float


def clearness(start: WarmStart, loss: Loss) -> Clearness | None:
    """How clear the patterns of a start are; None where slices are not complete and small.

    Parameters
    ----------
    start
        A model of the slices that it holds.
    loss
        The loss.
    """
    if not start.slices or not all(measurable(x) for x in start.slices):
        return None
    shape, views = start.slices[0].shape, start.factors
    total, energy, lost = np.zeros(math.prod(shape)), 0.0, 0.0
    for x, row in zip(start.slices, start.rows, strict=True):
        data, fitted = cells(x), full(row, views)
        scores = residuals(data, fitted, loss)
        total += scores
        energy += float(scores @ scores)
        lost += float(np.sum(loss.value(data, fitted)))
    edge = noise_edge(energy, shape)
    if not edge > 0.0 or not math.isfinite(lost):
        return None
    with np.errstate(all="ignore"):
        precision = np.nan_to_num(loss.fisher(data, full(start.mean, views)))
    least = float(component_sizes(start.rows.sum(axis=0), views, precision).min())
    return Clearness(least / edge, float(squared_sizes(total, shape)[0]) / edge, lost)


def sure_start(
    slices: Sequence[Slice], rank: int, loss: Loss, *, lower: float, starts: int, seed: int
) -> WarmStart:
    """A static start, checked by a second one where the slices say little.

    Parameters
    ----------
    slices, rank, loss, lower, starts, seed
        As for `static_start`.

    Returns
    -------
    The better one; its `look` says in how many slices its patterns should be looked for again.
    """
    first = static_start(slices, rank, loss, lower=lower, starts=starts, seed=seed)
    clear = clearness(first, loss)
    # Where much is left unexplained, as in most real data, many starts explain as much.
    if clear is None or not FAINTEST <= clear.least < CLEAR or clear.left > CLEAR:
        return first
    # Where both would begin with the same patterns they end with them: most need not be solved.
    draws: dict[str, Any] = {"lower": lower, "starts": 1, "seed": seed + 1}
    begun = begin(stack(slices), first.begun[0].shape[1], loss, **draws) if first.begun else None
    if begun is not None and n_replaced(first.begun, begun.factors[:-1]) == 0:
        return first
    second = static_start(slices, rank, loss, **draws)
    other = clearness(second, loss)
    if other is None or n_replaced(first.factors, second.factors) == 0:
        return first
    found = first if clear.loss <= other.loss else second
    needed = math.ceil(len(slices) * CLEAR / clear.least)
    return replace(found, look=min(needed, MOST_LOOKED_AT * len(slices)))
