"""Products of a dense slice with the factors (MTTKRP), in tiles that keep BLAS on one thread."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"

from __future__ import annotations

import numpy as np

from onlinegcp.kernels.auto.tangent import TILE_PRODUCT, row_products, spread
from onlinegcp.kernels.jit import kernel
from onlinegcp.kernels.layout import ALL_MODES


@kernel
def dense_products(matrix, data, offsets, split, low, mode, places, out):
    # Adds the slice times the rows of all other modes to rows places[k] + i of `out`, for one mode
    # or ALL_MODES. matrix (P, Q): cells with the modes before `split` as rows, from row number
    # `low` of their product on. Tiles in a fixed order.
    n_left, n_right = matrix.shape
    width = data.shape[1]
    d = offsets.shape[0] - 1
    left = np.empty((n_left, width))
    right = np.empty((n_right, width))
    row_products(data, offsets, 0, split, low, left)
    row_products(data, offsets, split, d, 0, right)
    want_left = mode == ALL_MODES or (mode >= 0 and mode < split)
    want_right = mode == ALL_MODES or mode >= split
    left_sums = np.zeros((n_left if want_left else 0, width))
    right_sums = np.zeros((n_right if want_right else 0, width))
    columns = min(n_right, 512)
    rows = max(1, min(n_left, 512, TILE_PRODUCT // (columns * width)))
    for start in range(0, n_left, rows):
        stop = min(start + rows, n_left)
        for begin in range(0, n_right, columns):
            end = min(begin + columns, n_right)
            tile = np.ascontiguousarray(matrix[start:stop, begin:end])
            if want_left:
                left_sums[start:stop] += np.dot(tile, right[begin:end])
            if want_right:
                right_sums[begin:end] += np.dot(tile.T, left[start:stop])
    if want_left:
        spread(data, offsets, 0, split, low, left_sums, n_left, mode, places, out)
    if want_right:
        spread(data, offsets, split, d, 0, right_sums, n_right, mode, places, out)
