"""Passes over pairs do what plain dictionaries do."""

from collections import Counter

import numpy as np
import pytest

from onlinegcp.kernels import pairs

SHIFT = 32


def drawn(n, lengths, seed=0):
    """Coordinates of three modes in which pairs come more than once, and values."""
    rng = np.random.default_rng(seed)
    index = np.stack([rng.integers(0, length, n) for length in lengths], axis=1).astype(np.int32)
    return index, rng.poisson(1.0, n).astype(float)  # some are zero


@pytest.mark.parametrize(("first", "second"), [(0, 1), (0, 2), (1, 2)])
@pytest.mark.parametrize("n", [0, 1, 60])
def test_pairs_are_counted_in_their_order(first, second, n):
    lengths = (5, 7, 4)
    index, value = drawn(n, lengths)
    expected = Counter()
    for cell, events in zip(index.tolist(), value.tolist(), strict=True):
        expected[cell[first] * 2**SHIFT + cell[second]] += events
    kept = sorted((key, events) for key, events in expected.items() if events)
    table = np.zeros((lengths[first], lengths[second]))
    keys, sums = pairs.count_pairs(index, first, second, value, SHIFT, table)
    assert list(zip(keys.tolist(), sums.tolist(), strict=True)) == kept


def test_known_pairs_come_first_and_the_others_behind_them():
    known, keys = np.array([3, 8, 9, 20]), np.array([1, 8, 10, 20, 21])
    found, observed = pairs.behind_known(known, keys, np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    assert found.tolist() == [3, 8, 9, 20, 1, 10, 21]
    assert observed.tolist() == [0.0, 2.0, 0.0, 4.0, 1.0, 3.0, 5.0]
    nothing = np.zeros(0, dtype=np.int64)
    found, observed = pairs.behind_known(nothing, keys, np.ones(5))
    assert found.tolist() == keys.tolist()
    assert observed.tolist() == [1.0] * 5
    found, observed = pairs.behind_known(known, nothing, np.zeros(0))
    assert found.tolist() == known.tolist()
    assert observed.tolist() == [0.0] * 4


def test_the_mixture_of_a_row_is_that_of_its_pairs():
    keys = np.array([0, 1, 2, (1 << SHIFT) | 0], dtype=np.int64)
    surprise = np.array([3.0, -2.0, 1.0, 9.0])
    first, second, largest, number = pairs.mix_rows(keys, SHIFT, surprise, 10.0, 3)
    # A chi-square of three degrees, 14 here, by the cube root of Wilson and Hilferty.
    normal = ((14.0 / 3.0) ** (1.0 / 3.0) - (1.0 - 2.0 / 27.0)) / (2.0 / 27.0) ** 0.5
    assert first.tolist() == pytest.approx([normal, 0.0])
    assert second.tolist() == [0.0, 0.0, 0.0]
    assert (largest, number) == (first[0], 1)
