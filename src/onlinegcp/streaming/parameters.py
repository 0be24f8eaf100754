"""Parameters of a model as JSON and back: the one codec of saved models and run directories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.errors import DataError
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import Loss, from_dict
from onlinegcp.solvers.sgd.steps import Step
from onlinegcp.storage.older import todays_parameters
from onlinegcp.streaming.sgd import SGD

Arrays = dict[str, NDArray[Any]]


def pack_parameters(
    parameters: Mapping[str, Any], arrays: Arrays | None = None, prefix: str = "parameter"
) -> dict[str, Any]:
    """Parameters as JSON, in which floats survive exactly.

    Parameters
    ----------
    parameters
        As `get_params(deep=False)` gives them.
    arrays
        Where to set arrays aside, by name; without it they are written out.
    prefix
        What names of arrays begin with.
    """
    # Who does the work is no part of a model: it goes on with whoever is there.
    kept = {name: None if name == "cluster" else value for name, value in parameters.items()}
    return {name: _pack(value, f"{prefix}.{name}", arrays) for name, value in kept.items()}


def unpack_parameters(
    method: str,
    stored: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]] | None = None,
    *,
    loss: Loss | None = None,
) -> dict[str, Any]:
    """The parameters that were packed, by this version or an older one.

    Parameters
    ----------
    method
        Name of the model's class.
    stored, arrays
        What `pack_parameters` gave.
    loss
        Takes the place of a loss made from functions, which is not stored; "gaussian" if not given.
    """
    found = {}
    for name, value in todays_parameters(method, stored).items():
        if isinstance(value, dict) and "own_loss" in value:
            found[name] = "gaussian" if loss is None else loss
        else:
            found[name] = _unpack(value, f"parameter.{name}", arrays or {})
    return found


def _pack(value: Any, name: str, arrays: Arrays | None) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple) and all(isinstance(part, str) for part in value):
        return {"names": list(value)}
    if isinstance(value, Loss):
        return {"own_loss": value.name} if value.code < 0 else {"loss": value.to_dict()}
    if isinstance(value, Step):
        return {"step": pack_parameters(vars(value))}
    if isinstance(value, SGD):
        return {"sgd": pack_parameters(value.get_params(deep=False), prefix=name)}
    if not isinstance(value, KTensor):
        raise DataError(
            f"parameters that are numbers, names, losses, solvers, steps or K-tensors can be "
            f"stored, but {name.partition('.')[2]} is a {type(value).__name__}. Pass it by name."
        )
    if arrays is None:
        return {"ktensor": [part.tolist() for part in (value.weights, *value.factors)]}
    arrays[f"{name}.weights"] = value.weights
    arrays.update({f"{name}.{k}": a for k, a in enumerate(value.factors)})
    return {"ktensor": value.ndim}


def _unpack(value: Any, name: str, arrays: Mapping[str, NDArray[Any]]) -> Any:
    if not isinstance(value, dict):
        return value
    if "names" in value:
        return tuple(value["names"])
    if "loss" in value:
        return from_dict(value["loss"])
    if "step" in value:
        return Step(**value["step"])
    if "sgd" in value:
        return SGD(**{n: _unpack(v, f"{name}.{n}", arrays) for n, v in value["sgd"].items()})
    if isinstance(value["ktensor"], int):
        factors = [arrays[f"{name}.{k}"] for k in range(value["ktensor"])]
        return KTensor(arrays[f"{name}.weights"], factors)
    weights, *factors = (np.array(part, dtype=np.float64) for part in value["ktensor"])
    return KTensor(weights, factors)
