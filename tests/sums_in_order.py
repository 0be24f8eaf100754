"""Row sums over chunks of a small grid, added one after the other: what others must give."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.solvers.auto.cells import row_chunks
from onlinegcp.sums import chunks as chunks_module
from onlinegcp.sums.shares import deal, share

SHAPE = (40, 30, 3)


def uneven(part, places, target):
    """Row sums of numbers that no two orders add up to the same."""
    index, value = part.arrays
    for row, number in zip(index.tolist(), value.tolist(), strict=True):
        for k, place in enumerate(row):
            target[places[k] + place] += number
    return (np.array(float(len(index))),)


def small_grid(monkeypatch: pytest.MonkeyPatch):
    """Cells in a grid of several lines and columns."""
    monkeypatch.setattr(chunks_module, "LEAST_WORK", 1)
    monkeypatch.setattr("onlinegcp.solvers.auto.cells.CELLS_PER_ROW", 0)
    rng = np.random.default_rng(5)
    index = np.unique(np.stack([rng.integers(0, n, 3000) for n in SHAPE], axis=1), axis=0)
    return row_chunks(index.astype(np.int32), rng.lognormal(0.0, 3.0, len(index)), SHAPE, 1)


def in_order(grid):
    """Row sums of each mode."""
    sums = [np.zeros((n, 1)) for n in SHAPE]
    for c in range(grid.count):
        for k, one in enumerate(sums):
            low, high = grid.spans[c][k]
            target = np.zeros((sum(SHAPE), 1))
            offsets = np.concatenate([[0], np.cumsum(SHAPE)])[:-1]
            uneven(grid.part(c, c + 1), offsets, target)
            one[low:high] += target[offsets[k] + low : offsets[k] + high]
    return sums


def dealt(grid, workers):
    """Chunks of every worker, who has each chunk, and the shares."""
    singles = [(c, c + 1) for c in range(grid.count)]
    groups = deal(grid, singles, workers)
    owners = [next(n for n, group in enumerate(groups) if c in group) for c in range(grid.count)]
    return groups, owners, [share(grid, [singles[c] for c in group]) for group in groups]
