"""One loss for models of different losses: each model's expectation, scored by the same formula."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from onlinegcp.errors import DataError
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.objective import slice_loss

FloatArray: TypeAlias = NDArray[np.float64]

# Cells that are written out where no closed form serves.
DENSE_CELLS = 20_000_000
# Model values between which the mean of a loss is inverted, and how often the interval is halved.
SEARCH = (-700.0, 700.0)
HALVINGS = 60


def expects_itself(loss: Loss) -> bool:
    """Whether the expected datum is the model value.

    Examples
    --------
    >>> from onlinegcp import get_loss
    >>> expects_itself(get_loss("poisson")), expects_itself(get_loss("bernoulli_odds"))
    (True, False)
    """
    probe = np.array([0.37, 2.5])
    return bool(np.array_equal(np.asarray(loss.mean(probe)), probe))


def expected_loss(
    x: Slice,
    factors: Sequence[FloatArray],
    weights: FloatArray,
    own: Loss,
    common: Loss,
    floor: float,
) -> float:
    """Loss of a slice, summed over its observed cells, with a model's expectation as prediction.

    Parameters
    ----------
    x
        The slice.
    factors, weights
        The model of the slice.
    own
        The loss it was fitted with, which says what it expects.
    common
        The loss to score with.
    floor
        Expectations that `common` cannot take (a negative rate, a probability of 0 or 1) are moved
        this far inside its range.
    """
    low, high = mean_range(common)
    straight = expects_itself(own) and expects_itself(common)
    inside = low == -np.inf or all(float(a.min()) >= 0.0 for a in (weights, *factors))
    if (own.name, own.parameters) == (common.name, common.parameters) or (straight and inside):
        return slice_loss(x, factors, weights, common)
    if x.size > DENSE_CELLS:
        raise DataError(
            f"at most {DENSE_CELLS:,} cells can be scored in the loss {common.name!r} under a "
            f"model with the loss {own.name!r}, but the slice has {x.size:,}. Compare in the "
            f"model's own loss."
        )
    expected = np.clip(own.mean(KTensor(weights, factors).full()), low + floor, high - floor)
    data = x.to_dense()
    seen = ~np.isnan(data)
    return float(np.sum(common.value(data[seen], model_values(common, expected[seen]))))


def mean_range(loss: Loss) -> tuple[float, float]:
    """Expectations a loss can have.

    Examples
    --------
    >>> from onlinegcp import get_loss
    >>> mean_range(get_loss("poisson")), mean_range(get_loss("bernoulli_logit"))
    ((0.0, inf), (0.0, 1.0))
    """
    if expects_itself(loss):
        return float(loss.lower), np.inf
    ends = np.asarray(loss.mean(np.array([max(SEARCH[0], loss.lower), SEARCH[1]])))
    return float(np.round(ends[0], 2)), 1.0 if loss.domain == "binary" else np.inf


def model_values(loss: Loss, expected: FloatArray) -> FloatArray:
    """Model values with these expectations: the mean of the loss, inverted by halving."""
    if expects_itself(loss):
        return expected
    low = np.full(expected.shape, max(SEARCH[0], loss.lower))
    # Odds and rates reach far beyond where exponents do.
    high = np.full(expected.shape, SEARCH[1] if loss.lower < 0 else 1e12)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high) if loss.lower < 0 else np.sqrt((low + 1e-12) * high)
        below = np.asarray(loss.mean(middle)) < expected
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return high
