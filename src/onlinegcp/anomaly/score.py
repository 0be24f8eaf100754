"""Scores a slice before it is learned: how odd it is in volume and in pattern, and why.

Two questions are kept apart. *Volume*: is the total what the recent totals lead one to expect?
*Pattern*: given weights fitted to the slice, do its cells depart from the model more than chance
allows? A slice is flagged when either p-value is below 1 - sqrt(1 - level), so that both together
raise an alarm for a share `level` of ordinary slices.

The pattern has two judges. The model's likelihood says what the deviance should be if the model
were true (`misfit`). Real data never come from the model, so an `AnomalyTracker` remembers how
large the misfit has been lately. The p-value is the larger of the two: an alarm needs a slice that
is odd for the model and odd among its neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onlinegcp.anomaly.misfit import Misfit, measure
from onlinegcp.anomaly.null_table import has_null
from onlinegcp.anomaly.tails import LOWEST_LOG, log_of, normal_quantile
from onlinegcp.anomaly.tracker import LEAST, AnomalyTracker, Evidence, volume_of
from onlinegcp.anomaly.volume import Difference, compare_volume
from onlinegcp.errors import DataError
from onlinegcp.kernels.blas import blas_threads
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice, as_slice, widen
from onlinegcp.streaming.model import StreamingModel

__all__ = ["Anomaly", "AnomalyTracker", "Evidence", "drift", "score_slice"]

FloatArray: TypeAlias = NDArray[np.float64]
Labels: TypeAlias = Sequence[Sequence[str]]

TOP_ROWS = 5
# Of the weights a slice is judged with. On 110 days of Chicago this leaves the deviance above its
# least value by 0.005 standard deviations, 0.08 at most, for half the time.
TOLERANCE = 3e-3


@dataclass(frozen=True)
class Anomaly:
    """How odd a slice is, and why.

    Attributes
    ----------
    p, z
        Probability of a pattern at least as odd, and the standard normal quantile it stands for.
    volume_p, volume_z
        The same for the total, from both sides; negative when there was less than expected.
    expected_total
        Total of the observed cells that the recent past predicts.
    flagged, kind
        Whether it is an alarm, and whether "pattern" or "volume" raised it.
    cells
        Cells that depart most: index, labels, observed, expected, p, and share of all excess. For
        counts of odd volume they are compared with an ordinary slice of the expected total.
    modes
        For each mode its rows with the largest shares of the excess, or of what is missing.
    components
        Change of each weight against its recent mean, in standard deviations.
    evidence
        For `AnomalyTracker.update`.
    """

    p: float
    z: float
    volume_p: float
    volume_z: float
    expected_total: float
    flagged: bool
    kind: str | None
    cells: tuple[dict[str, Any], ...]
    modes: tuple[tuple[dict[str, Any], ...], ...]
    components: tuple[float, ...]
    evidence: Evidence

    def to_json(self) -> dict[str, Any]:
        """The record a step line holds, of plain numbers, texts and lists."""
        return {
            "p": self.p,
            "z": self.z,
            "volume_p": self.volume_p,
            "volume_z": self.volume_z,
            "expected_total": self.expected_total,
            "flagged": self.flagged,
            "kind": self.kind,
            "cells": [dict(cell) for cell in self.cells],
            "modes": [[dict(row) for row in rows] for rows in self.modes],
            "components": list(self.components),
        }


def score_slice(
    model: StreamingModel,
    x: Any,
    labels: Labels | None = None,
    *,
    top: int = 10,
    level: float = 0.01,
    history: AnomalyTracker | None = None,
) -> Anomaly:
    """Say how odd a slice is for the model as it stands; neither model nor history is changed.

    Call it before the slice is learned. Without a history nothing is known of totals, and patterns
    are judged by the likelihood alone: right for data that come from the model, too eager for real
    ones. With a history, nothing is flagged before it has seen ten slices.

    Cells in rows the model does not have yet count for the volume, not for the pattern.

    Parameters
    ----------
    model
        A streaming model past its warm start.
    x
        The slice.
    labels
        Names of the rows of each mode; row numbers if not given.
    top
        Cells to name.
    level
        Share of ordinary slices that may be flagged, 0 < level < 1.
    history
        The recent past; call its `update` with the result.
    """
    if not 0.0 < level < 1.0:
        raise DataError(f"level must lie between 0 and 1, but got {level!r}. Usual is 0.01.")
    whole = as_slice(x)
    loss, factors = model.loss_, model.factors_
    known = _known_part(whole, tuple(len(a) for a in factors))
    past = AnomalyTracker() if history is None else history
    signed = loss.domain == "real"

    volume, ahead = volume_of(whole, signed), past.forecast()
    error = volume - ahead
    log_volume = 0.0 if math.isnan(error) else past.volume_log_p(error, _noise(whole, loss))
    weights = np.zeros(len(factors[0].T))
    score = unit = math.nan
    log_pattern, misfit = 0.0, None
    if known.n_observed:
        with blas_threads():  # small products, which threads would only slow down
            weights = model.weigh(known, tolerance=TOLERANCE)
            misfit = measure(known, factors, weights, loss, top=top)
        score, unit = _score(misfit, loss)
        log_pattern = _pattern_log_p(misfit, loss, score, unit, history)

    limit = math.log(-math.expm1(0.5 * math.log1p(-level)))
    flagged = min(log_pattern, log_volume) < limit
    kind = "pattern" if log_pattern <= log_volume else "volume"
    volume_z = normal_quantile(log_volume - math.log(2.0))
    expected_total = _expected_total(ahead, whole, signed)
    cells = () if misfit is None else _cells(misfit, loss, labels)
    modes = _modes([np.empty(0) for _ in factors] if misfit is None else misfit.modes, labels)
    if flagged and kind == "volume" and loss.traits.poisson and past.weight_mean:
        usual = np.array(past.weight_mean)
        difference = compare_volume(known, factors, usual, expected_total, top=top)
        if difference is not None:
            cells = _difference_cells(difference, loss, labels)
            modes = _modes(difference.modes, labels)
    return Anomaly(
        p=math.exp(max(log_pattern, LOWEST_LOG)),
        z=normal_quantile(log_pattern) if log_pattern < 0.0 else 0.0,
        volume_p=math.exp(max(log_volume, LOWEST_LOG)),
        volume_z=0.0 if math.isnan(error) else math.copysign(volume_z, error),
        expected_total=expected_total,
        flagged=flagged,
        kind=kind if flagged else None,
        cells=cells,
        modes=modes,
        components=tuple(past.weight_changes(weights).tolist()),
        evidence=Evidence(score, unit, volume, past.level(), error, weights),
    )


def drift(old: Sequence[FloatArray], new: Sequence[FloatArray]) -> FloatArray:
    """How far each component has turned: 1 - product over modes of |cosine(old, new column)|.

    Parameters
    ----------
    old, new
        One (I_k, R) matrix per mode; `new` may have more rows, which `old` has as zeros.

    Returns
    -------
    drift
        (R,), 0 for the same direction, 1 for nothing in common in some mode.

    Examples
    --------
    >>> drift([np.array([[1.0, 1.0], [0.0, 0.0]])], [np.array([[2.0, 0.0], [0.0, 3.0]])])
    array([0., 1.])
    """
    product = np.ones(new[0].shape[1])
    for before, after in zip(old, new, strict=True):
        inner = np.abs(np.einsum("ir,ir->r", before, after[: len(before)]))
        norms = np.linalg.norm(before, axis=0), np.linalg.norm(after, axis=0)
        length = norms[0] * norms[1]
        # Two columns of zeros are the same, one of them has nothing in common with any other.
        same = np.where(norms[0] + norms[1] > 0.0, 0.0, 1.0)
        product *= np.divide(inner, length, out=same, where=length > 0.0)
    return np.asarray(np.clip(1.0 - product, 0.0, 1.0))


def _known_part(x: Slice, shape: tuple[int, ...]) -> Slice:
    """The slice as a model of this shape can see it: without rows it does not have."""
    if x.shape == shape or x.ndim != len(shape):
        return x
    if any(n > m for n, m in zip(x.shape, shape, strict=True)):
        inside = (x.index < np.array(shape)).all(axis=1)
        smaller = tuple(map(min, x.shape, shape))
        x = Slice(x.index[inside], x.value[inside], smaller, time=x.time, unlisted=x.unlisted)
    return x if x.array is not None else widen(x, shape)


def _score(misfit: Misfit, loss: Loss) -> tuple[float, float]:
    """The number that is compared between slices, and its unit."""
    if has_null(loss):
        # A model that is wrong by a fixed percentage has an excess in proportion to the deviance
        # it expects, so that a day of twice the volume is not twice as odd.
        worth = misfit.expected / misfit.spread if misfit.spread > 0.0 else 1.0
        return misfit.standardised, max(worth, 1e-6)
    if loss.minimum is None:
        return misfit.dispersion, 1.0
    return math.log(max(misfit.dispersion, 1e-300)), 1.0


def _pattern_log_p(
    misfit: Misfit, loss: Loss, score: float, unit: float, history: AnomalyTracker | None
) -> float:
    own = misfit.log_p() if has_null(loss) else -math.inf
    if history is None:
        return own if math.isfinite(own) else 0.0
    if len(history.scores) < LEAST:
        return 0.0
    if loss.traits.quadratic:
        from scipy.special import fdtrc

        # Mean squares against those of the past; a median is worth 0.64 as many values.
        freedom = misfit.freedom
        ratio = misfit.dispersion / max(history.usual_dispersion(), 1e-300)
        own = log_of(float(fdtrc(freedom, 0.64 * len(history.scores) * freedom, ratio)))
    return max(own, history.pattern_log_p(score, unit))


def _noise(x: Slice, loss: Loss) -> float:
    """Least standard deviation of the volume: half that of counting, where the data are counts.

    Only a stream of constant totals gets as low; without it, one event more would be an alarm.
    """
    if loss.domain == "real" or not np.array_equal(x.value, np.rint(x.value)):
        return 0.0
    return 0.5 * math.sqrt(x.size / max(1, x.n_observed))


def _expected_total(ahead: float, x: Slice, signed: bool) -> float:
    if math.isnan(ahead):
        return x.total
    total = ahead if signed else 0.25 * max(ahead, 0.0) ** 2
    return total * x.n_observed / x.size


def _cells(misfit: Misfit, loss: Loss, labels: Labels | None) -> tuple[dict[str, Any], ...]:
    # For gamma, too, the deviance per cell is about the square of the scale.
    noisy = loss.likelihood is not None and loss.likelihood.free_scale
    scale = math.sqrt(max(misfit.dispersion, 1e-300)) if noisy else None
    chances = loss.p_value(misfit.observed, misfit.model, scale=scale)
    expected, shares = loss.mean(misfit.model), misfit.cells / misfit.positive
    return _cell_records(misfit.index, misfit.observed, expected, chances, shares, labels)


def _difference_cells(
    difference: Difference, loss: Loss, labels: Labels | None
) -> tuple[dict[str, Any], ...]:
    observed, expected = difference.observed, difference.expected
    chances = loss.p_value(observed, expected)
    return _cell_records(difference.index, observed, expected, chances, difference.shares, labels)


def _cell_records(
    index: NDArray[np.int64],
    observed: FloatArray,
    expected: FloatArray,
    chances: FloatArray | None,
    shares: FloatArray,
    labels: Labels | None,
) -> tuple[dict[str, Any], ...]:
    return tuple(
        {
            "index": index[n].tolist(),
            "labels": [_label(labels, k, int(i)) for k, i in enumerate(index[n])],
            "observed": float(observed[n]),
            "expected": float(expected[n]),
            "p": None if chances is None else float(chances[n]),
            "share": float(shares[n]),
        }
        for n in range(len(index))
    )


def _modes(
    modes: Sequence[FloatArray], labels: Labels | None
) -> tuple[tuple[dict[str, Any], ...], ...]:
    found = []
    for k, rows in enumerate(modes):
        best = np.argsort(-rows, kind="stable")[:TOP_ROWS]
        whole = float(np.maximum(rows, 0.0).sum())
        found.append(
            tuple(
                {"label": _label(labels, k, int(i)), "share": float(rows[i] / whole)}
                for i in best
                if rows[i] > 0.0
            )
        )
    return tuple(found)


def _label(labels: Labels | None, k: int, i: int) -> str:
    if labels is None or k >= len(labels) or i >= len(labels[k]):
        return str(i)
    return str(labels[k][i])
