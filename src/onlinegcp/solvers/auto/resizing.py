"""More or fewer components: a model made of some components of another, and of empty ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.layout import Blocks, aligned_zeros, padded_width
from onlinegcp.solvers.auto import forgetting

if TYPE_CHECKING:
    from onlinegcp.solvers.auto.model import Model

Array = NDArray[Any]


def taken(padded: Array, order: Sequence[int], axis: int = -1) -> Array:
    """Some components of a padded array, in this order and padded anew; -1 stands for zeros.

    Examples
    --------
    >>> taken(np.array([1.0, 2.0, 3.0, 0.0]), [2, 0, -1]).tolist()
    [3.0, 1.0, 0.0, 0.0]
    """
    source = np.moveaxis(padded, axis, -1)
    found = aligned_zeros((*source.shape[:-1], padded_width(len(order))))
    at = np.asarray(order)
    known = np.flatnonzero(at >= 0)
    found[..., known] = source[..., at[known]]
    return found if axis == -1 else np.ascontiguousarray(np.moveaxis(found, -1, axis))


def with_components(model: Model, order: Sequence[int]) -> Model:
    """A model with some components of another; places with -1 are free, with columns of zeros.

    Parameters
    ----------
    model
        Left as it is.
    order
        For every component of the new model, its place in the old one, or -1.
    """
    memory, old = model.memory, model.factors
    own, bends, lift = (taken(v, order) for v in (memory.own, memory.bends, memory.lift))
    bends[bends <= 0.0] = forgetting.FIRST_BEND * model.unit  # of new ones and of the padding
    return replace(
        model,
        factors=Blocks(taken(old.data, order), old.offsets, len(order)),
        memory=replace(memory, own=own, bends=bends, lift=lift),
        past=model.past.take(order),
        mean_weights=taken(model.mean_weights, order),
        usage=taken(model.usage, order),
        last_weights=taken(model.last_weights, order),
    )
