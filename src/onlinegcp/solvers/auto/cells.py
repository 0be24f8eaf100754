"""What the tuning-free solver sees of a slice and of a loss: cells that count, and their form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.losses import Loss
from onlinegcp.slices import Slice

Array = NDArray[Any]


@dataclass(frozen=True)
class OddsForm:
    """A loss of the form v h(m) - x log m with h(m) = m or log(1 + m) and v = base + slope x.

    Attributes
    ----------
    linear
        Whether h(m) = m (Poisson); else h(m) = log(1 + m) (odds losses).
    base, slope
        The weight v of a cell: 1 and 0 for Poisson and Bernoulli odds, r and 1 for the
        negative binomial.
    """

    linear: bool
    base: float
    slope: float


def odds_form(loss: Loss) -> OddsForm | None:
    """Return the form of a loss with conjugate history, None for every other loss."""
    if loss.code < 0:
        return None
    if loss.name == "poisson":
        return OddsForm(True, 1.0, 0.0)
    if loss.name == "bernoulli_odds":
        return OddsForm(False, 1.0, 0.0)
    if loss.name == "negative_binomial":
        return OddsForm(False, loss.parameter, 1.0)
    return None


@dataclass(frozen=True)
class Cells:
    """The cells of one slice, split as the conjugate losses need them.

    Attributes
    ----------
    index, value
        Listed cells that are not zero.
    full
        Whether every cell of the slice is observed.
    seen_index, seen_value
        All listed cells; used when not `full`, where the sums run over these only.
    total
        Sum of the values.
    """

    index: NDArray[np.int32]
    value: Array
    full: bool
    seen_index: NDArray[np.int32]
    seen_value: Array
    total: float


def cells_of(x: Slice) -> Cells:
    """Split a slice into its nonzeros and, where cells are missing, everything listed."""
    full = x.n_observed == x.size
    nonzero = x.value != 0.0
    index, value = x.index, x.value
    if not nonzero.all():
        # compress is three times faster than a boolean index here.
        index = np.ascontiguousarray(np.compress(nonzero, x.index, axis=0))
        value = np.compress(nonzero, x.value)
    return Cells(index, value, full, x.index, x.value, x.total)
