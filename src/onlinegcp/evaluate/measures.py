"""How good a model is: local and global loss over every cell, and agreement with a known truth.

Losses are exact sums over all observed cells, divided by the squared norm of the slice as in
the paper's equation for F_local; a slice without anything in it has no such norm and reports the
plain loss (errata row 21).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from onlinegcp.errors import DataError
from onlinegcp.kernels.exact import exact_objective
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import Loss, get_loss
from onlinegcp.slices import Slice, as_slice

if TYPE_CHECKING:
    from collections.abc import Iterable

FloatArray = npt.NDArray[np.float64]


def local_loss(
    x: object, weights: npt.ArrayLike, factors: Sequence[npt.ArrayLike], loss: str | Loss
) -> float:
    """Return the loss of one slice under a model, over the slice's squared norm.

    Parameters
    ----------
    x
        The slice, or anything `as_slice` takes; missing cells do not count.
    weights
        The slice's R component weights.
    factors
        One (I_k, R) matrix per mode, as of the time the loss is wanted for.
    loss
        Name of a loss, or a loss.

    Examples
    --------
    >>> round(local_loss(np.array([3.0, 4.0]), [1.0], [[[3.0], [3.0]]], "gaussian"), 3)
    0.04
    """
    tensor = as_slice(x)
    model = KTensor(weights, factors)
    _check_shape(tensor, model)
    return _normalised(tensor, model, get_loss(loss))


def slice_losses(
    slices: Iterable[object],
    weights: npt.ArrayLike,
    factors: Sequence[npt.ArrayLike],
    loss: str | Loss,
) -> FloatArray:
    """Return the normalised loss of every slice under one set of factors.

    Parameters
    ----------
    slices
        The T slices; read once, in order, so that a generator will do.
    weights
        The (T, R) component weights, one row per slice.
    factors
        One (I_k, R) matrix per mode; the final ones for the paper's global loss.
    loss
        Name of a loss, or a loss.
    """
    rows = np.asarray(weights, dtype=np.float64)
    if rows.ndim != 2:
        raise DataError(
            f"weights must have one row per slice and one column per component, but has shape "
            f"{rows.shape}. Stack the weight vectors of the slices."
        )
    resolved = get_loss(loss)
    losses = []
    for t, x in enumerate(slices):
        if t == rows.shape[0]:
            raise DataError(
                f"weights must have one row per slice, but has {rows.shape[0]} rows for more "
                f"slices. Pass the weights of every slice."
            )
        tensor = as_slice(x)
        model = KTensor(rows[t], factors)
        _check_shape(tensor, model)
        losses.append(_normalised(tensor, model, resolved))
    if len(losses) != rows.shape[0]:
        raise DataError(
            f"weights must have one row per slice, but has {rows.shape[0]} rows for "
            f"{len(losses)} slices. Pass the weights of these slices only."
        )
    return np.array(losses, dtype=np.float64)


def global_loss(
    slices: Iterable[object],
    weights: npt.ArrayLike,
    factors: Sequence[npt.ArrayLike],
    loss: str | Loss,
) -> float:
    """Return the mean over slices of `slice_losses`, 0 when there are none.

    Parameters
    ----------
    slices, weights, factors, loss
        As for `slice_losses`, with the final factors.
    """
    losses = slice_losses(slices, weights, factors, loss)
    return float(losses.mean()) if losses.size else 0.0


def factor_match(factors: Sequence[npt.ArrayLike], reference: Sequence[npt.ArrayLike]) -> float:
    """Return how well factors agree with the true ones: 1 for a perfect match, 0 for none.

    Mean over the true components of the product of cosines with the component matched to it,
    under the best one-to-one matching. Scales and signs do not matter.

    Parameters
    ----------
    factors
        One (I_k, R) matrix per mode.
    reference
        The true matrices, of the same lengths; their rank may differ.

    Examples
    --------
    >>> truth = [np.eye(3), np.eye(3)[:, [1, 2, 0]]]
    >>> factor_match([-2 * a[:, ::-1] for a in truth], truth)
    1.0
    """
    match = KTensor(None, factors).score(KTensor(None, reference), weight_penalty=False)
    return match.score


def _normalised(x: Slice, model: KTensor, loss: Loss) -> float:
    total = exact_objective(x, model.factors, model.weights, loss)
    return total / x.norm_squared if x.norm_squared > 0.0 else total


def _check_shape(x: Slice, model: KTensor) -> None:
    if x.shape != model.shape:
        raise DataError(
            f"factors must have as many rows as the slice's modes are long, {x.shape}, but have "
            f"{model.shape}. Pass the factors of this stream."
        )
