"""What the phases of a step are asked, and what they answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Question:
    """What `solve` is asked.

    Attributes
    ----------
    start
        Weights to start from, of any size (width,).
    total
        Sum of the slice, to which they are scaled.
    looked_at, every
        Cells the weights are solved from, and one of how many they are.
    tolerance, max_steps, em_steps
        Of the solve.
    learned
        Whether the forgetting is learned.
    column_sums
        Slopes of the loss's other part in the weights (width,), where they are not the products
        of the factors' column sums; then the start is not scaled, and only weights are found.
    """

    start: Array
    total: float
    looked_at: int
    every: int
    tolerance: float
    max_steps: int
    em_steps: int
    learned: bool
    column_sums: Array | None = None


@dataclass(frozen=True)
class Answer:
    """What `solve` found: weights, their loss over the cells looked at, and the slopes.

    `logs` is the sum of x log m over all cells. Without a learned forgetting the slopes mean
    nothing.
    """

    weights: Array
    column_sums: Array
    objective: float
    steps: int
    optimality: float
    slopes: Array
    bends: Array
    bend: float
    logs: float


@dataclass(frozen=True)
class Learned:
    """What `learn` leaves: the new weights, what the past stood for, and the new sum of x log m.

    `health` is not finite if any number of the new matrices is not.
    """

    weights: Array
    prior: Array
    logs: float
    health: Array
