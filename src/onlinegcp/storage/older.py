"""Files of older versions in today's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# What the paper's solver took when its settings were parameters of the model itself.
_FLAT_SGD = (
    *("weight_solver", "history", "history_size", "history_weight", "history_decay"),
    *("factor_penalty", "weight_penalty", "sampler", "objective_listed", "objective_zeros"),
    *("gradient_listed", "gradient_zeros", "weight_rate", "weight_epochs", "weight_iterations"),
    *("weight_tolerance", "factor_rate", "factor_epochs", "factor_iterations"),
    *("factor_tolerance", "step"),
)


def todays_parameters(method: object, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Stored parameters of a model, those of the paper's solver gathered into its value.

    Examples
    --------
    >>> todays_parameters("OnlineGCP", {"rank": 2, "solver": "sgd", "factor_rate": 0.1})
    {'rank': 2, 'solver': {'sgd': {'factor_rate': 0.1}}}
    >>> todays_parameters("OnlineGCP", {"rank": 2, "solver": "auto", "factor_rate": 0.1})
    {'rank': 2, 'solver': 'auto'}
    """
    if method != "OnlineGCP":
        return dict(stored)
    flat = {name: stored[name] for name in _FLAT_SGD if name in stored}
    rest = {name: value for name, value in stored.items() if name not in flat}
    if flat and rest.get("solver") == "sgd":
        rest["solver"] = {"sgd": flat}
    return rest
