"""How rare a statistic is among its own past: quantiles, and a tail beyond them.

The chance of more than the 75 % point falls exponentially from there, at the rate at which it falls
from the 75 to the 95 % point of the past. Neither is moved by a few odd slices, of which one in a
hundred is left out altogether. With a short past, what theory says stands in for it.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from types import ModuleType
from typing import TypeAlias, final

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]

LOWEST_LOG = -690.0  # exp of it, 1e-300, is the smallest p-value reported
WINDOW = 365  # values remembered
MATURE = 60  # values that show whether a statistic behaves as a largest of normal values
PRIOR = 20.0  # values that theory counts for
TRIMMED = 0.01  # share of the past that may be too odd to count
FENCE = 8.0  # distances from the median to the 75 % point: one in a thousand is beyond
RARE = math.log(0.05)  # below this, p-values are checked against how often they came
RARE_PRIOR, RARE_MEMORY = 10.0, 40.0  # rare values that theory counts for, and that are remembered
FARTHEST = 4.0  # what one of them may count, so that no single slice makes a tail heavy
LIGHTEST = 1.5  # most that a tail may be taken to be lighter than was said
NO_TAIL = np.zeros(2)
EXPONENTIAL = (math.log(4.0), math.log(20.0))  # 75 and 95 % points of a standard exponential
STEEPEST = 0.3  # least scale of a tail, as a part of what theory says

Marks: TypeAlias = tuple[int, float, float]  # length of a past, its 75 and its 95 % point
# A statistic is the largest of so many normal values, or only its 75 and 95 % points are known.
Theory: TypeAlias = int | tuple[float, float]

NO_MARKS: Marks = (0, 0.0, 0.0)


@final
class Past:
    """The newest values of a statistic, also in order, so that none are sorted again.

    Plain numbers, of which one comes and one goes per slice: arrays of this length cost more to
    call than to go through.

    Parameters
    ----------
    values
        Those there are, oldest first.
    """

    def __init__(self, values: Iterable[float] = ()) -> None:
        self._newest = deque(values)
        self._ordered = sorted(self._newest)
        self._marks: Marks | None = None

    def add(self, value: float) -> None:
        """Remember one more, and forget the oldest beyond `WINDOW`."""
        self._newest.append(value)
        insort(self._ordered, value)
        if len(self._newest) > WINDOW:
            del self._ordered[bisect_left(self._ordered, self._newest.popleft())]
        self._marks = None

    @property
    def marks(self) -> Marks:
        """What it says, without the oddest."""
        if self._marks is None:
            self._marks = self._work_out()
        return self._marks

    def to_array(self) -> FloatArray:
        """The values, oldest first."""
        return np.array(self._newest, dtype=np.float64)

    def _work_out(self) -> Marks:
        ordered, n = self._ordered, len(self._ordered)
        if n < 5:
            return n, 0.0, 0.0
        upper = ordered[(3 * (n - 1)) // 4]
        fence = upper + FENCE * max(upper - ordered[(n - 1) // 2], 0.1)
        last = n - 1 - min(n - bisect_right(ordered, fence), int(TRIMMED * n))
        return n, _between(ordered, last * 0.75), _between(ordered, last * 0.95)


def _between(ordered: Sequence[float], place: float) -> float:
    below = int(place)
    value = ordered[below]
    return value + (ordered[min(below + 1, len(ordered) - 1)] - value) * (place - below)


def log_tail(past: Marks, value: float, theory: tuple[float, float] = EXPONENTIAL) -> float:
    """Log-probability that a statistic is as large as this, given its past.

    Parameters
    ----------
    past
        The marks of the values seen lately.
    value
        The new one.
    theory
        75 and 95 % points it would have if all forecasts and spreads were right; by default those
        of a standard exponential.

    Examples
    --------
    >>> past = Past((-np.log((np.arange(400) + 0.5) / 400)).tolist())  # exponential
    >>> bool(abs(math.exp(log_tail(past.marks, math.log(100.0))) - 0.01) < 0.002)
    True
    """
    n, low, high = past
    weight = n / (n + PRIOR) if n >= 5 else 0.0
    low = weight * low + (1.0 - weight) * theory[0]
    high = weight * high + (1.0 - weight) * theory[1]
    scale = max(high - low, STEEPEST * (theory[1] - theory[0])) / math.log(5.0)
    if value <= low:
        return math.log(max(0.25, 1.0 - 0.75 * max(value, 0.0) / max(low, 1e-9)))
    return max(math.log(0.25) - (value - low) / scale, LOWEST_LOG)


def settled(tail: FloatArray, log_p: float) -> float:
    """A log-probability as the rare values of the past have borne it out.

    Beyond one in twenty it is stretched or shrunk, so that what was called one in a thousand was
    as rare as that: bursts upwards have a heavier tail than quantiles of ordinary slices tell.

    Parameters
    ----------
    tail
        How far beyond one in twenty values went, as `after_one_more` keeps it.
    log_p
        What `log_tail` said.

    Examples
    --------
    >>> heavy = NO_TAIL
    >>> for beyond in [0.5, 1.0, 3.0, 6.0] * 10:  # 1 on average, were all as it was said
    ...     heavy = after_one_more(heavy, RARE - beyond)
    >>> round(settled(heavy, RARE - 4.0) - RARE, 2), settled(heavy, -1.0)
    (-2.18, -1.0)
    """
    if log_p >= RARE:
        return log_p
    number, beyond = float(tail[0]), float(tail[1])
    rate = (RARE_PRIOR + number) / (RARE_PRIOR + beyond)
    return max(RARE + min(rate, LIGHTEST) * (log_p - RARE), LOWEST_LOG)


def after_one_more(tail: FloatArray, log_p: float) -> FloatArray:
    """The tail with one more value: number of rare ones, and how far they went beyond, in all."""
    if log_p >= RARE:
        return tail
    keep = 1.0 - 1.0 / RARE_MEMORY
    return np.asarray(keep * tail + [1.0, min(RARE - log_p, FARTHEST)])


def log_tails(looks: Sequence[tuple[Marks, float, Theory]]) -> list[float]:
    """`log_tail` of several statistics: for each its past, the new value and its theory.

    A past of largest values that is long enough is looked at on the scale on which such a value is
    exponential: its tail then falls as fast as a normal one. In the first slices, when seasons are
    unknown, anything is odd by that measure, and the tail is taken to be straight.
    """
    points, numbers = [], []
    for (count, low, high), value, theory in looks:
        if isinstance(theory, int) and count >= MATURE:
            points += [low, high, value]
            numbers += [theory] * 3
    scaled, found = iter(surprises_of_largest(points, numbers)), []
    for past, value, theory in looks:
        if not isinstance(theory, int):
            found.append(log_tail(past, value, theory))
        elif past[0] < MATURE:
            found.append(log_tail(past, value, largest_of(theory)))
        else:
            low, high = next(scaled), next(scaled)
            found.append(log_tail((past[0], low, high), next(scaled)))
    return found


def surprises_of_largest(points: Sequence[float], numbers: Sequence[int]) -> list[float]:
    """-log of the chance that the largest of some standard normal values is as large as a point.

    All at once: a call of SciPy takes longer than what it computes.

    Examples
    --------
    >>> [round(surprise, 3) for surprise in surprises_of_largest([0.0], [1])]  # a half
    [0.693]
    """
    chances = scipy_special().log_ndtr(-np.array(points)).tolist() if points else []
    return [-smallest_of(log_p, max(n, 1)) for log_p, n in zip(chances, numbers, strict=True)]


@lru_cache(maxsize=4096)
def largest_of(n: float) -> tuple[float, float]:
    """75 and 95 % points of the largest of n standard normal values.

    Examples
    --------
    >>> [round(point, 2) for point in largest_of(1)]
    [0.67, 1.64]
    """
    power = 1.0 / max(n, 1.0)
    return float(scipy_special().ndtri(0.75**power)), float(scipy_special().ndtri(0.95**power))


def smallest_of(log_p: float, n: int) -> float:
    """Log-probability that the smallest of n independent p-values is as small as this.

    Examples
    --------
    >>> round(math.exp(smallest_of(math.log(0.01), 2)), 6)
    0.0199
    """
    if log_p < -30.0:
        return max(log_p + math.log(n), LOWEST_LOG)
    return math.log(-math.expm1(n * math.log1p(-math.exp(min(log_p, -1e-9)))))


def normal_quantile(log_p: float) -> float:
    """z with P(Z >= z) = exp(log_p), also where that is too small to be written."""
    return float(-scipy_special().ndtri_exp(min(log_p, -1e-12)))


@cache
def scipy_special() -> ModuleType:
    """SciPy's functions, loaded when the first slice is scored and looked up once."""
    import scipy.special

    return scipy.special
