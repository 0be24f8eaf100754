"""Births, deaths and merges of components, each accepted only if it predicts better."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from onlinegcp.losses import Loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto_state import AutoState

Array = NDArray[Any]


@dataclass(frozen=True)
class Outcome:
    """What one step of one model gave, with padded weights."""

    weights: Array
    prequential: float
    local: float
    newton_steps: int
    forget: Array
    informative: bool = True


def supervise(
    state: AutoState,
    x: Slice,
    loss: Loss,
    outcome: Outcome,
    step_twin: Callable[[AutoState], Outcome],
) -> tuple[int, int, int]:
    return 0, 0, 0


def drop_trial(state: AutoState) -> None:
    state.trial = None
