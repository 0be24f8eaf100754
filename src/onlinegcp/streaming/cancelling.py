"""Patterns that cancel: almost the same one twice, huge, with opposite signs.

Signed models of squared losses may have no best fit, only ever larger pairs that come closer and
closer. The default solver holds them back (`solvers.auto.fisher_weights.restraint`); here they are
noticed and told, because such patterns mean little one by one.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from onlinegcp.errors import CancellingWarning
from onlinegcp.streaming.state import ModelState

if TYPE_CHECKING:
    from onlinegcp.streaming.model import StreamingModel

OPPOSITE = -0.95  # congruence, with the signs of the weights
TIMES = 3.0  # the size of the whole slice that each of the two exceeds


def cancelling_pair(state: ModelState) -> tuple[int, int] | None:
    """Two components that cancel in the newest slice; None if there are none."""
    lengths = [np.sqrt((a * a).sum(axis=0)) for a in state.factors]
    alike = np.ones((len(state.weights), len(state.weights)))
    for a, length in zip(state.factors, lengths, strict=True):
        unit = a / np.where(length > 0.0, length, 1.0)
        alike *= unit.T @ unit
    sizes = state.weights * np.prod(lengths, axis=0)
    whole = float(sizes @ alike @ sizes)  # the squared norm of the model's slice
    large = np.abs(sizes) > TIMES * np.sqrt(max(whole, 0.0))
    signs = np.sign(sizes)
    opposed = np.where(np.outer(large, large), alike * np.outer(signs, signs), 0.0)
    r, s = (int(k) for k in np.unravel_index(int(opposed.argmin()), opposed.shape))
    return (min(r, s), max(r, s)) if opposed[r, s] < OPPOSITE else None


def tell_cancelling(model: StreamingModel, state: ModelState) -> None:
    """Say that two components cancel: after the warm start, and when the stream has doubled.

    Told once for each model in memory.
    """
    if model._get_lower() > -np.inf or model.n_slices_ & (model.n_slices_ - 1):
        return
    pair = None if "_told_cancelling" in vars(model) else cancelling_pair(state)
    if pair is None:
        return
    model.__dict__["_told_cancelling"] = True
    warnings.warn(
        f"components {pair[0] + 1} and {pair[1] + 1} are almost the same pattern with opposite "
        f"signs, each more than {TIMES:.0f} times the size of the slices: they cancel and mean "
        f"little one by one. Use a smaller rank, or lower=0 where data are not negative.",
        CancellingWarning,
        stacklevel=7,
    )
