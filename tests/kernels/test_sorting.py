"""Entries put in order by compiled code: to the bit what plain NumPy gives, on any threads."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp import entries
from onlinegcp.errors import DataError
from onlinegcp.kernels import sorting
from onlinegcp.slices import Slice
from onlinegcp.sums.local import jobs


def _drawn(shape, n, seed=0, power=1.0):
    rng = np.random.default_rng(seed)
    rows = np.stack([(rng.random(n) ** power * dim).astype(np.int64) for dim in shape], axis=1)
    # Numbers whose sums depend on the order in which they are added.
    return rows, rng.standard_normal(n) * 10.0 ** rng.integers(-8, 8, n)


def _same(found, rows, value, shape, keep_zeros):
    linear = np.ravel_multi_index(tuple(np.asarray(rows, dtype=np.int64).T), shape)
    cells, sums = entries.sorted_sums(linear, value, shape, keep_zeros=keep_zeros)
    index, numbers = found
    assert index.dtype == np.int32
    assert index.flags.c_contiguous
    np.testing.assert_array_equal(index, np.stack(np.unravel_index(cells, shape), axis=1))
    assert numbers.tobytes() == sums.tobytes()


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize(
    ("shape", "n", "power"),
    [
        ((7, 5, 3), 40_000, 1.0),  # hundreds of entries in every cell
        ((300, 200, 24), 40_000, 3.0),
        ((10**6, 10**6, 10**3), 40_000, 2.0),
        ((10**5,), 30_000, 8.0),
        ((1, 2**31 - 1), 30_000, 40.0),  # most of them in one bucket
        ((2, 3, 1, 5, 4), 900, 1.0),
    ],
)
def test_cells_and_sums_have_the_bits_of_numpy(shape, n, power, threads):
    rows, value = _drawn(shape, n, power=power)
    value[::7] = 0.0
    for keep_zeros in (False, True):
        with jobs(threads):
            found = sorting.in_order(rows, value, shape, keep_zeros=keep_zeros)
        _same(found, rows, value, shape, keep_zeros)


@pytest.mark.parametrize("length", [1, 2, 7, 8, 9, 10, 17, 129, 130, 137, 300, 1025])
def test_a_cell_of_many_entries_is_added_up_as_numpy_does(length):
    rows, value = _drawn((3, 3), length + 2)
    rows[1:-1] = 1
    rows[0], rows[-1] = 2, 0
    _same(sorting.in_order(rows, value, (3, 3), keep_zeros=True), rows, value, (3, 3), True)


def test_minus_zero_stays():
    rows, value = np.array([[1], [0], [1], [0]]), np.array([-0.0, 2.0, -0.0, 1.0])
    found = sorting.in_order(rows, value, (2,), keep_zeros=True)
    assert np.signbit(found[1]).tolist() == [False, True]


@pytest.mark.parametrize("kind", ["int32", "uint8", "int64", "uint64", "strided", "columns"])
def test_positions_of_any_kind(kind):
    rows, value = _drawn((200, 50), 5000)
    given = {"strided": np.repeat(rows, 2, axis=0)[::2], "columns": np.asfortranarray(rows)}
    found = sorting.in_order(
        given[kind] if kind in given else rows.astype(kind), value, (200, 50), keep_zeros=False
    )
    _same(found, rows, value, (200, 50), False)


@pytest.mark.parametrize("zeros", [False, True])
def test_entries_in_order_are_copied(zeros):
    rows = np.stack(np.divmod(np.arange(0, 9000, 3), 100), axis=1)
    value = np.arange(1.0, len(rows) + 1)
    if zeros:
        value[[0, 5]] = 0.0
    for keep_zeros in (False, True):
        found = sorting.in_order(rows, value, (90, 100), keep_zeros=keep_zeros)
        assert not np.shares_memory(found[1], value)
        _same(found, rows, value.copy(), (90, 100), keep_zeros)


@pytest.mark.parametrize("entry", [0, 1999, 2000, 3999])
def test_wrong_entries_are_left_to_others(entry):
    rows, value = _drawn((30, 20), 4000)
    for position in (-1, 20, 2**40, -(2**63)):
        wrong = rows.copy()
        wrong[entry, 1] = position
        with jobs(2):
            assert sorting.in_order(wrong, value, (30, 20), keep_zeros=True) is None
    for number in (np.nan, np.inf, -np.inf):
        bad = value.copy()
        bad[entry] = number
        assert sorting.in_order(rows, bad, (30, 20), keep_zeros=True) is None


def test_sums_that_overflow_and_too_many_cells_are_left_to_others():
    rows, value = np.array([[1], [0], [1]]), np.array([1.5e308, 1.0, 1.5e308])
    assert sorting.in_order(rows, value, (2,), keep_zeros=True) is None
    many = (2**31 - 1, 2**31 - 1, 2)
    rows, value = _drawn(many, 50)
    assert sorting.in_order(rows, value, many, keep_zeros=True) is None  # 63 bits, and a place


def test_a_large_slice_is_the_same_slice_and_refuses_the_same(monkeypatch):
    rows, value = _drawn((300, 200, 24), 30_000)
    plain = Slice(rows, value, (300, 200, 24))
    called = []
    compiled = sorting.in_order
    monkeypatch.setattr(sorting, "in_order", lambda *a, **k: called.append(1) or compiled(*a, **k))
    monkeypatch.setattr(entries, "_MANY", 1)
    assert Slice(rows, value, (300, 200, 24)) == plain
    assert called
    with pytest.raises(DataError, match="between 0 and 9 in mode 0, but entry 1 has 10"):
        Slice([[3], [10]], [1.0, 2.0], (10,))
    with pytest.raises(DataError, match="finite, but entry 1 is nan"):
        Slice([[3], [9]], [1.0, np.nan], (10,))
    with pytest.raises(DataError, match=r"for cell \(3,\) it is inf"):
        Slice([[3], [3]], [1.5e308, 1.5e308], (10,))
