"""Which slices keep their details: the oddest and the newest. There may be a million of the others.

Cells, rows and components of an anomaly take ten times the memory of all else about a slice, and a
page shows them for a few hundred slices at most.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Iterable
from typing import final

from onlinegcp.runlog.line import Step, anomaly_of, smallest_p

_DETAILS = ("cells", "modes", "largest", "newcomers", "components")


@final
class Details:
    """Takes the details away from all slices but some.

    Parameters
    ----------
    most
        Slices that keep them because they are odd.
    newest
        The last slices, and the last alarms, that keep them besides.

    Examples
    --------
    >>> steps = [{"number": n, "anomaly": {"p": n / 10, "cells": [1]}} for n in (3, 1, 2, 4)]
    >>> details = Details(1)
    >>> for step in steps:
    ...     details.take(step)
    >>> [step["number"] for step in steps if "cells" in step["anomaly"]]
    [1, 4]
    """

    def __init__(self, most: int, newest: int = 1) -> None:
        self._most, self._newest = most, newest
        self._odd: list[tuple[bool, float, int, Step]] = []  # the least odd of them first
        self._last: deque[Step] = deque()
        self._alarms: deque[Step] = deque()
        self._held: Counter[int] = Counter()  # by how many of the three, by number

    def state(self) -> dict[str, list[Step]]:
        """The slices that have their details, by why."""
        return {"odd": self.odd, "last": list(self._last), "alarms": list(self._alarms)}

    def restore(self, odd: Iterable[Step], last: Iterable[Step], alarms: Iterable[Step]) -> None:
        """Go on where another one was."""
        self._odd = [(*_rank(step), step) for step in odd]
        heapq.heapify(self._odd)
        self._last, self._alarms = deque(last), deque(alarms)
        kept = (*(item[-1] for item in self._odd), *self._last, *self._alarms)
        self._held = Counter(step.get("number", 0) for step in kept)

    @property
    def odd(self) -> list[Step]:
        """The oddest slices, alarms before others, each with its details."""
        return [item[-1] for item in sorted(self._odd, key=lambda item: item[:3], reverse=True)]

    @property
    def alarms(self) -> list[Step]:
        """The newest slices that were flagged, the newest first."""
        return list(reversed(self._alarms))

    def take(self, step: Step) -> None:
        """One more slice, in order."""
        anomaly = anomaly_of(step)
        if not anomaly:
            return
        number, rank = step.get("number", 0), _rank(step)
        flagged = rank[0]
        self._last.append(step)
        self._held[number] += 1
        if flagged:
            self._alarms.append(step)
            self._held[number] += 1
        if len(self._odd) < self._most or (self._odd and rank > self._odd[0][:3]):
            heapq.heappush(self._odd, (*rank, step))
            self._held[number] += 1
        if len(self._odd) > self._most:
            self._let_go(heapq.heappop(self._odd)[-1])
        for queue in (self._last, self._alarms):
            if len(queue) > self._newest:
                self._let_go(queue.popleft())

    def _let_go(self, step: Step) -> None:
        number = step.get("number", 0)
        self._held[number] -= 1
        if self._held[number] <= 0:
            del self._held[number]
            anomaly = anomaly_of(step)
            for name in _DETAILS:
                anomaly.pop(name, None)  # type: ignore[misc]


def _rank(step: Step) -> tuple[bool, float, int]:
    """Sorts slices, the oddest last."""
    flagged = bool(anomaly_of(step).get("flagged"))
    return flagged, -smallest_p(step), -step.get("number", 0)
