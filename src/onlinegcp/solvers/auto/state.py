"""How the state of the tuning-free solver is stored: a flat mapping of names to arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from onlinegcp.kernels.layout import stack_factors
from onlinegcp.solvers.auto.conjugate import Conjugate
from onlinegcp.solvers.auto.fisher_rows import FisherRows
from onlinegcp.solvers.auto.model import AutoState, Forgetting, Model, Past, Trials
from onlinegcp.solvers.auto.quadratic import Square
from onlinegcp.solvers.auto.rank_state import RankTrials

_PASTS: dict[str, type[Past]] = {past.name: past for past in (Conjugate, Square, FisherRows)}
_VECTORS = ("mean_weights", "usage", "last_weights")


def to_dict(state: AutoState, *, own: bool = True) -> dict[str, Any]:
    """Return the state as a flat mapping of names to arrays and scalars.

    Arrays are copies or, if not `own`, long ones are as they lie there, to be read only.
    """
    trials = state.trials
    flat = _model_to_dict(state.model, own) | {
        "reseed": state.reseed,
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
    if state.ranks is not None:
        flat |= {f"ranks.{name}": value for name, value in state.ranks.to_dict().items()}
        if state.ranks.twin is not None:
            twin = _model_to_dict(state.ranks.twin, own)
            flat |= {f"rank_trial.{name}": value for name, value in twin.items()}
    return flat


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
