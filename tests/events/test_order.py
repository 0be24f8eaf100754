"""Looking through a source first: order is found where there is some, and counts are right."""

from __future__ import annotations

import datetime
from collections import Counter

import numpy as np
import polars as pl
import pytest

from onlinegcp.events import table_parts
from onlinegcp.events.modes import column
from onlinegcp.events.order import in_order_of_time, most_frequent, sorted_rows
from onlinegcp.events.rows import RowReader
from onlinegcp.events.tables import open_tables
from onlinegcp.events.time_bins import TimeBins
from onlinegcp.events.time_column import TimeColumn
from onlinegcp.events.vocabulary import Vocabulary


def reader_of(every="1d", *modes, **limits):
    time = TimeColumn("t", plain=isinstance(every, int))
    made = RowReader(
        time,
        TimeBins(every, time),
        [column(mode) for mode in modes],
        value=None,
        since=limits.get("since"),
        until=limits.get("until"),
        nulls=True,
    )
    made.vocabularies = {mode: Vocabulary() for mode in modes}
    return made


def parts_of(*numbers):
    return open_tables(
        [pl.DataFrame({"t": values}, schema={"t": pl.Int64}) for values in numbers]
    ).parts


@pytest.fixture(params=[1, 2, 1000])
def block_rows(request, monkeypatch):
    monkeypatch.setattr(table_parts, "BLOCK_ROWS", request.param)


@pytest.mark.parametrize(
    ("every", "parts", "order"),
    [
        (1, [[1, 2, 2, 5]], [0]),
        (1, [[1, 3, 2]], None),
        (5, [[1, 3, 2]], [0]),  # disorder within a bin does no harm
        (1, [[7, 8], [1, 2], [3]], [1, 2, 0]),
        (1, [[1, 5], [3]], None),
        (1, [[1, 2], [2, 3]], [0, 1]),
        (1, [[2, 3], [1, 2]], [1, 0]),
        (1, [[], [4], [None], [1]], [3, 1, 0, 2]),
        (1, [[None, 1, None, 2]], [0]),
        (1, [[]], [0]),
        (1, [[0], [-3, -1]], [1, 0]),
    ],
)
def test_parts_are_put_in_order_of_time_if_they_have_one(block_rows, every, parts, order):
    given = parts_of(*parts)
    found = in_order_of_time(given, reader_of(every))
    assert (None if found is None else [given.index(part) for part in found]) == order


def test_rows_outside_the_limits_do_not_spoil_the_order():
    parts = parts_of([900, 1, 2, -5])
    assert in_order_of_time(parts, reader_of(1, since=0, until=100)) is not None
    assert in_order_of_time(parts, reader_of(1, since=0)) is None


def test_sorted_rows_are_all_rows_in_order(block_rows):
    numbers = np.random.default_rng(0).integers(0, 9, 50)
    table = pl.DataFrame({"t": numbers, "k": numbers % 4})
    reader = reader_of(1, "k")
    rows = list(sorted_rows(open_tables([table[:20], table[20:]]).parts, reader))
    keys = np.concatenate([part.keys for part in rows])
    np.testing.assert_array_equal(keys, np.sort(numbers))
    names = [reader.vocabularies["k"].name(i) for part in rows for i in part.ids[0]]
    assert names == [str(number % 4) for number in np.sort(numbers)]


def test_the_most_frequent_labels_are_counted_over_all_parts(monkeypatch):
    monkeypatch.setattr(table_parts, "BLOCK_ROWS", 37)
    rng = np.random.default_rng(0)
    table = pl.DataFrame({"t": [5] * 200, "k": rng.integers(0, 12, 200), "m": ["x"] * 200})
    parts = open_tables([table[:90], table[90:]]).parts
    counts = Counter(table["k"].cast(pl.String).to_list())
    by_count = sorted(counts, key=lambda label: (-counts[label], int(label)))
    for k in (1, 3, 12, 50):
        found = most_frequent(parts, reader_of(1, "k", "m"), {("k",): k, ("m",): 1})
        assert found == {("k",): by_count[:k], ("m",): ["x"]}


def test_shared_labels_are_counted_together_and_nulls_not_at_all():
    table = pl.DataFrame(
        {"t": [1, 1, None], "a": ["x", "y", "z"], "b": ["y", None, "z"]},
    )
    found = most_frequent(open_tables(table).parts, reader_of(1, "a", "b"), {("a", "b"): 9})
    assert found == {("a", "b"): ["y", "x"]}


def test_dates_are_compared_by_bin():
    days = [datetime.date(2018, 1, day) for day in (1, 3, 2)]
    parts = open_tables(pl.DataFrame({"t": days})).parts
    assert in_order_of_time(parts, reader_of("1d")) is None
    assert in_order_of_time(parts, reader_of("1w")) is not None
