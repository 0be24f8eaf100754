"""Slices far louder than usual count less under squared losses.

Squared error grows with the square of the data: one storm would count for months of quiet days and
take components from all they have learned, though losses are compared per squared norm. A slice
enters the factors with weight min(1, usual / own volume). Counts and odds know the size of their
noise and are never tempered.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onlinegcp.losses import Loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto.model import Model

VOLUME_STEP = 0.05  # of the usual volume of a slice
LOUDEST = 4.0  # times the usual volume: what one slice may add to it


def first_volume(slices: Sequence[Slice], loss: Loss) -> float:
    """Usual volume of the warm-start slices; 0 for losses that are not tempered."""
    if not loss.traits.tempered:
        return 0.0
    return float(np.mean([_volume(x) for x in slices]))


def tempered(model: Model, x: Slice) -> float:
    """Weight of a slice in the factors: less than one if it is louder than usual."""
    own = _volume(x)
    return min(1.0, model.volume / own) if model.volume > 0.0 and own > 0.0 else 1.0


def hear(model: Model, x: Slice, cap: float) -> None:
    """Let the usual volume follow a slice, as far as one slice may move it."""
    if model.volume > 0.0:
        heard = min(_volume(x), LOUDEST * model.volume)
        model.volume += max(1.0 - cap, VOLUME_STEP) * (heard - model.volume)


def _volume(x: Slice) -> float:
    return x.norm_squared / max(x.n_observed, 1)
