"""What the deviance of a slice would be if the model were true: mean, spread, skewness and tail.

The weights of a slice are fitted to it, and the null distribution is taken at those weights. To
first order that removes from every cell's deviance D its regression on the slopes of the loss, so
that the variance is sum Var(D) - C' I^-1 C, with C the covariances of D with the slopes and I the
Fisher information of the weights; to second order it lowers the mean. Both are accounted for.
Moments of one cell depend on its model value alone and come from a table per loss. Sums over cells
are exact for slices of moderate size; for larger ones cells are drawn from the model, and the
error of the draws is added to the variance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from onlinegcp.ktensor import KTensor
from onlinegcp.losses import EPS, Loss
from onlinegcp.slices import Slice
from onlinegcp.tails import pearson_log_tail

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]

# Name -> (whether the table runs over log m, its ends, whether data are yes or no).
TABLED = {
    "poisson": (True, math.log(1e-9), math.log(1e3), False),
    "poisson_log": (False, math.log(1e-9), math.log(1e3), False),
    "bernoulli_odds": (True, math.log(1e-9), math.log(1e9), True),
    "bernoulli_logit": (False, math.log(1e-9), math.log(1e9), True),
    "negative_binomial": (True, math.log(1e-9), math.log(1e2), False),
    "zero_truncated_poisson": (True, math.log(1e-9), math.log(1e3), False),
}
STEP = 0.02  # of the table; linear interpolation is then good to 1e-4
MEAN, VARIANCE, COVARIANCE, SECOND, BIAS, CUBE, CUBE_1, CUBE_2, CUBE_3 = range(9)

LOGIT_POWER = 0.5  # |x - p| over its standard deviation; at 1/4 fitting removes nearly all of it

BLOCK = 8192
DENSE_CELLS = 2_000_000  # up to here every cell of a sparse slice is looked at
SECOND_ORDER_CELLS = 2048  # cells that variance and skewness are summed over
FEWEST_DRAWS, MOST_DRAWS = 20_000, 200_000
RELATIVE_RANK = 1e-10  # directions of the weights with less information than this are not fitted


@dataclass(frozen=True)
class NullTable:
    """Moments of a cell's deviance D under the model, as functions of the model value.

    Columns, each divided by `size(m)`: mean and variance; with t the slope of the loss scaled to
    variance `size(m)`: E[D t]; what fitting changes in the mean to second order, per leverage; the
    pull of the cell on the bias of fitted weights (Cox and Snell 1968); third central moments
    E[D^3], E[D^2 t], E[D t^2], E[t^3].
    """

    log_scale: bool
    binary: bool
    start: float
    columns: FloatArray  # (9, K)
    slopes: FloatArray  # (9, K), differences of neighbours

    def size(self, m: FloatArray) -> FloatArray:
        """m / (1 + m), or m / (1 + m)^2 for yes-or-no data: about the variance of a small count."""
        odds = m if self.log_scale else np.exp(np.clip(m, -50.0, 50.0))
        share = odds / (1.0 + odds)
        return np.asarray(share / (1.0 + odds) if self.binary else share)

    def at(self, m: FloatArray, *wanted: int) -> list[FloatArray]:
        """`size` and the wanted columns at model values m."""
        found = [np.empty(m.shape) for _ in range(1 + len(wanted))]
        flat, *out = (array.reshape(-1) for array in (np.ascontiguousarray(m), *found))
        # In blocks: temporaries of a whole slice would be fresh memory every time.
        for first in range(0, len(flat), BLOCK):
            part = slice(first, first + BLOCK)
            u = np.log(np.maximum(flat[part], 1e-300)) if self.log_scale else flat[part]
            place = (u - self.start) / STEP
            np.clip(place, 0.0, self.columns.shape[1] - 1.000001, out=place)
            cell = place.astype(np.intp)
            place -= cell
            size = self.size(flat[part])
            out[0][part] = size
            for c, column in zip(wanted, out[1:], strict=True):
                between = self.columns[c].take(cell) + self.slopes[c].take(cell) * place
                np.multiply(between, size, out=column[part])
        return found


def has_null(loss: Loss) -> bool:
    """Whether the loss alone fixes the distribution of the data, without a scale to estimate."""
    return loss.code >= 0 and loss.name in TABLED


@lru_cache(maxsize=16)
def null_table(loss: Loss) -> NullTable:
    """The table of a loss, summed over every count that is not out of the question."""
    log_scale, start, end, binary = TABLED[loss.name]
    u = np.arange(start, end + STEP, STEP)
    m = np.exp(u) if log_scale else u
    bare = NullTable(log_scale, binary, start, np.empty((9, 0)), np.empty((9, 0)))
    size = bare.size(m)
    columns = np.empty((9, len(u)))
    for first in range(0, len(u), 50):  # in runs, so that small means sum over few counts
        part = slice(first, first + 50)
        columns[:, part] = _moments(loss, m[part], size[part], binary)
    fisher, per_m = loss.fisher(np.zeros_like(m), m), m if log_scale else np.ones_like(m)
    # Second derivatives are in m: for m = e^u, m^2 d2/dm2 = d2/du2 - d/du.
    rise = np.gradient(columns[MEAN], STEP)
    bend = np.gradient(rise, STEP) - (rise if log_scale else 0.0)
    columns[SECOND] -= 0.5 * bend * size / fisher / per_m**2
    steeper = np.gradient(fisher, STEP) / per_m * (size / fisher) ** 1.5
    columns[BIAS] = 0.25 * (columns[CUBE_3] - steeper)
    columns /= size
    for c in (SECOND, BIAS):  # one-sided differences are off
        columns[c, :2], columns[c, -2:] = columns[c, 2], columns[c, -3]
    slopes = np.diff(columns, axis=1, append=columns[:, -1:])
    return NullTable(log_scale, binary, start, columns, slopes)


def _moments(loss: Loss, m: FloatArray, size: FloatArray, binary: bool) -> FloatArray:
    first = 1.0 if loss.name == "zero_truncated_poisson" else 0.0
    top = float(loss.mean(m[-1:])[0])
    last = top + 12.0 * math.sqrt(top) + 30.0
    if loss.name == "negative_binomial":
        last = top + 40.0 * (1.0 + float(m[-1]))  # its tail falls by e every 1 + m
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
    if loss.name == "bernoulli_logit":
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


@dataclass(frozen=True)
class Misfit:
    """How a slice departs from the model of its own fitted weights.

    Attributes
    ----------
    excess
        Deviance above what the model expects, summed over the observed cells.
    shift, spread, skewness
        Mean, standard deviation and skewness of `excess` under the model.
    expected
        Deviance the model expects, summed over the observed cells.
    dispersion
        Deviance per degree of freedom.
    freedom
        Observed cells less fitted weights.
    index, observed, model, cells
        Cells with the largest excess, their values, model values and excess, largest first.
    positive
        Sum of the excess of all cells that have any.
    modes
        For each mode the excess of every row.
    """

    excess: float
    shift: float
    spread: float
    skewness: float
    expected: float
    dispersion: float
    freedom: float
    index: IntArray
    observed: FloatArray
    model: FloatArray
    cells: FloatArray
    positive: float
    modes: list[FloatArray]

    @property
    def standardised(self) -> float:
        """`excess` in standard deviations from its mean under the model."""
        return (self.excess - self.shift) / self.spread if self.spread > 0.0 else 0.0

    def log_p(self) -> float:
        """Log-probability, under the model, of an excess at least as large."""
        return pearson_log_tail(self.standardised, self.skewness) if self.spread > 0.0 else 0.0


def measure(
    x: Slice, factors: Sequence[FloatArray], weights: FloatArray, loss: Loss, *, top: int = 10
) -> Misfit:
    """Compare a slice with the model of weights fitted to it.

    For losses with a scale of their own (gaussian, gamma, ...) the expected deviance of a cell is
    the slice's mean, so that `excess` is 0 and only `dispersion` tells of the whole slice.

    Parameters
    ----------
    x
        The slice, with at least one observed cell.
    factors, weights
        The model.
    loss
        The loss.
    top
        Cells to name.
    """
    model = KTensor(weights, factors)
    if x.n_unlisted_zeros == 0 and x.array is None:
        return _measure_listed(x, model, loss, top)
    if x.array is not None or x.size <= DENSE_CELLS:
        return _measure_all(x, model, loss, top)
    return _measure_drawn(x, model, loss, top)


def cost(loss: Loss, x: FloatArray, m: FloatArray) -> FloatArray:
    """What a cell adds to the misfit: its deviance, with two exceptions.

    The deviance of yes-or-no data with logits depends on the fitted weights alone (the likelihood
    equations make it so) and says nothing of the fit. There a cell costs the odds against what was
    observed, to the power 1/2. Losses whose least value is not known cost what they are.
    """
    if loss._minimum is None:
        return loss.value(x, m)
    if loss.name == "bernoulli_logit" and loss.code >= 0:
        return np.asarray(np.exp(LOGIT_POWER * (1.0 - 2.0 * x) * np.clip(m, -50.0, 50.0)))
    return loss.deviance(x, m)


def _zero_cost(loss: Loss, m: FloatArray) -> FloatArray:
    """Deviance of zeros; the general formula would take two logarithms a cell for nothing."""
    if loss.name == "poisson":
        return 2.0 * m
    if loss.name == "bernoulli_odds":
        return 2.0 * np.log1p(m)
    return cost(loss, np.zeros_like(m), m)


def _measure_all(x: Slice, model: KTensor, loss: Loss, top: int) -> Misfit:
    """Every cell, as a dense array."""
    m = _bounded(model.full(), loss)
    data = x.array if x.array is not None else x.to_dense()
    if has_null(loss):
        table = null_table(loss)
        if x.array is None:
            rest, listed = _zero_cost(loss, m), tuple(x.index.T)
            rest[listed] = cost(loss, x.value, m[listed])
        else:
            rest = cost(loss, data, m)
        size, mean, variance = table.at(m, MEAN, VARIANCE)
        rest -= mean
        variance += size
        picked, scale = _pick(variance.reshape(-1))
        index = np.stack(np.unravel_index(picked, x.shape), axis=1)
        null = _null(table, model, loss, index, m.reshape(-1)[picked], scale)
    else:
        deviance = cost(loss, data, m)
        null = _scale_only(float(deviance.sum()), x, model, loss)
        rest = deviance - null[4]
    flat = rest.reshape(-1)
    best = _largest(flat, top)
    return Misfit(
        float(flat.sum()), *null,
        np.stack(np.unravel_index(best, x.shape), axis=1),
        np.asarray(data).reshape(-1)[best], m.reshape(-1)[best], flat[best],
        float(np.maximum(flat, 0.0).sum()),
        [rest.sum(axis=tuple(j for j in range(x.ndim) if j != k)) for k in range(x.ndim)],
    )  # fmt: skip


def _measure_listed(x: Slice, model: KTensor, loss: Loss, top: int) -> Misfit:
    """Only the listed cells are observed."""
    m = _bounded(model.values(x.index), loss)
    deviance = cost(loss, x.value, m)
    if has_null(loss):
        table = null_table(loss)
        size, mean, variance = table.at(m, MEAN, VARIANCE)
        rest = deviance - mean
        picked, scale = _pick(variance + size)
        null = _null(table, model, loss, x.index[picked], m[picked], scale)
    else:
        null = _scale_only(float(deviance.sum()), x, model, loss)
        rest = deviance - null[4]
    best = _largest(rest, top)
    return Misfit(
        float(rest.sum()), *null, x.index[best].astype(np.int64), x.value[best], m[best],
        rest[best], float(np.maximum(rest, 0.0).sum()),
        [_sums(x.index[:, k], rest, x.shape[k]) for k in range(x.ndim)],
    )  # fmt: skip


def _measure_drawn(x: Slice, model: KTensor, loss: Loss, top: int) -> Misfit:
    """Listed cells exactly, the many zeros from draws."""
    m = _bounded(model.values(x.index), loss)
    deviance = cost(loss, x.value, m)
    if not has_null(loss):
        null = _scale_only(_whole_cost(x, model, loss), x, model, loss)
        rest = deviance - null[4]
        best = _largest(rest, top)
        modes = [_sums(x.index[:, k], rest, x.shape[k]) for k in range(x.ndim)]
        return Misfit(
            0.0, *null, x.index[best].astype(np.int64), x.value[best], m[best], rest[best],
            float(np.maximum(rest, 0.0).sum()), modes,
        )  # fmt: skip
    table = null_table(loss)
    index, scale = _draw(x, model, loss)
    drawn = _bounded(model.values(index), loss)
    mean, listed_mean = table.at(drawn, MEAN)[1], table.at(m, MEAN)[1]
    zero_cost = _zero_cost(loss, drawn)
    rise = deviance - _zero_cost(loss, m)  # what a listed cell adds to a slice of zeros
    parts = (mean - zero_cost) * scale
    few = slice(0, 4 * SECOND_ORDER_CELLS)
    thin = scale[few] * (len(scale) / len(scale[few]))
    shift, spread, skewness, _, _, freedom = _null(table, model, loss, index[few], drawn[few], thin)
    noise = len(parts) * float(np.var(parts))
    skewness *= spread**3 / max((spread**2 + noise) ** 1.5, 1e-300)
    expected = float(mean @ scale)
    excess = float(rise.sum() - parts.sum())
    # Zeros where much was expected are worth naming, too: the draws fall on them.
    zeros = _unlisted(index, x)
    everywhere = np.concatenate([x.index, index[zeros]]).astype(np.int64)
    rest = np.concatenate([deviance - listed_mean, (zero_cost - mean)[zeros]])
    values = np.concatenate([x.value, np.zeros(len(zeros))])
    model_values = np.concatenate([m, drawn[zeros]])
    best = _largest(rest, top)
    modes = [
        _sums(x.index[:, k], rise, x.shape[k]) - _sums(index[:, k], parts, x.shape[k])
        for k in range(x.ndim)
    ]
    return Misfit(
        excess, shift, math.sqrt(spread**2 + noise), skewness, expected,
        (excess + expected) / max(freedom, 1.0), x.size - _n_free(model, loss),
        everywhere[best], values[best], model_values[best], rest[best],
        float(np.maximum(rest, 0.0).sum()), modes,
    )  # fmt: skip


def _null(
    table: NullTable,
    model: KTensor,
    loss: Loss,
    index: NDArray[np.integer],
    m: FloatArray,
    scale: FloatArray,
) -> tuple[float, float, float, float, float, float]:
    """Shift, spread, skewness, expected deviance, dispersion (1) and freedom, from some cells.

    `scale` says for how many cells each of them stands.
    """
    free = _free(model, loss)
    moments = table.at(m, *range(MEAN, CUBE_3 + 1))
    size, mean, variance, covariance, second, bias, cube, cube_1, cube_2, cube_3 = moments
    # Cells without any chance of an event say nothing about the weights.
    stretch = np.sqrt(loss.fisher(np.zeros_like(m), m) / np.where(size > 1e-15, size, np.inf))
    basis = np.repeat(stretch[:, None], len(free), axis=1)
    for k, factor in enumerate(model.factors):
        basis *= factor[:, free][index[:, k]]
    # Directions in which the weights can move, each with unit information.
    information = basis.T @ (basis * (scale * size)[:, None])
    length = np.sqrt(np.maximum(information.diagonal(), 1e-300))
    values, vectors = np.linalg.eigh(information / length / length[:, None])
    kept = values > RELATIVE_RANK * max(1, len(free))
    basis = basis @ (vectors[:, kept] / np.sqrt(values[kept]) / length[:, None])
    slope = basis @ (basis.T @ (scale * covariance))
    fitted = basis.shape[1]
    total = float(scale @ (variance - 2.0 * slope * covariance + slope**2 * size))
    third = float(scale @ (cube - slope * (3.0 * cube_1 - slope * (3.0 * cube_2 - slope * cube_3))))
    leverage = scale * np.einsum("nr,nr->n", basis, basis)
    shift = float(leverage @ (slope * bias + second))
    if len(m) > 2 * fitted and not np.all(scale == 1.0):
        total *= len(m) / (len(m) - fitted)  # regressions on a sample explain too much
    spread = math.sqrt(max(total, 0.0))
    skewness = third / max(spread, 1e-100) ** 3
    expected = float(scale @ mean)
    return shift, spread, skewness, expected, 1.0, float(scale.sum()) - fitted


def _scale_only(
    whole: float, x: Slice, model: KTensor, loss: Loss
) -> tuple[float, float, float, float, float, float]:
    freedom = max(1.0, float(x.n_observed - _n_free(model, loss)))
    return 0.0, 0.0, 0.0, whole, whole / freedom, freedom


def _whole_cost(x: Slice, model: KTensor, loss: Loss) -> float:
    from onlinegcp.solvers.objective import slice_loss

    whole = slice_loss(x, model.factors, model.weights, loss)
    if loss._minimum is None:
        return whole
    least = loss._minimum(x.value).sum() + x.n_unlisted_zeros * loss._minimum(np.zeros(1))[0]
    factor = 1.0 if loss.name in ("gaussian", "huber") and loss.code >= 0 else 2.0
    return factor * max(whole - float(least), 0.0)


def _free(model: KTensor, loss: Loss) -> NDArray[np.intp]:
    """Components whose weights were free to move: those not at their bound."""
    if math.isinf(loss.lower):
        return np.arange(model.rank)
    above = model.weights - loss.lower
    return np.flatnonzero(above > 1e-8 * max(float(above.max(initial=0.0)), 1e-300))


def _n_free(model: KTensor, loss: Loss) -> int:
    return len(_free(model, loss))


def _bounded(m: FloatArray, loss: Loss) -> FloatArray:
    # Rounding can leave a model value a hair below a bound.
    return m if math.isinf(loss.lower) else np.maximum(m, loss.lower)


def _pick(importance: FloatArray) -> tuple[NDArray[np.intp], FloatArray]:
    """Cells to sum over, and how many each stands for: all, or one from each equal share."""
    if len(importance) <= SECOND_ORDER_CELLS:
        return np.arange(len(importance)), np.ones(len(importance))
    running = np.cumsum(importance)
    share = running[-1] / SECOND_ORDER_CELLS
    if not share > 0.0:
        return np.arange(0), np.ones(0)
    # A place in each share at random: a fixed one could beat with the lengths of the modes.
    places = np.arange(SECOND_ORDER_CELLS) + np.random.default_rng(0).random(SECOND_ORDER_CELLS)
    picked = np.minimum(np.searchsorted(running, places * share), len(running) - 1)
    return picked, share / np.maximum(importance[picked], 1e-300)


def _draw(x: Slice, model: KTensor, loss: Loss) -> tuple[IntArray, FloatArray]:
    """Cells drawn in proportion to a nonnegative model, else evenly, and what each stands for."""
    count = int(np.clip(x.n_listed, FEWEST_DRAWS, MOST_DRAWS))
    rng = np.random.default_rng([0, x.n_listed])
    index = np.empty((count, x.ndim), dtype=np.int64)
    sums = np.prod([a.sum(axis=0) for a in model.factors], axis=0) * model.weights
    if math.isinf(loss.lower) or not sums.sum() > 0.0:
        for k, length in enumerate(x.shape):
            index[:, k] = rng.integers(0, length, count)
        return index, np.full(count, x.size / count)
    source = np.searchsorted(np.cumsum(sums) / sums.sum(), rng.random(count))
    source = np.minimum(source, model.rank - 1)
    for k, factor in enumerate(model.factors):
        for r in np.unique(source):
            rows = np.flatnonzero(source == r)
            running = np.cumsum(factor[:, r])
            drawn = np.searchsorted(running, rng.random(len(rows)) * running[-1], side="right")
            index[rows, k] = np.minimum(drawn, len(factor) - 1)
    chance = np.maximum(model.values(index), 1e-300)
    return index, sums.sum() / count / chance


def _unlisted(index: IntArray, x: Slice) -> NDArray[np.intp]:
    """Positions of the drawn cells that the slice does not list, each cell once."""
    drawn, first = np.unique(np.ravel_multi_index(tuple(index.T), x.shape), return_index=True)
    listed = np.ravel_multi_index(tuple(x.index.T.astype(np.int64)), x.shape)
    return first[~np.isin(drawn, listed)]


def _sums(row: NDArray[np.integer], values: FloatArray, length: int) -> FloatArray:
    return np.bincount(row, values, length).astype(np.float64)


def _largest(values: FloatArray, top: int) -> NDArray[np.intp]:
    """Positions of the largest positive values, largest first."""
    count = min(top, len(values))
    if count <= 0:
        return np.arange(0)
    best = np.argpartition(-values, count - 1)[:count]
    best = best[np.lexsort((best, -values[best]))]
    return best[values[best] > 0.0]
