"""What labels held along a run: nothing is lost when blocks are joined, and nothing grows."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.runlog.label_history import MOST_BLOCKS, MOST_LABELS, LabelHistory


def followed(rows, numbers=None, *, adds_up=False):
    past = LabelHistory(adds_up=adds_up)
    for number, row in zip(numbers or range(1, len(rows) + 1), rows, strict=True):
        past.add(number, [np.asarray(row, dtype=float)])
    return past


@pytest.mark.parametrize("n", [1, MOST_BLOCKS, MOST_BLOCKS + 1, 1000, 4097])
def test_blocks_hold_all_slices_once_and_stay_few(n):
    rows = np.random.default_rng(n).poisson(3.0, (n, 4))
    past = followed(rows)
    assert len(past.limits) <= MOST_BLOCKS
    assert past.limits[0, 0] == 1
    assert past.limits[-1, 1] == n
    assert (past.limits[1:, 0] == past.limits[:-1, 1] + 1).all()
    for (first, last), held, seen in zip(past.limits, past.sums[0], past.seen[0], strict=True):
        np.testing.assert_array_equal(held, rows[first - 1 : last].sum(axis=0))
        assert set(seen) == {last - first + 1}
    sums = followed(rows, adds_up=True)
    np.testing.assert_array_equal(sums.sums[0], past.sums[0])
    assert sums.seen == []


def test_new_labels_held_nothing_before_and_missing_ones_are_not_seen():
    past = followed([[1.0, 2.0], [1.0, np.nan], [1.0, 2.0, 5.0]])
    np.testing.assert_array_equal(past.sums[0], [[1, 2, 0], [1, 0, 0], [1, 2, 5]])
    np.testing.assert_array_equal(past.seen[0], [[1, 1, 0], [1, 0, 0], [1, 1, 1]])


def test_a_slice_without_the_newest_labels_leaves_them_as_they_were():
    past = followed([[1.0, 2.0, 3.0], [4.0], [5.0, 6.0]])
    np.testing.assert_array_equal(past.sums[0], [[1, 2, 3], [4, 0, 0], [5, 6, 0]])
    np.testing.assert_array_equal(past.seen[0], [[1, 1, 1], [1, 0, 0], [1, 1, 0]])


def test_slices_nobody_observed_leave_gaps_in_the_numbers():
    past = followed([[1.0], [2.0], [3.0]], numbers=[1, 4, 9])
    assert past.limits.tolist() == [[1, 1], [4, 4], [9, 9]]
    for first, last, inside in ((2, 8, [2.0]), (4, 9, [2.0, 3.0]), (1, 4, [1.0, 2.0]), (5, 8, [])):
        part = past.between(first, last)
        assert part.sums[0].ravel().tolist() == inside
        assert part.seen[0].ravel().tolist() == [1.0] * len(inside)
        assert part.limits[:, 0].tolist() == [4 if s == 2 else 9 if s == 3 else 1 for s in inside]


def test_what_is_stored_goes_on_as_the_original():
    rows = np.random.default_rng(0).random((200, 3))
    rows[5, 1] = np.nan
    whole, half = followed(rows), followed(rows[:77])
    again = LabelHistory.from_state(*half.state())
    for number, row in enumerate(rows[77:], 78):
        again.add(number, [row])
    for a, b in zip(whole.sums + whole.seen, again.sums + again.seen, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(whole.limits, again.limits)


def test_modes_with_too_many_labels_are_not_followed():
    past = LabelHistory()
    past.add(1, [np.ones(3), np.ones(3)])
    past.add(2, [np.ones(3), np.ones(MOST_LABELS + 1)])
    past.add(3, [np.ones(3), np.ones(MOST_LABELS + 1)])
    assert [part.shape for part in past.sums] == [(3, 3), (3, 0)]
