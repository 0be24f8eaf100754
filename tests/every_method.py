"""A small model of every registered method: who registers one has it tested."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onlinegcp.streaming import METHODS, StreamingModel

# Where the defaults of a method are too large for a dozen small slices.
SMALL = {
    "vbi": {"window": 3},
    "seek_and_destroy": {"batch": 2, "max_rank": 3},
    "sambaten": {"batch": 2},
    "ensign": {"batch": 2, "max_rank": 3},
}


def every_method(
    own: Mapping[str, Mapping[str, Any]] = SMALL, **shared: Any
) -> dict[str, StreamingModel]:
    """Models of rank 2 by name, with parameters of their own before those of all."""
    return {name: method(2, **{**shared, **own.get(name, {})}) for name, method in METHODS.items()}
