"""When slices surprise: a detector of abrupt change, from what each step reports anyway.

Two signals are watched: the loss before a slice is learned, and what learning it gained. The
second sees changes that the first drowns in the noise of the data; the first sees changes so large
that the old patterns take no part in the new slices and nothing is gained by turning them. Each is
compared with its own recent values and summed up as long as it stays above them (a CUSUM).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

WINDOW = 20  # recent values a new one is compared with
FEWEST, ENOUGH = 3, 10  # of them, before anything can surprise, and before spreads are believed
ALLOWANCE = 1.5  # deviations above the median that add nothing
MOST = 4.5  # deviations one slice can add, so that one odd slice is no alarm
SUSPICION, ALARM = 2.0, 7.0
# Least deviations of the logarithms: steadier streams than this do not make smaller steps news.
# Half of a window may seem steady by chance, so that there it is up to twice as much for losses.
LEAST_LOSS, LEAST_GAIN = 0.05, 0.25


@dataclass
class Surprise:
    """The detector's memory, in plain numbers: a slice may take no longer for being watched.

    Attributes
    ----------
    losses, gains
        The latest WINDOW prequential losses per cell and gains of learning, newest last.
    n_known
        How many of them there are, at the end.
    sums
        The two CUSUMs.
    rising
        Slices since both of them were zero.
    """

    losses: tuple[float, ...] = (0.0,) * WINDOW
    gains: tuple[float, ...] = (0.0,) * WINDOW
    n_known: int = 0
    sums: tuple[float, float] = (0.0, 0.0)
    rising: int = 0

    def copy(self) -> Surprise:
        """A detector that goes its own way."""
        return Surprise(self.losses, self.gains, self.n_known, self.sums, self.rising)

    def watch(self, prequential: float, local: float, n_observed: int) -> None:
        """Take in one step; changes the detector in place.

        Parameters
        ----------
        prequential, local
            Loss of the slice before and after it was learned.
        n_observed
            Its observed cells.
        """
        cells = max(1, n_observed)
        loss, gain = prequential / cells, max((prequential - local) / cells, 1e-300)
        steady = LEAST_LOSS * min(2.0, WINDOW / max(1, self.n_known))
        of_losses, of_gains = self.sums
        self.sums = (
            _summed(of_losses, loss, self._known(self.losses), steady),
            _summed(of_gains, gain, self._known(self.gains), LEAST_GAIN),
        )
        self.losses, self.gains = (*self.losses[1:], loss), (*self.gains[1:], gain)
        self.n_known = min(self.n_known + 1, WINDOW)
        self.rising = self.rising + 1 if max(self.sums) > 0.0 else 0

    def _known(self, past: tuple[float, ...]) -> list[float]:
        return sorted(past[WINDOW - self.n_known :])

    @property
    def suspects(self) -> bool:
        """Whether the newest slices may belong to another regime."""
        return max(self.sums) > SUSPICION

    @property
    def alarmed(self) -> bool:
        """Whether they surely are unlike the ones before."""
        return max(self.sums) > ALARM

    def outcry(self, alarms: float) -> bool:
        """Whether they add up to so many alarms."""
        return max(self.sums) > alarms * ALARM

    @property
    def usual_deviation(self) -> float:
        """By how much losses per cell differ from slice to slice; 0.0 while nothing is known."""
        known = self._known(self.losses)
        if len(known) < FEWEST:
            return 0.0
        return _wider(len(known)) * _spread(known, _middle(known))

    @property
    def usual_loss(self) -> float:
        """The median of the recent losses per cell; 0.0 while there is none."""
        known = self._known(self.losses)
        return _middle(known) if known else 0.0

    def calm(self) -> None:
        """Begin to sum up anew."""
        self.sums = 0.0, 0.0

    def forget(self) -> None:
        """Begin anew, with a model to which the old values mean nothing."""
        self.calm()
        self.n_known = 0

    def to_dict(self) -> dict[str, Any]:
        """The memory as arrays."""
        return {item.name: np.atleast_1d(getattr(self, item.name)) for item in fields(self)}

    @staticmethod
    def from_dict(flat: dict[str, Any]) -> Surprise:
        """The detector that `to_dict` described."""
        of_losses, of_gains = map(float, flat["sums"])
        return Surprise(
            tuple(map(float, flat["losses"])),
            tuple(map(float, flat["gains"])),
            int(flat["n_known"][0]),
            (of_losses, of_gains),
            int(flat["rising"][0]) if "rising" in flat else 0,  # older files do not say
        )


def _summed(total: float, value: float, known: list[float], least: float) -> float:
    """A CUSUM with one more value."""
    if total <= 0.0 and _surely_usual(value, known, least):
        return total
    step = min(_deviations(value, known, least), MOST) - ALLOWANCE
    return max(0.0, total + step)


def _surely_usual(value: float, known: list[float], least: float) -> bool:
    """Whether a value adds nothing, whatever the spread: most do, and need no logarithms.

    It does not lie above the lower one of the two middle values or, where all are positive, within
    the allowance above it, in units of the least deviation there can be.
    """
    if len(known) < FEWEST:
        return False
    middle = known[(len(known) - 1) // 2]
    return value <= (middle * (1.0 + ALLOWANCE * least) if known[0] > 0.0 else middle)


def _deviations(value: float, known: list[float], least: float) -> float:
    """How many usual deviations a value lies above the recent ones, which come in ascending order.

    Positive values are compared by their logarithms: losses vary by factors. Losses that may be
    negative have no such scale and are compared as they are.
    """
    if len(known) < FEWEST:
        return 0.0
    if value > 0.0 and known[0] > 0.0:
        value, known = math.log(value), [math.log(one) for one in known]
    else:
        least = 1e-12 * (abs(value) + max(abs(known[0]), abs(known[-1]))) + 1e-300
    middle = _middle(known)
    return (value - middle) / (_wider(len(known)) * max(_spread(known, middle), least))


def _wider(count: int) -> float:
    """What a spread that few values tell of is multiplied with: it may be off by much."""
    return max(1.0, ENOUGH / count)


# Plain Python: for twenty numbers, calls of NumPy would take longer than the numbers.


def _middle(ordered: list[float]) -> float:
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else 0.5 * (ordered[half - 1] + ordered[half])


def _spread(ordered: list[float], middle: float) -> float:
    """The standard deviation that normal numbers with this median deviation have."""
    return 1.4826 * _middle(sorted(abs(one - middle) for one in ordered))
