"""Descent steps: SGD, Adam, AdaGrad, AMSGrad, with epochs that can be accepted or taken back.

The update formulas are in `onlinegcp.kernels.sgd.reference.take_step` (NumPy) and in the compiled
kernels; here are their parameters and what must be remembered between epochs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

from numpy.typing import NDArray

from onlinegcp.checks import check_choice, check_number
from onlinegcp.errors import DataError
from onlinegcp.kernels.sgd.plan import ADAGRAD, ADAM, AMSGRAD, SGD, Moments, Problem

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
        check_choice("step", self.name, KINDS)
        for name in ("rate", "epsilon"):
            check_number(name, getattr(self, name), "(0, inf)")
        for name in ("beta_1", "beta_2"):
            check_number(name, getattr(self, name), "[0, 1)")

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


class Keeper(Protocol):
    """Who holds the unknowns and moments of a solve, and can go back to an earlier state."""

    def start(self, moments: Moments) -> None:
        """Take unknowns and moments as they are."""

    def keep(self) -> None:
        """Make the present state the one to go back to."""

    def go_back(self) -> None:
        """Go back to the state that was kept last."""

    def finish(self) -> None:
        """Leave unknowns and moments in the arrays they came from."""


class HostKeeper:
    """Copies in memory, of unknowns that the kernels change in place."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._now: Moments
        self._moments: Moments
        self._blocks: NDArray[Any] | None = None

    def start(self, moments: Moments) -> None:
        """Take unknowns and moments as they are."""
        self._now = moments
        self.keep()

    def keep(self) -> None:
        """Make the present state the one to go back to."""
        self._blocks = self._problem.blocks.data.copy() if self._problem.modes else None
        self._weights = self._problem.weights.copy()
        self._moments = self._now.copy()

    def go_back(self) -> None:
        """Go back to the state that was kept last."""
        if self._blocks is not None:
            self._problem.blocks.data[...] = self._blocks
        self._problem.weights[...] = self._weights
        for name in ("u", "v", "largest", "weights_u", "weights_v", "weights_largest"):
            getattr(self._now, name)[...] = getattr(self._moments, name)

    def finish(self) -> None:
        """Everything is where it came from."""


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
    keeper
        Who holds what moves; by default it lies in the problem's own arrays.
    """

    def __init__(
        self,
        method: Step,
        problem: Problem,
        moments: Moments | None = None,
        keeper: Keeper | None = None,
    ) -> None:
        if moments is None:
            moments = Moments.zeros(
                problem.blocks,
                method.kind,
                factors=bool(problem.modes),
                weights=problem.update_weights,
            )
        self.moments = moments
        self.rate = float(method.rate)
        self._keeper = HostKeeper(problem) if keeper is None else keeper
        self._keeper.start(moments)
        self._taken = moments.taken

    def accept(self) -> None:
        """Make the present state the one to go back to."""
        self._keeper.keep()
        self._taken = self.moments.taken

    def reject(self) -> None:
        """Go back to the last accepted state and lower the rate."""
        self._keeper.go_back()
        self.moments.taken = self._taken
        self.rate *= DECREASE

    def finish(self) -> None:
        """Leave everything in the arrays it came from."""
        self._keeper.finish()
