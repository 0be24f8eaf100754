"""A memory shorter than a start: when a new model would know more of the stream than this one.

The forgetting learns how much of the past predicts the next slice. Where patterns fade, or change
before a detector knows what is usual, or where a model sits in a wrong optimum, its past misleads
and the memory shortens, step by step and without a surprise. A memory that is worth fewer slices
than a warm start takes has lost more than a new start would: so one is made, and put on trial.
Where streams just move fast, it does not predict better, and the next one waits longer.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

HELD = 5  # slices for which the memory must stay short: an abrupt change is noticed sooner
MOST = 10  # slices a new start is made from: more cost more, and a long memory may be the right one
PAUSE = 60  # slices between two starts, four times as long with every failure
LONGEST_PAUSE = 3840  # even where starts always failed


@dataclass(frozen=True)
class ShortMemory:
    """The watch over the memory.

    Attributes
    ----------
    held
        Slices in a row for which it was short.
    next
        Age of the model at which a start may be tried again.
    failures
        Starts in a row that did not predict better.
    """

    held: int = 0
    next: int = 0
    failures: int = 0

    def watch(self, forget: NDArray[np.float64], count: int) -> ShortMemory:
        """Take in one step.

        Parameters
        ----------
        forget
            Forgetting factor of every component in it.
        count
            Slices a new start would be made from.
        """
        # Plain Python: for so few numbers a call of NumPy would take longer.
        rates = forget.tolist()
        if is_short(sum(rates) / len(rates), count):
            return replace(self, held=self.held + 1)
        return replace(self, held=0) if self.held else self

    def due(self, age: int) -> bool:
        """Whether a new start is to be tried."""
        return self.held >= HELD and age >= self.next

    def failed(self, age: int) -> ShortMemory:
        """After a start that did not predict better."""
        failures = self.failures + 1
        return ShortMemory(0, age + min(PAUSE * 4**failures, LONGEST_PAUSE), failures)

    def succeeded(self, age: int) -> ShortMemory:
        """After one that did."""
        return ShortMemory(0, age + PAUSE, 0)

    def to_dict(self) -> dict[str, Any]:
        """The memory as numbers."""
        return asdict(self)

    @staticmethod
    def from_dict(flat: dict[str, Any]) -> ShortMemory:
        """The watch that `to_dict` described."""
        return ShortMemory(**{name: int(value) for name, value in flat.items()})


def is_short(forget: float, count: int) -> bool:
    """Whether this forgetting leaves less of the past than `count` slices that count alike.

    A mean in which slice after slice counts `forget` times as much has the variance of
    ``(1 + forget) / (1 - forget)`` slices that count alike.

    Examples
    --------
    >>> is_short(0.8, 10), is_short(0.83, 10)
    (True, False)
    """
    return forget < (count - 1) / (count + 1)
