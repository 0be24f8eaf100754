"""Cells of a bin: the same aggregates however rows are dealt out, in little memory."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from onlinegcp.events import cells as module
from onlinegcp.events.cells import Cells, Entries, fold

AGGREGATIONS = ["count", "sum", "any", "mean", "max"]
EXPECTED = {
    "count": len,
    "sum": sum,
    "any": lambda values: float(any(values)),
    "mean": lambda values: sum(values) / len(values),
    "max": max,
}


def by_hand(ids, values, aggregation):
    found = defaultdict(list)
    for cell, value in zip(zip(*ids, strict=True), values, strict=True):
        if min(cell) >= 0 and not np.isnan(value):
            found[tuple(map(int, cell))].append(float(value))
    return {cell: EXPECTED[aggregation](values) for cell, values in found.items()}


def as_dict(entries):
    total = entries.total if entries.weight is None else entries.total / entries.weight
    cells = [tuple(map(int, cell)) for cell in zip(*entries.ids, strict=True)]
    assert cells == sorted(set(cells))
    return dict(zip(cells, total.tolist(), strict=True))


def drawn(n_rows, seed=0):
    rng = np.random.default_rng(seed)
    ids = [
        rng.integers(-1, 4, n_rows).astype(np.int32),
        rng.integers(0, 3, n_rows).astype(np.int32),
    ]
    values = rng.integers(-2, 3, n_rows).astype(float)
    values[rng.random(n_rows) < 0.1] = np.nan
    return ids, values


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("fold_at", [1, 10, 10**6])
def test_aggregates_are_those_of_all_rows_of_a_cell(monkeypatch, aggregation, fold_at):
    monkeypatch.setattr(module, "_ROWS_BEFORE_FOLDING", fold_at)
    ids, values = drawn(97)
    if aggregation == "count":
        values = None
    cells = Cells(aggregation)
    for start in range(0, 97, 13):
        part = slice(start, start + 13)
        cells.add([column[part] for column in ids], None if values is None else values[part])
    values = np.ones(97) if values is None else values
    expected = by_hand(ids, values, aggregation)
    assert as_dict(cells.fold()) == pytest.approx(expected)
    kept = (ids[0] >= 0) & ~np.isnan(values)
    assert (cells.n_events, cells.n_null) == (kept.sum(), 97 - kept.sum())


def test_any_without_values_is_one_per_cell():
    cells = Cells("any")
    cells.add([np.array([2, 2, 0], np.int32)], None)
    assert as_dict(cells.fold()) == {(0,): 1.0, (2,): 1.0}


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_rows_that_are_all_null_leave_nothing(aggregation):
    cells = Cells(aggregation)
    cells.add([np.array([-1, -1], np.int32)], None if aggregation == "count" else np.ones(2))
    assert cells.empty
    assert (cells.n_events, cells.n_null) == (0, 2)


def test_what_is_held_does_not_grow_with_the_number_of_rows(monkeypatch):
    monkeypatch.setattr(module, "_ROWS_BEFORE_FOLDING", 100)
    cells = Cells("count")
    for _ in range(200):
        cells.add([np.arange(7, dtype=np.int32)], None)
        assert cells._n_held <= 107
    assert as_dict(cells.fold()) == {(i,): 200.0 for i in range(7)}


@pytest.mark.parametrize("total", [None, np.array([1.0, 2.0, 4.0])])
def test_ids_too_large_to_number_all_cells_still_fold(total):
    big = np.array([2**31 - 2, 0, 2**31 - 2], np.int32)
    found = as_dict(fold(Entries((big, big, big), total), "sum"))
    expected = [2.0, 1.0] if total is None else [5.0, 2.0]
    assert found == {(2**31 - 2,) * 3: expected[0], (0, 0, 0): expected[1]}
