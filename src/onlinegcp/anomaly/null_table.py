"""What one cell's misfit looks like if the model is true: moments by model value, from a table.

Sums over all cells of a slice look up each of them, so a look-up is two array reads and a product:
between neighbouring places every column is a straight line a + b m.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from onlinegcp.losses import EPS, Loss

FloatArray: TypeAlias = NDArray[np.float64]

SIZE, MEAN, VARIANCE, COVARIANCE, SECOND, BIAS, CUBE, CUBE_1, CUBE_2, CUBE_3 = range(10)

STEP = 0.02  # in log m; straight lines are then good to 1e-4
LEADING_BITS = 5  # of the mantissa: 32 places from every power of two to the next
FINE_BITS = 3  # more for sums over all cells
TABLED_FROM = 1e-9  # model values below are in proportion
LOWEST = 2.0**-64  # model values below count for nothing in sums over any number of cells
_FIRST_PLACE = int(np.float64(LOWEST).view(np.int64)) >> (52 - LEADING_BITS)
BLOCK = 8192

LOGIT_POWER = 0.5  # |x - p| over its standard deviation; at 1/4 fitting removes nearly all of it


@dataclass(frozen=True)
class NullTable:
    """Moments of a cell's deviance D under the model, as functions of the model value m.

    Columns: `SIZE`, m / (1 + m), or m / (1 + m)^2 for yes-or-no data, about the variance of a small
    count; mean and variance of D; with t the slope of the loss scaled to variance `SIZE`: E[D t];
    what fitting changes in the mean to second order, per leverage; the pull of the cell on the bias
    of fitted weights (Cox and Snell 1968); third central moments E[D^3], E[D^2 t], E[D t^2],
    E[t^3].
    """

    loss: Loss
    positive: bool
    end: float  # the model value above which all is as there
    starts: FloatArray  # (10, K) a
    slopes: FloatArray  # (10, K) b
    fine: FloatArray  # (2, L) what `of_zeros` fills in, at eight times as many places

    def at(self, m: FloatArray, *wanted: int) -> list[FloatArray]:
        """The wanted columns at model values m."""
        found = [np.empty(m.shape) for _ in wanted]
        flat, *out = (array.reshape(-1) for array in (np.ascontiguousarray(m), *found))
        # In blocks: temporaries of a whole slice would be fresh memory every time.
        for begin in range(0, len(flat), BLOCK):
            part = slice(begin, begin + BLOCK)
            values = flat[part]
            place = _places(values, self.positive, 0)
            for c, column in zip(wanted, out, strict=True):
                line = column[part]
                self.slopes[c].take(place, out=line, mode="clip")
                line *= values
                line += self.starts[c].take(place, mode="clip")
        return found

    def of_zeros(self, m: FloatArray, excess: FloatArray, worth: FloatArray) -> None:
        """Fill in what zeros cost above the mean, and variance plus size, for a block of cells.

        Taken from the nearest fine place, each is off by a thousandth, up or down: nothing in a sum
        over many cells, for a third of the time.
        """
        place = _places(m, self.positive, FINE_BITS)
        self.fine[0].take(place, out=excess, mode="clip")
        self.fine[1].take(place, out=worth, mode="clip")
        if m.max(initial=0.0) > self.end:  # what a zero costs goes on rising
            high = m > self.end
            excess[high] = zero_cost(self.loss, m[high]) - self.at(m[high], MEAN)[0]


def _places(m: FloatArray, positive: bool, finer: int) -> NDArray[np.int64]:
    """Places in a table; those beyond its ends are left for `take` to clip."""
    if not positive:
        steps = np.clip(m, -200.0, 200.0)
        steps -= math.log(LOWEST)
        steps *= (1 << finer) / STEP
        return steps.astype(np.int64)
    # The bits of a positive number are in the order of its logarithm, without taking one.
    place: NDArray[np.int64] = m.view(np.int64) >> (52 - LEADING_BITS - finer)
    place -= _FIRST_PLACE << finer
    return place


def _grid(positive: bool, end: float, finer: int) -> FloatArray:
    """The model values at which places begin."""
    if not positive:
        return np.arange(math.log(LOWEST), end, STEP / (1 << finer))
    shift = 52 - LEADING_BITS - finer
    last = int(np.float64(math.exp(end)).view(np.int64)) >> shift
    return (np.arange(_FIRST_PLACE << finer, last + 1) << shift).view(np.float64)


def has_null(loss: Loss) -> bool:
    """Whether the loss alone fixes the distribution of the data, without a scale to estimate."""
    return loss.traits.null_to is not None


@lru_cache(maxsize=16)
def null_table(loss: Loss) -> NullTable:
    """The table of a loss, summed over every count that is not out of the question."""
    assert loss.traits.null_to is not None
    positive, binary = loss.lower == 0.0, loss.traits.binary
    end = math.log(loss.traits.null_to)
    u = np.arange(math.log(TABLED_FROM), end + STEP, STEP)
    columns = _columns(loss, u, positive, binary)

    def values(m: FloatArray) -> FloatArray:
        logs = np.log(m) if positive else m
        # Moments are about in proportion to the size, also below the first.
        size = _size(np.exp(logs), binary)
        rows = [size, *(np.interp(logs, u, column) * size for column in columns)]
        return np.stack(rows)

    grid = _grid(positive, end, 0)
    at_grid = values(grid)
    slopes = np.diff(at_grid, axis=1, append=at_grid[:, -1:]) / np.diff(grid, append=math.inf)
    starts = at_grid - slopes * grid
    if positive:  # down to nothing in proportion
        slopes[:, 0], starts[:, 0] = at_grid[:, 0] / grid[0], 0.0
    finer = _grid(positive, end, FINE_BITS)
    middle = 0.5 * (finer + np.append(finer[1:], finer[-1]))
    size, mean, variance = values(middle)[[SIZE, MEAN, VARIANCE]]
    zero = np.zeros_like(mean) if loss.zero_shape is None else zero_cost(loss, middle) - mean
    fine = np.stack([zero, variance + size])
    return NullTable(loss, positive, float(grid[-1]), starts, slopes, fine)


def cost(loss: Loss, x: FloatArray, m: FloatArray) -> FloatArray:
    """What a cell adds to the misfit: its deviance, with two exceptions.

    The deviance of yes-or-no data with logits depends on the fitted weights alone (the likelihood
    equations make it so) and says nothing of the fit. There a cell costs the odds against what was
    observed, to the power 1/2. Losses whose least value is not known cost what they are.
    """
    if loss.minimum is None:
        return loss.value(x, m)
    if loss.traits.logits:
        return np.asarray(np.exp(LOGIT_POWER * (1.0 - 2.0 * x) * np.clip(m, -50.0, 50.0)))
    return loss.deviance(x, m)


def zero_cost(loss: Loss, m: FloatArray) -> FloatArray:
    """Cost of zeros; the general formula would take two logarithms a cell for nothing."""
    form = loss.traits.odds_form
    if form is not None:
        return 2.0 * form.base * (m if form.linear else np.log1p(m))
    return cost(loss, np.zeros_like(m), m)


def _size(odds: FloatArray, binary: bool) -> FloatArray:
    share = odds / (1.0 + odds)
    return np.asarray(share / (1.0 + odds) if binary else share)


def _columns(loss: Loss, u: FloatArray, positive: bool, binary: bool) -> FloatArray:
    """The nine columns from the mean to the last cube at log model values u, per size."""
    m, size = np.exp(u) if positive else u, _size(np.exp(u), binary)
    columns = np.empty((9, len(u)))
    for first in range(0, len(u), 50):  # in runs, so that small means sum over few counts
        part = slice(first, first + 50)
        columns[:, part] = _moments(loss, m[part], size[part], binary)
    mean, _, _, second, bias, *_, cube_3 = columns  # views
    fisher, per_m = loss.fisher(np.zeros_like(m), m), m if positive else np.ones_like(m)
    # Second derivatives are in m: for m = e^u, m^2 d2/dm2 = d2/du2 - d/du.
    rise = np.gradient(mean, STEP)
    bend = np.gradient(rise, STEP) - (rise if positive else 0.0)
    second -= 0.5 * bend * size / fisher / per_m**2
    steeper = np.gradient(fisher, STEP) / per_m * (size / fisher) ** 1.5
    bias[:] = 0.25 * (cube_3 - steeper)
    columns /= size
    for column in (second, bias):  # one-sided differences are off
        column[:2], column[-2:] = column[2], column[-3]
    return columns


def _moments(loss: Loss, m: FloatArray, size: FloatArray, binary: bool) -> FloatArray:
    first = 1.0 if loss.domain == "at_least_one" else 0.0
    top = float(loss.mean(m[-1:])[0])
    last = top + 12.0 * math.sqrt(top) + 30.0
    if loss.traits.long_tailed:
        last = top + 40.0 * (1.0 + float(m[-1]))
    x = np.arange(first, (2.0 if binary else math.ceil(last)))[:, None]
    # The likelihood takes m + EPS for m; data have m.
    shifted = m - EPS if loss.lower == 0.0 else m
    logs = loss.log_likelihood(x, shifted[None, :])
    assert logs is not None
    chance = np.exp(logs)
    chance /= chance.sum(axis=0)
    paid = cost(loss, x, m[None, :])
    mean = (chance * paid).sum(axis=0)
    rest = paid - mean
    slope = loss.deriv(x, m[None, :])
    slope = slope - (chance * slope).sum(axis=0)
    stretch = size / loss.fisher(np.zeros_like(m), m)
    slope *= np.sqrt(stretch)
    if loss.traits.logits:
        steep, bent = LOGIT_POWER * (1.0 - 2.0 * x) * paid, LOGIT_POWER**2 * mean
        second = 0.5 * bent * stretch - (chance * steep * slope).sum(axis=0) * np.sqrt(stretch)
    else:  # cost 2 f: slope 2 f', expected curvature twice the information
        second = -size
    sums = [
        (chance * product).sum(axis=0)
        for product in (
            rest**2, rest * slope, rest**3, rest**2 * slope, rest * slope**2, slope**3,
        )
    ]  # fmt: skip
    return np.stack([mean, *sums[:2], second, np.zeros_like(mean), *sums[2:]])
