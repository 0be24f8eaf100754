"""What was found about a slice: how odd it is, by which statistic, and what is learned of it."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from onlinegcp.anomaly.common import Alone
from onlinegcp.anomaly.pairs import IntArray
from onlinegcp.anomaly.shares import Judged

FloatArray: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Verdict:
    """What was found about a slice, and what the tracker needs to learn it.

    Attributes
    ----------
    log_p, family
        Of the slice, and the statistic that was oddest: "volume", "up 0", "down 2", "pairs up",
        "pairs down", "alone up", "alone down", "mixture", "many", "misfit"; empty while there is no
        past.
    families
        Log-probability of each statistic.
    whole, rows, newcomers, pairs, alone
        How each compares with its forecast: of `whole` the total and the misfit, of `newcomers`
        the events in new rows by mode, of `alone` rows without what they have in common; None as
        long as rows are not judged.
    weights
        Usual weights of the model, this slice included; empty where there is no model.
    """

    log_p: float
    family: str
    families: dict[str, float]
    whole: Judged
    rows: list[Judged]
    newcomers: Judged
    pairs: list[tuple[IntArray, Judged]]
    alone: Alone | None
    weights: FloatArray
    special: int
    moment: datetime.datetime | None
    shape: tuple[int, ...]
    observed: bool
    statistics: dict[str, float]
    ready: bool
    plain: dict[str, float]
