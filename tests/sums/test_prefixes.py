"""Row sums that the holders of chunks add up first: the bits of adding all chunks in order."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.solvers.auto.cells import row_chunks
from onlinegcp.sums import chunks as chunks_module
from onlinegcp.sums.prefixes import first_sums, sums_of_share
from onlinegcp.sums.shares import deal, share

SHAPE = (40, 30, 3)


def uneven(part, places, target):
    """Row sums of numbers that no two orders add up to the same."""
    index, value = part.arrays
    for row, number in zip(index.tolist(), value.tolist(), strict=True):
        for k, place in enumerate(row):
            target[places[k] + place] += number
    return (np.array(float(len(index))),)


@pytest.fixture
def grid(monkeypatch):
    monkeypatch.setattr(chunks_module, "LEAST_WORK", 1)
    monkeypatch.setattr("onlinegcp.solvers.auto.cells.CELLS_PER_ROW", 0)
    rng = np.random.default_rng(5)
    index = np.unique(np.stack([rng.integers(0, n, 3000) for n in SHAPE], axis=1), axis=0)
    return row_chunks(index.astype(np.int32), rng.lognormal(0.0, 3.0, len(index)), SHAPE, 1)


def in_order(grid):
    sums = [np.zeros((n, 1)) for n in SHAPE]
    for c in range(grid.count):
        for k, one in enumerate(sums):
            low, high = grid.spans[c][k]
            target = np.zeros((sum(SHAPE), 1))
            offsets = np.concatenate([[0], np.cumsum(SHAPE)])[:-1]
            uneven(grid.part(c, c + 1), offsets, target)
            one[low:high] += target[offsets[k] + low : offsets[k] + high]
    return sums


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 7])
def test_what_holders_add_up_first_leaves_every_bit_as_it_is(grid, workers):
    assert grid.columns > 2
    singles = [(c, c + 1) for c in range(grid.count)]
    groups = deal(grid, singles, workers)
    owners = [next(n for n, group in enumerate(groups) if c in group) for c in range(grid.count)]
    numbers = first_sums(grid, range(3), owners)
    found = [np.zeros((n, 1)) for n in SHAPE]
    others, sent, cells = {}, 0, 0.0
    for group in groups:
        held, own = share(grid, [singles[c] for c in group]), [numbers[c] for c in group]
        done = sums_of_share(uneven, held.pieces, own, range(3), 1)
        cells += sum(float(rest[0]) for rest in done.rests)
        taken = set()
        for c, mine, alone in zip(group, own, done.others, strict=True):
            rest = iter(alone)
            for k, number in enumerate(mine):
                rows = slice(*grid.spans[c][k])
                if number < 0:
                    others[c, k] = next(rest)
                elif number not in taken:
                    taken.add(number)
                    found[k][rows] += done.first[number]
            assert not list(rest)
        assert taken == set(range(len(done.first)))
        sent += len(taken)
    for (c, k), sums in sorted(others.items()):
        found[k][slice(*grid.spans[c][k])] += sums
    for one, other in zip(found, in_order(grid), strict=True):
        assert one.tobytes() == other.tobytes()
    assert cells == len(grid.arrays[0])
    if workers == 1:
        assert not others
    if workers == 2:  # half of what the chunks have to say of the two long modes, or less
        assert sent + sum(k < 2 for _, k in others) <= grid.count


def test_a_row_that_two_chunks_share_partly_is_added_up_by_nobody():
    lows, highs = np.array([[0], [2], [5]]), np.array([[3], [5], [7]])
    chunks = chunks_module.RowChunks((), np.arange(4), lows, highs)
    assert first_sums(chunks, range(1), [0, 0, 0]) == [[0], [-1], [1]]
