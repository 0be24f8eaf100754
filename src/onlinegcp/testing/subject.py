"""The model under test: its loss, a stream that suits it, a copy that has learned one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sklearn.base import clone

from onlinegcp.losses import Loss, get_loss
from onlinegcp.testing.planted import PlantedStream, planted_stream


def loss_of(model: Any) -> Loss:
    """What the model minimises."""
    return get_loss(getattr(model, "loss", "gaussian"))


def stream_for(model: Any, n_slices: int, **options: Any) -> PlantedStream:
    """A stream with as many patterns as it has components, and data that its loss takes."""
    bound = getattr(model, "lower", None)
    options = {"nonnegative": bound is not None and bound >= 0.0, **options}
    rank = 2 if model.rank == "auto" else model.rank
    return planted_stream(loss_of(model), rank=rank, n_slices=n_slices, **options)


def fitted_to(model: Any, slices: Iterable[Any]) -> Any:
    """A copy of the model that has learned these slices, one by one."""
    fitted = clone(model)
    for x in slices:
        fitted.partial_fit(x)
    return fitted
