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


@dataclass(frozen=True)
class Form:
    """The loss v h(m) - x log m of a slice, and how its sums are made.

    Attributes
    ----------
    linear, base, slope
        See `losses.traits.OddsForm`.
    full
        Whether every cell is observed; else sums run over the listed cells.
    sampled
        Whether sums over every cell are made from drawn cells.
    largest
        The largest v there is.
    key
        Of the draws.
    draws
        Cells drawn per component for sums, and for the rates of every mode.
    row_draws
        Per mode: the same, and whether each draw informs its own row only.
    """

    linear: bool
    base: float
    slope: float
    full: bool
    sampled: bool
    largest: float
    key: int
    draws: int
    row_draws: tuple[tuple[int, bool], ...]

    @property
    def shape(self) -> tuple[Any, ...]:
        """What a recording depends on."""
        kind = (self.linear, self.base, self.slope, self.full, self.sampled)
        return (*kind, self.draws, self.row_draws)


@dataclass(frozen=True)
class Evaluation:
    """Sum of v h(m) and its slope, and sum of x log m."""

    value: float
    push: Array
    logs: float
