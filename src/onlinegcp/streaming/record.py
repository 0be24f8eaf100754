"""What one learned slice did, in numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class StepRecord:
    """The account of one slice.

    Losses are sums over every observed cell, not divided by anything; divide by the slice's
    `norm_squared` for the paper's normalised loss.

    Attributes
    ----------
    number
        Slice number, counted from 1, warm start included.
    time
        Time the slice carries, if any.
    nnz, n_observed
        Nonzero and observed cells of the slice.
    norm_squared
        Sum of its squared values.
    prequential
        Loss with weights fitted to the slice but factors from before it was learned: the honest
        measure of how well the past explains the present.
    local
        Loss after learning the slice (rewards overfitting it).
    exact
        Whether the two losses count every cell; False: estimated from a sample, because the slice
        has too many cells for a loss without closed form.
    objective
        Sampled objective the factor solver ended at, history and penalties included; None for
        methods without one.
    weight_epochs, factor_epochs, weight_failures, factor_failures
        Epochs tried and epochs undone by the stochastic solvers; 0 where there are none.
    newton_steps
        Newton steps of the weight solve; 0 for methods without one.
    forget
        Share of the past kept in this step, mean over components; None for methods that do not
        learn it.
    births, deaths, merges
        Components replaced, given up and joined in this step.
    rank
        Components after the slice was learned; None for methods that do not say.
    order
        Where a rank of "auto" changed: for every component its place before the slice, -1 for a
        new one. None where every component is where it was.
    regime
        "changed" if a new model took over in this step because many patterns changed at once,
        "returned" if one that had been replaced came back, "" else. Births and deaths then count
        the patterns in which the two differ.
    regime_since
        Number of the slice with which that regime began, some slices before it was certain; None
        where `regime` is "".
    seconds
        Wall time by part: "weights", "factors", "history", "scoring"; the default solver and those
        that learn several slices in one call score while they solve and have one part, "solver",
        the latter the mean over such a call.
    """

    number: int
    time: Any
    nnz: int
    n_observed: int
    norm_squared: float
    prequential: float
    local: float
    exact: bool = True
    objective: float | None = None
    weight_epochs: int = 0
    factor_epochs: int = 0
    weight_failures: int = 0
    factor_failures: int = 0
    newton_steps: int = 0
    forget: float | None = None
    births: int = 0
    deaths: int = 0
    merges: int = 0
    rank: int | None = None
    order: tuple[int, ...] | None = None
    regime: str = ""
    regime_since: int | None = None
    seconds: dict[str, float] = field(default_factory=dict)
