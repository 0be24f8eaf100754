"""Kinds of oddity of a judged slice: one number of each, large where something is odd."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from onlinegcp.anomaly.common import Alone
from onlinegcp.anomaly.pairs import IntArray, mixtures
from onlinegcp.anomaly.shares import Judged, highest_criticism
from onlinegcp.anomaly.tails import Theory, largest_of, scipy_special

MANY = (1.3, 1.8)  # 75 and 95 % points of the root of higher criticism


def statistics_of(
    whole: Judged,
    rows: Sequence[Judged],
    newcomers: Judged,
    pairs: Sequence[tuple[IntArray, Judged]],
    alone: Alone | None,
    *,
    counted: bool,
) -> dict[str, tuple[float, Theory]]:
    """Each kind of oddity, with what it would be like if all were right.

    Parameters
    ----------
    whole, rows, newcomers, pairs, alone
        As `Verdict` has them; `alone` is None where rows have nothing in common.
    counted
        Whether rows are sums of counts.
    """
    found: dict[str, tuple[float, Theory]] = {}
    if math.isfinite(whole.deviation[0]):
        found["volume"] = abs(float(whole.surprise[0])), 2
    if math.isfinite(whole.deviation[1]) and not math.isnan(whole.observed[1]):
        found["misfit"] = max(float(whole.surprise[1]), 0.0), 1
    many = []
    for k, seen in enumerate(rows):
        surprise, forecast = seen.surprise, seen.forecast
        if not seen.ready or not len(surprise):
            continue
        new = float(newcomers.surprise[k]) if newcomers.ready else 0.0
        largest, smallest, n = seen.extremes
        heavy = forecast > 0.5
        if not counted:
            heavy = np.isfinite(seen.deviation)
            n = int(np.count_nonzero(heavy))
        found[f"up {k}"] = max(largest, new), n + 1
        found[f"down {k}"] = -smallest, n
        many.append(surprise[heavy])
    everything = np.concatenate(many) if many else np.zeros(0)
    if len(everything) >= 4:
        p = 2.0 * scipy_special().ndtr(-np.abs(everything))
        found["many"] = math.sqrt(highest_criticism(p)), MANY
    if alone is not None:
        n = int(np.count_nonzero(alone.heavy))
        found["alone up"] = max(float(alone.left[1].max()), 0.0), n
        found["alone down"] = max(float(-alone.left[1].min()), 0.0), n
    mixed = [mixed for keys, seen in pairs if (mixed := mixtures(keys, seen)) is not None]
    if mixed:
        theory = largest_of(sum(one.number for one in mixed))
        found["mixture"] = max(one.largest for one in mixed), theory
    ready = [seen for _, seen in pairs if seen.ready and len(seen.observed)]
    if ready:
        ups, lows, numbers = zip(*(seen.extremes for seen in ready), strict=True)
        theory = largest_of(max(1, sum(numbers)))
        found["pairs up"] = max(ups), theory
        found["pairs down"] = -min(lows), theory
    return found
