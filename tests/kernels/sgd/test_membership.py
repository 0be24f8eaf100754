"""Which cells are listed: bitmap and hash table against a Python set."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.kernels.jit import kernel
from onlinegcp.kernels.sgd import membership
from onlinegcp.kernels.sgd.plan import (
    CELL_RANDOM,
    LISTED_ALL,
    VALUE_LISTED,
    VALUE_LOOKUP,
    ZERO_ALL,
    Plan,
    Stratum,
)
from onlinegcp.slices import Slice

LOOKUP = Plan((Stratum(CELL_RANDOM, 1, 1.0, VALUE_LOOKUP),))


@kernel(cache=False)
def _ask(cells, counts, bitmap, ranks, keys, positions, listed, found):
    for i in range(len(cells)):
        cell = np.uint64(cells[i])
        listed[i] = membership.is_listed(cell, counts[3], bitmap, counts[4], keys, counts[5])
        found[i] = membership.find_listed(
            cell, counts[3], bitmap, ranks, keys, positions, counts[5]
        )


def ask(built, cells):
    listed, found = np.zeros(len(cells), bool), np.zeros(len(cells), np.int64)
    _ask(cells, built.counts, built.bitmap, built.ranks, built.keys, built.positions, listed, found)
    return listed, found


def random_slice(shape, n, seed=0):
    rng = np.random.default_rng(seed)
    index = np.stack([rng.integers(0, length, n) for length in shape], axis=1)
    return Slice(index, np.ones(n), shape)


CASES = [
    ((7,), 3),
    ((1, 1, 1), 1),
    ((5, 1, 13), 0),
    ((64, 2), 128),
    ((37, 41), 900),
    ((100_000, 100_000, 1_000), 5_000),
    ((2**31 - 1, 2**31 - 1, 2), 200),
]


@pytest.mark.parametrize("limit", [0, membership.BITMAP_CELLS])
@pytest.mark.parametrize(("shape", "n"), CASES)
def test_listed_cells_are_found_where_they_are_and_others_are_not(shape, n, limit):
    x = random_slice(shape, n)
    built = membership.build_cells(x, LOOKUP, bitmap_cells=limit)
    assert built.counts[3] == (membership.BITMAP if x.size <= limit else membership.TABLE)
    linear = np.ravel_multi_index(tuple(x.index.T), x.shape)
    rng = np.random.default_rng(1)
    others = rng.integers(0, x.size, 2000)
    if n:
        others = np.concatenate([others, np.minimum(linear + 1, x.size - 1), linear // 2])
    cells = np.concatenate([linear, others])
    position = {int(cell): i for i, cell in enumerate(linear)}
    expected = [position.get(int(cell), -1) for cell in cells]
    listed, found = ask(built, cells)
    assert found.tolist() == expected
    assert listed.tolist() == [where >= 0 for where in expected]


@pytest.mark.parametrize(("shape", "n"), CASES[:5])
def test_unlisted_cells_are_counted_in_order_without_gaps(shape, n):
    x = random_slice(shape, n)
    linear = np.ravel_multi_index(tuple(x.index.T), x.shape)
    unlisted = sorted(set(range(x.size)) - set(linear.tolist()))
    found = [membership.unlisted_cell(rank, linear, len(linear)) for rank in range(len(unlisted))]
    assert found == unlisted


def test_nothing_is_built_that_the_plan_does_not_ask_for():
    x = random_slice((37, 41), 100)
    listed = membership.build_cells(x, Plan((Stratum(LISTED_ALL, 100, 1.0, VALUE_LISTED),)))
    assert listed.counts[3] == membership.NONE
    assert len(listed.linear) == 0
    counted = membership.build_cells(x, Plan((Stratum(ZERO_ALL, 5, 1.0),)))
    assert counted.counts[3] == membership.NONE
    assert len(counted.linear) == x.n_listed


def test_a_dense_array_needs_no_list():
    x = Slice.dense(np.arange(6.0).reshape(2, 3))
    built = membership.build_cells(x, LOOKUP)
    assert built.value.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert len(built.index) == 0
