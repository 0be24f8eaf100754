"""Entries of a slice: linear indices, sorting and sums against plain NumPy and a dictionary."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinegcp.entries import all_finite, linear_index, sorted_sums, unravel
from onlinegcp.errors import DataError

SHAPES = [(1,), (7,), (3, 1, 5), (2**31 - 1, 2**31 - 1), (2**20, 2**20, 2**20), (1, 1, 1)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("n", [0, 1, 70_001])
def test_linear_indices_are_those_of_numpy_and_lead_back(shape, n):
    rng = np.random.default_rng(0)
    rows = np.stack([rng.integers(0, dim, n) for dim in shape], axis=1)
    linear = linear_index(rows, shape)
    np.testing.assert_array_equal(linear, np.ravel_multi_index(tuple(rows.T), shape))
    np.testing.assert_array_equal(unravel(linear, shape), rows)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 10), st.integers(-3, 3))),
    st.sampled_from([(11,), (11, 2**26, 2**31 - 1)]),
    st.booleans(),
)
def test_sums_are_those_of_a_dictionary(entries, shape, keep_zeros):
    # The second shape has too many cells for cell and position to share one integer.
    below = math.prod(shape[1:])
    wanted: dict[int, float] = {}
    for cell, value in entries:
        wanted[cell * below] = wanted.get(cell * below, 0.0) + value
    linear = np.array([cell * below for cell, _ in entries], dtype=np.int64)
    values = np.array([float(value) for _, value in entries])
    cells, sums = sorted_sums(linear, values, shape, keep_zeros=keep_zeros)
    listed = [(c, v) for c, v in sorted(wanted.items()) if v != 0.0 or keep_zeros]
    assert list(zip(cells.tolist(), sums.tolist(), strict=True)) == listed


def test_sorted_entries_come_back_without_a_copy():
    value = np.array([1.0, 2.0])
    assert sorted_sums(np.array([0, 4]), value, (5,), keep_zeros=False)[1] is value


def test_a_sum_beyond_the_largest_float_is_refused_with_its_cell():
    linear = np.array([5, 5])
    with pytest.raises(DataError, match=r"for cell \(1, 2\) it is inf\. Scale"):
        sorted_sums(linear, np.array([1.5e308, 1.5e308]), (2, 3), keep_zeros=True)


@pytest.mark.parametrize(
    ("numbers", "finite"),
    [
        ([], True),
        ([0.0], True),
        ([1e308] * 3, True),
        ([1e308] * 3 + [-1e308] * 3, True),
        ([np.inf, -np.inf], False),
        ([1.0, np.nan], False),
    ],
)
def test_finite_numbers_are_told_from_sums_that_overflow(numbers, finite):
    assert all_finite(np.array(numbers, dtype=float)) is finite
