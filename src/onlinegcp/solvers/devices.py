"""The devices a user can name, without loading what any of them needs."""

from __future__ import annotations

from typing import Any

from onlinegcp.slices import Slice

CUDA = "cuda"


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


def kernels_for(device: str, x: Slice, rank: int) -> str:
    """The kernels that `device` means for one slice: the card's where it is asked for and gains.

    Parameters
    ----------
    device
        "cuda" (refused where there is no card), "auto", or the name of other kernels.
    x, rank
        The slice, and how many components its model has.
    """
    if device not in (CUDA, "auto"):
        return device
    from onlinegcp.solvers.cuda import engine

    if engine.engine_for(device) is None:
        return "cpu"
    worth_it = device == CUDA or x.n_listed * rank >= engine.WORTH_IT
    return CUDA if worth_it else "cpu"
