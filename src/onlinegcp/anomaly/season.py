"""When slices repeat: the period found in them, and the days that are like no other."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onlinegcp.errors import DataError

FloatArray: TypeAlias = NDArray[np.float64]

CANDIDATES = (7, 12, 24, 52, 168)
CYCLES = 3  # of a period that must have been seen
EXPLAINED = 0.2  # least share of the variance that a period must explain
BETTER = 0.03  # by how much a longer period must explain more
LONGEST = 3 * 168 + 8  # slices looked at
FIRST_OF_MONTH, HOLIDAY = 1, 2


def find_period(series: FloatArray) -> int:
    """The period among `CANDIDATES` at which series repeat, or 1.

    Parameters
    ----------
    series
        (n, k) k series of n slices.

    Examples
    --------
    >>> days = np.arange(60)
    >>> noise = np.random.default_rng(0).normal(size=60)
    >>> find_period((5.0 * (days % 7 == 5) + noise)[:, None]), find_period(noise[:, None])
    (7, 1)
    """
    best, found = EXPLAINED, 1
    for period in CANDIDATES:
        if len(series) < CYCLES * period:
            continue
        explained = _explained(series, period)
        if explained > best + (BETTER if found > 1 else 0.0):
            best, found = explained, period
    return found


def _explained(series: FloatArray, period: int) -> float:
    """Share of the variance of changes that the phase explains, beyond chance.

    Changes, because levels that wander look as if they came back.
    """
    rest = np.diff(series, axis=0)
    n = len(rest)
    spread = np.median(np.abs(rest), axis=0) * 1.4826 + 1e-12
    rest = np.clip(rest / spread, -5.0, 5.0)
    rest -= rest.mean(axis=0)
    phase = np.arange(n) % period
    means = np.stack([rest[phase == q].mean(axis=0) for q in range(period)])
    left = ((rest - means[phase]) ** 2).sum(axis=0) / max(n - period, 1)
    whole = (rest**2).sum(axis=0) / (n - 1)
    # The total speaks for itself, the rows together for themselves.
    shares = np.where(whole > 0.0, 1.0 - left / np.maximum(whole, 1e-12), 0.0)
    return float(max(shares[0], shares[1:].mean() if len(shares) > 1 else shares[0]))


def calendar(country: str | None) -> Callable[[datetime.date], bool]:
    """What says whether a date is a holiday.

    Parameters
    ----------
    country
        Code for the package `holidays`, such as US or US-NY; None for no holidays at all.
    """
    if country is None:
        return lambda day: False
    try:
        import holidays
    except ImportError as error:
        raise DataError(
            f"holidays={country!r} needs the package holidays, but it is not installed. Install "
            "onlinegcp[holidays], or leave it out."
        ) from error
    name, _, part = country.partition("-")
    try:
        known = holidays.country_holidays(name, subdiv=part or None)
    except NotImplementedError as error:
        raise DataError(
            f"holidays must be a country code such as US or DE-BY, but got {country!r}. See the "
            "list of the package holidays."
        ) from error
    return lambda day: day in known


def moment_of(time: Any) -> datetime.datetime | None:
    """The time of a slice as a moment, or None if it is something else.

    Examples
    --------
    >>> moment_of("2013-03-05"), moment_of(np.datetime64("2013-03-05T06")), moment_of(7)
    (datetime.datetime(2013, 3, 5, 0, 0), datetime.datetime(2013, 3, 5, 6, 0), None)
    """
    if isinstance(time, np.datetime64):
        time = str(time.astype("datetime64[us]"))
    if isinstance(time, str):
        try:
            time = datetime.datetime.fromisoformat(time)
        except ValueError:
            return None
    if isinstance(time, datetime.datetime):
        return time.replace(tzinfo=None)
    if isinstance(time, datetime.date):
        return datetime.datetime(time.year, time.month, time.day)
    return None
