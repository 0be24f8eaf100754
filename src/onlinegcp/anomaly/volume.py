"""Where the events of a slice with an odd total are missing, or where they come from.

The pattern of a slice is judged with weights fitted to it, which take the volume out. When the
volume itself is odd, its cells and rows are compared with an ordinary slice instead: the model with
its usual weights, scaled to the total that was expected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from onlinegcp.ktensor import KTensor
from onlinegcp.slices import Slice

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]

COMBINATIONS = 512  # cells of each component that are looked at, those of its largest rows


@dataclass(frozen=True)
class Difference:
    """How a slice departs from an ordinary one, in the direction its total does.

    Attributes
    ----------
    index, observed, expected
        Cells that depart most for their size, the farthest first.
    shares
        Share of each of these cells in the whole difference.
    modes
        For each mode the share of every row in the differences of this direction.
    """

    index: IntArray
    observed: FloatArray
    expected: FloatArray
    shares: FloatArray
    modes: tuple[FloatArray, ...]


def compare_volume(
    x: Slice, factors: Sequence[FloatArray], usual: FloatArray, total: float, *, top: int
) -> Difference | None:
    """Compare the cells and rows of a slice with those of an ordinary one.

    Parameters
    ----------
    x
        Counts, of the model's shape.
    factors
        Nonnegative factors of the model.
    usual
        Usual weights (R,); only their proportions count.
    total
        The total that was expected of the observed cells.
    top
        Cells to find.

    Returns
    -------
    The difference, or None where cells are missing or the model expects nothing.
    """
    sums = [a.sum(axis=0) for a in factors]
    volume = float(usual @ np.prod(sums, axis=0))
    if x.n_observed != x.size or not volume > 0.0:
        return None
    ordinary = KTensor(usual * (total / volume), list(factors))
    sign = 1.0 if x.total >= total else -1.0
    modes = []
    for k, a in enumerate(factors):
        others = np.prod([s for l, s in enumerate(sums) if l != k], axis=0)
        seen = np.bincount(x.index[:, k], weights=x.value, minlength=len(a))
        away = np.maximum(sign * (seen - a @ (ordinary.weights * others)), 0.0)
        modes.append(away / max(float(away.sum()), 1e-300))
    index = _candidates(x, ordinary)
    observed, expected = _observed(x, index), ordinary.values(index)
    away = sign * (observed - expected)
    # By the scale of counting, so that one event in a cell that never has any does not come first.
    best = np.argsort(-away / np.sqrt(np.maximum(expected, 1.0)), kind="stable")[:top]
    best = best[away[best] > 0.0]
    whole = max(abs(x.total - total), 1e-300)
    return Difference(index[best], observed[best], expected[best], away[best] / whole, tuple(modes))


def _candidates(x: Slice, ordinary: KTensor) -> IntArray:
    """Listed cells, and of each component the cells of its largest rows."""
    rows = max(2, int(COMBINATIONS ** (1.0 / x.ndim)))
    blocks = [x.index.astype(np.int64)]
    for r in np.flatnonzero(ordinary.weights > 0.0):
        largest = [np.argsort(-a[:, r], kind="stable")[:rows] for a in ordinary.factors]
        grid = np.meshgrid(*largest, indexing="ij")
        blocks.append(np.stack([g.ravel() for g in grid], axis=1))
    # Numbers are sorted faster than rows.
    linear = np.unique(np.ravel_multi_index(tuple(np.concatenate(blocks).T), x.shape))
    return np.stack(np.unravel_index(linear, x.shape), axis=1)


def _observed(x: Slice, index: IntArray) -> FloatArray:
    """Values of the slice at given cells; what it does not list is 0."""
    listed = np.ravel_multi_index(tuple(x.index.astype(np.int64).T), x.shape)
    wanted = np.ravel_multi_index(tuple(index.T), x.shape)
    if not listed.size:
        return np.zeros(len(wanted))
    place = np.minimum(np.searchsorted(listed, wanted), len(listed) - 1)
    return np.where(listed[place] == wanted, x.value[place], 0.0)
