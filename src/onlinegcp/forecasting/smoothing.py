"""Seasonal exponential smoothing of several series at once, with nothing to set.

Each series has a level, a damped slope and a season of `period` steps, all updated by the error of
the forecast one step ahead (additive Holt-Winters). Many settings run side by side; each series is
carried on by those that foresaw it best, averaged by how well they did. Errors far beyond the usual
are cut before they are learned, so that one holiday does not shift next week.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

FloatArray = NDArray[np.float64]

_LEVELS = (0.02, 0.06, 0.15, 0.3, 0.5, 0.8)
_SEASONS = (0.02, 0.08, 0.2)
_SLOPES = (0.0, 0.05)
# How far to either side a step of the season learns with its neighbours, where a season is so long
# that few turns of it are known: one week of one year is mostly noise.
_NEIGHBOURS = (0, 2, 5)
_LONG = 24
_DAMPING = 0.9
# Errors count half after so many steps, so that what holds now decides.
_HALF_LIFE = 90.0
# Errors beyond so many usual ones are cut.
_CUT = 3.0
# Periods worth trying where none is named: days, hours, months, half hours, weeks, quarters.
PERIODS = (7, 24, 12, 48, 52, 4)
# A season is believed only where so many steps after its first turns can judge it.
_JUDGED = 10
_LEAST_ERRORS = 4  # from which an interval is made of errors
# Where so few turns are known, how much of the first one is believed to come again.
_BELIEFS = (0.0, 0.5, 1.0)
# How much worse than none a season may look that the calendar suggests.
_TRUST = 1.5
# The past looked at: what lies further back has no weight left.
_MOST = 500
# Squares of errors count half after so many steps: what varies more lately will tomorrow.
_FADING = 30.0
# How many errors a normal distribution of them is worth.
_NORMAL = 20.0
# How many errors far ahead are worth as much as what those one step ahead let expect there.
_DOUBT = 2.0


@final
@dataclass(frozen=True)
class Carried:
    """Series carried on.

    Attributes
    ----------
    mean : (steps, series) array
        What is expected.
    covariance : (steps, series, series) array
        Of the errors, which grow with the distance.
    period
        Steps after which they repeat; 1 for no season.
    near, far : (times, series) arrays
        Errors in the last steps of what was expected one step before, and `steps` before; as far
        back as there are any.
    """

    mean: FloatArray
    covariance: FloatArray
    period: int
    near: FloatArray
    far: FloatArray


def carry_on(past: FloatArray, steps: int, period: int | None = None) -> Carried:
    """Carry series on.

    Parameters
    ----------
    past
        (times, series), oldest first; NaN where nothing is known.
    steps
        How far.
    period
        Steps after which the calendar lets expect a repetition, 1 for none; it is taken unless the
        past speaks against it. None tries the usual ones.

    Examples
    --------
    >>> week = np.tile([5.0, 5, 5, 5, 5, 1, 1], 8)[:, None]
    >>> found = carry_on(week, 7)
    >>> found.period, found.mean[:, 0].round(1).tolist()
    (7, [5.0, 5.0, 5.0, 5.0, 5.0, 1.0, 1.0])
    """
    known = np.asarray(past, dtype=np.float64)
    known = known[np.flatnonzero(np.isfinite(known).all(axis=1)).min(initial=len(known)) :][-_MOST:]
    tried = [1, *(PERIODS if period is None else [period] if period > 1 else [])]
    runs = {
        p: _smoothed(known, p, steps) for p in tried if p == 1 or len(known) >= _warm(p) + _JUDGED
    }
    # What the calendar says need not be looked for: one turn that judges the one before will do.
    enough = max(2 * (period or 0), (period or 0) + _LEAST_ERRORS + 1)
    if period is not None and period not in runs and len(known) >= enough:
        runs[period] = _smoothed(known, period, steps, turns=1, beliefs=_BELIEFS)
    # On the same steps, and all series together: a season is a property of the calendar.
    last = min(len(run.errors) for run in runs.values())
    lost = {
        p: _relative(run.errors[-last:], known) + _relative(run.far[-last:], known)
        for p, run in runs.items()
    }
    best = min(lost, key=lost.__getitem__)
    if period in runs and lost[period] <= _TRUST * lost[best]:
        best = period  # what the calendar says needs no proof, only no disproof
    return _carried(runs[best], steps, best, known)


@final
@dataclass(frozen=True)
class _Run:
    """Where all settings stand after the last step; arrays are (settings, series)."""

    level: FloatArray
    slope: FloatArray
    season: FloatArray  # (settings, series, period), that of the next step first
    scores: FloatArray  # discounted mean of squared errors
    errors: FloatArray  # (times, series) of the blend, one step ahead
    far: FloatArray  # the same as many steps ahead as is asked for
    gains: FloatArray  # (settings, 5): level, slope, season, neighbours, belief in its start


def _settings(period: int, beliefs: Sequence[float]) -> FloatArray:
    seasons: Sequence[float] = _SEASONS if period > 1 else (0.0,)
    sides: Sequence[float] = _NEIGHBOURS if period > _LONG else (0.0,)
    return np.array(list(itertools.product(_LEVELS, _SLOPES, seasons, sides, beliefs)))


def _shares(sides: FloatArray, period: int) -> FloatArray:
    """How much of an error in the first step of a season each of its steps learns, by setting."""
    steps = np.arange(period)
    away = np.minimum(steps, period - steps)
    return np.asarray(np.maximum(0.0, 1.0 - away / (sides[:, None] + 1.0)))


def _smoothed(
    past: FloatArray,
    period: int,
    steps: int,
    *,
    turns: int = 0,
    beliefs: Sequence[float] = (1.0,),
) -> _Run:
    """Run every setting over the past; they are judged one and `steps` steps ahead.

    The start is made from so many turns of the season, by default as many as are good for it.
    """
    gains = _settings(period, beliefs)
    alpha, beta, gamma = (gains[:, k : k + 1] for k in range(3))
    n_times, n_series = past.shape
    shape = (len(gains), n_series)
    start = past[: turns * period or _warm(period)]
    centre = np.nanmedian(start, axis=0) if len(start) else np.zeros(n_series)
    level, slope = np.broadcast_to(np.nan_to_num(centre), shape).copy(), np.zeros(shape)
    season = np.zeros((*shape, period))
    if period > 1:
        for phase in range(period):
            found = start[phase::period]
            if np.isfinite(found).any(axis=0).all() and len(found):
                season[:, :, phase] = np.nan_to_num(np.nanmean(found, axis=0) - centre)
        season -= season.mean(axis=2, keepdims=True)
        season *= gains[:, 4, None, None]
    shares = _shares(gains[:, 3], period)[:, None]
    if period > _LONG:
        around = np.stack([np.roll(shares[:, 0], k, axis=1) for k in range(period)], axis=2)
        season = season @ (around / around.sum(axis=1, keepdims=True))
    usual = np.broadcast_to(_spread(past), shape).copy()
    scores = np.full(shape, 0.0)
    weight, keep = 0.0, 0.5 ** (1.0 / _HALF_LIFE)
    errors, far = np.zeros(past.shape), np.zeros(past.shape)
    warm = len(start)
    reach = float(np.cumsum(_DAMPING ** np.arange(1, steps + 1))[-1])
    waiting: deque[FloatArray] = deque(maxlen=steps)  # forecasts of later steps
    for t, x in enumerate(past):
        phase = t % period
        guess = level + _DAMPING * slope + season[:, :, phase]
        error = np.where(np.isfinite(x), x - guess, 0.0)
        if weight > 0.0:
            errors[t] = np.nan_to_num(x - (_blend(scores / weight) * guess).sum(axis=0))
        most = (2 * _CUT * usual) ** 2
        if t >= warm:  # the start is made of what it would be judged on
            scores = keep * scores + np.minimum(error**2, most)
            weight = keep * weight + 1.0
        if len(waiting) == steps and t >= warm + steps:
            later = waiting[0]
            far[t] = np.nan_to_num(x - (_blend(scores / weight) * later).sum(axis=0))
            scores = scores + np.minimum(np.where(np.isfinite(x), x - later, 0.0) ** 2, 4 * most)
            weight += 1.0
        cut = np.clip(error, -_CUT * usual, _CUT * usual)
        usual = np.where(usual > 0, 0.97 * usual + 0.03 * 1.25 * np.abs(cut), np.abs(cut))
        level = level + _DAMPING * slope + alpha * cut
        slope = _DAMPING * slope + alpha * beta * cut
        learned = (1.0 - alpha) * gamma * cut
        if period > _LONG:
            season += learned[:, :, None] * np.roll(shares, phase, axis=2)
        else:
            season[:, :, phase] += learned
        waiting.append(level + reach * slope + season[:, :, (t + steps) % period])
    turn = n_times % period
    season = np.concatenate([season[:, :, turn:], season[:, :, :turn]], axis=2)
    judged = slice(min(warm + 1, n_times), None)
    mean = scores / max(weight, 1e-12)
    return _Run(level, slope, season, mean, errors[judged], far[judged], gains)


def _spread(past: FloatArray) -> FloatArray:
    """The usual step from one time to the next."""
    known = past[np.isfinite(past).all(axis=1)]
    if len(known) < 2:
        return np.zeros(past.shape[1])
    return np.asarray(np.abs(np.diff(known, axis=0)).mean(axis=0))


def _blend(scores: FloatArray) -> FloatArray:
    """Weights of the settings, (settings, series): the better, the more, by the fourth power."""
    least = scores.min(axis=0, keepdims=True)
    ratio = (least + 1e-300) / (scores + 1e-300)
    weights = ratio**8
    return np.asarray(weights / weights.sum(axis=0, keepdims=True))


def _warm(period: int) -> int:
    """Steps a start is made from: two turns of a season, of a long one only one."""
    return 4 if period == 1 else 2 * period if period <= _LONG else period


def _relative(errors: FloatArray, past: FloatArray) -> float:
    """Size of errors in units of the spread of each series, which count by how much they hold."""
    if not len(errors):
        return 0.0
    spread, size = np.nanstd(past, axis=0), np.nanmean(np.abs(past), axis=0)
    relative = np.abs(errors).mean(axis=0) / np.where(spread > 0, spread, 1.0)
    return float((size * relative).sum() / (size.sum() or 1.0))


def _carried(run: _Run, steps: int, period: int, past: FloatArray) -> Carried:
    weights = _blend(run.scores)
    ahead = np.arange(1, steps + 1)
    damped = np.cumsum(_DAMPING**ahead)
    guesses = np.stack(
        [run.level + damped[h] * run.slope + run.season[:, :, h % period] for h in range(steps)]
    )
    mean = (weights * guesses).sum(axis=1)
    # What an error of today does to the forecast of a later day, of the blend.
    alpha, beta, gamma = (run.gains[:, k : k + 1] for k in range(3))
    impulse = np.stack(
        [
            (
                weights
                * (alpha * (1 + beta * damped[j]) + (1 - alpha) * gamma * ((j + 1) % period == 0))
            ).sum(axis=0)
            for j in range(steps)
        ]
    )
    judged = min(max(len(run.far) - steps + 1, 0), len(run.far))
    errors, far = run.errors, run.far[len(run.far) - judged :]
    if len(errors) < _LEAST_ERRORS:  # too few were foreseen to say: as far as they lie apart
        apart = np.nan_to_num(past - np.nanmean(past, axis=0))
        base = apart.T @ apart / max(len(apart) - 1, 1)
    else:
        base = lately(errors[np.isfinite(past[-len(errors) :]).all(axis=1)])
    growth = np.concatenate([np.ones((1, len(base))), impulse[: steps - 1]])
    covariance = np.stack(
        [sum(np.outer(row, row) * base for row in growth[: h + 1]) for h in range(steps)]
    )
    known = np.isfinite(past[len(past) - judged :]).all(axis=1)
    if known.any() and steps > 1:
        # Errors of forecasts that overlap are much the same: so many tell of their own.
        own = judged / steps
        found = (lately(far[known]) * own + covariance[-1] * _DOUBT) / (own + _DOUBT)
        # Nothing is known better because it is further away.
        more = np.sqrt(np.maximum(np.diag(base) / np.maximum(np.diag(found), 1e-300), 1.0))
        found = found * np.outer(more, more)
        way = (np.arange(steps) / (steps - 1))[:, None, None]
        covariance = (1.0 - way) * base + way * found
    return Carried(mean, covariance, period, errors, far)


def lately(errors: FloatArray) -> FloatArray:
    """Mean squares and products of errors, (series, series), the newest counting most."""
    fading = 0.5 ** (np.arange(len(errors))[::-1] / _FADING)
    return np.asarray((errors * fading[:, None]).T @ errors / fading.sum())


def reach(errors: FloatArray, level: float) -> float:
    """How many standard errors to either side hold a share of errors, by those of late.

    Of few errors it is what a normal distribution has. One that lies far out, as of a holiday,
    widens a standard error for weeks, but not the middle of what happens.

    Parameters
    ----------
    errors
        (times,) the newest last; NaN where nothing is known.
    level
        The share.

    Examples
    --------
    >>> errors = np.random.default_rng(0).normal(size=200)
    >>> round(reach(errors, 0.8), 1), round(reach(np.append(errors[:-1], 40.0), 0.8), 1)
    (1.3, 0.4)
    """
    normal = float(ndtri(0.5 + level / 2))
    fading = 0.5 ** (np.arange(len(errors))[::-1] / _FADING)
    known = np.isfinite(errors)
    size, fading = np.abs(errors[known]), fading[known]
    usual = np.sqrt((size**2 * fading).sum() / max(fading.sum(), 1e-300)) if len(size) else 0.0
    if not usual > 0.0:
        return normal
    order = np.argsort(size, kind="stable")
    held = (np.cumsum(fading[order]) - 0.5 * fading[order]) / fading.sum()
    number = fading.sum() ** 2 / (fading**2).sum()  # of errors that count alike
    found = float(np.interp(_of_one_more(level, number), held, size[order])) / usual
    return float((number * found + _NORMAL * normal) / (number + _NORMAL))


def conformal(sizes: FloatArray, number: float, level: float) -> float:
    """How many standard errors held a share of errors, and one more that may come.

    Parameters
    ----------
    sizes
        Errors over their standard errors, without signs.
    number
        How many errors that know nothing of each other they are worth.
    level
        The share.
    """
    normal = float(ndtri(0.5 + level / 2))
    if not len(sizes):
        return normal
    found = float(np.quantile(sizes, _of_one_more(level, number)))
    return (number * found + _NORMAL * normal) / (number + _NORMAL)


def _of_one_more(level: float, number: float) -> float:
    """The share of so many errors that holds as many of those to come, one of which is the next."""
    return min(1.0, level * (1.0 + 1.0 / max(number, 1e-300)))
