"""Checks of what a method learns, which need parameters that suit the stream."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.base import clone

from onlinegcp.solvers.objective import slice_loss
from onlinegcp.testing.planted import PlantedStream
from onlinegcp.testing.subject import fitted_to, loss_of, stream_for

# Slices of the checks that ask what was learned: a few dozen yes-or-no cells would tell nothing.
INFORMATIVE = (29, 23)


def stationary_stream_is_recovered(model: Any) -> None:
    """On a planted stream the model ends close to what the truth itself achieves."""
    stream = stream_for(model, 60, shape=INFORMATIVE)
    fitted = fitted_to(model, stream.slices)
    explained = _explained(fitted, stream, range(45, 60))
    assert explained > 0.85, f"only {explained:.0%} of the planted pattern was recovered"


def error_falls_again_after_a_change(model: Any) -> None:
    """After the factors change for good, later slices are explained better than the first ones."""
    loss = loss_of(model)
    stream = stream_for(model, 90, shape=INFORMATIVE, change_at=30)
    fitted = clone(model)
    excess = []
    for t, x in enumerate(stream.slices):
        if fitted.__sklearn_is_fitted__() and t >= 30:
            weights = fitted.transform(x)
            truth = slice_loss(x, stream.factors[t], stream.rows[t], loss)
            excess.append(slice_loss(x, fitted.factors_, weights, loss) - truth)
        fitted.partial_fit(x)
    first, last = float(np.mean(excess[:4])), float(np.mean(excess[-10:]))
    assert last < 0.8 * first, (
        f"excess loss was {first:.3g} just after the change and is still {last:.3g} at the end"
    )


def _explained(model: Any, stream: PlantedStream, times: Iterable[int]) -> float:
    """Share of the loss between the best constant model and the truth that the model wins."""
    loss = loss_of(model)
    parts = []
    for t in times:
        x = stream.slices[t]
        achieved = slice_loss(x, model.factors_, model.transform(x), loss)
        truth = slice_loss(x, stream.factors[t], stream.rows[t], loss)
        grid = np.linspace(0.02, 1.0, 60) * np.max(np.abs(stream.rows[t]))
        levels = np.concatenate([grid, -grid]) if loss.lower < 0 else grid
        constant = min(float(np.sum(loss.value(x.value, np.full(x.n_listed, m)))) for m in levels)
        parts.append((constant - achieved) / (constant - truth))
    return float(np.mean(parts))
