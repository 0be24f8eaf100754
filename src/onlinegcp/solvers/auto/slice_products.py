"""A slice times the factors of all modes but one, whichever way the slice lies in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.auto import dense_products, responsibilities
from onlinegcp.kernels.auto.arguments import Listed
from onlinegcp.kernels.auto.tangent import left_rows, split_modes
from onlinegcp.kernels.layout import ALL_MODES, Blocks
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto.cells import row_chunks
from onlinegcp.sums import verbs
from onlinegcp.sums.chunks import Chunks, RowChunks, even_cuts

Array = NDArray[Any]


class SliceProducts:
    """Products of one slice with factors, which may change between calls.

    Parameters
    ----------
    x
        The slice.
    width
        Columns of the factors.
    """

    def __init__(self, x: Slice, width: int) -> None:
        self.dense = x.array is not None
        if x.array is None:
            self._chunks = row_chunks(x.index, x.value, x.shape, width)
            return
        n, shape = left_rows(x.shape), np.array(x.shape, dtype=np.int64)
        # Matrix products do four multiply-adds in the time of one elsewhere.
        cuts = even_cuts(n, x.size // n * width // 4)
        while len(cuts) > 2 and (len(cuts) - 1) * int(shape.sum()) * 4 > x.size:
            cuts = cuts[::2]
        lows = np.zeros((len(cuts) - 1, len(shape)), dtype=np.int64)
        highs = np.tile(shape, (len(cuts) - 1, 1))
        self._chunks = RowChunks((x.array.reshape(n, -1), np.arange(n)), cuts, lows, highs)

    def __call__(self, factors: Blocks, mode: int, out: Array) -> None:
        """Set `out` to the slice times the rows of all modes but one (ALL_MODES: of every mode)."""
        modes = range(factors.ndim) if mode == ALL_MODES else range(mode, mode + 1)
        function = dense_part if self.dense else listed_part
        verbs.spread(function, self._chunks, modes, factors.offsets, out, factors, mode)


def dense_part(part: Chunks, places: Array, target: Array, factors: Blocks, mode: int) -> tuple[()]:
    """Products of some rows of a dense slice."""
    matrix, numbers = part.arrays
    split = split_modes(factors.shape)
    dense_products.dense_products(
        matrix, factors.data, factors.offsets, split, numbers[0], mode, places, target
    )
    return ()


def listed_part(
    part: Chunks, places: Array, target: Array, factors: Blocks, mode: int
) -> tuple[()]:
    """Products of some listed cells."""
    index, value = part.arrays
    listed = Listed(factors.data, factors.offsets, index, value)
    ones = np.ones(factors.width)
    responsibilities.listed_rates(listed, ones, True, 0.0, 1.0, mode, places, target)
    return ()
