"""Sums are added in the order of chunks, whoever makes them; none waits for one that has failed."""

from __future__ import annotations

import sys
import threading
import time

import numpy as np
import pytest

from onlinegcp.sums.adding import InOrder, Rows
from onlinegcp.sums.chunks import RowChunks, evenly
from onlinegcp.sums.local import Local, jobs
from onlinegcp.sums.verbs import spread

OFFSETS = np.array([0, 30, 42])


def chunks(count=24, seed=0):
    """Chunks that meet rows here and there, some of them none, and no rows at the very end."""
    rng = np.random.default_rng(seed)
    edges = np.sort(rng.integers(0, [[29, 11]], (2, count, 2)), axis=0)
    return RowChunks((rng.lognormal(0, 9, count),), evenly(count, count), edges[0], edges[1])


def sums_of(part, places, target, wait):
    """Numbers that no order but one adds up to the same."""
    time.sleep(wait * (part.arrays[0][0] % 1e-3))
    for k in range(2):
        low, high = part.lows[0, k], part.highs[0, k]
        target[places[k] + low : places[k] + high] = part.arrays[0][0]
    return ()


class Known(RowChunks):
    """Chunks whose parts know their rows, for the sake of the function above."""

    def part(self, first, last):
        lows, highs = self.lows[first:last], self.highs[first:last]
        return RowChunks(super().part(first, last).arrays, self.cuts[:2], lows, highs)


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_rows_are_sums_in_the_order_of_chunks(threads, fresh):
    found = chunks()
    known = Known(found.arrays, found.cuts, found.lows, found.highs)
    before = np.random.default_rng(1).random((42, 1))
    out, expected = before.copy(), before[:, 0].tolist()
    for row in range(42):  # number by number
        k = int(row >= 30)
        total = 0.0 if fresh else expected[row]
        for value, low, high in zip(
            *known.arrays, known.lows[:, k], known.highs[:, k], strict=True
        ):
            if low <= row - OFFSETS[k] < high:
                total += float(value)
        expected[row] = total
    with jobs(threads):
        spread(sums_of, known, range(2), OFFSETS, out, 1.0, fresh=fresh)
    assert out[:, 0].tolist() == expected


def test_rows_met_for_the_first_time_are_told_once():
    found = chunks(9, seed=3)
    for mode in range(2):
        seen = set()
        for chunk, parts in enumerate(found.new_rows[mode][:-1]):
            new = [row for low, high in parts for row in range(low, high)]
            own = set(range(*found.spans[chunk][mode]))
            assert sorted(new) == sorted(own - seen)
            seen |= own
        never = [row for a, b in found.new_rows[mode][-1] for row in range(a, min(b, 50))]
        assert never == [row for row in range(50) if row not in seen]
        assert found.new_rows[mode][-1][-1][1] == sys.maxsize


def test_memory_is_bounded_while_one_chunk_takes_its_time():
    found = chunks(40)
    rows = Rows(found, range(2), OFFSETS, np.zeros((42, 1)), fresh=True)
    order, slow, lent = InOrder(rows, 40, 3), threading.Event(), set()

    def work(chunk):
        def sums(memory):
            lent.add(id(memory))
            if chunk == 0:
                assert not slow.wait(0.1)  # the others have come as far as they may
                assert max(made) < 3
            made.append(chunk)
            memory[...] = 0.0
            return [0, 0], memory

        order.make(chunk, sums)

    made = [0]
    Local(3).run(work, 40)
    assert sorted(made) == [0, *range(40)]
    assert len(lent) <= 3


def test_nobody_waits_for_a_chunk_that_failed():
    found = chunks(40)
    rows = Rows(found, range(2), OFFSETS, np.zeros((42, 1)), fresh=True)
    order = InOrder(rows, 40, 2)

    def work(chunk):
        def sums(memory):
            if chunk == 0:
                time.sleep(0.05)  # the others wait by then
                raise ValueError("no sum")
            memory[...] = 0.0
            return [0, 0], memory

        order.make(chunk, sums)

    with pytest.raises(ValueError, match="no sum"):
        Local(4).run(work, 40)
