"""Lengths of the columns of factors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def lengths(a: NDArray[np.float64]) -> NDArray[np.float64]:
    """Norms of the columns, 1 for those that are zero, so that one may divide by them."""
    norms = np.linalg.norm(a, axis=0)
    return np.asarray(np.where(norms > 0.0, norms, 1.0))


def unit_columns(
    factors: Sequence[NDArray[np.float64]],
) -> tuple[list[NDArray[np.float64]], list[NDArray[np.float64]]]:
    """The factors with columns of norm one, and the norms they had, mode by mode."""
    norms = [lengths(a) for a in factors]
    return [a / n for a, n in zip(factors, norms, strict=True)], norms
