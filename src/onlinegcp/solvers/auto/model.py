"""What the tuning-free solver carries from slice to slice: arrays and scalars of fixed size.

A state is a model and where the trials of its components stand. A model is factors, short vectors
and a `Past`. Three pasts serve all losses: `conjugate.py` (Poisson, Bernoulli odds, large negative
binomial), `quadratic.py` (Gaussian, complete slices) and `fisher_rows.py` (everything else). None
holds past slices or past weights. `state.py` says how all of it is stored.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.layout import Blocks
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto.cells import Weighted, listed_cells
from onlinegcp.solvers.auto.checkerboard import Checkerboard
from onlinegcp.solvers.auto.held_out import Parts, by_cells
from onlinegcp.solvers.auto.newton import Solution
from onlinegcp.sums.verbs import copied, copy_rows

if TYPE_CHECKING:
    from onlinegcp.solvers.auto.rank_state import RankTrials

Array = NDArray[Any]
T = TypeVar("T")

# Gains of a trial are squared and added up.
LARGEST_GAIN = 1e150


@dataclass(frozen=True)
class Step:
    """What one slice did.

    Attributes
    ----------
    weights
        Weights of the slice for the updated factors (R,); padded while the step goes on.
    prequential, local
        Loss over every observed cell before and after the slice was learned.
    newton_steps
        Newton steps of the solve before the update.
    forget
        Forgetting factor of every component in this step (R,); padded while the step goes on.
    informative
        False for a slice that says nothing about the factors.
    births, deaths, merges
        Components replaced, given up or joined in this step.
    order
        For every component its place before the step, -1 for a new one; None where none moved.
    held_out
        Loss of the slice before it was learned, every part predicted from the others; None
        where nobody asked.
    """

    weights: Array
    prequential: float
    local: float
    newton_steps: int
    forget: Array
    informative: bool = True
    births: int = 0
    deaths: int = 0
    merges: int = 0
    order: tuple[int, ...] | None = None
    held_out: float | None = None


def silent(width: int) -> Step:
    """What a slice without a word about the factors does."""
    return Step(np.zeros(width), 0.0, 0.0, 0, np.zeros(width), informative=False)


def altered(record: T, **changes: Any) -> T:
    """A record with some fields changed: `dataclasses.replace` in a fifth of its time.

    For records that check nothing when they are made.
    """
    new = object.__new__(type(record))
    vars(new).update(vars(record))
    vars(new).update(changes)
    return new


class Stored:
    """What a dataclass of arrays and floats gets by deriving from this."""

    def copy(self) -> Self:
        """The same numbers in new memory."""
        return type(self)(**{name: _own(value) for name, value in vars(self).items()})

    def to_arrays(self, *, own: bool = True) -> dict[str, Any]:
        """Everything by name, in memory of its own or, to be read only, as it lies there."""
        # What copies in its own way, as from a card, has no arrays to be read before.
        copied = own or type(self).copy is not Stored.copy
        return dict(vars(self.copy() if copied else self))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Self:
        """What `to_arrays` gave; scalars may come back from a file as 0-d arrays."""
        return cls(
            **{
                name: np.array(value, dtype=np.float64) if np.ndim(value) else float(value)
                for name, value in arrays.items()
            }
        )


class Past(Stored, abc.ABC):
    """What stands for the slices a model has learned: a record of arrays and floats.

    Methods that get the model change it, and themselves, in place: a step works on a copy.
    """

    name: ClassVar[str]  # in files

    @classmethod
    @abc.abstractmethod
    def start(cls, factors: Blocks, *, bounded: bool) -> Self:
        """The past before the first slice."""

    def suited(self, model: Model, x: Slice) -> Past:
        """The past in a form that can take this slice: itself, or another."""
        return self

    @abc.abstractmethod
    def absorb(
        self, model: Model, x: Slice, loss: Loss, weights: Array, cap: float, seed: int
    ) -> None:
        """Take in a slice of the warm start at the factors as they are."""

    def settle(self, model: Model, rows: Array, slices: Sequence[Slice]) -> None:
        """End the warm start, whose weights were `rows`."""

    @abc.abstractmethod
    def step(self, model: Model, x: Slice, loss: Loss, cap: float, seed: int) -> Step:
        """Score a slice, then learn it; `cap` is the schedule's forgetting factor."""

    @abc.abstractmethod
    def solve(self, model: Model, x: Slice, loss: Loss, *, tolerance: float, seed: int) -> Solution:
        """Solve for the weights of a slice; changes nothing."""

    @abc.abstractmethod
    def grow(self, model: Model, longer: Callable[[Array], Array]) -> Past:
        """The past with as many rows as the factors will have; `longer` puts zeros in."""

    def tidy(self, model: Model) -> None:
        """Bring factors that were changed from outside back to what the past expects of them."""

    def sizes(self, columns: Array) -> Array:
        """Sizes of columns, by the measure in which those of the factors have size one."""
        return np.asarray(np.sqrt((columns**2).sum(axis=0)))

    @abc.abstractmethod
    def merge(self, model: Model, kept: int, given: int) -> None:
        """Join two components, as if the past weights had been the sum of both."""

    @abc.abstractmethod
    def clear(self, slot: int, weight: float) -> None:
        """Forget all of a component but one slice in which it had this weight."""

    @abc.abstractmethod
    def seed(
        self, model: Model, x: Slice, loss: Loss, weights: Array, seed: int
    ) -> tuple[list[Array], float] | None:
        """One component fitted to what the others leave of a slice: columns and weight."""

    def cells(self, model: Model, x: Slice, seed: int) -> Weighted:
        """The cells of a slice in which a misfit shows."""
        return listed_cells(x)

    def predict_parts(
        self, model: Model, x: Slice, loss: Loss, board: Checkerboard, seed: int
    ) -> Parts:
        """Predict every part of a slice from the others; changes nothing."""
        return by_cells(model, x, loss, board, seed)

    @property
    def noise(self) -> float:
        """Squared slopes of the loss over its curvature, 1 for counts and odds."""
        return 1.0

    def importance(self, usage: float, norm: float) -> float:
        """What a component with these usual weights and a pattern of this norm stands for."""
        return (usage * norm) ** 2

    def fold(self, given: int, shares: Array) -> None:
        """Let the others have had shares of a component's past weights, as far as that is known."""

    @abc.abstractmethod
    def take(self, order: Sequence[int]) -> Past:
        """The past of some components, in this order; -1 stands for one without a past."""

    @abc.abstractmethod
    def split(self, parent: int, slot: int, kept: float, given: float) -> None:
        """Let two halves have had these shares of every past weight."""


@dataclass
class Forgetting(Stored):
    """State of the forgetting.

    Attributes
    ----------
    fixed
        Forgetting factor per slice; None when it is learned.
    memory
        eta, the common log-memory.
    own
        Correction of eta per component (width,).
    bend, bends
        Running curvature of the loss in eta and in every correction.
    lift
        d log(rate) / d eta per component (width,).
    """

    fixed: float | None
    memory: float
    own: Array
    bend: float
    bends: Array
    lift: Array

    @property
    def learned(self) -> bool:
        """Whether the forgetting adapts to the stream."""
        return self.fixed is None

    def to_arrays(self, *, own: bool = True) -> dict[str, Any]:
        """Everything by name; files say NaN for a forgetting that is learned."""
        return super().to_arrays(own=own) | {"fixed": np.nan if self.fixed is None else self.fixed}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Self:
        """What `to_arrays` gave."""
        state = super().from_arrays(arrays)
        if np.isnan(float(arrays["fixed"])):
            state.fixed = None
        return state


@dataclass
class Model:
    """A model of the stream so far.

    Attributes
    ----------
    factors
        The factors; every column has size one, by the past's `sizes`.
    memory
        The forgetting.
    past
        What stands for the slices learned.
    mean_weights, usage, last_weights
        Running means of the weights and of their size, and the latest weights (width,).
    bounded
        Whether factors and weights are kept at or above zero.
    unit
        Size of one event in the data's units.
    volume
        Usual squared norm per observed cell, against which loud slices are tempered.
    n_slices
        Slices learned, warm start included.
    """

    factors: Blocks
    memory: Forgetting
    past: Past
    mean_weights: Array
    usage: Array
    last_weights: Array
    bounded: bool
    unit: float = 1.0
    volume: float = 0.0
    n_slices: int = 0

    def copy(self) -> Model:
        """A model that shares no memory with this one."""
        factors = self.factors.zeros_like()
        copy_rows(self.factors.data, factors.data)
        return replace(
            self,
            factors=factors,
            memory=self.memory.copy(),
            past=self.past.copy(),
            mean_weights=self.mean_weights.copy(),
            usage=self.usage.copy(),
            last_weights=self.last_weights.copy(),
        )


def told_by(gain: float) -> Array:
    """Number, sum and sum of squares that one gain adds to those of a trial.

    One that is no number tells nothing, and no square may overflow: a trial must not stop the
    model that is in use.
    """
    gain = 0.0 if math.isnan(gain) else min(max(gain, -LARGEST_GAIN), LARGEST_GAIN)
    return np.array([1.0, gain, gain * gain])


def mean_told(gains: Array) -> tuple[float, float]:
    """The mean of the gains that were told, and its standard error."""
    count, total, squares = gains[:3]
    mean = total / max(count, 1.0)
    spread = max(squares / max(count, 1.0) - mean * mean, 0.0)
    return float(mean), math.sqrt(spread / max(count - 1.0, 1.0))


@dataclass
class Trials:
    """Where the replacing of components stands.

    Attributes
    ----------
    twin
        A second model with one component replaced, while it is on trial.
    slot, merge, split
        The component it replaced, the one that was merged with (-1: none), and whether the free
        slot got half of another component.
    gains
        Number, sum and sum of squares of its prequential gains.
    started, next, failures
        When the trial began, when the next may begin, and failures in a row.
    split_next, split_failures
        The same for trials that split a component.
    """

    twin: Model | None = None
    slot: int = -1
    merge: int = -1
    split: bool = False
    gains: Array = field(default_factory=lambda: np.zeros(3))
    started: int = 0
    next: int = 0
    failures: int = 0
    split_next: int = 0
    split_failures: int = 0

    def end(self) -> None:
        """Give up the trial that is running, if any."""
        self.twin, self.slot, self.merge, self.split = None, -1, -1, False
        self.gains = np.zeros(3)


@dataclass
class AutoState:
    """State of the solver: the model, and the trials of its components.

    Attributes
    ----------
    model
        The model.
    trials
        The trials.
    reseed
        Whether components may be replaced on trial.
    ranks
        The trials of more and of fewer components; None where the rank is fixed.
    """

    model: Model
    trials: Trials
    reseed: bool = True
    ranks: RankTrials | None = None

    @property
    def factors(self) -> Blocks:
        """The model's factors."""
        return self.model.factors

    def copy(self) -> AutoState:
        """A state that shares no memory with this one."""
        twin = self.trials.twin
        trials = replace(
            self.trials, twin=None if twin is None else twin.copy(), gains=self.trials.gains.copy()
        )
        ranks = None if self.ranks is None else self.ranks.copy()
        return replace(self, model=self.model.copy(), trials=trials, ranks=ranks)


def _own(value: Any) -> Any:
    return copied(value) if isinstance(value, np.ndarray) else value
