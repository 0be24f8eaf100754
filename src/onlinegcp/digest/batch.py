"""Some lines in a row as arrays, so that each field is gathered once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np
from numpy.typing import NDArray

from onlinegcp.drawing.profiles import matrix
from onlinegcp.runlog import Number, Step, anomaly_of

FloatArray = NDArray[np.float64]

LOSSES: tuple[Number, ...] = ("prequential", "local", "global")


@final
class Batch:
    """Lines and their numbers, NaN where there is none.

    Parameters
    ----------
    steps
        The lines, at least one.
    divisor
        What their losses are divided by.

    Attributes
    ----------
    rank : int
        Components of the line that has most.
    weights, drift : (n, rank) arrays
        Per component.
    total, size, expected : (n,) arrays
        Totals, what losses are divided by, and totals that were expected.
    losses : (3, n) array
        Each of `LOSSES`.
    flagged : (n,) array of bool
        Whether a slice was an alarm.
    """

    def __init__(self, steps: Sequence[Step], divisor: Number) -> None:
        self.steps, self.divisor = steps, divisor
        self.rank = max(max(len(s.get("weights") or ()), len(s.get("drift") or ())) for s in steps)
        self.weights = matrix(steps, "weights", self.rank)
        self.drift = matrix(steps, "drift", self.rank)
        # Where nothing was observed, nobody knows the total.
        seen = np.array([step.get("n_observed") != 0 for step in steps])
        self.total = np.where(seen, numbers(steps, "total"), np.nan)
        self.size = self.total if divisor == "total" else numbers(steps, divisor)
        self.losses = np.array([numbers(steps, name) for name in LOSSES])
        found = [anomaly_of(step) for step in steps]
        expected = _array([anomaly.get("expected_total") for anomaly in found])
        self.expected = np.where(seen, expected, np.nan)
        self.flagged = np.array([bool(anomaly.get("flagged")) for anomaly in found])


def numbers(steps: Sequence[Step], name: Number) -> FloatArray:
    """A field of steps, NaN where there is none."""
    return _array([step.get(name) for step in steps])


def _array(found: list[float | None]) -> FloatArray:
    return np.array([np.nan if v is None else v for v in found], dtype=np.float64)
