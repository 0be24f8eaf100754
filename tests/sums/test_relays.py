"""Row sums that workers hand on to each other: the bits of adding all chunks in order."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from onlinegcp.sums.asked import Asked
from onlinegcp.sums.chunks import RowChunks
from onlinegcp.sums.prefixes import first_sums, sums_of_share
from onlinegcp.sums.relays import by_path, handed_on, relays
from sums_in_order import SHAPE, dealt, in_order, small_grid, uneven


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 7, 9, 16])
def test_what_is_handed_on_is_whole_and_has_every_bit(monkeypatch, workers):
    grid = small_grid(monkeypatch)
    groups, owners, shares = dealt(grid, workers)
    numbers = first_sums(grid, range(3), owners)
    asked = []
    for group, held in zip(groups, shares, strict=True):
        own = [numbers[c] for c in group]
        done = sums_of_share(uneven, held.pieces, own, range(3), 1)
        answer = type("Answer", (), {"done": done})()
        asked.append(Asked(answer, group, [], {}, [], own))
    expected, found = in_order(grid), relays(grid, range(3), owners)
    for some in by_path(found):
        sums = None
        for leg, owner in enumerate(some[0].path):
            picks = [asked[owner].pick(one.legs[leg][1], one.mode) for one in some]
            before = copy.deepcopy(sums)
            made = handed_on(asked[owner].answer.done, picks, sums)
            again = handed_on(asked[owner].answer.done, picks, before)  # as after an accident
            assert [one.tobytes() for one in made] == [one.tobytes() for one in again]
            sums = made
        for relay, total in zip(some, sums, strict=True):
            assert total.tobytes() == expected[relay.mode][slice(*relay.rows)].tobytes()
    # Of both long modes every row comes to the driver once.
    rows = [set() for _ in SHAPE]
    for one in found:
        rows[one.mode] |= set(range(*one.rows))
    alone = [
        {row for c in range(grid.count) if numbers[c][k] < 0 for row in range(*grid.spans[c][k])}
        for k in range(2)
    ]
    assert rows[:2] == alone
    assert any(alone) == (workers > 1)
    assert not rows[2]  # all have chunks with its rows, in turns


@pytest.mark.parametrize(("second", "count"), [(2, 0), (3, 2)])
def test_a_row_of_two_groups_is_not_handed_on(second, count):
    lows, highs = np.array([[0], [0], [second], [second]]), np.array([[3], [3], [5], [5]])
    chunks = RowChunks((), np.arange(5), lows, highs)
    assert len(relays(chunks, range(1), [0, 1, 0, 1])) == count


def test_whoever_comes_twice_is_asked_chunk_by_chunk():
    lows, highs = np.zeros((3, 1), dtype=np.int64), np.full((3, 1), 5)
    chunks = RowChunks((), np.arange(4), lows, highs)
    assert relays(chunks, range(1), [0, 1, 0]) == []
    assert [one.path for one in relays(chunks, range(1), [0, 1, 1])] == [(0, 1)]
