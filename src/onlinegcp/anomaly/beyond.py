"""What is beyond any season, told while the season is not known yet.

In the first days a morning is larger than anything before, so forecasts tell
nothing. But a season has a range: a slice is compared with the largest so far, in units of the
range that all slices so far had, each of them taken as ordinary. The range is never taken to be
narrower than that of an ordinary season, which goes down to a quarter of its peak.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from onlinegcp.anomaly.tails import LOWEST_LOG, smallest_of

FloatArray: TypeAlias = NDArray[np.float64]

ORDINARY = 0.5  # least range, as a part of the largest root: a season down to a quarter of its peak
# A series that nearly sleeps may wake at any time, as shops open: fewer events than these, of which
# a fifth is chance, tell nothing of how many there are by day.
AWAKE = 20.0
# The chance of more than x ranges beyond the largest is 1 + x to the power of minus this, as little
# is known: one in a hundred is 2.2 ranges, before it is corrected for the number of looks.
# Quiet simulated streams with seasons never went beyond .65 ranges.
TAIL = 4.0


@final
class BeyondAnySeason:
    """Smallest and largest roots of the total and of every row, for the first slices only."""

    def __init__(self) -> None:
        self.n_slices = 0
        self.series: list[FloatArray] = []  # (2, n) by series: smallest and largest root

    def judge(self, total: float, sums: list[FloatArray]) -> tuple[float, str]:
        """Log-probability of the largest excess, and the family of it, as `Verdict` has them.

        Parameters
        ----------
        total
            Of the slice, in events or units of amounts.
        sums
            Its rows by mode.
        """
        found, families = 0.0, ""
        names = ["volume", *(f"up {k}" for k in range(len(sums)))]
        for name, known, values in zip(names, self.series, [np.array([total]), *sums], strict=True):
            log_p = _largest_excess(known, values[: known.shape[1]])
            log_p = smallest_of(log_p, len(names)) if log_p < 0.0 else 0.0
            if log_p < found:
                found, families = log_p, name
        return found, families

    def learn(self, total: float, sums: list[FloatArray]) -> None:
        """Remember a slice, odd or not: what comes again is no longer beyond anything."""
        values = [np.array([total]), *sums]
        if not self.series:
            self.series = [np.zeros((2, 0)) for _ in values]
        for place, (known, seen) in enumerate(zip(self.series, values, strict=True)):
            roots = _roots(seen)
            low, high = np.full(len(roots), np.nan), np.full(len(roots), np.nan)
            low[: known.shape[1]], high[: known.shape[1]] = known
            if self.n_slices:
                low[known.shape[1] :] = 0.0  # rows that were not there had nothing
            self.series[place] = np.stack([np.fmin(low, roots), np.fmax(high, roots)])
        self.n_slices += 1

    def forget(self) -> None:
        """Forget all, when forecasts are trusted."""
        self.series = []

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and numbers it goes on from."""
        held = {str(place): known for place, known in enumerate(self.series)}
        return held, {"n_slices": self.n_slices, "n_series": len(self.series)}

    @classmethod
    def from_state(cls, arrays: dict[str, NDArray[Any]], record: dict[str, Any]) -> BeyondAnySeason:
        """What `state` described."""
        made = cls()
        made.n_slices = int(record["n_slices"])
        places = range(int(record["n_series"]))
        made.series = [np.array(arrays[str(place)], dtype=np.float64) for place in places]
        return made


def _roots(sums: FloatArray) -> FloatArray:
    """Roots vary alike, whatever the number of events; NaN stays NaN."""
    return np.asarray(np.sqrt(np.maximum(sums, 0.0)))


def _largest_excess(known: FloatArray, sums: FloatArray) -> float:
    """Log-probability that any of the series is as far beyond its range as one of them is."""
    low, high = known[:, : len(sums)]
    judged = high >= math.sqrt(AWAKE)
    if not judged.any():
        return 0.0
    width = np.maximum(high - low, ORDINARY * high)[judged]
    beyond = np.nan_to_num((_roots(sums)[judged] - high[judged]) / width)
    log_p = -TAIL * math.log1p(max(float(beyond.max()), 0.0))
    return max(smallest_of(log_p, int(judged.sum())), LOWEST_LOG) if log_p < 0.0 else 0.0
