"""Plain NumPy versions of every kernel: slow, obvious, and the oracle of the tests.

Functions have the names and arguments of `kernels.sgd.cpu`. Draws are the same bit for bit;
sums agree up to rounding. Epochs are made of them by `solvers.sgd.engines.ArrayEngine`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels import random
from onlinegcp.kernels.layout import Blocks
from onlinegcp.kernels.sgd.plan import (
    ADAGRAD,
    ADAM,
    AMSGRAD,
    CELL_ALL,
    CELL_RANDOM,
    LISTED_ALL,
    LISTED_RANDOM,
    MAX_ATTEMPTS,
    SGD,
    VALUE_ARRAY,
    VALUE_LISTED,
    VALUE_LOOKUP,
    ZERO_ALL,
    ZERO_REJECT,
    Moments,
    Plan,
    Problem,
    Sample,
    Stratum,
    words_of_modes,
)

if TYPE_CHECKING:
    from onlinegcp.slices import Slice

Array = NDArray[Any]


@dataclass(frozen=True)
class SliceCells:
    """A slice with the linear indices of its listed cells."""

    x: Slice
    linear: NDArray[np.int64]


def prepare_cells(x: Slice, plan: Plan) -> SliceCells:
    """Prepare a slice for drawing."""
    if x.array is not None:
        return SliceCells(x, np.arange(x.size, dtype=np.int64))
    linear = np.ravel_multi_index(tuple(x.index.T.astype(np.int64)), x.shape)
    return SliceCells(x, np.asarray(linear, dtype=np.int64).reshape(-1))


def draw_sample(
    cells: SliceCells, plan: Plan, key: int, row_weights: Array | None = None
) -> Sample:
    """Draw the sample that a plan describes.

    Parameters
    ----------
    cells
        From `prepare_cells`.
    plan
        What to draw.
    key
        64-bit key of the draw.
    row_weights
        What cells count for by their last coordinate.
    """
    shape = cells.x.shape
    index, value, weight = [], [], []
    base = 0
    for stratum in plan.strata:
        cell = _draw_cells(cells, stratum, np.uint64(key), base)
        rows = np.stack(np.unravel_index(cell, shape), axis=1).astype(np.int32)
        counts_for = np.full(stratum.count, stratum.weight)
        index.append(rows)
        value.append(_values(cells, stratum, cell))
        weight.append(counts_for if row_weights is None else counts_for * row_weights[rows[:, -1]])
        base += stratum.count
    corrected = sum(stratum.count for stratum in plan.strata if stratum.corrected)
    nothing = np.zeros((0, len(shape)), np.int32)
    return Sample(
        np.concatenate([*index, nothing]),
        np.concatenate([*value, np.zeros(0)]),
        np.concatenate([*weight, np.zeros(0)]),
        corrected,
    )


def _draw_cells(
    cells: SliceCells, stratum: Stratum, key: np.uint64, base: int
) -> NDArray[np.int64]:
    """Linear indices of a stratum's cells."""
    x = cells.x
    n_unlisted = x.size - x.n_listed
    samples = np.arange(base, base + stratum.count, dtype=np.uint64)
    enumerated = np.arange(stratum.count, dtype=np.int64)
    if stratum.source == LISTED_ALL:
        return cells.linear[enumerated]
    if stratum.source == LISTED_RANDOM:
        return cells.linear[_below(key, samples, stratum, x.n_listed)]
    if stratum.source == CELL_ALL:
        return enumerated
    if stratum.source == ZERO_ALL:
        return _unlisted(cells.linear, enumerated)
    if stratum.source == CELL_RANDOM:
        return _random_cells(key, samples, stratum, 0, x.shape)
    if stratum.source == ZERO_REJECT:
        cell = np.zeros(stratum.count, np.int64)
        pending = enumerated
        for attempt in range(MAX_ATTEMPTS):
            cell[pending] = _random_cells(key, samples[pending], stratum, attempt, x.shape, pending)
            pending = pending[_find(cells.linear, cell[pending]) >= 0]
            if not len(pending):
                break
        return cell
    return _unlisted(cells.linear, _below(key, samples, stratum, n_unlisted))


def _below(
    key: np.uint64, samples: NDArray[np.uint64], stratum: Stratum, bound: int
) -> NDArray[np.int64]:
    """Random whole numbers below a bound, one per sample."""
    bits = _spread(random.word(key, samples, np.uint64(0)), np.arange(len(samples)), stratum)
    return np.asarray(random.multiply_high(bits, np.uint64(bound)), dtype=np.int64)


def _spread(bits: Array, number: Array, stratum: Stratum) -> Array:
    """Move random bits into the sample's own share of the range."""
    if not stratum.share:
        return bits
    share = np.uint64(stratum.share)
    return np.asarray(number.astype(np.uint64) * share + random.multiply_high(bits, share))


def _random_cells(
    key: np.uint64,
    samples: NDArray[np.uint64],
    stratum: Stratum,
    attempt: int,
    shape: tuple[int, ...],
    number: Array | None = None,
) -> NDArray[np.int64]:
    """Coordinates are the leading digits of a random word in the mixed radix of the shape."""
    words = words_of_modes(shape)
    cell = np.zeros(len(samples), np.int64)
    last = -1
    bits = samples
    for k, length in enumerate(shape):
        if words[k] != last:
            last = int(words[k])
            draw = attempt * (int(words[-1]) + 1) + last
            bits = random.word(key, samples, np.uint64(draw))
            if draw == 0:
                bits = _spread(bits, np.arange(len(samples)) if number is None else number, stratum)
        digit = random.multiply_high(bits, np.uint64(length))
        bits = bits * np.uint64(length)
        cell = cell * length + digit.astype(np.int64)
    return cell


def _find(linear: NDArray[np.int64], cell: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions of cells in the sorted list, -1 where they are not listed."""
    if not len(linear):
        return np.full(len(cell), -1, np.int64)
    at = np.minimum(np.searchsorted(linear, cell), len(linear) - 1)
    return np.where(linear[at] == cell, at, -1).astype(np.int64)


def _unlisted(linear: NDArray[np.int64], rank: NDArray[np.int64]) -> NDArray[np.int64]:
    """Linear indices of the unlisted cells with these ranks among them."""
    before = linear - np.arange(len(linear))
    return rank + np.searchsorted(before, rank, side="right")


def _values(cells: SliceCells, stratum: Stratum, cell: NDArray[np.int64]) -> Array:
    if stratum.values in (VALUE_LISTED, VALUE_ARRAY, VALUE_LOOKUP):
        at = _find(cells.linear, cell)
        values = cells.x.value if cells.x.array is None else cells.x.array.reshape(-1)
        return np.where(at >= 0, values[at], 0.0) if len(values) else np.zeros(len(cell))
    return np.zeros(len(cell))


def model_values(blocks: Blocks, weights: Array, index: Array) -> NDArray[np.float64]:
    """Model values at the cells `index` (n, d)."""
    product = np.broadcast_to(weights[: blocks.rank], (len(index), blocks.rank))
    for view, rows in zip(blocks.views(), index.T, strict=True):
        product = product * view[rows]
    return np.asarray(product.sum(axis=1), dtype=np.float64)


def sample_slopes(sample: Sample, m: Array, deriv: Callable[[Array, Array], Array]) -> Array:
    """weight * f'(x, m) of every sample, less f'(0, m) for the corrected ones."""
    return sample.weight * _corrected(sample, m, deriv)


def sample_loss(sample: Sample, m: Array, value: Callable[[Array, Array], Array]) -> float:
    """Sum of weight * f(x, m) over a sample."""
    return float(sample.weight @ _corrected(sample, m, value))


def _corrected(sample: Sample, m: Array, function: Callable[[Array, Array], Array]) -> Array:
    out = np.array(function(sample.value, m), dtype=np.float64)
    n = sample.corrected
    if n:
        out[:n] -= function(np.zeros(n), m[:n])
    return out


def scatter_gradient(
    blocks: Blocks, weights: Array, index: Array, y: Array, modes: Sequence[int] | None = None
) -> tuple[Blocks, Array]:
    """Gradient of sum_s y_s m_s with respect to factors and weights.

    Parameters
    ----------
    blocks, weights
        The model.
    index, y
        Cells (n, d) and slopes (n,).
    modes
        Factor matrices whose gradient is wanted; all by default.

    Returns
    -------
    Gradients of the factors (zero for other modes) and of the weights, (width,).
    """
    out = blocks.zeros_like()
    rows = [view[i] for view, i in zip(blocks.views(), index.T, strict=True)]
    slopes = y[:, None]
    for k in range(blocks.ndim) if modes is None else modes:
        product = slopes * weights[: blocks.rank]
        for j, row in enumerate(rows):
            if j != k:
                product = product * row
        np.add.at(out.views()[k], index[:, k], product)
    everything = np.broadcast_to(slopes, (len(y), blocks.rank))
    for row in rows:
        everything = everything * row
    weights_gradient = np.zeros_like(weights)
    weights_gradient[: blocks.rank] = everything.sum(axis=0)
    return out, weights_gradient


def history_value(blocks: Blocks, old: Blocks, S: Array) -> float:
    """1/2 sum_h w_h ||M(old, s_h) - M(new, s_h)||^2 with S = sum_h w_h s_h s_h'."""
    # Copies: without padding BLAS adds up single columns in another order.
    new, past = [v.copy() for v in blocks.views()], old.views()
    now = _product([a.T @ a for a in new])
    then = _product([b.T @ b for b in past])
    cross = _product([b.T @ a for a, b in zip(new, past, strict=True)])
    return float(0.5 * ((now + then - 2.0 * cross) * S).sum())


def history_gradient(blocks: Blocks, old: Blocks, S: Array, modes: Sequence[int]) -> Blocks:
    """Gradient of `history_value` with respect to the factors of `modes`."""
    out = blocks.zeros_like()
    new, past = blocks.views(), old.views()
    for k in modes:
        others = [j for j in range(blocks.ndim) if j != k]
        B = _product([new[j].T @ new[j] for j in others], S)
        C = _product([past[j].T @ new[j] for j in others], S)
        out.views()[k][...] = new[k] @ B - past[k] @ C
    return out


def _product(matrices: Sequence[Array], start: Array | float = 1.0) -> Array:
    out: Any = start
    for matrix in matrices:
        out = out * matrix
    return np.asarray(out)


def penalty_value(problem: Problem) -> float:
    """Everything in the objective that is not the slice's loss."""
    total = 0.0
    views = problem.blocks.views()
    for k in problem.modes:
        total += 0.5 * problem.ridge * float(np.vdot(views[k], views[k]))
    if problem.update_weights:
        total += 0.5 * problem.weight_ridge * float(np.vdot(problem.weights, problem.weights))
    history = problem.history
    if history is not None and problem.modes:
        if history.S is not None:
            total += history_value(problem.blocks, history.old, history.S)
        if history.anchors is not None:
            for k in problem.modes:
                moved = views[k] - history.old.views()[k]
                total += 0.5 * history.anchors[k] * float(np.vdot(moved, moved))
    return total


def add_penalty_gradient(problem: Problem, gradient: Blocks, weights_gradient: Array) -> None:
    """Add the gradient of `penalty_value` to the given arrays."""
    views, out = problem.blocks.views(), gradient.views()
    history = problem.history
    for k in problem.modes:
        out[k][...] += problem.ridge * views[k]
        if history is not None and history.anchors is not None:
            out[k][...] += history.anchors[k] * (views[k] - history.old.views()[k])
    weights_gradient += problem.weight_ridge * problem.weights
    if history is not None and history.S is not None:
        gradient.data[...] += history_gradient(
            problem.blocks, history.old, history.S, problem.modes
        ).data


def take_step(
    kind: int,
    number: int,
    rate: float,
    parameters: tuple[float, float, float],
    lower: float,
    a: Array,
    gradient: Array,
    u: Array,
    v: Array,
    largest: Array,
) -> None:
    """Move `a` one step down its gradient, in place (Algorithm 2 for Adam).

    Parameters
    ----------
    kind
        SGD, ADAM, ADAGRAD or AMSGRAD.
    number
        1 for the first step (errata row 3).
    rate
        Learning rate.
    parameters
        beta_1, beta_2, epsilon.
    lower
        Bound put on `a` afterwards.
    a, gradient
        Unknowns and slope.
    u, v, largest
        Moments, changed in place; those the kind does not use may be empty.
    """
    beta_1, beta_2, epsilon = parameters
    if kind == SGD:
        a -= rate * gradient
    elif kind == ADAGRAD:
        v += gradient * gradient
        a -= rate * gradient / (np.sqrt(v) + epsilon)
    elif kind in (ADAM, AMSGRAD):
        u *= beta_1
        u += (1.0 - beta_1) * gradient
        v *= beta_2
        v += (1.0 - beta_2) * gradient * gradient
        second = v
        if kind == AMSGRAD:
            np.maximum(largest, v, out=largest)
            second = largest
        corrected = rate * np.sqrt(1.0 - beta_2**number) / (1.0 - beta_1**number)
        a -= corrected * u / (np.sqrt(second) + epsilon)
    np.maximum(a, lower, out=a)


def step_problem(
    problem: Problem,
    moments: Moments,
    gradient: Blocks,
    weights_gradient: Array,
    kind: int,
    rate: float,
    parameters: tuple[float, float, float],
) -> None:
    """One step of every updated block; counts it."""
    moments.taken += 1
    rank, offsets = problem.blocks.rank, problem.blocks.offsets
    if problem.update_weights:
        own = [
            moment[0, :rank] if len(moment) else moment
            for moment in (moments.weights_u, moments.weights_v, moments.weights_largest)
        ]
        take_step(
            kind, moments.taken, rate, parameters, problem.lower,
            problem.weights[:rank], weights_gradient[:rank], *own,
        )  # fmt: skip
    for k in problem.modes:
        part = slice(int(offsets[k]), int(offsets[k + 1]))
        take_step(
            kind, moments.taken, rate, parameters, problem.lower,
            problem.blocks.data[part, :rank], gradient.data[part, :rank],
            moments.u[part, :rank], moments.v[part, :rank], moments.largest[part, :rank],
        )  # fmt: skip
