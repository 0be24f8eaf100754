"""How good a model is: losses of slices and streams, recovery of known factors, which rank."""

from __future__ import annotations

from onlinegcp.evaluate.measures import factor_match, global_loss, local_loss, slice_losses
from onlinegcp.evaluate.prequential import Turn, prequential

__all__ = ["Turn", "factor_match", "global_loss", "local_loss", "prequential", "slice_losses"]
