"""Losses: the only place that knows what f(x, m) is, by formula, by name and by likelihood."""

from __future__ import annotations

from onlinegcp.losses.formulas import EPS
from onlinegcp.losses.likelihoods import Likelihood
from onlinegcp.losses.record import Loss
from onlinegcp.losses.registry import CODES, FISHER, FORMULAS, LOSS_NAMES, from_dict, get_loss
from onlinegcp.losses.traits import OddsForm, Traits

__all__ = [
    "CODES",
    "EPS",
    "FISHER",
    "FORMULAS",
    "LOSS_NAMES",
    "Likelihood",
    "Loss",
    "OddsForm",
    "Traits",
    "from_dict",
    "get_loss",
]
