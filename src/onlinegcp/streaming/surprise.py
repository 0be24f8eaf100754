"""When slices surprise: a detector of abrupt change, from what each step reports anyway.

Two signals are watched: the loss before a slice is learned, and what learning it gained. The
second sees changes that the first drowns in the noise of the data; the first sees changes so large
that the old patterns take no part in the new slices and nothing is gained by turning them. Each is
compared with its own recent values and summed up as long as it stays above them (a CUSUM).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]

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
    """The detector's memory.

    Attributes
    ----------
    losses, gains
        The latest prequential losses per cell and gains of learning (WINDOW,), newest last.
    n_known
        How many of them there are, at the end of the arrays (1,).
    sums
        The two CUSUMs (2,).
    rising
        Slices since both of them were zero (1,).
    """

    losses: FloatArray = field(default_factory=lambda: np.zeros(WINDOW))
    gains: FloatArray = field(default_factory=lambda: np.zeros(WINDOW))
    n_known: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))
    sums: FloatArray = field(default_factory=lambda: np.zeros(2))
    rising: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))

    def copy(self) -> Surprise:
        """A detector that shares no memory with this one."""
        return Surprise(
            self.losses.copy(),
            self.gains.copy(),
            self.n_known.copy(),
            self.sums.copy(),
            self.rising.copy(),
        )

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
        steady = LEAST_LOSS * min(2.0, WINDOW / max(1, int(self.n_known[0])))
        for k, (value, past, least) in enumerate(
            ((loss, self.losses, steady), (gain, self.gains, LEAST_GAIN))
        ):
            before = past.tolist()
            known = sorted(before[WINDOW - int(self.n_known[0]) :])
            if self.sums[k] > 0.0 or not _surely_usual(value, known, least):
                step = min(_deviations(value, known, least), MOST) - ALLOWANCE
                self.sums[k] = max(0.0, self.sums[k] + step)
            past[:] = [*before[1:], value]
        self.n_known[0] = min(self.n_known[0] + 1, WINDOW)
        self.rising[0] = self.rising[0] + 1 if max(self.sums.tolist()) > 0.0 else 0

    def _known(self, past: FloatArray) -> list[float]:
        return sorted(past[WINDOW - int(self.n_known[0]) :].tolist())

    @property
    def suspects(self) -> bool:
        """Whether the newest slices may belong to another regime."""
        return bool(max(self.sums.tolist()) > SUSPICION)

    @property
    def alarmed(self) -> bool:
        """Whether they surely are unlike the ones before."""
        return bool(max(self.sums.tolist()) > ALARM)

    def outcry(self, alarms: float) -> bool:
        """Whether they add up to so many alarms."""
        return bool(max(self.sums.tolist()) > alarms * ALARM)

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
        self.sums[:] = 0.0

    def forget(self) -> None:
        """Begin anew, with a model to which the old values mean nothing."""
        self.calm()
        self.n_known[0] = 0

    def to_dict(self) -> dict[str, Any]:
        """The memory as arrays."""
        return {item.name: getattr(self, item.name).copy() for item in fields(self)}

    @staticmethod
    def from_dict(flat: dict[str, Any]) -> Surprise:
        """The detector that `to_dict` described."""
        # Older files do not say since when.
        flat = {"rising": np.zeros(1, np.int64)} | flat
        return Surprise(**{item.name: np.array(flat[item.name]) for item in fields(Surprise)})


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
