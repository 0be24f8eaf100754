"""Splitting one component in two, so that patterns that have parted can be told apart.

The component that carries most of the slice's misfit is divided: both halves get half its weight
and half its history, and their patterns are tilted to either side of the old one, along what its
part of the slice shows too much of. At first the two together are nearly the old component; the
slices that follow pull them apart, or not.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.auto import fisher_sums
from onlinegcp.kernels.random import stream_key, uniform
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto.model import Model

Array = NDArray[Any]

TILT = 0.5  # how far the halves' patterns move away from the old one
MOST_CELLS = 1 << 16  # a sample of so many cells shows well enough where the misfit is
STEPS = 10
PURPOSE = 14


def split(twin: Model, x: Slice, loss: Loss, weights: Array, slot: int) -> bool:
    """Divide the component with the largest misfit; its second half takes a slot.

    Parameters
    ----------
    twin
        The model; changed in place, unless the answer is False.
    x, loss
        The slice and the loss.
    weights
        Weights of the slice (width,), zero in the slot.
    slot
        The component that was given up.

    Returns
    -------
    Whether there was anything to split.
    """
    factors = twin.factors
    index, pull, bend = _misfit(twin, x, loss, weights, slot)
    parts = np.broadcast_to(weights, (len(index), factors.width))
    for k in range(factors.ndim):
        parts = parts * factors.data[factors.offsets[k] + index[:, k]]
    shares = np.abs(pull[:, None] * parts).sum(axis=0)[: factors.rank]
    shares[slot] = 0.0
    parent = int(np.argmax(shares))
    if not shares[parent] > 0.0:
        return False
    if twin.bounded:
        steps = _excess(twin, index, np.maximum(pull, 0.0) * parts[:, parent], parent)
    else:
        own = np.abs(parts[:, parent]) / np.maximum(np.abs(parts).sum(axis=1), 1e-300)
        steps = _leading(twin, index, pull * own, bend, float(weights[parent]), slot)
    if steps is None:
        return False
    shares_of = np.full(2, 0.5)
    for view, step in zip(factors.views(), steps, strict=True):
        old = view[:, parent].copy()
        for half, (column, moved) in enumerate(((parent, old - step), (slot, old + step))):
            view[:, column], size = _sized(moved, twin)
            shares_of[half] *= 1.0 if twin.bounded else size
    _divide(twin, parent, slot, *shares_of)
    return True


def _misfit(
    twin: Model, x: Slice, loss: Loss, weights: Array, slot: int
) -> tuple[NDArray[np.int32], Array, Array]:
    """Cells of the slice, how strongly each pulls the model upwards, and the curvature there."""
    factors = twin.factors
    cells = twin.past.cells(twin, x, slot)
    index, value, weight = cells.index, cells.value, cells.weight
    if len(value) > MOST_CELLS:
        draws = uniform(stream_key(slot, twin.n_slices, PURPOSE), MOST_CELLS)
        some = ((np.arange(MOST_CELLS) + draws) / MOST_CELLS * len(value)).astype(np.int64)
        index, value, weight = np.ascontiguousarray(index[some]), value[some], weight[some]
    m = np.empty(len(value))
    fisher_sums.model_values(factors.data, factors.offsets, index, weights, m)
    bend = weight * np.maximum(loss.fisher(value, m), 0.0)
    return index, -weight * loss.deriv(value, m), bend


def _excess(twin: Model, index: Array, share: Array, parent: int) -> list[Array] | None:
    """From a nonnegative pattern towards where its part of the slice exceeds the model."""
    if not share.sum() > 0.0:
        return None
    steps = []
    for k, view in enumerate(twin.factors.views()):
        towards, _ = _sized(np.bincount(index[:, k], weights=share, minlength=len(view)), twin)
        steps.append(TILT * (towards - view[:, parent]))
    return steps


def _leading(
    twin: Model, index: Array, share: Array, bend: Array, weight: float, slot: int
) -> list[Array] | None:
    """Steps to either side that would explain a signed component's part of the misfit.

    The halves (a + u)(b + v) and (a - u)(b - v) add up to 2 ab + 2 uv: so uv is the leading
    rank-one pattern of the misfit, of a size relative to the component's weight.
    """
    factors = twin.factors
    draws = uniform(stream_key(slot, twin.n_slices, PURPOSE), int(factors.offsets[-1])) - 0.5
    columns = [_sized(c, twin)[0] for c in np.split(draws, factors.offsets[1:-1])]
    for _ in range(STEPS):
        for k, n in enumerate(factors.shape):
            rest = share.copy()
            for j, column in enumerate(columns):
                if j != k:
                    rest *= column[index[:, j]]
            fresh = np.bincount(index[:, k], weights=rest, minlength=n)
            if not fresh.any():
                return None
            columns[k], _ = _sized(fresh, twin)
    pattern = np.prod([c[index[:, k]] for k, c in enumerate(columns)], axis=0)
    below = float(bend @ pattern**2) * abs(weight)
    if not below > 0.0:
        return None
    reach = min(1.0, math.sqrt(max(float(share @ pattern), 0.0) / below))
    columns[0] *= math.copysign(1.0, weight)
    return [reach * c for c in columns]


def _sized(column: Array, twin: Model) -> tuple[Array, float]:
    """The column in the size the model keeps its columns in, and the size it had."""
    if twin.bounded:
        column = np.maximum(column, 0.0)
    size = max(float(twin.past.sizes(column[:, None])[0]), 1e-300)
    return np.asarray(column / size), size


def _divide(twin: Model, parent: int, slot: int, kept: float, given: float) -> None:
    """Let the halves have had their shares of every past weight."""
    for vector in (twin.mean_weights, twin.usage, twin.last_weights):
        vector[slot] = given * vector[parent]
        vector[parent] *= kept
    memory = twin.memory
    for vector in (memory.own, memory.bends, memory.lift):
        vector[slot] = vector[parent]
    twin.past.split(parent, slot, kept, given)
