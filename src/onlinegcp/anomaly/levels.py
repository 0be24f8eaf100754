"""Series against their own past by exponential smoothing: level, damped trend, season, spread.

Several rates run side by side, and of each series the one with the smallest recent errors is its
forecast: a steady series is averaged over long, one that grows or jumps is followed. Where a series
usually stays off for a while, what is left of how far it was off is part of the forecast; and times
at which it varies more than at others have a wider range.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from onlinegcp.anomaly.shares import LEAST, SPECIAL, USUAL, Judged
from onlinegcp.kernels.levels import (
    DAMPING,
    NOTHING,
    SEASON,
    SPECIAL_DAY,
    Cycle,
    Habits,
    Series,
    judge_levels,
    learn_levels,
)
from onlinegcp.kernels.shares import SURPRISE

FloatArray: TypeAlias = NDArray[np.float64]

# Share of an error that goes into the level, and of that into the trend, by expert.
RATES = np.array([0.03, 0.1, 0.3, 0.6, 0.1, 0.3])[:, None]
TRENDS = np.array([0.0, 0.0, 0.0, 0.0, 0.1, 0.1])[:, None]
SEASONS = 6.0  # values of the same phase the season is the average of
SPREAD_MEMORY = 40.0


@final
class Levels:
    """Series that are forecast one step ahead.

    Parameters
    ----------
    period
        Steps after which they repeat; 1 for none.
    noise
        Least standard deviation of series that are totals.
    """

    # Places of the series of a whole slice: its total, what the model leaves unexplained of it, and
    # its total as if no row were odd. While a row is out for hours the first is learned as it is,
    # long before the row's share: the rest of such a slice is compared with the last.
    TOTAL, MISFIT, REST = 0, 1, 2

    def __init__(self, period: int = 1, noise: float = 0.0) -> None:
        self.period, self.noise = period, noise
        self.n_slices = 0
        self.level = self.trend = self.errors = np.zeros((len(RATES), 0))
        self.lately = self.product = self.power = np.zeros((len(RATES), 0))
        self.season = np.zeros((len(RATES), 0, period))
        self.special = np.zeros((len(RATES), 0, SPECIAL))
        self.phases, self.days = np.zeros(period), np.zeros(SPECIAL)
        self.spread = np.zeros((2, 0))  # sums of absolute errors and of their weights
        self.unrest = np.zeros((3, 0, period))  # as `kernels.unrest` has it
        self.streak = np.zeros(0)
        self.seen = np.zeros(0)  # values of each series

    def __len__(self) -> int:
        return len(self.streak)

    def judge(self, values: FloatArray, *, special: int = 0) -> Judged:
        """Compare values with their forecasts; NaN are not judged, and nothing is changed."""
        compared = np.empty((3, len(values)))
        least = np.zeros(len(self))
        least[[place for place in (self.TOTAL, self.REST) if place < len(self)]] = self.noise
        total = judge_levels(
            values,
            self._base(special),
            self._habits(),
            self.errors,
            self.spread,
            self.unrest,
            self.n_slices % self.period,
            self.seen,
            LEAST,
            least,
            compared,
        )
        return Judged(values, compared, total, len(self), self.n_slices >= LEAST)

    def judge_late(self, seen: Judged, place: int, value: float) -> None:
        """Judge one more value of a slice that was judged without it."""
        seen.observed[place] = value
        if place < len(self) and self.seen[place] >= LEAST and not math.isnan(value):
            middle, width = float(seen.forecast[place]), float(seen.deviation[place])
            surprise = (value - middle) / max(width, 1e-12 * (1.0 + abs(middle)))
            seen.compared[SURPRISE, place] = surprise

    def learn(self, seen: Judged, *, special: int = 0) -> None:
        """Remember judged values; what is odd about one is left out until it has stayed."""
        values = seen.observed
        base = self._base(special)
        if len(values) > len(self):
            self._grow(values)
            base = np.concatenate([base, self.level[:, base.shape[1] :]], axis=1)
        keep = 1.0 - 1.0 / min(SPREAD_MEMORY, self.n_slices + 1.5)
        cycle = Cycle(self.season, 0, NOTHING, 1.0)
        if special and self.n_slices >= max(14, 2 * self.period):
            place = special - 1
            self.days[place] += 1.0
            part = min(max(float(self.days[place]) + 1.0, 3.0), 6.0)
            cycle = Cycle(self.special, place, SPECIAL_DAY, part)
        elif self.period > 1:
            place = self.n_slices % self.period
            self.phases[place] += 1.0
            part = 1.0 / min(float(self.phases[place]) + 1.0, SEASONS)
            cycle = Cycle(self.season, place, SEASON, part)
        early = 0.3 if self.n_slices < self.period else 1.0
        series = Series(self.level, self.trend, self.errors, self.spread, self.streak, self.seen)
        learn_levels(
            values, seen.compared, base, self._habits(), RATES, TRENDS, LEAST, keep, early, cycle,
            self.unrest, self.n_slices % self.period, series,
        )  # fmt: skip
        self.n_slices += 1

    def skip(self) -> None:
        """Let a slice pass that nothing was observed of, so that the phase is kept."""
        self.lately = np.zeros_like(self.lately)
        self.n_slices += 1

    def start_season(self, period: int) -> None:
        """Begin to learn a season that has been found, from a shorter one that it consists of."""
        before, self.season = self.season, np.zeros((len(RATES), len(self), period))
        if period % self.period == 0:
            self.season += np.tile(before, (1, 1, period // self.period))
        old, self.unrest = self.unrest, np.zeros((3, len(self), period))
        if period % self.period == 0:
            self.unrest += np.tile(old, (1, 1, period // self.period))
        self.period, self.phases = period, np.zeros(period)

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and numbers it goes on from."""
        # Whoever took the state keeps it: the arrays are changed in place.
        return {name: getattr(self, name).copy() for name in _ARRAYS}, {
            "period": self.period,
            "noise": self.noise,
            "n_slices": self.n_slices,
        }

    @classmethod
    def from_state(cls, arrays: dict[str, NDArray[Any]], record: dict[str, Any]) -> Levels:
        """What `state` described."""
        made = cls(int(record["period"]), float(record["noise"]))
        made.n_slices = int(record["n_slices"])
        known = arrays["level"]  # the others a run of an earlier version does not have
        made.unrest = np.zeros((3, known.shape[1], made.period))
        made.lately, made.product, made.power = (np.zeros_like(known) for _ in range(3))
        for name in _ARRAYS:
            if name in arrays:
                setattr(made, name, np.array(arrays[name], dtype=np.float64))
        return made

    def _habits(self) -> Habits:
        return Habits(self.lately, self.product, self.power)

    def _base(self, special: int) -> FloatArray:
        """What every expert says, but for what stays of how far it was off."""
        base = self.level + DAMPING * self.trend + self.season[:, :, self.n_slices % self.period]
        if special and self.n_slices >= max(14, 2 * self.period):
            base = base + self.special[:, :, special - 1]
        return np.asarray(base)

    def _grow(self, values: FloatArray) -> None:
        more = len(values) - len(self)
        first = np.nan_to_num(values[len(self) :])
        blank = np.zeros((len(RATES), more))
        self.level = np.concatenate([self.level, blank + first], axis=1)
        for name in ("trend", "errors", *Habits._fields):
            setattr(self, name, np.concatenate([getattr(self, name), blank], axis=1))
        for name in ("season", "special"):
            old = getattr(self, name)
            setattr(
                self, name, np.concatenate([old, np.zeros((len(RATES), more, old.shape[2]))], 1)
            )
        self.spread = np.concatenate([self.spread, np.zeros((2, more))], axis=1)
        self.unrest = np.concatenate([self.unrest, np.zeros((3, more, self.period))], axis=1)
        self.streak = np.concatenate([self.streak, np.zeros(more)])
        self.seen = np.concatenate([self.seen, np.zeros(more)])


def ranges_of_counts(whole: Judged) -> list[tuple[float, float, float]]:
    """Low end, middle and high end of what is forecast of a total of counts; empty without a past.

    Of the total as it is, and of what it would be if no row were odd. While a row is out for long
    these differ, and either may be right: it stays out, or it comes back.

    Parameters
    ----------
    whole
        The total, judged as twice its root.
    """
    found = []
    for place in (Levels.TOTAL, Levels.REST):
        middle, width = float(whole.forecast[place]), USUAL * float(whole.deviation[place])
        if middle > 0.0 and math.isfinite(width):
            found.append(as_counts(middle, width))
    return found


def as_counts(middle: float, width: float) -> tuple[float, float, float]:
    """Low end, middle and high end in events of a range of twice the root of their number."""
    low, middle, high = (0.25 * max(v, 0.0) ** 2 for v in (middle - width, middle, middle + width))
    return low, middle, high


_ARRAYS = (*Series._fields, *Habits._fields, "season", "special", "phases", "days", "unrest")
