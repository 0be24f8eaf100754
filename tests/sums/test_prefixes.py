"""Row sums that the holders of chunks add up first: the bits of adding all chunks in order."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.sums import chunks as chunks_module
from onlinegcp.sums.local import jobs
from onlinegcp.sums.prefixes import first_sums, sums_of_share
from sums_in_order import SHAPE, dealt, in_order, small_grid, uneven


@pytest.fixture
def grid(monkeypatch):
    return small_grid(monkeypatch)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("workers", [1, 2, 3, 4, 7])
def test_what_holders_add_up_first_leaves_every_bit_as_it_is(grid, workers, threads):
    assert grid.columns > 2
    groups, owners, shares = dealt(grid, workers)
    numbers = first_sums(grid, range(3), owners)
    found = [np.zeros((n, 1)) for n in SHAPE]
    others, sent, cells = {}, 0, 0.0
    for group, held in zip(groups, shares, strict=True):
        own = [numbers[c] for c in group]
        with jobs(threads):
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
