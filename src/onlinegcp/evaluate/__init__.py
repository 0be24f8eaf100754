"""How good a model is: losses, recovery of a known truth, which rank, which method."""

from __future__ import annotations

from onlinegcp.evaluate.comparison import Comparison, Contender, compare
from onlinegcp.evaluate.measures import factor_match, global_loss, local_loss, slice_losses
from onlinegcp.evaluate.prequential import Turn, prequential

__all__ = [
    "Comparison",
    "Contender",
    "Turn",
    "compare",
    "factor_match",
    "global_loss",
    "local_loss",
    "prequential",
    "slice_losses",
]
