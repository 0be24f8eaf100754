"""What a few series learn from their newest values: a dozen numbers, in one call instead of forty.

To the last bit what NumPy gave, number by number. `anomaly.levels` says what for.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.jit import kernel
from onlinegcp.kernels.shares import DEVIATION, FORECAST, SURPRISE

DAMPING = 0.9
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


class Cycle(NamedTuple):
    """What repeats and learns from this slice, in place."""

    values: NDArray[Any]  # (experts, series, phases or kinds of day)
    place: int  # in the last of these
    kind: int
    part: float  # of an error: of a season's a share, of a special day's a divisor


@kernel(fastmath=False)
def judge_levels(values, ahead, errors, spread, seen, least, noise, out):
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
            for e in range(1, ahead.shape[0]):
                if errors[e, i] < errors[best, i]:
                    best = e
            forecast, judged = ahead[best, i], known and seen[i] >= least
            if spread[1, i] >= FEWEST_ERRORS:
                mean = FROM_ABSOLUTE * spread[0, i] / np.maximum(spread[1, i], 1e-12)
                deviation = np.maximum(mean, noise[i])
        forecast = 0.0 if np.isnan(forecast) else forecast
        error = values[i] - forecast if judged else 0.0
        out[FORECAST, i] = forecast
        out[DEVIATION, i] = deviation
        out[SURPRISE, i] = error / np.maximum(deviation, 1e-12 * (1.0 + abs(forecast)))
    return total


@kernel(fastmath=False)
def learn_levels(values, compared, ahead, rates, trends, least, keep, early, cycle, series):
    # A special day tells of nothing but such days.
    level, trend, errors, spread, streak, seen = series
    for i in range(values.shape[0]):
        known, old = not np.isnan(values[i]), seen[i] >= least
        if known:
            streak[i] = streak[i] + 1.0 if abs(compared[SURPRISE, i]) > ODD else 0.0
        limit = 3.0 * compared[DEVIATION, i] if old and streak[i] < PATIENCE else np.inf
        mine = abs(values[i] - compared[FORECAST, i]) if known and old else 0.0
        spread[0, i] = keep * spread[0, i] + np.minimum(mine, limit)
        spread[1, i] = keep * spread[1, i] + (1.0 if known and old else 0.0)
        for e in range(level.shape[0]):
            error = values[i] - ahead[e, i] if known else 0.0
            errors[e, i] = ERRORS * errors[e, i] + np.minimum(abs(error), limit)
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
