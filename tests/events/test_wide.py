"""Wide tables: columns of numbers become a mode, rows keep their order and their names."""

from __future__ import annotations

import json

import polars as pl
import pytest

from event_tables import cells
from onlinegcp import from_events
from onlinegcp.errors import DataError

TABLE = {
    "day": ["2020-01-01", "2020-01-01", "2020-01-02", "2020-01-03"],
    "city": ["Rome", "Oslo", "Rome", "Oslo"],
    "rain": [1.0, 2.0, None, 4.0],
    "wind": [10, 20, 30, 40],
}


def slices(source, **options):
    options = {"time": "day", "every": "1d", "agg": "mean", **options}
    stream = from_events(source, **options)
    return stream, [cells(stream, x) for x in stream]


def test_value_columns_become_a_mode():
    stream, found = slices(TABLE, modes=["city"], value=["rain", "wind"])
    assert stream.mode_names == ("city", "measure")
    assert found == [
        {
            ("Rome", "rain"): 1.0,
            ("Rome", "wind"): 10.0,
            ("Oslo", "rain"): 2.0,
            ("Oslo", "wind"): 20.0,
        },
        {("Rome", "wind"): 30.0},
        {("Oslo", "rain"): 4.0, ("Oslo", "wind"): 40.0},
    ]
    assert stream.n_null == 1


def test_one_value_without_modes_is_a_mode_by_itself():
    stream, found = slices(TABLE, value="wind")
    assert stream.labels == (("wind",),)
    assert found == [{("wind",): 15.0}, {("wind",): 30.0}, {("wind",): 40.0}]


def test_a_wide_table_gives_what_a_long_one_does(tmp_path):
    csv, lines = tmp_path / "w.csv", tmp_path / "w.json"
    frame = pl.DataFrame(TABLE).reverse()  # not in order: sorted on disk
    frame.write_csv(csv)
    lines.write_text(json.dumps(frame.to_dicts()))
    expected = slices(TABLE, modes=["city"], value=["rain", "wind"])[1]
    for source in (str(csv), str(lines), frame):
        assert slices(source, modes=["city"], value=["rain", "wind"])[1] == expected


def test_a_stream_of_a_wide_table_goes_on_where_it_stood():
    first, _ = slices(pl.DataFrame(TABLE)[:2], modes=["city"], value=["wind"], close_last=False)
    again = from_events(
        pl.DataFrame(TABLE)[2:], time="day", every="1d", agg="mean", modes=["city"], value=["wind"]
    ).restore(json.loads(json.dumps(first.state())))
    assert [x.total for x in again] == [30.0, 30.0, 40.0]


def test_names_that_are_taken_are_left_to_the_table():
    table = {**TABLE, "measure": ["a", "b", "a", "b"], "value": [1, 2, 3, 4]}
    stream, found = slices(table, modes=["measure"], value=["value", "wind"])
    assert stream.mode_names == ("measure", "measure_")
    assert found[2] == {("b", "value"): 4.0, ("b", "wind"): 40.0}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (["wind", "wind"], "'wind' is named twice"),
        (["wnd", "rain"], "Did you mean 'wind'"),
        ([], "the list is empty"),
        (["city", "wind"], "'city', but row 1 of the table has 'Rome'"),
    ],
)
def test_columns_that_are_no_values_are_refused(value, message):
    with pytest.raises(DataError, match=message):
        slices(TABLE, modes=["city"], value=value)


def test_the_row_of_the_table_is_named():
    table = {**TABLE, "wind": ["1", "2", "3", "much"]}
    with pytest.raises(DataError, match="row 4 of the table has 'much'"):
        slices(table, modes=["city"], value=["rain", "wind"])


def test_years_need_bins_of_years():
    table = {"year": [1990, 1995, 2000], "v": [1, 2, 3]}
    assert slices(table, time="year", every="5y", value="v")[1] == [
        {("v",): float(n)} for n in (1, 2, 3)
    ]
    with pytest.raises(DataError, match=r"Bins shorter than a year .* Use every='1y'"):
        slices(table, time="year", every="1mo", value="v")
