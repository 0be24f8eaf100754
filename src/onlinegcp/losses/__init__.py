"""Losses: the only place that knows what f(x, m) is, by formula, by name and by likelihood."""

from __future__ import annotations

from onlinegcp.losses.formulas import EPS
from onlinegcp.losses.record import Loss
from onlinegcp.losses.registry import (
    CODES,
    CURVATURES,
    FORMULAS,
    LOSS_NAMES,
    from_dict,
    get_loss,
)

__all__ = ["CODES", "CURVATURES", "EPS", "FORMULAS", "LOSS_NAMES", "Loss", "from_dict", "get_loss"]
