"""What the least-squares and count solvers check before they start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from onlinegcp.checks import check_jobs, check_number, check_whole
from onlinegcp.errors import DataError
from onlinegcp.ktensor import KTensor
from onlinegcp.slices import Slice, as_slice, stack
from onlinegcp.solvers.devices import check_device
from onlinegcp.static.starts import start_from


def read_tensor(x: Any) -> Slice:
    """Return one tensor: x itself, or the stack of a list of slices."""
    if isinstance(x, list | tuple) and any(isinstance(part, Slice) for part in x):
        return stack(x)
    return as_slice(x)


def check_options(max_iterations: int, tolerance: float, n_jobs: int | None, device: str) -> None:
    """Refuse options that no solver can run with."""
    check_whole("max_iterations", max_iterations, 1)
    check_number("tolerance", tolerance, "[0, inf)", "Use 0 to make every iteration.")
    check_jobs(n_jobs)
    check_device(device)


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
