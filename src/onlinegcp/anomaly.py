"""Scores a slice before it is learned: how odd it is in volume and in pattern, and why.

Two questions are kept apart. *Volume*: is the total what the recent totals lead one to expect?
*Pattern*: given weights fitted to the slice, do its cells depart from the model more than chance
allows? A slice is flagged when either p-value is below 1 - sqrt(1 - level), so that both together
raise an alarm for a share `level` of ordinary slices.

The pattern has two judges. The model's likelihood says what the deviance should be if the model
were true (`calibration`). Real data never come from the model, so an `AnomalyTracker` remembers how
large the misfit has been lately. The p-value is the larger of the two: an alarm needs a slice that
is odd for the model and odd among its neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from onlinegcp.calibration import LOWEST_LOG, Misfit, has_null, measure
from onlinegcp.errors import DataError
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice, as_slice
from onlinegcp.streaming.model import StreamingModel, widen

FloatArray: TypeAlias = NDArray[np.float64]
Labels: TypeAlias = Sequence[Sequence[str]]

WINDOW = 365  # scores and forecast errors remembered
LEAST = 10  # of them before anything is flagged
ENOUGH = 150  # of them before their own tail is trusted
LEVEL_WINDOW = 28  # totals the expected one is the median of
SEASONS = 8  # past values of the same phase that make the seasonal part
MEMORY = 0.1  # share of the newest weights in their running mean
TOP_ROWS = 5
Z_90, Z_98 = 1.2815515655446004, 2.0537489106318225  # quantiles of the normal distribution


@dataclass(frozen=True)
class Evidence:
    """What a tracker remembers of a scored slice.

    Attributes
    ----------
    score, unit
        Misfit of the pattern, and what an excess of one per cent of the deviance is worth in it
        (times 100); NaN without observed cells.
    volume
        Total on the scale on which it is forecast (twice its square root, or itself for signed
        data); NaN without observed cells.
    level
        Median of the recent volumes, NaN when there were none.
    error
        Volume less its forecast, NaN without one.
    weights
        Fitted weights.
    """

    score: float
    unit: float
    volume: float
    level: float
    error: float
    weights: FloatArray


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
        Cells that depart most: index, labels, observed, expected, p, and share of all excess.
    modes
        For each mode its rows with the largest shares of the excess.
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


@final
@dataclass
class AnomalyTracker:
    """What the recent past looked like, in bounded memory.

    Hand it to `score_slice` and call `update` with the result, flagged or not: medians and
    quantiles bear a few odd slices, and a change that lasts becomes the new normal.

    Parameters
    ----------
    period
        Slices after which volumes repeat, such as 7 for days; 1 for none.

    Examples
    --------
    >>> from onlinegcp.streaming import OnlineGCP
    >>> rng = np.random.default_rng(0)
    >>> model, tracker = OnlineGCP(1, "poisson", init_slices=5), AnomalyTracker()
    >>> flags = []
    >>> for t in range(40):
    ...     x = Slice.dense(rng.poisson(300.0 if t == 35 else 3.0, (6, 5)))
    ...     if t >= 5:
    ...         anomaly = score_slice(model, x, history=tracker)
    ...         tracker.update(anomaly)
    ...         flags += [t] if anomaly.flagged else []
    ...     _ = model.partial_fit(x)
    >>> flags, anomaly.kind
    ([35], None)
    """

    period: int = 1
    n_slices: int = 0
    scores: list[float] = field(default_factory=list)
    units: list[float] = field(default_factory=list)
    volumes: list[float] = field(default_factory=list)
    departures: list[float] = field(default_factory=list)  # volumes less the level, by phase
    errors: list[float] = field(default_factory=list)
    weight_mean: list[float] = field(default_factory=list)
    weight_variance: list[float] = field(default_factory=list)
    n_weights: int = 0

    def __post_init__(self) -> None:
        whole = isinstance(self.period, int | np.integer) and not isinstance(self.period, bool)
        if not whole or self.period < 1:
            raise DataError(
                f"period must be a whole number of slices >= 1, but got {self.period!r}. "
                "Use 1 for no season, 7 for days with a weekly one."
            )

    def update(self, anomaly: Anomaly) -> None:
        """Remember a scored slice."""
        seen = anomaly.evidence
        self.n_slices += 1
        if math.isfinite(seen.score):
            _push(self.scores, seen.score, WINDOW)
            _push(self.units, seen.unit, WINDOW)
            self._weigh(seen.weights)
        if math.isfinite(seen.volume):
            _push(self.volumes, seen.volume, self._level_window())
        if math.isfinite(seen.error):
            _push(self.errors, seen.error, WINDOW)
        if self.period > 1:
            # Also when nothing was observed, so that the phase is kept.
            _push(self.departures, seen.volume - seen.level, SEASONS * self.period)

    def update_volume(self, x: Slice, signed: bool = False) -> None:
        """Remember only the total of a slice that was not scored, as in a warm start.

        Parameters
        ----------
        x
            The slice.
        signed
            Whether the loss allows negative data.
        """
        self.n_slices += 1
        volume = _volume(x, signed)
        level = self.level()
        if math.isfinite(volume):
            _push(self.volumes, volume, self._level_window())
        if self.period > 1:
            _push(self.departures, volume - level, SEASONS * self.period)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as numbers and lists of numbers; NaN is written as None."""
        return {
            name: [None if math.isnan(v) else v for v in value] if name in _LISTS else value
            for name, value in vars(self).items()
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Self:
        """The tracker that `to_dict` described; it goes on exactly where that one stood."""
        tracker = cls(int(saved["period"]))
        tracker.n_slices, tracker.n_weights = int(saved["n_slices"]), int(saved["n_weights"])
        for name in _LISTS:
            values = [math.nan if v is None else float(v) for v in saved[name]]
            setattr(tracker, name, values)
        return tracker

    # ---- what score_slice asks

    def level(self) -> float:
        """Median of the recent volumes; NaN when there are none."""
        return float(np.median(self.volumes)) if self.volumes else math.nan

    def forecast(self) -> float:
        """Expected volume of the next slice, NaN before there are three."""
        if len(self.volumes) < 3:
            return math.nan
        # Departures end with the last slice, so the next one's phase is period places back.
        same = np.array(self.departures[::-1][self.period - 1 :: self.period])
        same = same[np.isfinite(same)] if self.period > 1 else same[:0]
        return self.level() + (float(np.median(same)) if len(same) >= 3 else 0.0)

    def volume_log_p(self, error: float, noise: float) -> float:
        """Log-probability of a forecast error at least as large, either way."""
        errors = np.abs(self.errors)
        if len(errors) < LEAST:
            return 0.0
        size = abs(error)
        if len(errors) >= ENOUGH:
            return _tail(errors, size, 1.645 * noise, 0.882 * noise)  # those of |N(0, noise)|
        spread = max(1.4826 * float(np.median(errors)), noise, 1e-12 * (1.0 + self.level()))
        return min(0.0, math.log(2.0) + _student(size / spread, len(errors)))

    def pattern_log_p(self, score: float, unit: float) -> float:
        """Log-probability of a misfit at least as large, among those of the recent past."""
        if len(self.scores) < LEAST:
            return 0.0
        scores, units = np.array(self.scores), np.array(self.units)
        usual = float(np.median(scores / units))
        past, new = scores - usual * units, score - usual * unit
        if len(past) >= ENOUGH:
            return _tail(past, new, -math.inf, 0.0)
        centre = float(np.median(past))
        spread = 1.4826 * float(np.median(np.abs(past - centre)))
        spread = max(spread, float(np.quantile(past, 0.84)) - centre, 1e-12 * (1.0 + abs(centre)))
        return _student((new - centre) / spread / math.sqrt(1.0 + 1.57 / len(past)), len(past))

    def usual_dispersion(self) -> float:
        """Median of exp(score), for losses whose score is the log of the dispersion."""
        return math.exp(float(np.median(self.scores)))

    def weight_changes(self, weights: FloatArray) -> FloatArray:
        """Changes against the recent mean in standard deviations; 0 before there are five."""
        if self.n_weights < 5 or len(self.weight_mean) != len(weights):
            return np.zeros(len(weights))
        mean, variance = np.array(self.weight_mean), np.array(self.weight_variance)
        floor = (1e-3 * float(np.abs(mean).max(initial=0.0))) ** 2 + 1e-300
        return np.asarray((weights - mean) / np.sqrt(variance + floor))

    def _level_window(self) -> int:
        return max(LEVEL_WINDOW, 4 * self.period) // self.period * self.period

    def _weigh(self, weights: FloatArray) -> None:
        if len(self.weight_mean) != len(weights):
            self.n_weights = 0
        self.n_weights += 1
        if self.n_weights == 1:
            self.weight_mean, self.weight_variance = weights.tolist(), [0.0] * len(weights)
            return
        step = max(MEMORY, 1.0 / self.n_weights)
        mean, variance = np.array(self.weight_mean), np.array(self.weight_variance)
        change = weights - mean
        self.weight_mean = (mean + step * change).tolist()
        self.weight_variance = ((1.0 - step) * (variance + step * change**2)).tolist()


_LISTS = (
    "scores", "units", "volumes", "departures", "errors", "weight_mean", "weight_variance",
)  # fmt: skip


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
    loss, factors = model._get_loss(), model.factors_
    known = _known_part(whole, tuple(len(a) for a in factors))
    past = AnomalyTracker() if history is None else history
    signed = loss.domain == "real"

    volume, ahead = _volume(whole, signed), past.forecast()
    error = volume - ahead
    log_volume = 0.0 if math.isnan(error) else past.volume_log_p(error, _noise(whole, loss))
    weights = np.zeros(len(factors[0].T))
    score = unit = math.nan
    log_pattern, misfit = 0.0, None
    if known.n_observed:
        weights = np.asarray(model.transform([known])[0])
        misfit = measure(known, factors, weights, loss, top=top)
        score, unit = _score(misfit, loss)
        log_pattern = _pattern_log_p(misfit, loss, score, unit, history)

    limit = math.log(-math.expm1(0.5 * math.log1p(-level)))
    flagged = min(log_pattern, log_volume) < limit
    kind = "pattern" if log_pattern <= log_volume else "volume"
    volume_z = _normal_quantile(log_volume - math.log(2.0))
    return Anomaly(
        p=math.exp(max(log_pattern, LOWEST_LOG)),
        z=_normal_quantile(log_pattern) if log_pattern < 0.0 else 0.0,
        volume_p=math.exp(max(log_volume, LOWEST_LOG)),
        volume_z=0.0 if math.isnan(error) else math.copysign(volume_z, error),
        expected_total=_expected_total(ahead, whole, signed),
        flagged=flagged,
        kind=kind if flagged else None,
        cells=() if misfit is None else _cells(misfit, loss, labels),
        modes=tuple(() for _ in factors) if misfit is None else _modes(misfit, labels),
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
    if loss._minimum is None:
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
    if loss.name == "gaussian" and loss.code >= 0:
        from scipy.special import fdtrc

        # Mean squares against those of the past; a median is worth 0.64 as many values.
        freedom = misfit.freedom
        ratio = misfit.dispersion / max(history.usual_dispersion(), 1e-300)
        own = _log(float(fdtrc(freedom, 0.64 * len(history.scores) * freedom, ratio)))
    return max(own, history.pattern_log_p(score, unit))


def _volume(x: Slice, signed: bool) -> float:
    """The total as it is forecast, as if no cell were missing.

    Square roots of counts have a variance that does not depend on their mean.
    """
    if x.n_observed == 0:
        return math.nan
    total = x.total * (x.size / x.n_observed)
    return total if signed else 2.0 * math.sqrt(max(total, 0.0))


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
    noisy = loss.name in ("gaussian", "gamma")
    scale = math.sqrt(max(misfit.dispersion, 1e-300)) if noisy else None
    chances = loss.p_value(misfit.observed, misfit.model, scale=scale)
    expected = loss.mean(misfit.model)
    return tuple(
        {
            "index": misfit.index[n].tolist(),
            "labels": [_label(labels, k, int(i)) for k, i in enumerate(misfit.index[n])],
            "observed": float(misfit.observed[n]),
            "expected": float(expected[n]),
            "p": None if chances is None else float(chances[n]),
            "share": float(misfit.cells[n] / misfit.positive),
        }
        for n in range(len(misfit.cells))
    )


def _modes(misfit: Misfit, labels: Labels | None) -> tuple[tuple[dict[str, Any], ...], ...]:
    found = []
    for k, rows in enumerate(misfit.modes):
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


def _tail(past: FloatArray, value: float, least: float, least_spread: float) -> float:
    """Log-probability that a value of this past would be exceeded.

    Ranks up to the 90 % point, above it a normal tail through the 98 % point: both are quantiles,
    which the few largest values do not move.
    """
    from scipy.special import log_ndtr

    low, high = np.quantile(past, (0.9, 0.98)).tolist()
    spread = max((high - low) / (Z_98 - Z_90), least_spread, 1e-12 * (1.0 + abs(low)))
    low = max(low, least)
    if value > low:
        return float(log_ndtr(-Z_90 - (value - low) / spread))
    return math.log(max(0.1, (1.0 + np.count_nonzero(past >= value)) / (1.0 + len(past))))


def _student(t: float, n: int) -> float:
    """Log of the upper tail of Student's t; a spread from n medians is worth 0.37 n freedoms."""
    from scipy.special import stdtr

    return _log(float(stdtr(0.37 * n, -t)))


def _log(p: float) -> float:
    return math.log(p) if p > 0.0 else LOWEST_LOG


def _normal_quantile(log_p: float) -> float:
    """z with P(Z >= z) = exp(log_p), also where that is too small to be written."""
    from scipy.special import ndtri_exp

    return float(-ndtri_exp(min(log_p, -1e-12)))


def _push(window: list[float], value: float, most: int) -> None:
    window.append(float(value))
    del window[:-most]
