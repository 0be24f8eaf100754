"""Descent steps: SGD, Adam, AdaGrad, AMSGrad, with epochs that can be accepted or taken back.

The update formulas are in `onlinegcp.kernels.sgd.reference.take_step` (NumPy) and in the compiled
kernels; here are their parameters and what must be remembered between epochs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.errors import DataError
from onlinegcp.kernels.layout import Blocks
from onlinegcp.kernels.sgd.plan import ADAGRAD, ADAM, AMSGRAD, SGD, Moments, Problem
from onlinegcp.kernels.sgd.reference import step_problem

KINDS = {"sgd": SGD, "adam": ADAM, "adagrad": ADAGRAD, "amsgrad": AMSGRAD}

# A failed epoch multiplies the rate by this (errata row 5).
DECREASE = 0.1


@dataclass(frozen=True)
class Step:
    """A step method and its parameters.

    Parameters
    ----------
    name
        "sgd", "adam", "adagrad" or "amsgrad".
    rate
        Learning rate, > 0. Adam moves an entry by at most about this much per step.
    beta_1, beta_2
        How much of the first and second moment is kept per step, in [0, 1) (Adam, AMSGrad).
    epsilon
        Added to the root of the second moment, > 0.

    Examples
    --------
    >>> Step("adam", rate=0.01).kind
    1
    """

    name: str = "adam"
    rate: float = 1e-3
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        if self.name not in KINDS:
            raise DataError(
                f"A step must be one of {', '.join(KINDS)}, got {self.name!r}; choose one of those."
            )
        for name, low, high in (
            ("rate", 0.0, math.inf),
            ("epsilon", 0.0, math.inf),
            ("beta_1", -0.0, 1.0),
            ("beta_2", -0.0, 1.0),
        ):
            number = getattr(self, name)
            inside = isinstance(number, int | float | np.number) and low <= number < high
            if not inside or (number == 0.0 and name in ("rate", "epsilon")):
                bound = "a number > 0" if high == math.inf else "in [0, 1)"
                raise DataError(f"{name} must be {bound}, got {number!r}; change it.")

    @property
    def kind(self) -> int:
        """The kernels' code of the method."""
        return KINDS[self.name]

    @property
    def parameters(self) -> tuple[float, float, float]:
        """beta_1, beta_2, epsilon as the kernels take them."""
        return float(self.beta_1), float(self.beta_2), float(self.epsilon)


def get_step(step: str | Step, rate: float | None = None) -> Step:
    """Turn an option into a step method.

    Parameters
    ----------
    step
        A `Step` or the name of one.
    rate
        Learning rate that replaces the method's own, or None.
    """
    if not isinstance(step, Step):
        if not isinstance(step, str):
            raise DataError(
                f"A step must be a Step or one of {', '.join(KINDS)}, got {step!r}; pass a name."
            )
        step = Step(step)
    return step if rate is None else replace(step, rate=rate)


class Descent:
    """The moving part of one solve: unknowns, moments, rate, and the state to go back to.

    The first snapshot is taken at once (errata row 4), so that a failing first epoch gives back
    what came in; the rate starts anew with every solve (errata row 5).

    Parameters
    ----------
    method
        The step method.
    problem
        The problem whose blocks and weights move, in place.
    moments
        Moments to go on from, changed in place; fresh ones by default.
    """

    def __init__(self, method: Step, problem: Problem, moments: Moments | None = None) -> None:
        self.method = method
        self.problem = problem
        if moments is None:
            moments = Moments.zeros(
                problem.blocks,
                method.kind,
                factors=bool(problem.modes),
                weights=problem.update_weights,
            )
        self.moments = moments
        self.rate = float(method.rate)
        self.accept()

    def step(self, gradient: Blocks, weights_gradient: NDArray[Any]) -> None:
        """Move every updated block one step (the kernels' epochs do the same by themselves)."""
        method = self.method
        step_problem(
            self.problem,
            self.moments,
            gradient,
            weights_gradient,
            method.kind,
            self.rate,
            method.parameters,
        )

    def accept(self) -> None:
        """Make the present state the one to go back to."""
        self._blocks = self.problem.blocks.data.copy() if self.problem.modes else None
        self._weights = self.problem.weights.copy()
        self._moments = self.moments.copy()

    def reject(self) -> None:
        """Go back to the last accepted state and lower the rate."""
        if self._blocks is not None:
            self.problem.blocks.data[...] = self._blocks
        self.problem.weights[...] = self._weights
        for name in ("u", "v", "largest", "weights_u", "weights_v", "weights_largest"):
            getattr(self.moments, name)[...] = getattr(self._moments, name)
        self.moments.taken = self._moments.taken
        self.rate *= DECREASE
