"""Sums of all cells of the next slices, and how sure they are.

Where data are multiples of model values the sum over all cells follows from sums of columns. Where
they are not (odds, logits, logarithms) cells are written out, and the slope of their sum says what
an error of a weight does to it.

Some patterns say little about totals: under a loss that expects a few cells to hold nearly all, or
where most of them are new. What slices held is then carried on itself, as long as that would have
foreseen the newest of them far better, and cells are brought to it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from onlinegcp.errors import DataError
from onlinegcp.forecasting.cells import Drawn, patterns_only
from onlinegcp.forecasting.recent import Recent
from onlinegcp.forecasting.seen import Seen
from onlinegcp.forecasting.smoothing import Carried, carry_on
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import Loss

FloatArray: TypeAlias = NDArray[np.float64]

_DENSE_CELLS = 20_000_000  # 160 MB of them
_FAR_BETTER = 0.5  # of the error that patterns make
_JUDGES = 8  # slices that were foreseen both ways, at least
_NUDGE = 1e-6  # of a model value, for slopes


def totals(
    factors: Sequence[FloatArray], drawn: Drawn, covariance: FloatArray, loss: Loss, seen: Seen
) -> tuple[FloatArray, FloatArray]:
    """Sums of the expected cells of each slice, and the variance of these sums.

    Parameters
    ----------
    factors
        Factors.
    drawn
        Slices to come.
    covariance
        (steps, R, R) of the errors of weights.
    loss
        What turns model values into data.
    seen
        How often each cell is observed, which is what it counts.
    """
    slope = loss.mean_slope
    if slope is not None:
        sums = seen.sums(factors)
        spread = np.einsum("r,hrs,s->h", sums, covariance, sums)
        held = drawn.weights @ sums + drawn.shares @ (drawn.rows @ seen.at(drawn.index))
        return slope * held, slope**2 * (spread + drawn.apart)
    if math.prod(len(a) for a in factors) > _DENSE_CELLS:
        raise DataError(
            f"Totals of at most {_DENSE_CELLS:,} cells can be summed for the loss {loss.name!r}, "
            "whose expectations are not sums, but slices are larger. Use fewer labels."
        )
    cells = seen.dense()
    found = [
        _summed(row, own, factors, loss, cells)
        for row, own in zip(drawn.weights, covariance, strict=True)
    ]
    return np.array([total for total, _ in found]), np.array([spread for _, spread in found])


def _summed(
    weights: FloatArray,
    covariance: FloatArray,
    factors: Sequence[FloatArray],
    loss: Loss,
    seen: FloatArray,
) -> tuple[float, float]:
    """The sum of all cells, and its variance: what each weight adds, where the model is."""
    values = KTensor(weights, factors).full()
    step = _NUDGE * np.maximum(np.abs(values), 1e-3)
    mean = np.asarray(loss.mean(values))
    slopes = seen * (np.asarray(loss.mean(values + step)) - mean) / step
    adds = np.zeros(len(weights))
    for r in range(len(weights)):
        part = slopes
        for a in factors:
            part = np.tensordot(a[:, r], part, axes=(0, 0))
        adds[r] = part
    return float((seen * mean).sum()), float(adds @ covariance @ adds)


def held_instead(
    recent: Recent,
    past: FloatArray,
    carried: Carried,
    steps: int,
    period: int | None,
    slope: float,
    factors: Sequence[FloatArray],
) -> Carried | None:
    """What slices held, carried on; None where patterns foresee that about as well.

    Parameters
    ----------
    recent
        The newest slices.
    past
        (times, R) what each component held; the last rows are those of `recent`.
    carried
        The past carried on.
    steps
        How far.
    period
        Slices after which the calendar lets expect a repetition.
    slope
        What the data of a model value of one are.
    factors
        Factors, none of them negative.
    """
    count, size = min(len(recent), len(past)), math.prod(map(len, factors))
    if count < _JUDGES or not all(x.whole or len(x.value) == size for x in recent.slices):
        return None  # who knows what cells held that nobody saw
    held = np.array([float(x.value.sum(dtype=np.float64)) for x in recent.slices[-count:]])
    alone = carry_on(held[:, None], steps, period)
    judges = min(len(alone.near), len(carried.near), count)
    if judges < _JUDGES:
        return None
    foreseen = slope * (past[-judges:] - carried.near[-judges:]).sum(axis=1)
    missed = np.abs(held[-judges:] - foreseen)
    known = np.isfinite(missed)
    error = np.abs(alone.near[-judges:, 0])
    if not known.any() or error[known].mean() > _FAR_BETTER * missed[known].mean():
        return None
    return alone


def brought_to(
    total: FloatArray, spread: FloatArray, drawn: Drawn, mean: FloatArray
) -> tuple[Drawn, FloatArray, FloatArray]:
    """A forecast whose cells are all larger or smaller, so that they hold these totals.

    Parameters
    ----------
    total, spread
        (steps,) what slices will hold, and its variance.
    drawn
        Slices to come, with patterns whose columns sum to one.
    mean
        (steps, R) what each pattern is expected to hold.

    Returns
    -------
    drawn, mean, covariance
        The same, brought to the totals, and the covariance of what patterns hold.
    """
    held = mean.sum(axis=1, keepdims=True)
    even = np.full_like(mean, 1.0 / mean.shape[1])
    shares = np.divide(mean, held, out=even, where=held > 0)
    covariance = spread[:, None, None] * shares[:, :, None] * shares[:, None, :]
    brought, cells = shares * total[:, None], drawn.index.shape[1]
    sums = drawn.weights.sum(axis=1) + drawn.shares @ drawn.rows.sum(axis=1)
    if (sums <= 0.0).any():
        return patterns_only(brought, cells), brought, covariance
    scale = (total / sums)[:, None]
    parts = {"weights": scale * drawn.weights, "shares": scale * drawn.shares}
    found = replace(drawn, **parts, apart=0.0)  # totals were foreseen themselves
    return found, brought, covariance
