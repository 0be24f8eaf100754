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
BETTER = 0.05  # least share that a longer period must explain of what a shorter one leaves
CHANCE = 1e-3  # of a period where there is none, for each look
RELATED = 1.5  # changes of noise are related: sums of their squares vary by so much more
FIRST_OF_MONTH, HOLIDAY = 1, 2


def sought(known: int) -> tuple[int, ...]:
    """Periods to look for where one is known: of the hours of a day, or parts of them, the week.

    Examples
    --------
    >>> sought(24), sought(7), sought(1) == CANDIDATES
    ((168,), (), True)
    """
    if known == 1:
        return CANDIDATES
    return (7 * known,) if known % 24 == 0 and known < 168 else ()


def find_period(series: FloatArray, known: int = 1) -> int:
    """The period among those `sought` at which series repeat, or the one that is known.

    Parameters
    ----------
    series
        (n, k) k series of n slices.
    known
        Period that they have in any case; 1 for none.

    Examples
    --------
    >>> days = np.arange(60)
    >>> noise = np.random.default_rng(0).normal(size=60)
    >>> find_period((5.0 * (days % 7 == 5) + noise)[:, None]), find_period(noise[:, None])
    (7, 1)
    """
    changes, found = _changes(series), known
    for period in sought(known):
        if len(series) < CYCLES * period:
            continue
        shorter = found if period % found == 0 else 1
        share, chance = _explained(changes, shorter, period)
        least = EXPLAINED if shorter == 1 else BETTER
        if shorter < found:  # neither consists of the other
            least = _explained(changes, 1, found)[0] + BETTER
        if share > least and chance < CHANCE:
            found = period
    return found


def _changes(series: FloatArray) -> FloatArray:
    """What a season is looked for in: levels that wander look as if they came back.

    What was not observed did not change.
    """
    rest = np.diff(series, axis=0)
    seen = np.isfinite(rest)
    sizes = [np.abs(row[there]) for row, there in zip(rest.T, seen.T, strict=True)]
    spread = np.array([np.median(size) if len(size) else 0.0 for size in sizes])
    rest = np.where(seen, np.clip(rest / (1.4826 * spread + 1e-12), -5.0, 5.0), 0.0)
    return np.where(seen, rest - rest.mean(axis=0), 0.0)


def _explained(changes: FloatArray, shorter: int, period: int) -> tuple[float, float]:
    """Share of the variance that a period explains of what a shorter one leaves, beyond chance, and
    how likely chance explains as much.

    The first series, the total, speaks for itself, the rows together for themselves. Rows that move
    together are fewer than they seem.
    """
    n = len(changes)
    before, left = _without(changes, shorter), _without(changes, period)
    usual, rest = (before**2).sum(axis=0), (left**2).sum(axis=0)
    gained, free = period - shorter, n - period
    moves = usual > 1e-9 * n  # of what never moves, nothing is explained
    rest, usual = np.where(moves, rest, 1.0), np.where(moves, usual, 1.0)
    ratio = (usual - rest) / gained / np.maximum(rest / free, 1e-9 * usual)
    shares = np.where(moves, 1.0 - rest / free / (usual / (n - shorter)), 0.0)
    share, chance = float(shares[0]), _chance(float(ratio[0]), gained, free)
    if changes.shape[1] > 1:
        own = left[:, 1:] / np.sqrt(np.maximum(rest[1:], 1e-9 * usual[1:]))
        rows = max(len(own.T) ** 2 / max(float(((own.T @ own) ** 2).sum()), 1e-12), 1.0)
        share = max(share, float(shares[1:].mean()))
        together = _chance(float(ratio[1:].mean()), gained * rows, free * rows)
        chance = 2.0 * min(chance, together)
    return share, chance


def _without(changes: FloatArray, period: int) -> FloatArray:
    """Changes less those that are usual at their time of the period."""
    if period == 1:
        return changes  # their mean is zero
    phase = np.arange(len(changes)) % period
    means = np.stack([changes[phase == q].mean(axis=0) for q in range(period)])
    return np.asarray(changes - means[phase])


def _chance(ratio: float, gained: float, free: float) -> float:
    """Chance that a ratio of variances is so large: what F says, of numbers that are related."""
    from scipy.special import fdtrc

    return float(fdtrc(gained / RELATED, free / RELATED, max(ratio, 0.0)))


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
