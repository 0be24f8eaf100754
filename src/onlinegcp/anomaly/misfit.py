"""What the deviance of a slice would be if the model were true: mean, spread, skewness and tail.

The weights of a slice are fitted to it, and the null distribution is taken at those weights. To
first order that removes from every cell's deviance D its regression on the slopes of the loss, so
that the variance is sum Var(D) - C' I^-1 C, with C the covariances of D with the slopes and I the
Fisher information of the weights; to second order it lowers the mean. Both are accounted for.
Moments of one cell depend on its model value alone (`null_table`). Sums over cells are exact for
slices of moderate size; for larger ones cells are drawn from the model, and the error of the draws
is added to the variance. Second moments are summed over a sample of the cells in either case.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from onlinegcp.anomaly.null_table import (
    CUBE_3,
    MEAN,
    SIZE,
    VARIANCE,
    NullTable,
    cost,
    has_null,
    null_table,
    zero_cost,
)  # fmt: skip
from onlinegcp.anomaly.tails import pearson_log_tail
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]

# Temporaries of a whole slice would be fresh memory every time, which costs more than the sums.
BLOCK = 8192
DENSE_CELLS = 2_000_000  # up to here every cell of a sparse slice is looked at
SAMPLE_PER_WEIGHT, SMALLEST_SAMPLE, LARGEST_SAMPLE = 24, 1024, 2048
FEWEST_DRAWS, MOST_DRAWS = 20_000, 200_000
RIDGE = 1e-9  # of the information: directions with much less than this are not fitted


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
    if x.array is None and x.size > DENSE_CELLS:
        return _measure_drawn(x, model, loss, top)
    if x.array is None and has_null(loss):
        return _measure_zeros(x, model, loss, top)
    return _measure_all(x, model, loss, top)


def _measure_zeros(x: Slice, model: KTensor, loss: Loss, top: int) -> Misfit:
    """Every cell of a sparse slice: all as zeros first, then what the listed ones change."""
    table, length = null_table(loss), x.shape[-1]
    last, n_rows = np.ascontiguousarray(model.factors[-1].T), x.size // length
    values, worth = np.empty(x.size), np.empty(x.size)
    row_sums, last_sums = np.empty(n_rows), np.zeros(length)
    high: list[IntArray] = []  # cells where a zero costs more than usual
    high_excess: list[FloatArray] = []
    block = max(1, BLOCK // length)
    for begin in range(0, n_rows, block):
        rows = slice(begin, min(begin + block, n_rows))
        cells = slice(rows.start * length, rows.stop * length)
        m = values[cells]
        np.matmul(_rows(model, rows), last, out=m.reshape(-1, length))
        if not math.isinf(loss.lower):
            np.maximum(m, loss.lower, out=m)
        excess = np.empty(len(m))
        table.of_zeros(m, excess, worth[cells])
        square = excess.reshape(-1, length)
        row_sums[rows] = square.sum(axis=1)
        last_sums += square.sum(axis=0)
        found = np.flatnonzero(excess > 0.0)
        high.append(found + cells.start)
        high_excess.append(excess[found])

    listed = np.ravel_multi_index(tuple(x.index.T), x.shape)
    m = values[listed]
    rest = cost(loss, x.value, m) - table.at(m, MEAN)[0]
    as_zero = np.empty(len(m))
    table.of_zeros(m, as_zero, np.empty(len(m)))
    rise = rest - as_zero
    modes = [
        row_sums.reshape(x.shape[:-1]).sum(axis=tuple(j for j in range(x.ndim - 1) if j != k))
        for k in range(x.ndim - 1)
    ]
    modes = [
        sums + _sums(x.index[:, k], rise, x.shape[k]) for k, sums in enumerate([*modes, last_sums])
    ]
    zeros, zeros_excess = np.concatenate(high), np.concatenate(high_excess)
    unlisted = ~np.isin(zeros, listed, assume_unique=True)
    candidates = np.concatenate([listed, zeros[unlisted]])
    data = np.concatenate([x.value, np.zeros(len(candidates) - len(listed))])
    rest = np.concatenate([rest, zeros_excess[unlisted]])
    best = _largest(rest, top)
    picked, scale = _pick(worth, model.rank)
    null = _null(table, model, loss, _index(picked, x.shape), values[picked], scale)
    return Misfit(
        float(row_sums.sum() + rise.sum()), *null, _index(candidates[best], x.shape), data[best],
        values[candidates[best]], rest[best], float(np.maximum(rest, 0.0).sum()), modes,
    )  # fmt: skip


def _rows(model: KTensor, rows: slice) -> FloatArray:
    """Products over all modes but the last, of some combinations of their rows in C order."""
    product = np.repeat(model.weights[None, :], rows.stop - rows.start, axis=0)
    shape = model.shape[:-1]
    if shape:
        places = np.unravel_index(np.arange(rows.start, rows.stop), shape)
        for factor, place in zip(model.factors, places, strict=False):
            product *= factor.take(place, axis=0)
    return product


def _index(cells: NDArray[np.integer], shape: tuple[int, ...]) -> IntArray:
    return np.stack(np.unravel_index(cells, shape), axis=1).astype(np.int64, copy=False)


def _measure_all(x: Slice, model: KTensor, loss: Loss, top: int) -> Misfit:
    """Every cell, as a dense array."""
    m = _bounded(model.full(), loss)
    data = x.array if x.array is not None else x.to_dense()
    rest = cost(loss, data, m)
    if has_null(loss):
        table = null_table(loss)
        size, mean, worth = table.at(m, SIZE, MEAN, VARIANCE)
        rest -= mean
        worth += size
        picked, scale = _pick(worth.reshape(-1), model.rank)
        null = _null(table, model, loss, _index(picked, x.shape), m.reshape(-1)[picked], scale)
    else:
        null = _scale_only(float(rest.sum()), x, model, loss)
        rest -= null[4]
    flat = rest.reshape(-1)
    best = _largest(flat, top)
    return Misfit(
        float(flat.sum()), *null, _index(best, x.shape), np.asarray(data).reshape(-1)[best],
        m.reshape(-1)[best], flat[best], float(np.maximum(flat, 0.0).sum()),
        [rest.sum(axis=tuple(j for j in range(x.ndim) if j != k)) for k in range(x.ndim)],
    )  # fmt: skip


def _measure_listed(x: Slice, model: KTensor, loss: Loss, top: int) -> Misfit:
    """Only the listed cells are observed."""
    m = _bounded(model.values(x.index), loss)
    deviance = cost(loss, x.value, m)
    if has_null(loss):
        table = null_table(loss)
        size, mean, variance = table.at(m, SIZE, MEAN, VARIANCE)
        rest = deviance - mean
        picked, scale = _pick(variance + size, model.rank)
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
    mean, listed_mean = table.at(drawn, MEAN)[0], table.at(m, MEAN)[0]
    drawn_cost = zero_cost(loss, drawn)
    rise = deviance - zero_cost(loss, m)  # what a listed cell adds to a slice of zeros
    parts = (mean - drawn_cost) * scale
    few = slice(0, 4 * _sample(model.rank))
    thin = scale[few] * (len(scale) / len(scale[few]))
    shift, spread, skewness, _, _, freedom = _null(table, model, loss, index[few], drawn[few], thin)
    noise = len(parts) * float(np.var(parts))
    skewness *= spread**3 / max((spread**2 + noise) ** 1.5, 1e-300)
    expected = float(mean @ scale)
    excess = float(rise.sum() - parts.sum())
    # Zeros where much was expected are worth naming, too: the draws fall on them.
    zeros = _unlisted(index, x)
    everywhere = np.concatenate([x.index, index[zeros]]).astype(np.int64)
    rest = np.concatenate([deviance - listed_mean, (drawn_cost - mean)[zeros]])
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
    moments = table.at(m, *range(SIZE, CUBE_3 + 1))
    size, mean, variance, covariance, second, bias, cube, cube_1, cube_2, cube_3 = moments
    # Cells without any chance of an event say nothing about the weights.
    stretch = np.sqrt(loss.fisher(np.zeros_like(m), m) / np.where(size > 1e-15, size, np.inf))
    free = _free(model, loss)
    factors, places = [], np.array(index.T)
    for place, factor in zip(places, model.factors, strict=True):
        if len(factor) > len(m):  # a million rows are not copied for the sake of a few
            factor, place[:] = factor.take(place, axis=0), np.arange(len(m))
        factors.append(factor[:, free])
    basis, information = np.empty((len(m), len(free))), np.zeros((len(free), len(free)))
    half = np.sqrt(scale * size)[:, None]
    blocks = [slice(begin, begin + 256) for begin in range(0, len(m), 256)]
    for part in blocks:
        rows = basis[part]
        factors[0].take(places[0, part], axis=0, out=rows, mode="clip")
        for place, factor in zip(places[1:], factors[1:], strict=True):
            rows *= factor.take(place[part], axis=0)
        rows *= stretch[part, None]
        weighted = rows * half[part]
        information += weighted.T @ weighted
    # A little is added to the information, because weights that cannot be told apart have none.
    length = np.sqrt(np.maximum(information.diagonal(), 1e-300))
    information /= length * length[:, None]
    information[np.diag_indices(len(free))] += RIDGE
    inverse = np.linalg.inv(information)
    fitted = len(free) - RIDGE * float(np.trace(inverse))
    inverse /= length * length[:, None]
    slope = basis @ (inverse @ (basis.T @ (scale * covariance)))
    total = float(scale @ (variance - 2.0 * slope * covariance + slope**2 * size))
    third = float(scale @ (cube - slope * (3.0 * cube_1 - slope * (3.0 * cube_2 - slope * cube_3))))
    pulled, pull = np.zeros_like(information), (scale * (slope * bias + second))[:, None]
    for part in blocks:
        pulled += basis[part].T @ (basis[part] * pull[part])
    shift = float((pulled * inverse).sum())  # leverages times pulls
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
    from onlinegcp.solvers.objective import least_loss, slice_loss

    whole = slice_loss(x, model.factors, model.weights, loss)
    if loss.minimum is None:
        return whole
    return loss.traits.deviance_factor * max(whole - least_loss(x, loss), 0.0)


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


def _sample(rank: int) -> int:
    """Cells that second moments are summed over."""
    return min(max(SAMPLE_PER_WEIGHT * rank, SMALLEST_SAMPLE), LARGEST_SAMPLE)


def _pick(worth: FloatArray, rank: int) -> tuple[NDArray[np.intp], FloatArray]:
    """Cells to sum over, and how many each stands for: all, or one from each equal share.

    `worth` is overwritten.
    """
    count = _sample(rank)
    if len(worth) <= count:
        return np.arange(len(worth)), np.ones(len(worth))
    running = np.cumsum(worth, out=worth)
    share = running[-1] / count
    if not share > 0.0:
        return np.arange(0), np.ones(0)
    # A place in each share at random: a fixed one could beat with the lengths of the modes.
    places = np.arange(count) + np.random.default_rng(0).random(count)
    picked = np.minimum(np.searchsorted(running, places * share), len(running) - 1)
    own = running[picked] - np.where(picked > 0, running[picked - 1], 0.0)
    return picked, share / np.maximum(own, 1e-300)


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
    """Positions of the largest positive values, largest first, of equal ones the first first."""
    count = min(top, len(values))
    if count <= 0:
        return np.arange(0)
    least = max(float(np.partition(values, len(values) - count)[-count]), 0.0)
    best = np.flatnonzero(values >= least)
    best = best[np.argsort(-values[best], kind="stable")[:count]]
    return best[values[best] > 0.0]
