"""How far a run has come, as its caller is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Progress:
    """How far a run has come; handed to the caller after every slice.

    Attributes
    ----------
    time
        Time of the slice.
    n_slices
        Slices of this stream learned since `learn` was called.
    n_events
        Events in them, where the stream counts them, else the sum of their values.
    step
        The slice's line; None while the warm start collects slices.
    """

    time: Any
    n_slices: int
    n_events: float
    step: Mapping[str, Any] | None
