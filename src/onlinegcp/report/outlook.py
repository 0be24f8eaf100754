"""The next slices as a page draws them: totals with an interval, from the newest slices."""

from __future__ import annotations

from typing import Any

import numpy as np

from onlinegcp.digest import Digest, loss_of
from onlinegcp.drawing.profiles import matrix
from onlinegcp.errors import DataError
from onlinegcp.forecasting import Forecast, Recent, forecast

# How far ahead a page looks, and its interval.
_AHEAD = {"hourly": 48, "daily": 14, "weekly": 8, "monthly": 12, "quarterly": 8, "yearly": 5}
_LEVEL = 0.8
_LEAST = 20  # slices from which a page forecasts


def outlook(digest: Digest) -> Forecast | None:
    """A forecast of the next slices; None where there are too few, or no loss of the package's.

    A slice that was cut off says little about the next ones: it is left out, and forecast.
    """
    steps = [step for step in digest.newest if step.get("weights")]
    recent = Recent.of(digest.view.recent)
    if steps and steps[-1].get("partial"):
        steps.pop()
        recent = recent.without_last()
    if len(steps) < _LEAST or not digest.view.factors:
        return None
    factors = digest.view.factors
    sums = np.prod([np.abs(factor).sum(axis=0) for factor in factors], axis=0)
    past = matrix(steps, "weights", digest.rank) * sums
    ahead = min(_AHEAD.get(digest.interval, 10), max(1, len(steps) // 4))
    times = [step.get("time") for step in steps]
    try:
        loss = loss_of(digest.view)
        return forecast(past, factors, loss, ahead, times=times, level=_LEVEL, recent=recent)
    except DataError:
        return None


def drawn(found: Forecast | None) -> dict[str, Any] | None:
    """A forecast as a page draws it."""
    if found is None or not np.isfinite([found.total, found.low, found.high]).all():
        return None
    return {
        "t": [str(time) if not isinstance(time, int | float) else time for time in found.times],
        "total": _rounded(found.total),
        "low": _rounded(found.low),
        "high": _rounded(found.high),
        "level": found.level,
    }


def _rounded(values: np.ndarray) -> list[float]:
    return [float(f"{v:.7g}") for v in values.tolist()]
