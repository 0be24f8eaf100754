"""Scores a slice before and after it is learned, and writes the step's record."""

from __future__ import annotations

import time as clock
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.losses import Loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.objective import is_affordable, slice_loss
from onlinegcp.streaming.record import StepRecord


class Stopwatch:
    """Wall time by part of a step."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._since = clock.perf_counter()

    def lap(self, part: str) -> None:
        """Book the time since the last lap under `part`."""
        now = clock.perf_counter()
        self.seconds[part] = self.seconds.get(part, 0.0) + now - self._since
        self._since = now


class Account(Stopwatch):
    """What a step tells of itself while it is made: its number, times, fields of its record."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.details: dict[str, Any] = {}


def write_record(
    x: Slice,
    number: int,
    loss: Loss,
    *,
    before: tuple[Sequence[NDArray[np.float64]], NDArray[np.float64]],
    after: tuple[Sequence[NDArray[np.float64]], NDArray[np.float64]],
    watch: Stopwatch,
    seed: int,
    **details: Any,
) -> StepRecord:
    """The account of slice `number`.

    Parameters
    ----------
    x, number, loss
        The slice, its number and the loss.
    before, after
        (factors, weights) with the factors from before and after learning the slice.
    watch
        Times of the other parts; scoring is added here.
    seed
        For slices so large that their loss is estimated.
    details
        Further fields of the record.
    """
    watch.lap("rest")
    prequential = slice_loss(x, *before, loss, seed=seed)
    local = slice_loss(x, *after, loss, seed=seed)
    watch.lap("scoring")
    return StepRecord(
        number=number,
        time=x.time,
        nnz=x.nnz,
        n_observed=x.n_observed,
        norm_squared=x.norm_squared,
        prequential=prequential,
        local=local,
        exact=is_affordable(x, loss),
        seconds=watch.seconds,
        **details,
    )


def running_mean(mean: NDArray[np.float64], new: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of past weights after one more (nine parts old, one new)."""
    return np.asarray(0.9 * mean + 0.1 * new)
