"""Numbers by component, whose components may come and go while they are added up.

A component that was not there yet had no weight, and one that is gone is left out: everything is
told in the components of the last line, as `runlog.Aligner` tells the lines themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def padded(values: FloatArray, rank: int) -> FloatArray:
    """A vector, or a matrix along its last axis, with zeros for components that came later."""
    missing = rank - values.shape[-1]
    if missing <= 0:
        return values
    return np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, missing)])


def added(sums: FloatArray, more: FloatArray) -> FloatArray:
    """The sum of two, of which either may lack components."""
    rank = max(sums.shape[-1], more.shape[-1])
    return padded(sums, rank) + padded(more, rank)


def stacked(vectors: Sequence[FloatArray], rank: int) -> FloatArray:
    """Vectors of components as a (n, rank) matrix."""
    if not vectors:
        return np.zeros((0, rank))
    return np.stack([padded(v, max(rank, len(v)))[:rank] for v in vectors])


def reordered(values: FloatArray, order: Sequence[int], new: float = 0.0) -> FloatArray:
    """The same after components changed places.

    Parameters
    ----------
    values
        Numbers by component, along the last axis.
    order
        Where each of today's components was before, -1 for one that is new.
    new
        What a new one has.

    Examples
    --------
    >>> reordered(np.array([1.0, 2.0, 3.0]), [2, -1, 0])
    array([3., 0., 1.])
    """
    out = np.full((*values.shape[:-1], len(order)), new)
    for place, before in enumerate(order):
        if 0 <= before < values.shape[-1]:
            out[..., place] = values[..., before]
    return out
