"""A run: a model, its stream and its directory."""

from __future__ import annotations

from onlinegcp.run.loop import Run
from onlinegcp.run.progress import Progress

__all__ = ["Progress", "Run"]
