"""What the tuning-free solver carries from slice to slice: arrays and scalars of fixed size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.layout import Blocks, stack_factors
from onlinegcp.solvers.auto.conjugate import Conjugate
from onlinegcp.solvers.auto.fisher_rows import FisherRows
from onlinegcp.solvers.auto.forgetting import Forgetting
from onlinegcp.solvers.auto.model import Model, Past
from onlinegcp.solvers.auto.quadratic import Square
from onlinegcp.solvers.auto.rank_state import RankTrials

Array = NDArray[Any]

_PASTS: dict[str, type[Past]] = {past.name: past for past in (Conjugate, Square, FisherRows)}
_VECTORS = ("mean_weights", "usage", "last_weights")


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

    def with_factors(self, factors: Blocks) -> AutoState:
        """The same state with other factors, to solve weights with."""
        return replace(self, model=replace(self.model, factors=factors))

    def copy(self) -> AutoState:
        """A state that shares no memory with this one."""
        twin = self.trials.twin
        trials = replace(
            self.trials, twin=None if twin is None else twin.copy(), gains=self.trials.gains.copy()
        )
        ranks = None if self.ranks is None else self.ranks.copy()
        return replace(self, model=self.model.copy(), trials=trials, ranks=ranks)

    def to_dict(self, *, own: bool = True) -> dict[str, Any]:
        """Return the state as a flat mapping of names to arrays and scalars.

        Arrays are copies or, if not `own`, long ones are as they lie there, to be read only.
        """
        trials = self.trials
        flat = _model_to_dict(self.model, own) | {
            "reseed": self.reseed,
            "trial_slot": trials.slot,
            "trial_merge": trials.merge,
            "trial_split": trials.split,
            "trial_gains": trials.gains.copy(),
            "trial_started": trials.started,
            "trial_next": trials.next,
            "trial_failures": trials.failures,
            "split_next": trials.split_next,
            "split_failures": trials.split_failures,
        }
        if trials.twin is not None:
            twin = _model_to_dict(trials.twin, own)
            flat |= {f"trial.{name}": value for name, value in twin.items()}
        if self.ranks is not None:
            flat |= {f"ranks.{name}": value for name, value in self.ranks.to_dict().items()}
            if self.ranks.twin is not None:
                twin = _model_to_dict(self.ranks.twin, own)
                flat |= {f"rank_trial.{name}": value for name, value in twin.items()}
        return flat

    @staticmethod
    def from_dict(flat: Mapping[str, Any]) -> AutoState:
        """Rebuild a state from `to_dict`; the next step is the same to the last bit."""
        twin = _part(flat, "trial")
        trials = Trials(
            twin=_model_from_dict(twin) if twin else None,
            slot=int(flat["trial_slot"]),
            merge=int(flat["trial_merge"]),
            split=bool(flat["trial_split"]),
            gains=np.array(flat["trial_gains"], dtype=np.float64),
            started=int(flat["trial_started"]),
            next=int(flat["trial_next"]),
            failures=int(flat["trial_failures"]),
            split_next=int(flat["split_next"]),
            split_failures=int(flat["split_failures"]),
        )
        ranks, rival = _part(flat, "ranks"), _part(flat, "rank_trial")
        other = _model_from_dict(rival) if rival else None
        return AutoState(
            _model_from_dict(flat),
            trials,
            bool(flat["reseed"]),
            RankTrials.from_dict(ranks, other) if ranks else None,
        )


def _model_to_dict(model: Model, own: bool) -> dict[str, Any]:
    flat: dict[str, Any] = {
        "shape": np.array(model.factors.shape, dtype=np.int64),
        "rank": model.factors.rank,
        "factors": model.factors.data.copy() if own else model.factors.data,
        "kind": model.past.name,
        "unit": model.unit,
        "volume": model.volume,
        "n_slices": model.n_slices,
        "bounded": model.bounded,
    }
    flat |= {name: getattr(model, name).copy() for name in _VECTORS}
    flat |= {f"memory.{name}": value for name, value in model.memory.to_arrays().items()}
    past = model.past.to_arrays(own=own)
    return flat | {f"{model.past.name}.{name}": value for name, value in past.items()}


def _model_from_dict(flat: Mapping[str, Any]) -> Model:
    rank = int(flat["rank"])
    factors = stack_factors([np.zeros((int(n), rank)) for n in np.asarray(flat["shape"])])
    factors.data[...] = flat["factors"]
    past = _PASTS[str(flat["kind"])]
    return Model(
        factors,
        Forgetting.from_arrays(_part(flat, "memory")),
        past.from_arrays(_part(flat, past.name)),
        **{name: np.array(flat[name], dtype=np.float64) for name in _VECTORS},
        bounded=bool(flat["bounded"]),
        unit=float(flat["unit"]),
        volume=float(flat["volume"]),
        n_slices=int(flat["n_slices"]),
    )


def _part(flat: Mapping[str, Any], name: str) -> dict[str, Any]:
    prefix = f"{name}."
    return {key[len(prefix) :]: value for key, value in flat.items() if key.startswith(prefix)}
