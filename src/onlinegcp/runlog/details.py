"""Which slices keep their details: the oddest and the newest. There may be a million of the others.

Cells, rows and components of an anomaly take ten times the memory of all else about a slice, and a
page shows them for a few hundred slices at most.
"""

from __future__ import annotations

import heapq
from typing import final

from onlinegcp.runlog.line import Step, anomaly_of, smallest_p

_DETAILS = ("cells", "modes", "largest", "components")


@final
class Details:
    """Takes the details away from all slices but some.

    Parameters
    ----------
    most
        Slices that keep them, besides the newest.

    Examples
    --------
    >>> steps = [{"number": n, "anomaly": {"p": n / 10, "cells": [1]}} for n in (3, 1, 2, 4)]
    >>> details = Details(1)
    >>> for step in steps:
    ...     details.take(step)
    >>> [step["number"] for step in steps if "cells" in step["anomaly"]]
    [1, 4]
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._odd: list[tuple[bool, float, int, Step]] = []  # the least odd of them first
        self._newest: Step | None = None  # if it is not odd enough by itself

    def take(self, step: Step) -> None:
        """One more slice, in order."""
        if self._newest is not None:
            _strip(self._newest)
            self._newest = None
        anomaly = anomaly_of(step)
        if not anomaly:
            return
        rank = (bool(anomaly.get("flagged")), -smallest_p(step), -step.get("number", 0))
        heapq.heappush(self._odd, (*rank, step))
        if len(self._odd) > self._most:
            least = heapq.heappop(self._odd)[-1]
            if least is step:
                self._newest = step
            else:
                _strip(least)


def _strip(step: Step) -> None:
    anomaly = anomaly_of(step)
    for name in _DETAILS:
        anomaly.pop(name, None)  # type: ignore[misc]
