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

from onlinegcp.kernels.random import TRIAL_CELLS, TRIAL_COLUMNS, stream_key, uniform
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto.cells import Weighted
from onlinegcp.solvers.auto.fisher_sums import FisherSums
from onlinegcp.solvers.auto.model import Model
from onlinegcp.solvers.auto.seeds import at_cells, leading_pattern

Array = NDArray[Any]

TILT = 0.5  # how far the halves' patterns move away from the old one
MOST_CELLS = 1 << 16  # a sample of so many cells shows well enough where the misfit is


def split(twin: Model, x: Slice, loss: Loss, weights: Array, slot: int, seed: int) -> bool:
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
    seed
        Seed of the draws.

    Returns
    -------
    Whether there was anything to split.
    """
    factors = twin.factors
    index, pull, bend = _misfit(twin, x, loss, weights, seed)
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
        steps = _leading(twin, index, pull * own, bend, float(weights[parent]), seed)
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
    twin: Model, x: Slice, loss: Loss, weights: Array, seed: int
) -> tuple[NDArray[np.int32], Array, Array]:
    """Cells of the slice, how strongly each pulls the model upwards, and the curvature there."""
    cells = twin.past.cells(twin, x, seed)
    count = len(cells.value)
    if count > MOST_CELLS:
        draws = uniform(stream_key(seed, twin.n_slices, TRIAL_CELLS), MOST_CELLS)
        some = ((np.arange(MOST_CELLS) + draws) / MOST_CELLS * count).astype(np.int64)
        index = np.ascontiguousarray(cells.index[some])
        cells = Weighted(index, cells.value[some], cells.weight[some])
    slopes, bend = FisherSums(twin.factors, cells, loss).slopes(weights)
    return cells.index, -slopes, bend


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
    twin: Model, index: NDArray[np.int32], share: Array, bend: Array, weight: float, seed: int
) -> list[Array] | None:
    """Steps to either side that would explain a signed component's part of the misfit.

    The halves (a + u)(b + v) and (a - u)(b - v) add up to 2 ab + 2 uv: so uv is the leading
    rank-one pattern of the misfit, of a size relative to the component's weight.
    """
    key = stream_key(seed, twin.n_slices, TRIAL_COLUMNS)
    columns = leading_pattern(twin.factors, index, share, key, bounded=False)
    if columns is None:
        return None
    pattern = at_cells(columns, index)
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
