"""A run: a model, its stream and its directory."""

from __future__ import annotations

from onlinegcp.run.loop import Progress, Run

__all__ = ["Progress", "Run"]
