"""What a line says about a scored slice: how odd it was, and the sentence that tells it.

Older runs have two p-values and no sentence; their readers get the best of it.
"""

from __future__ import annotations

import math

from onlinegcp.runlog.line import SMALLEST_P, Step, anomaly_of, smallest_p


def score(step: Step) -> float:
    """How odd a slice was, by which slices are ranked: -log10 of its p-value.

    Examples
    --------
    >>> score({"anomaly": {"score": 3.2}}), score({"anomaly": {"p": 0.5, "volume_p": 0.01}})
    (3.2, 2.0)
    """
    found = anomaly_of(step).get("score")
    return float(found) if found is not None else abs(math.log10(max(smallest_p(step), SMALLEST_P)))


# Why no slice is called odd in the beginning.
WAITING = "ten slices, or two seasons, show what is usual"


def sentence(step: Step) -> str:
    """What happened in a scored slice, in words."""
    anomaly = anomaly_of(step)
    if anomaly.get("sentence"):
        return anomaly["sentence"]
    expected, total = anomaly.get("expected_total"), step.get("total") or 0.0
    if expected is None:
        return f"{step.get('time')}: {_plainly(total)}."
    return f"{step.get('time')}: {_plainly(total)} where {_plainly(expected)} were expected."


def _plainly(value: float) -> str:
    """A number as people write it, whatever its size."""
    whole = abs(value) >= 1000 or float(value).is_integer()
    return f"{value:,.0f}" if whole else f"{value:.6g}"
