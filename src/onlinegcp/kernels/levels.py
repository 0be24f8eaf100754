"""What a few series learn from their newest values: a dozen numbers, in one call instead of forty.

To the last bit what NumPy gave, number by number. `anomaly.levels` says what for.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import numpy as np

from onlinegcp.kernels.jit import kernel
from onlinegcp.kernels.shares import DEVIATION, FORECAST, SURPRISE

DAMPING = 0.9
ERRORS = 0.95  # of the errors so far, in the choice among experts
ODD, PATIENCE = 4.0, 3
NOTHING, SEASON, SPECIAL_DAY = range(3)


@kernel(fastmath=False)
def learn_levels(
    values, compared, ahead, rates, trends, least, keep, early, cycle, place, kind, part,
    level, trend, errors, spread, streak, seen,
):  # fmt: skip
    # `cycle` (experts, series, phases or kinds of day) learns at `place`, with `part` of an error:
    # of a season's a share, of a special day's a divisor. A special day tells of nothing else.
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
            if kind == SPECIAL_DAY:
                cycle[e, i, place] += error / part
                error = 0.0
            elif kind == SEASON:
                cycle[e, i, place] += part * (1.0 - rate) * error
            level[e, i] = level[e, i] + DAMPING * trend[e, i] + early * rate * error
            # Stays zero where `trends` is.
            trend[e, i] = DAMPING * trend[e, i] + trends[e, 0] * rate * error
        seen[i] += 1.0 if known else 0.0
