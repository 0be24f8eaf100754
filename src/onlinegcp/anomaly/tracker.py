"""What the recent past of a stream looked like: totals, misfits and weights, in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from onlinegcp.anomaly.tails import median, quantiles, recent_log_tail, student_log_tail
from onlinegcp.errors import DataError
from onlinegcp.slices import Slice

FloatArray: TypeAlias = NDArray[np.float64]

WINDOW = 365  # scores and forecast errors remembered
LEAST = 10  # of them before anything is flagged
ENOUGH = 150  # of them before their own tail is trusted
LEVEL_WINDOW = 28  # totals the expected one is the median of
SEASONS = 8  # past values of the same phase that make the seasonal part
MEMORY = 0.1  # share of the newest weights in their running mean


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


class Scored(Protocol):
    """Anything that carries evidence: an `Anomaly`."""

    @property
    def evidence(self) -> Evidence: ...


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
    >>> from onlinegcp.anomaly import score_slice
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

    def update(self, anomaly: Scored) -> None:
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
        volume = volume_of(x, signed)
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
        return median(self.volumes) if self.volumes else math.nan

    def forecast(self) -> float:
        """Expected volume of the next slice, NaN before there are three."""
        if len(self.volumes) < 3:
            return math.nan
        # Departures end with the last slice, so the next one's phase is period places back.
        same = np.array(self.departures[::-1][self.period - 1 :: self.period])
        same = same[np.isfinite(same)] if self.period > 1 else same[:0]
        return self.level() + (median(same) if len(same) >= 3 else 0.0)

    def volume_log_p(self, error: float, noise: float) -> float:
        """Log-probability of a forecast error at least as large, either way."""
        errors = np.abs(self.errors)
        if len(errors) < LEAST:
            return 0.0
        size = abs(error)
        if len(errors) >= ENOUGH:
            return recent_log_tail(
                errors, size, 1.645 * noise, 0.882 * noise
            )  # those of |N(0, noise)|
        spread = max(1.4826 * median(errors), noise, 1e-12 * (1.0 + self.level()))
        return min(0.0, math.log(2.0) + student_log_tail(size / spread, len(errors)))

    def pattern_log_p(self, score: float, unit: float) -> float:
        """Log-probability of a misfit at least as large, among those of the recent past."""
        if len(self.scores) < LEAST:
            return 0.0
        scores, units = np.array(self.scores), np.array(self.units)
        usual = median(scores / units)
        past, new = scores - usual * units, score - usual * unit
        if len(past) >= ENOUGH:
            return recent_log_tail(past, new, -math.inf, 0.0)
        centre = median(past)
        spread = 1.4826 * median(np.abs(past - centre))
        spread = max(spread, quantiles(past, 0.84)[0] - centre, 1e-12 * (1.0 + abs(centre)))
        return student_log_tail(
            (new - centre) / spread / math.sqrt(1.0 + 1.57 / len(past)), len(past)
        )

    def usual_dispersion(self) -> float:
        """Median of exp(score), for losses whose score is the log of the dispersion."""
        return math.exp(median(self.scores))

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


def volume_of(x: Slice, signed: bool) -> float:
    """The total as it is forecast, as if no cell were missing.

    Square roots of counts have a variance that does not depend on their mean.
    """
    if x.n_observed == 0:
        return math.nan
    total = x.total * (x.size / x.n_observed)
    return total if signed else 2.0 * math.sqrt(max(total, 0.0))


def _push(window: list[float], value: float, most: int) -> None:
    window.append(float(value))
    del window[:-most]
