"""A table taken apart by a column: all rows, in their order, whatever block they came in."""

from __future__ import annotations

import datetime

import polars as pl
import pytest

from onlinegcp import DataError, from_events
from onlinegcp.events import grouping, table_parts
from onlinegcp.events.clock import Clock
from onlinegcp.events.grouping import group_rows, rows_of
from onlinegcp.events.tables import open_tables
from onlinegcp.events.temporary import TemporaryFolder

SETTINGS = {"time": "when", "every": "1d", "modes": ["a"]}
START = datetime.datetime(2018, 1, 1)


def rows(names, hours=None):
    hours = hours or range(0, 6 * len(names), 6)
    return pl.DataFrame(
        {
            "when": [START + datetime.timedelta(hours=hour) for hour in hours],
            "who": names,
            "a": [f"a{k}" for k in range(len(names))],
        }
    )


def grouped(source, folder, **settings):
    return group_rows(open_tables(source), "who", {**SETTINGS, **settings}, folder)


def read(groups, label, columns=("when", "a")):
    found = rows_of(groups.pieces[groups.labels.index(label)], groups.wanted, label)
    frames = [block.frame for part in found.parts for block in part.read(list(columns))]
    return pl.concat(frames) if frames else None


@pytest.mark.parametrize("block", [1, 3, 100])
@pytest.mark.parametrize("few", [0, 100])
def test_the_rows_of_every_label_keep_their_order(monkeypatch, block, few):
    monkeypatch.setattr(table_parts, "BLOCK_ROWS", block)
    monkeypatch.setattr(grouping, "_FEW", few)
    source = rows(["x", "y", "x", None, "z", "y", "x"])
    with TemporaryFolder("Rows lie on disk") as folder:
        groups = grouped(source, folder)
        assert groups.labels == ["x", "y", "z"]
        assert (groups.n_rows, groups.n_unnamed) == ([3, 2, 1], 1)
        for label in groups.labels:
            wanted = source.filter(pl.col("who") == label).select("when", "a")
            assert read(groups, label).equals(wanted)
    assert not folder.path.exists()


def test_numbers_and_text_name_the_same_streams():
    with TemporaryFolder("Rows lie on disk") as folder:
        source = [rows([7, 8]), rows(["7", "9"], [24, 30])]
        groups = grouped(source, folder)
        assert groups.labels == ["7", "8", "9"]
        assert groups.n_rows == [2, 1, 1]


def test_a_label_without_rows_is_an_empty_table():
    found = rows_of([], ["when", "a"], "nobody")
    assert [block for part in found.parts for block in part.read(["when", "a"])] == []


def test_the_clock_is_that_of_all_rows():
    with TemporaryFolder("Rows lie on disk") as folder:
        groups = grouped(rows(["x"] * 9), folder)  # 1 to 3 January
        days = [groups.bins.time(key) for key in groups.keys]
        assert [day.day for day in days] == [1, 2, 3]
        last = groups.keys[-1]
        assert groups.clock(None, close_last=True).open_from == last + 1
        assert groups.clock(None, close_last=False).open_from == last
        # A clock never goes back.
        assert groups.clock(last + 5, close_last=True).open_from == last + 6
        assert grouped(rows(["x"]), folder, until="2017-01-01").clock(None, close_last=True) is None


def test_a_gap_of_the_whole_table_is_refused():
    with TemporaryFolder("Rows lie on disk") as folder:
        groups = grouped(rows(["x", "x"], [0, 24 * 300]), folder)
        with pytest.raises(DataError, match="at most 100 empty bins"):
            groups.check_gaps(None, SETTINGS)
        groups.check_gaps(None, {**SETTINGS, "max_gap": 299})
        groups.check_gaps(None, {**SETTINGS, "empty": "skip"})


def test_a_stream_that_follows_a_clock_closes_its_bins():
    source = rows(["x"] * 5)
    alone = from_events(source, **SETTINGS)
    slices = list(alone)
    clock = Clock(alone.state()["columns"], alone.state()["closed"] + 4)
    follower = from_events(source, **SETTINGS).follow(clock)
    found = list(follower)
    assert [x.time.day for x in found] == [1, 2, 3, 4, 5]
    assert [x.total for x in found[: len(slices)]] == [x.total for x in slices]
    assert not any(x.total for x in found[len(slices) :])
    # Its last bin stays open if the clock says so, and is closed when it has gone on.
    early = from_events(source, **SETTINGS).follow(Clock(clock.columns, alone.state()["closed"]))
    assert len(list(early)) == len(slices) - 1
    rest = from_events(source, **SETTINGS)
    rest.restore(early.state(), again=True).follow(clock)
    assert len(list(rest)) == 4


def test_a_log_has_no_end_to_read_to():
    place = type("Endless", (), {"keeps_open": True, "name": "a log"})()
    found = open_tables(rows(["x"]))
    endless = table_parts.Tables(found.parts, place=place)
    with (
        TemporaryFolder("Rows lie on disk") as folder,
        pytest.raises(DataError, match="a log has no end"),
    ):
        group_rows(endless, "who", SETTINGS, folder)
