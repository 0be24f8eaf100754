"""Exact sums over every observed cell of a slice: the loss and its gradient, without sampling.

Three roads, chosen by what the slice and the loss allow:

* listed cells only: model values are gathered, the loss is applied, slopes are scattered back;
* unlisted zeros whose loss f(0, m) is a polynomial a + b m + c m^2 (Poisson: m, Gaussian: m^2):
  the sum over all cells is a product of column sums and Gram matrices, and the listed cells
  correct it by f(x, m) - f(0, m);
* everything else (dense slices, and zeros of other losses): cells are visited box by box, each
  box small enough for the cache, with matrix products for the model and for the gradient.

Nothing here starts a thread, and the order of every sum is fixed, so results repeat bit for bit.
"""

# mypy: disable-error-code="no-untyped-call,untyped-decorator"

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from onlinegcp.kernels.jit import kernel

if TYPE_CHECKING:
    from onlinegcp.losses import Loss
    from onlinegcp.slices import Slice

FloatArray = npt.NDArray[np.float64]

# Numbers a box may hold (model values plus factor products). 2^17 doubles are 1 MiB: a model
# block and the loss' temporaries then stay in a second-level cache.
BOX_BUDGET = 1 << 17

# Listed cells handled at a time, so that temporaries stay small for any number of cells.
CHUNK = 1 << 17


class ExactGradient(NamedTuple):
    """The exact loss of a slice and its slopes.

    Attributes
    ----------
    value
        Sum of the loss over every observed cell.
    factors
        Gradient of each factor matrix, None for modes that were not asked for.
    weights
        Gradient of the weights, None when not asked for.
    """

    value: float
    factors: tuple[FloatArray | None, ...]
    weights: FloatArray | None


def exact_objective(
    x: Slice, factors: Sequence[FloatArray], weights: FloatArray, loss: Loss
) -> float:
    """Return the loss summed over every observed cell of a slice; see `exact_gradient`."""
    return exact_gradient(x, factors, weights, loss, modes=(), with_weights=False).value


def exact_gradient(
    x: Slice,
    factors: Sequence[FloatArray],
    weights: FloatArray,
    loss: Loss,
    *,
    modes: Sequence[int] | None = None,
    with_weights: bool = True,
) -> ExactGradient:
    """Return the loss summed over every observed cell of a slice, and its gradient.

    Parameters
    ----------
    x
        The slice; missing cells do not count.
    factors
        One (I_k, R) matrix per mode.
    weights
        The R component weights.
    loss
        Any loss, built-in or the user's.
    modes
        Modes whose factor gradients are wanted; all of them by default.
    with_weights
        Whether the gradient of the weights is wanted.
    """
    wanted = frozenset(range(len(factors)) if modes is None else modes)
    sums = _Sums(factors, weights, wanted, with_weights)
    if x.array is not None:
        _add_boxes(sums, loss, x.array)
    elif x.n_unlisted_zeros == 0:
        _add_listed(sums, loss, x, correct_zeros=False)
    else:
        if loss.zero_shape in ("linear", "quadratic"):
            _add_polynomial(sums, zero_polynomial(loss), x.size)
        else:
            _add_boxes(sums, loss, None)
        _add_listed(sums, loss, x, correct_zeros=True)
    return sums.result()


def zero_polynomial(loss: Loss) -> tuple[float, float, float]:
    """Return a, b, c with f(0, m) = a + b m + c m^2, for a loss of linear or quadratic zeros."""
    # Sampled at m = 1 and m = 2, which every loss' domain contains.
    zero, m = np.zeros(2), np.array([1.0, 2.0])
    slope = np.asarray(loss.deriv(zero, m), dtype=np.float64)
    c = 0.5 * float(slope[1] - slope[0])
    if loss.zero_shape == "linear":
        c = 0.0
    b = float(slope[0]) - 2.0 * c
    a = float(np.asarray(loss.value(zero, m))[0]) - b - c
    return a, b, c


class _Sums:
    """Running totals of one exact evaluation; gradients are allocated only where wanted."""

    def __init__(
        self,
        factors: Sequence[FloatArray],
        weights: FloatArray,
        wanted: frozenset[int],
        with_weights: bool,
    ) -> None:
        self.factors = [np.ascontiguousarray(a, dtype=np.float64) for a in factors]
        self.weights = np.ascontiguousarray(weights, dtype=np.float64)
        self.wanted = wanted
        self.value = 0.0
        self.slopes = [np.zeros_like(a) if k in wanted else None for k, a in enumerate(factors)]
        self.weight_slope = np.zeros_like(self.weights) if with_weights else None
        self.any_slope = bool(wanted) or with_weights

    def result(self) -> ExactGradient:
        return ExactGradient(float(self.value), tuple(self.slopes), self.weight_slope)


# Listed cells ------------------------------------------------------------------------------


def _add_listed(sums: _Sums, loss: Loss, x: Slice, *, correct_zeros: bool) -> None:
    """Add f(x, m), or with `correct_zeros` f(x, m) - f(0, m), over the listed cells."""
    if x.n_listed == 0:
        return
    lengths = [a.shape[0] for a in sums.factors]
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    stacked = np.concatenate(sums.factors)
    slopes = np.zeros_like(stacked) if sums.any_slope else stacked[:0]
    weight_slope = np.zeros_like(sums.weights)
    wanted = np.array([k in sums.wanted for k in range(len(lengths))])

    for start in range(0, x.n_listed, CHUNK):
        index, datum = x.index[start : start + CHUNK], x.value[start : start + CHUNK]
        m = np.empty(datum.shape[0])
        _gather(index, stacked, offsets, sums.weights, m)
        zero = np.broadcast_to(0.0, datum.shape)
        sums.value += float(np.sum(loss.value(datum, m)))
        if correct_zeros:
            sums.value -= float(np.sum(loss.value(zero, m)))
        if sums.any_slope:
            y = np.asarray(loss.deriv(datum, m), dtype=np.float64)
            if correct_zeros:
                y = y - loss.deriv(zero, m)
            y = np.ascontiguousarray(np.broadcast_to(y, datum.shape))
            _scatter(index, y, stacked, offsets, sums.weights, wanted, slopes, weight_slope)

    for k, slope in enumerate(sums.slopes):
        if slope is not None:
            slope += slopes[offsets[k] : offsets[k + 1]]
    if sums.weight_slope is not None:
        sums.weight_slope += weight_slope


@kernel
def _gather(index, data, offsets, weights, out):  # type: ignore[no-untyped-def]
    # out[j] = sum_r weights[r] prod_k data[offsets[k] + index[j, k], r]
    d, rank = index.shape[1], weights.shape[0]
    z = np.empty(rank)
    for j in range(index.shape[0]):
        for r in range(rank):
            z[r] = weights[r]
        for k in range(d):
            row = offsets[k] + index[j, k]
            for r in range(rank):
                z[r] *= data[row, r]
        total = 0.0
        for r in range(rank):
            total += z[r]
        out[j] = total


@kernel
def _scatter(index, y, data, offsets, weights, wanted, slopes, weight_slope):  # type: ignore[no-untyped-def]
    # Single writer, cells in listed order. left[k] holds the weighted product of modes before
    # k and `right` that of the modes after it, so every mode costs the same at any d.
    d, rank = index.shape[1], weights.shape[0]
    left = np.empty((d, rank))
    right = np.empty(rank)
    for j in range(index.shape[0]):
        for r in range(rank):
            left[0, r] = weights[r]
            right[r] = y[j]
        for k in range(1, d):
            row = offsets[k - 1] + index[j, k - 1]
            for r in range(rank):
                left[k, r] = left[k - 1, r] * data[row, r]
        for k in range(d - 1, -1, -1):
            row = offsets[k] + index[j, k]
            if wanted[k]:
                for r in range(rank):
                    slopes[row, r] += left[k, r] * right[r]
            for r in range(rank):
                right[r] *= data[row, r]
        for r in range(rank):
            weight_slope[r] += right[r]


# Unlisted zeros in closed form -------------------------------------------------------------


def _add_polynomial(sums: _Sums, coefficients: tuple[float, float, float], size: int) -> None:
    """Add the sum over all cells of a + b m + c m^2."""
    a, b, c = coefficients
    s = sums.weights
    column_sums = [_column_sums(factor) for factor in sums.factors]
    grams = [factor.T @ factor for factor in sums.factors] if c else []

    gram_of_all = np.outer(s, s)
    for gram in grams:
        gram_of_all = gram_of_all * gram
    sum_of_all = s * np.prod(column_sums, axis=0)
    sums.value += a * size + b * float(sum_of_all.sum())
    if c:
        sums.value += c * float(gram_of_all.sum())

    for k, slope in enumerate(sums.slopes):
        if slope is None:
            continue
        # Products over the other modes are multiplied out, never divided out: a column that
        # sums to zero would make 0 / 0 of a finite slope.
        if b:
            slope += b * s * np.prod([v for j, v in enumerate(column_sums) if j != k], axis=0)
        if c:
            others = np.outer(s, s)
            for j, gram in enumerate(grams):
                if j != k:
                    others *= gram
            slope += 2.0 * c * (sums.factors[k] @ others)
    if sums.weight_slope is not None:
        sums.weight_slope += b * np.prod(column_sums, axis=0)
        if c:
            sums.weight_slope += 2.0 * c * (np.prod(grams, axis=0) @ s)


def _column_sums(factor: FloatArray) -> FloatArray:
    # NumPy adds the rows of a C-order matrix one after the other, which loses six digits in two
    # million equal rows; sums of sums lose three fewer.
    starts = np.arange(0, factor.shape[0], 1024)
    return np.asarray(np.add.reduceat(factor, starts, axis=0).sum(axis=0), dtype=np.float64)


# Every cell, box by box --------------------------------------------------------------------


def _add_boxes(sums: _Sums, loss: Loss, array: FloatArray | None) -> None:
    """Add the loss over all cells of `array`, or of a tensor of zeros when it is None."""
    shape = tuple(a.shape[0] for a in sums.factors)
    if math.prod(shape) == 0:
        return
    lengths, split = box_lengths(shape, sums.weights.shape[0])
    for box in _boxes(shape, lengths):
        rows = [a[part] for a, part in zip(sums.factors, box, strict=True)]
        left = _row_products(rows[:split], sums.weights)
        right = _row_products(rows[split:], None)
        m = left @ right.T
        if array is None:
            datum: FloatArray = np.broadcast_to(0.0, m.shape)
        else:
            datum = array[box].reshape(m.shape)
        sums.value += float(np.sum(loss.value(datum, m)))
        if sums.any_slope:
            y = np.broadcast_to(np.asarray(loss.deriv(datum, m), dtype=np.float64), m.shape)
            _add_box_slopes(sums, box, rows, split, y, left, right)


def _add_box_slopes(
    sums: _Sums,
    box: tuple[slice, ...],
    rows: list[FloatArray],
    split: int,
    y: FloatArray,
    left: FloatArray,
    right: FloatArray,
) -> None:
    """Carry the slopes of one box to the factors: first to either side, then to each mode."""
    d = len(rows)
    if sums.weight_slope is not None or any(k in sums.wanted for k in range(split)):
        left_slope = y @ right
        if sums.weight_slope is not None:
            plain = _row_products(rows[:split], None) if split else np.ones_like(left)
            sums.weight_slope += np.einsum("lr,lr->r", left_slope, plain)
        _spread(sums, box, rows, range(split), left_slope * sums.weights)
    if any(k in sums.wanted for k in range(split, d)):
        _spread(sums, box, rows, range(split, d), y.T @ left)


def _spread(
    sums: _Sums, box: tuple[slice, ...], rows: list[FloatArray], group: range, slope: FloatArray
) -> None:
    """Contract the slope of a product of rows down to each wanted mode of the group."""
    rank = slope.shape[1]
    for k in group:
        target = sums.slopes[k]
        if target is None:
            continue
        before = _row_products([rows[j] for j in group if j < k], None, rank)
        after = _row_products([rows[j] for j in group if j > k], None, rank)
        block = slope.reshape(before.shape[0], rows[k].shape[0], after.shape[0], rank)
        if after.shape[0] > 1:
            block = np.einsum("iajr,jr->iar", block, after)
        else:
            block = block[:, :, 0, :] * after[0]
        target[box[k]] += np.einsum("iar,ir->ar", block, before)


def _row_products(
    rows: Sequence[FloatArray], weights: FloatArray | None, rank: int = 0
) -> FloatArray:
    """Products of one row per matrix, last matrix fastest; a single row of ones for no matrix."""
    if not rows:
        return np.ones((1, rank)) if weights is None else weights[None, :]
    out = rows[0] if weights is None else rows[0] * weights
    for a in rows[1:]:
        out = (out[:, None, :] * a[None, :, :]).reshape(-1, a.shape[1])
    return out


@lru_cache(maxsize=64)
def box_lengths(shape: tuple[int, ...], rank: int) -> tuple[tuple[int, ...], int]:
    """Lengths of a box per mode, and the mode at which it is split into two sides.

    The longest side is halved until model block and row products fit the budget; boxes
    therefore come out close to cubes, where matrix products do most work per number read.
    """
    lengths = list(shape)
    while True:
        split, sides = _best_split(lengths)
        if math.prod(lengths) + rank * sides <= BOX_BUDGET or max(lengths) == 1:
            return tuple(lengths), split
        k = lengths.index(max(lengths))
        lengths[k] = (lengths[k] + 1) // 2


def _best_split(lengths: Sequence[int]) -> tuple[int, int]:
    """The split whose two sides have the fewest rows together, and that number of rows."""
    # A single mode has nothing to its left: the weights alone are the left side.
    splits = range(1, len(lengths)) if len(lengths) > 1 else range(1)
    sides = {p: math.prod(lengths[:p]) + math.prod(lengths[p:]) for p in splits}
    best = min(sides, key=sides.__getitem__)
    return best, sides[best]


def _boxes(shape: tuple[int, ...], lengths: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    starts = (range(0, n, length) for n, length in zip(shape, lengths, strict=True))
    for corner in itertools.product(*starts):
        yield tuple(
            slice(i, min(i + length, n))
            for i, length, n in zip(corner, lengths, shape, strict=True)
        )
