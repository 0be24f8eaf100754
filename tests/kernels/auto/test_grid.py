"""Cells sorted by the rows of a mode."""

import numpy as np
import pytest

from onlinegcp.kernels.auto.grid import sort_by_row


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_cells_by_row_keep_their_order_within_a_row(dtype):
    rng = np.random.default_rng(0)
    index = rng.integers(0, 5, (200, 3)).astype(np.int32)
    for mode in range(3):
        starts = np.concatenate([[0], np.cumsum(np.bincount(index[:, mode], minlength=6))])
        order = np.empty(200, dtype)
        sort_by_row(index, mode, starts[:-1].copy(), order)
        np.testing.assert_array_equal(order, np.argsort(index[:, mode], kind="stable"))
