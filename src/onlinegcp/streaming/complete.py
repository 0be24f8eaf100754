"""Refuses missing cells for methods that are defined on complete slices only."""

from __future__ import annotations

from onlinegcp.errors import DataError
from onlinegcp.slices import Slice


def refuse_missing(x: Slice, model: object) -> None:
    """Raise if the slice has cells that were not observed."""
    if x.n_observed < x.size:
        raise DataError(
            f"{type(model).__name__} needs complete slices, but {x.size - x.n_observed:,} of "
            f"{x.size:,} cells are missing. Use OnlineGCP, which takes missing cells."
        )
