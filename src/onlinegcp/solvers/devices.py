"""The devices a user can name, without loading what any of them needs."""

from __future__ import annotations

from typing import Any


def engine_for(device: str) -> Any:
    """Where `device` makes the default solver's steps; None for the CPU.

    Parameters
    ----------
    device
        "cpu", "cuda" (refused where there is no card) or "auto" (the card where there is one).
    """
    if device not in ("cuda", "auto"):
        return None
    from onlinegcp.solvers.cuda import engine

    return engine.engine_for(device)
