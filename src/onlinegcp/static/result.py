"""What a static solver returns, and what it reports while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onlinegcp.ktensor import KTensor


@dataclass(frozen=True)
class Progress:
    """One line of news from a running solver, passed to its `progress` callable.

    Attributes
    ----------
    iteration
        Outer iterations finished so far, counted from 1.
    objective
        Value of the function being minimised.
    seconds
        Time since the solver started.
    message
        What else is worth saying, such as the fit or the optimality violation.
    """

    iteration: int
    objective: float
    seconds: float
    message: str = ""


ProgressCallable = Callable[[Progress], object]


@dataclass(frozen=True)
class StaticFit:
    """The model a static solver found and how it got there.

    Attributes
    ----------
    ktensor
        The model.
    objective
        Value of the minimised function at the model.
    trace
        Objective after every outer iteration.
    iterations
        Outer iterations made.
    converged
        Whether the stopping rule was met before the iterations ran out.
    message
        Why the solver stopped, as a sentence.
    seconds
        Wall time of the solve.
    fit
        Share of the data explained, 1 - ||x - m|| / ||x|| over the observed cells; None where
        the solver does not measure it.
    kkt
        Largest violation of the optimality conditions; None where the solver does not measure it.
    """

    ktensor: KTensor
    objective: float
    trace: list[float] = field(repr=False)
    iterations: int
    converged: bool
    message: str
    seconds: float
    fit: float | None = None
    kkt: float | None = None
