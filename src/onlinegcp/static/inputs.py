"""What the least-squares and count solvers check before they start."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from onlinegcp.errors import DataError
from onlinegcp.ktensor import KTensor
from onlinegcp.slices import Slice, as_slice, stack
from onlinegcp.static.starts import start_from


def read_tensor(x: Any) -> Slice:
    """Return one tensor: x itself, or the stack of a list of slices."""
    if isinstance(x, list | tuple) and any(isinstance(part, Slice) for part in x):
        return stack(x)
    return as_slice(x)


def check_options(max_iterations: object, tolerance: float, n_jobs: object) -> None:
    """Refuse options that no solver can run with."""
    for name, value in (("max_iterations", max_iterations), ("n_jobs", n_jobs)):
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if name == "n_jobs" and value is None:
            continue
        if not whole or value < 1:  # type: ignore[operator]
            raise DataError(f"{name} must be a whole number from 1 on, but is {value!r}. Use 1.")
    if not (math.isfinite(tolerance) and tolerance >= 0.0):
        raise DataError(
            f"tolerance must be zero or positive, but is {tolerance!r}. Use 0 to make every "
            "iteration, or a small number such as 1e-4."
        )


def read_start(
    init: object, shape: Sequence[int], rank: int, lower: float
) -> list[npt.NDArray[np.float64]]:
    """Return the factors of a given model, weights shared out, or say why they do not fit."""
    if not isinstance(init, KTensor):
        raise DataError(
            f"init must be a KTensor or None, but is a {type(init).__qualname__}. Build one with "
            "KTensor(weights, factors)."
        )
    return start_from(init, shape, rank, lower)
