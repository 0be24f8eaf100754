"""A slice times the factors of all modes but one, whichever way the slice lies in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.auto import dense_products, responsibilities
from onlinegcp.kernels.auto.arguments import Listed
from onlinegcp.kernels.layout import ALL_MODES, Blocks
from onlinegcp.slices import Slice

Array = NDArray[Any]


def slice_products(x: Slice, factors: Blocks, mode: int, out: Array) -> None:
    """Set `out` to the slice times the rows of all modes but one (ALL_MODES: for every mode)."""
    if x.array is not None:
        dense_products.dense_products(x.array, factors.data, factors.offsets, mode, out)
        return
    every = mode == ALL_MODES
    first = 0 if every else factors.offsets[mode]
    last = factors.offsets[-1] if every else factors.offsets[mode + 1]
    out[first:last] = 0.0
    ones, z = np.ones(factors.width), np.zeros(factors.width)
    listed = Listed(factors.data, factors.offsets, x.index, x.value)
    responsibilities.listed_rates(listed, ones, True, 0.0, 1.0, mode, out, z)
