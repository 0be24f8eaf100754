"""The page of a rank study: how well each rank predicts, and whether its patterns are stable."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from onlinegcp.report.page import render_sheet
from onlinegcp.storage.printable import short, without_folders

FloatArray = NDArray[np.float64]


def render_ranks(
    ranks: Sequence[int],
    losses: FloatArray,
    stability: FloatArray,
    *,
    best: int,
    recommended: int,
    stable: float,
    advice: str,
    source: str,
    command: str,
) -> str:
    """The page as one HTML text.

    Parameters
    ----------
    ranks
        Ranks tried.
    losses
        (ranks, slices) held-out loss per cell of each slice.
    stability
        Agreement of two starts, by rank.
    best, recommended
        The rank that predicts best, and the one to use.
    stable
        Agreement from which patterns are the same.
    advice
        The recommendation in words.
    source
        What was read.
    command
        What to do next.
    """
    behind = losses - losses[list(ranks).index(best)]
    spread = behind.std(axis=1, ddof=1) if losses.shape[1] > 1 else np.zeros(len(losses))
    payload = {
        "ranks": [int(rank) for rank in ranks],
        "losses": _rounded(losses.mean(axis=1)),
        "errors": _rounded(spread / np.sqrt(losses.shape[1])),
        "stability": _rounded(stability),
        "best": int(best),
        "recommended": int(recommended),
        "stable": stable,
        "advice": advice,
        "source": short(without_folders(source)),
        "next": short(without_folders(command), 400),
    }
    title = f"Rank {recommended} · onlinegcp"
    return render_sheet(payload, title=title, script="rank.js", summary=[["Rank", advice]])


def _rounded(values: FloatArray) -> list[float]:
    return [float(f"{value:.7g}") for value in np.nan_to_num(values).tolist()]
