"""How rare a statistic is among its own past: quantiles, and a tail beyond them.

The chance of more than the 75 % point falls exponentially from there, at the rate at which it falls
from the 75 to the 95 % point of the past. Neither is moved by a few odd slices, of which one in a
hundred is left out altogether. With a short past, what theory says stands in for it.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]

LOWEST_LOG = -690.0  # exp of it, 1e-300, is the smallest p-value reported
WINDOW = 365  # values remembered
PRIOR = 20.0  # values that theory counts for
TRIMMED = 0.01  # share of the past that may be too odd to count
FENCE = 8.0  # distances from the median to the 75 % point: one in a thousand is beyond
EXPONENTIAL = (math.log(4.0), math.log(20.0))  # 75 and 95 % points of a standard exponential


Marks: TypeAlias = tuple[int, float, float]  # length of a past, its 75 and its 95 % point


def marks(pasts: FloatArray) -> list[Marks]:
    """What is remembered of some pasts of one length, without the oddest of each.

    Parameters
    ----------
    pasts
        (k, n) values.
    """
    k, n = pasts.shape
    if n < 5:
        return [(n, 0.0, 0.0)] * k
    ordered = np.sort(pasts, axis=1)
    middle, upper = ordered[:, (n - 1) // 2], ordered[:, (3 * (n - 1)) // 4]
    fence = upper + FENCE * np.maximum(upper - middle, 0.1)
    beyond = (ordered > fence[:, None]).sum(axis=1)
    kept = n - np.minimum(beyond, int(TRIMMED * n))
    found = []
    for share in (0.75, 0.95):
        place = share * (kept - 1)
        low = np.floor(place).astype(np.int64)
        below = np.take_along_axis(ordered, low[:, None], 1)[:, 0]
        above = np.take_along_axis(ordered, np.ceil(place).astype(np.int64)[:, None], 1)[:, 0]
        found.append((below + (above - below) * (place - low)).tolist())
    return [(n, low, high) for low, high in zip(*found, strict=True)]


def log_tail(past: Marks, value: float, theory: tuple[float, float]) -> float:
    """Log-probability that a statistic is as large as this, given its past.

    Parameters
    ----------
    past
        The `marks` of the values seen lately.
    value
        The new one.
    theory
        75 and 95 % points it would have if all forecasts and spreads were right.

    Examples
    --------
    >>> (past,) = marks(-np.log((np.arange(400) + 0.5) / 400)[None, :])  # exponential
    >>> bool(abs(math.exp(log_tail(past, math.log(100.0), EXPONENTIAL)) - 0.01) < 0.002)
    True
    """
    n, low, high = past
    weight = n / (n + PRIOR) if n >= 5 else 0.0
    low = weight * low + (1.0 - weight) * theory[0]
    high = weight * high + (1.0 - weight) * theory[1]
    scale = max(high - low, 0.3 * (theory[1] - theory[0])) / math.log(5.0)
    if value <= low:
        return math.log(max(0.25, 1.0 - 0.75 * max(value, 0.0) / max(low, 1e-9)))
    return max(math.log(0.25) - (value - low) / scale, LOWEST_LOG)


@lru_cache(maxsize=4096)
def largest_of(n: float) -> tuple[float, float]:
    """75 and 95 % points of the largest of n standard normal values.

    Examples
    --------
    >>> [round(point, 2) for point in largest_of(1)]
    [0.67, 1.64]
    """
    from scipy.special import ndtri

    power = 1.0 / max(n, 1.0)
    return float(ndtri(0.75**power)), float(ndtri(0.95**power))


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
    from scipy.special import ndtri_exp

    return float(-ndtri_exp(min(log_p, -1e-12)))
