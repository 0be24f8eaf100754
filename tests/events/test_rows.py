"""Rows as integers: nulls travel along, and every row still knows where it came from."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from onlinegcp.errors import DataError
from onlinegcp.events.modes import bins, column
from onlinegcp.events.rows import RowReader, Rows
from onlinegcp.events.table_parts import Block
from onlinegcp.events.time_bins import TimeBins
from onlinegcp.events.time_column import TimeColumn
from onlinegcp.events.vocabulary import Vocabulary


def reader_of(*, value=None, since=None, until=None, nulls=True):
    time = TimeColumn("t", plain=True)
    reader = RowReader(
        time,
        TimeBins(10, time),
        [column("k"), bins("x", [0])],
        value=value,
        since=since,
        until=until,
        nulls=nulls,
    )
    reader.vocabularies = {"k": Vocabulary()}
    return reader


def block(times, first_row=1):
    n = len(times)
    table = pl.DataFrame(
        {"t": times, "k": list("abcdefgh"[:n]), "x": [1.0] * n, "v": np.arange(n, dtype=float)},
        schema_overrides={"t": pl.Int64},
    )
    return Block(table, "table", first_row)


def test_a_row_has_a_bin_an_id_per_mode_and_a_value():
    rows = reader_of(value="v").read(block([5, 15, 12]))
    assert rows.keys.tolist() == [0, 1, 1]
    assert [part.tolist() for part in rows.ids] == [[0, 1, 2], [1, 1, 1]]
    assert rows.values.tolist() == [0, 1, 2]
    assert reader_of().read(block([5])).values is None


def test_every_column_is_read_once():
    assert reader_of(value="x").columns == ["t", "k", "x"]


def test_a_row_without_a_time_goes_with_the_row_before():
    reader = reader_of()
    rows = reader.read(block([None, 25, None, 40, None]))
    assert rows.keys.tolist() == [2, 2, 2, 4, 4]
    assert [(part < 0).tolist() for part in rows.ids] == [[True, False, True, False, True]] * 2
    assert reader.read(block([None, 50])).keys.tolist() == [4, 5]
    assert reader.read(block([None, None])).keys.tolist() == [5, 5]


def test_rows_without_a_time_at_the_very_start_are_only_counted():
    rows = reader_of().read(block([None, None]))
    assert (len(rows), rows.n_untimed) == (0, 2)


def test_rows_outside_the_limits_are_left_out_and_the_others_keep_their_place():
    rows = reader_of(since=10, until=30).read(block([5, 10, 29, 30, None], first_row=101))
    # The last one has no time: it counts with the row before it that is not left out.
    assert rows.keys.tolist() == [1, 2, 2]
    assert rows.n_outside == 2
    assert rows.where(1) == "row 103 of table"
    assert rows.take(np.array([False, True, True])).where(0) == "row 103 of table"
    assert rows.take(slice(1, 3)).where(0) == "row 103 of table"


@pytest.mark.parametrize("nulls", [True, False])
def test_nulls_are_let_through_or_named(nulls):
    reader = reader_of(nulls=nulls)
    good = reader.read(block([1, 2]))
    assert isinstance(good, Rows)
    if nulls:
        assert reader.read(block([1, None])).ids[0][1] == -1
        return
    with pytest.raises(DataError, match=r"Column 't' .* row 8 of table has none"):
        reader.read(block([1, None], first_row=7))


def test_a_span_is_told_without_all_bins():
    reader = reader_of()
    assert reader.span(block([1, 5, 25])) == (0, 2)
    assert reader.span(block([5, 1, 25])) == (0, 2)
    assert reader.span(block([15, 1])) is None
    first, last = reader.span(block([None]))
    assert first > last
