"""What the phases of a step are asked, and what they answer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from numpy.typing import NDArray

from onlinegcp.kernels.cuda.slice_cells import SliceCells

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
    """What `solve` found: weights, and their loss over the cells looked at.

    `logs` is the sum of x log m over all cells, `optimality` how far the conditions of an optimum
    are violated, relative to the largest weight.
    """

    weights: Array
    column_sums: Array
    objective: float
    steps: int
    optimality: float
    logs: float


@dataclass(frozen=True)
class Learned:
    """What a step leaves.

    Attributes
    ----------
    weights
        Of the new factors (width,).
    prior, counts
        Counts of the past and of the slice per component (width,).
    local
        Loss of the slice afterwards.
    health
        Not finite if any number of the new matrices is not.
    kept
        The forgetting.
    """

    weights: Array
    prior: Array
    counts: Array
    local: float
    health: Array
    kept: Recalled


class Rules(NamedTuple):
    """How a memory is learned; see `solvers.auto.forgetting`, whose names these are.

    `reach` is the longest memory that the schedule allows.
    """

    window: float
    common_step: float
    shortest: float
    reach: float
    down_step: float
    up_step: float
    back: float
    own_low: float
    own_high: float
    longest: float


class Recalled(NamedTuple):
    """What is known of the forgetting, before a slice or after it.

    Attributes
    ----------
    lam, lift
        Forgetting factor of every component, and d log(lam * rate) / d eta (width,); before a slice
        by which they are learned, `lam` means nothing and `lift` is that of the rate alone.
    own, bends, memory, bend
        See `solvers.auto.forgetting.Forgetting`.
    """

    lam: Array
    lift: Array
    own: Array
    bends: Array
    memory: float
    bend: float


@dataclass(frozen=True)
class Lesson:
    """How a slice is learned.

    Attributes
    ----------
    kept
        The forgetting before it.
    cap, rules
        The schedule's factor, and how the memory is learned; None where it is not.
    mass
        Counts of every component, forgotten, without the slice (width,).
    events, share
        The floor: so many events over the component's counts, and this share of a uniform
        column at most.
    sweeps
        How often all modes are moved.
    """

    kept: Recalled
    cap: float
    rules: Rules | None
    mass: Array
    events: float
    share: float
    sweeps: int

    @property
    def learned(self) -> bool:
        """Whether the forgetting is learned."""
        return self.rules is not None


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

    @cached_property
    def shape(self) -> tuple[Any, ...]:
        """What a recording depends on."""
        kind = (self.linear, self.base, self.slope, self.full, self.sampled)
        return (*kind, self.draws, self.row_draws)


class Content(NamedTuple):
    """What a slice consists of: its nonzeros, all listed cells where some are missing, the loss."""

    cells: SliceCells
    seen: SliceCells
    form: Form


@dataclass(frozen=True)
class Evaluation:
    """Sum of v h(m) and its slope, and sum of x log m."""

    value: float
    push: Array
    logs: float
