"""What a few series learn from their newest values: a dozen numbers, in one call instead of forty.

`anomaly.levels` says what for.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.jit import kernel
from onlinegcp.kernels.shares import (
    DEVIATION,
    FORECAST,
    LASTING_KEEP,
    LASTING_PRIOR,
    LONGEST_LASTING,
    SURPRISE,
)
from onlinegcp.kernels.unrest import learn_time, unrest_at

DAMPING = 0.9  # of a trend, per step: none goes on for ever
ERRORS = 0.95  # of the errors so far, in the choice among experts
ODD, PATIENCE = 4.0, 3
FROM_ABSOLUTE = 1.2533  # standard deviation of normal values over the mean of their absolute values
FEWEST_ERRORS = 2.0  # below which a spread is not known
NOTHING, SEASON, SPECIAL_DAY = range(3)


class Series(NamedTuple):
    """What is kept of series, as `anomaly.levels` has it; changed in place."""

    level: NDArray[Any]  # (experts, series), as the next two
    trend: NDArray[Any]
    errors: NDArray[Any]
    spread: NDArray[Any]  # (2, series)
    streak: NDArray[Any]
    seen: NDArray[Any]


class Habits(NamedTuple):
    """Whether series stay off, as they do where one hour is like the one before; in place.

    How far each expert was off last time, and sums, in units of the variance, of how far it was off
    times how far before, and of the squares of the latter.
    """

    lately: NDArray[Any]  # (experts, series), as the next two
    product: NDArray[Any]
    power: NDArray[Any]


class Cycle(NamedTuple):
    """What repeats and learns from this slice, in place."""

    values: NDArray[Any]  # (experts, series, phases or kinds of day)
    place: int  # in the last of these
    kind: int
    part: float  # of an error: of a season's a share, of a special day's a divisor


@kernel(inline="always")
def _lasting(habits, e, i):
    # What is left of how far the series was off last time.
    part = habits.product[e, i] / (habits.power[e, i] + LASTING_PRIOR)
    return min(max(part, 0.0), LONGEST_LASTING) * habits.lately[e, i]


@kernel(fastmath=False)
def judge_levels(values, base, habits, errors, spread, unrest, time, seen, least, noise, out):
    # Forecast by the expert with the smallest errors, standard deviation from mean absolute errors,
    # and the error in these, of every series; `noise` is the least deviation. Returns the sum of
    # the values that are there.
    total = 0.0
    for i in range(values.shape[0]):
        known = not np.isnan(values[i])
        total += values[i] if known else 0.0
        forecast, deviation, judged = values[i], np.inf, False
        if i < seen.shape[0]:
            best = 0
            for e in range(1, base.shape[0]):
                if errors[e, i] < errors[best, i]:
                    best = e
            forecast = base[best, i] + _lasting(habits, best, i)
            judged = known and seen[i] >= least
            if spread[1, i] >= FEWEST_ERRORS:
                mean = FROM_ABSOLUTE * spread[0, i] / np.maximum(spread[1, i], 1e-12)
                deviation = np.maximum(mean * unrest_at(unrest[:, i], time), noise[i])
        forecast = 0.0 if np.isnan(forecast) else forecast
        error = values[i] - forecast if judged else 0.0
        out[FORECAST, i] = forecast
        out[DEVIATION, i] = deviation
        out[SURPRISE, i] = error / np.maximum(deviation, 1e-12 * (1.0 + abs(forecast)))
    return total


@kernel(fastmath=False)
def learn_levels(
    values, compared, base, habits, rates, trends, least, keep, early, cycle, unrest, time, series
):
    # A special day tells of nothing but such days.
    level, trend, errors, spread, streak, seen = series
    for i in range(values.shape[0]):
        known, old = not np.isnan(values[i]), seen[i] >= least
        if known:
            streak[i] = streak[i] + 1.0 if abs(compared[SURPRISE, i]) > ODD else 0.0
        limit = 3.0 * compared[DEVIATION, i] if old and streak[i] < PATIENCE else np.inf
        mine = abs(values[i] - compared[FORECAST, i]) if known and old else 0.0
        mine = np.minimum(mine, limit)
        wild = unrest_at(unrest[:, i], time)
        if known and old and spread[1, i] >= FEWEST_ERRORS and spread[0, i] > 0.0:
            usual = FROM_ABSOLUTE * spread[0, i] / spread[1, i]
            learn_time(unrest[:, i], time, FROM_ABSOLUTE * mine / usual, wild)
        spread[0, i] = keep * spread[0, i] + mine / wild
        spread[1, i] = keep * spread[1, i] + (1.0 if known and old else 0.0)
        for e in range(level.shape[0]):
            error = values[i] - base[e, i] if known else 0.0
            left = error - _lasting(habits, e, i) if known else 0.0
            errors[e, i] = ERRORS * errors[e, i] + np.minimum(abs(left), limit)
            before, now = habits.lately[e, i], 0.0
            # An odd value says nothing of what stays, nor does a day that is unlike all others.
            if old and cycle.kind != SPECIAL_DAY and abs(compared[SURPRISE, i]) <= ODD:
                now = error
                variance = compared[DEVIATION, i] * compared[DEVIATION, i]
                if variance > 0.0:
                    product = now * before / variance
                    habits.product[e, i] = LASTING_KEEP * habits.product[e, i] + product
                    power = before * before / variance
                    habits.power[e, i] = LASTING_KEEP * habits.power[e, i] + power
            habits.lately[e, i] = now
            error = np.maximum(np.minimum(error, limit), -limit)
            rate = np.maximum(rates[e, 0], 1.0 / (seen[i] + 1.0)) * (1.0 if known else 0.0)
            if cycle.kind == SPECIAL_DAY:
                cycle.values[e, i, cycle.place] += error / cycle.part
                error = 0.0
            elif cycle.kind == SEASON:
                cycle.values[e, i, cycle.place] += cycle.part * (1.0 - rate) * error
            level[e, i] = level[e, i] + DAMPING * trend[e, i] + early * rate * error
            # Stays zero where `trends` is.
            trend[e, i] = DAMPING * trend[e, i] + trends[e, 0] * rate * error
        seen[i] += 1.0 if known else 0.0
