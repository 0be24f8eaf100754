"""Cells of a slice for sums by row: every chunk has the cells of its box, in little memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from onlinegcp.solvers.auto import cells
from onlinegcp.sums import chunks
from onlinegcp.sums.local import jobs


@pytest.fixture
def fine(monkeypatch):
    """Chunks of a few cells, however few rows they meet."""
    monkeypatch.setattr(chunks, "LEAST_WORK", 1)
    monkeypatch.setattr(cells, "CELLS_PER_ROW", 0)


def drawn(n, shape, seed=0):
    rng = np.random.default_rng(seed)
    index = np.stack([(rng.random(n) ** 2 * dim).astype(np.int32) for dim in shape], axis=1)
    index = index[np.lexsort(index.T[::-1])]
    return index, rng.random(n)


@pytest.mark.parametrize("shape", [(4, 90, 60), (90, 4, 60), (500,)])
def test_chunks_hold_all_cells_once_each_in_its_box(shape, fine):
    index, value = drawn(3000, shape)
    found = cells.row_chunks(index, value, shape, 4)
    assert found.count > 1
    assert found.listed
    assert found.count % found.columns == 0
    inside, numbers = found.arrays
    for c in range(found.count):
        here = inside[found.cuts[c] : found.cuts[c + 1]]
        assert (here >= found.lows[c]).all()
        assert (here < found.highs[c]).all()
    assert sorted(numbers.tolist()) == sorted(value.tolist())
    assert {tuple(row): v for row, v in zip(inside.tolist(), numbers, strict=True)} == {
        tuple(row): v for row, v in zip(index.tolist(), value, strict=True)
    }


def test_rows_of_a_long_mode_are_counted_in_one_table_not_one_per_piece(fine):
    length = 1 << 19
    index, _ = drawn(5000, (length, 3))
    tracemalloc.start()
    with jobs(2):
        edges = cells._edges(index, 0, length, 4)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    parts = np.histogram(index[:, 0], bins=edges)[0]
    assert parts.sum() == 5000
    assert parts.max() - parts.min() < 250
    assert most < 4 * 8 * length
