"""On which days of the week a pattern is strong, where chance or one odd day do not explain it."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from onlinegcp.drawing.text import WEEKDAYS, parse_time

FloatArray = NDArray[np.float64]

# A day this far above the others is worth a word.
CLEARLY = 1.15
CHANCE = 0.005  # of naming a day where days differ as they always do
_WORKING, _WEEKEND = range(5), range(5, 7)


@final
@dataclass(frozen=True)
class Days:
    """What patterns held day by day.

    Attributes
    ----------
    weekday : (days,) array
        0 for Monday.
    held : (days, rank) array
        Means over the slices of a day, NaN where nothing is known.
    """

    weekday: NDArray[np.int64]
    held: FloatArray

    @staticmethod
    def of(times: Sequence[Any], active: FloatArray) -> Days:
        """The days of slices; none where not all times are dates.

        Parameters
        ----------
        times
            When each slice began.
        active
            (slices, rank) what each pattern held.
        """
        moments = [parse_time(time) for time in times]
        dates = [moment.date() for moment in moments if moment is not None]
        if len(dates) < len(moments):
            return Days(np.zeros(0, dtype=np.int64), active[:0])
        # Hours of one day are much alike: together they are one witness.
        days, place = np.unique([day.toordinal() for day in dates], return_inverse=True)
        size = np.abs(active)
        known = np.isfinite(size)
        sums, count = np.zeros((2, len(days), active.shape[1]))
        np.add.at(sums, place, np.where(known, size, 0.0))
        np.add.at(count, place, known)
        held = np.divide(sums, count, out=np.full(sums.shape, np.nan), where=count > 0)
        weekday = [datetime.date.fromordinal(int(day)).weekday() for day in days]
        return Days(np.array(weekday, dtype=np.int64), held)

    def differ(self, r: int, some: Sequence[int], others: Sequence[int]) -> bool:
        """Whether a pattern differs between some days of the week and others beyond chance."""
        column = self.held[:, r]
        column, weekday = column[np.isfinite(column)], self.weekday[np.isfinite(column)]
        one, two = (column[np.isin(weekday, list(days))] for days in (some, others))
        if min(len(one), len(two)) < 2:
            return False
        gap, freedom = abs(one.mean() - two.mean()), len(one) + len(two) - 2
        spread = (np.square(one - one.mean()).sum() + np.square(two - two.mean()).sum()) / freedom
        error = np.sqrt(spread * (1 / len(one) + 1 / len(two)))
        return bool(gap > 0 and 2 * stdtr(freedom, -gap / max(error, 1e-300)) < CHANCE)


def week_words(profile: FloatArray, days: Days, r: int) -> str:
    """The days of the week a pattern is strong on, or "" where none stands out.

    Parameters
    ----------
    profile
        (7,) how strong it is on each, relative to its mean.
    days
        What patterns held day by day.
    r
        The pattern.
    """
    if np.isnan(profile).any():
        return ""
    working, weekend = profile[:5], profile[5:]
    best, top, low = int(profile.argmax()), int(working.argmax()), int(profile.argmin())

    def but(day: int, of: Sequence[int] = range(7)) -> list[int]:
        return [other for other in of if other != day]

    above_all = days.differ(r, [best], but(best))
    if profile[best] >= 1.4 * profile[but(best)].max() and above_all:
        return f"strongest on {WEEKDAYS[best]}s"
    apart = days.differ(r, _WORKING, _WEEKEND)
    if weekend.min() >= CLEARLY * working.mean() and apart:
        return "strongest at weekends"
    if weekend.max() <= working.mean() / CLEARLY and apart:
        rest = but(top, _WORKING)
        single = working[top] >= CLEARLY * working[rest].mean() and days.differ(r, [top], rest)
        return "mostly on working days" + (f", most on {WEEKDAYS[top]}s" if single else "")
    if profile[best] >= CLEARLY * profile[but(best)].mean() and above_all:
        return f"strongest on {WEEKDAYS[best]}s"
    weak = profile[low] <= profile[but(low)].mean() / 1.25
    return f"weakest on {WEEKDAYS[low]}s" if weak and days.differ(r, [low], but(low)) else ""
