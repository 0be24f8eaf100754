"""The devices a user can name, without loading what any of them needs."""

from __future__ import annotations

from typing import Any

from onlinegcp.errors import BackendError
from onlinegcp.slices import Slice

CUDA = "cuda"
REFERENCE = "reference"


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


def check_device(device: str) -> None:
    """Refuse a device that a static method does not know, or that is not there."""
    if device not in ("cpu", CUDA, "auto"):
        raise BackendError(
            f"device must be 'cpu', 'cuda' or 'auto', but got {device!r}. Choose one."
        )
    engine_for(device)


def cell_sums_for(device: str, x: Slice, index: Any, value: Any, blocks: Any) -> Any:
    """The listed cells on the card where `device` means it for this tensor, else None."""
    if kernels_for(device, x, blocks.rank) != CUDA:
        return None
    from onlinegcp.kernels.cuda import cell_sums

    return cell_sums.CellSums(index, value, blocks) if cell_sums.takes(blocks) else None
