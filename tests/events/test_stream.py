"""The stream: bins close in order, late rows stay out, and stopping anywhere loses nothing."""

from __future__ import annotations

import datetime
import io
import json
import logging

import numpy as np
import polars as pl
import pytest

from onlinegcp.errors import DataError, StateError
from onlinegcp.events import cells, from_events, spill, table_parts

JANUARY = datetime.datetime(2018, 1, 1)
OPTIONS = {"time": "t", "every": "1d", "modes": ["pu", "do"], "share": [("pu", "do")]}


def drawn(n_rows=300, n_days=12, seed=0, *, in_order=True):
    rng = np.random.default_rng(seed)
    seconds = rng.integers(0, n_days * 86_400, n_rows)
    # Labels appear over time, so that vocabularies grow in most bins.
    newest = 2 + seconds // 86_400
    table = pl.DataFrame(
        {
            "t": [JANUARY + datetime.timedelta(seconds=int(s)) for s in seconds],
            "pu": rng.integers(0, newest),
            "do": rng.integers(0, newest),
            "v": rng.integers(0, 5, n_rows).astype(float),
        }
    )
    return table.sort("t") if in_order else table


def summary(stream):
    counters = (stream.n_slices, stream.n_events, stream.n_late, stream.n_null, stream.n_outside)
    return stream.labels, stream.shape, counters


def through_json(state):
    return json.loads(json.dumps(state))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(table_parts, "BLOCK_ROWS", 37)


# Resuming


@pytest.mark.parametrize(
    "options", [{}, {"value": "v", "agg": "mean"}, {"top": 4}, {"in_order": False}]
)
def test_stopping_after_any_slice_and_starting_again_changes_nothing(options):
    table = drawn()
    whole = from_events(table, **OPTIONS, **options)
    expected = list(whole)
    for stop in (0, 1, 5, len(expected)):
        before = from_events(table, **OPTIONS, **options)
        slices = [next(before) for _ in range(stop)]
        state = through_json(before.state())
        after = from_events(table, **OPTIONS, **options).restore(state, again=True)
        assert summary(after) == summary(before)
        slices += after
        assert slices == expected
        assert summary(after) == summary(whole)


def spoiled(in_order=True):
    """Rows without a time, also first of all, without a key, late, and outside the limits."""
    table = drawn(in_order=in_order)
    rows = np.arange(len(table))
    t = [None if r < 40 or r % 17 == 0 else moment for r, moment in enumerate(table["t"])]
    if in_order:  # one in 29 comes a day late
        late = datetime.timedelta(days=1)
        t = [m if m is None or r % 29 else m - late for r, m in enumerate(t)]
    pu = [None if r % 13 == 0 else label for r, label in zip(rows, table["pu"], strict=True)]
    return table.with_columns(t=pl.Series(t, dtype=pl.Datetime), pu=pl.Series(pu))


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("block_rows", [5, 37, 1000])
def test_rows_left_out_are_counted_once_however_often_they_are_read(
    monkeypatch, in_order, block_rows
):
    monkeypatch.setattr(table_parts, "BLOCK_ROWS", block_rows)
    table = spoiled(in_order)
    options = OPTIONS | {"in_order": in_order, "since": "2018-01-02", "until": "2018-01-10"}
    whole = from_events(table, **options)
    expected = list(whole)
    assert whole.n_events + whole.n_null + whole.n_late + whole.n_outside == len(table)
    assert min(whole.n_null, whole.n_outside, whole.n_late + (not in_order)) > 0
    for stop in (0, 1, 2, 5, len(expected)):
        before = from_events(table, **options)
        slices = [next(before) for _ in range(stop)]
        after = from_events(table, **options).restore(through_json(before.state()), again=True)
        slices += after
        assert slices == expected
        assert summary(after) == summary(whole)
    # Tomorrow's file holds today's rows, too.
    after = from_events(table, **options).restore(through_json(whole.state()), again=True)
    assert list(after) == []
    assert summary(after) == summary(whole)


@pytest.mark.parametrize("options", [{}, {"value": "v", "agg": "sum"}, {"top": 4}])
def test_tomorrow_goes_on_with_the_same_codes(options):
    table = drawn()
    noon = JANUARY + datetime.timedelta(days=5)
    today, tomorrow = table.filter(pl.col("t") < noon), table.filter(pl.col("t") >= noon)
    first = from_events(today, **OPTIONS, **options)
    slices = list(first)
    second = from_events(tomorrow, **OPTIONS, **options).restore(through_json(first.state()))
    assert second.labels == first.labels
    slices += second
    known = first.labels[0]
    assert second.labels[0][: len(known)] == known
    if "top" not in options:
        whole = from_events(table, **OPTIONS, **options)
        assert slices == list(whole)
        assert summary(second) == summary(whole)


@pytest.mark.parametrize("agg", ["count", "sum", "any", "mean", "max"])
@pytest.mark.parametrize("cut", [1, 100, 299])
def test_a_bin_that_is_left_open_is_finished_later(agg, cut):
    table = drawn()
    options = OPTIONS | {"agg": agg, "value": None if agg == "count" else "v"}
    options["modes"] = ["pu", "do", "t:hour"]
    whole = from_events(table, **options)
    first = from_events(table.head(cut), close_last=False, **options)
    slices = list(first)
    second = from_events(table.tail(-cut), **options).restore(through_json(first.state()))
    slices += second
    assert slices == list(whole)
    assert summary(second) == summary(whole)


def test_days_between_two_runs_are_filled():
    first = from_events({"t": ["2018-01-01"], "k": ["a"]}, time="t", every="1d", modes=["k"])
    assert len(list(first)) == 1
    second = from_events({"t": ["2018-01-04"], "k": ["b"]}, time="t", every="1d", modes=["k"])
    second.restore(first.state())
    assert [(x.time.day, x.shape, x.total) for x in second] == [
        (2, (1,), 0),
        (3, (1,), 0),
        (4, (2,), 1),
    ]


def test_rows_of_a_day_that_was_handed_out_are_late_tomorrow():
    first = from_events({"t": ["2018-01-02"], "k": ["a"]}, time="t", every="1d", modes=["k"])
    list(first)
    table = {"t": ["2018-01-01", "2018-01-02", "2018-01-03"], "k": ["x", "y", "b"]}
    options = {"time": "t", "every": "1d", "modes": ["k"]}
    second = from_events(table, **options).restore(first.state())
    assert [x.time.day for x in second] == [3]
    assert (second.n_late, second.labels) == (2, (("a", "b"),))
    third = from_events(table, on_late="error", **options).restore(first.state())
    with pytest.raises(DataError, match="row 1 of the table belongs to 2018-01-01"):
        list(third)


def test_labels_new_since_yesterday_can_be_other():
    first = from_events({"t": ["2018-01-01"], "k": ["a"]}, time="t", every="1d", modes=["k"])
    list(first)
    second = from_events(
        {"t": ["2018-01-02"], "k": ["b"]}, time="t", every="1d", modes=["k"], on_new="other"
    )
    list(second.restore(first.state()))
    assert second.labels == (("a", "other"),)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"modes": ["do", "pu"]}, "modes was"),
        ({"every": "1h"}, "every was '1d' and is '1h'"),
        ({"timezone": "Asia/Tokyo"}, "timezone was None"),
        ({"agg": "any"}, "aggregation was"),
        ({"share": ()}, "shared was"),
    ],
)
def test_a_stream_goes_on_only_as_it_began(change, message):
    state = from_events(drawn(), **OPTIONS).state()
    with pytest.raises(StateError, match=message):
        from_events(drawn(), **(OPTIONS | change)).restore(state)


@pytest.mark.parametrize("state", [None, {}, {"version": 99}])
def test_a_state_of_something_else_is_refused(state):
    with pytest.raises(StateError, match="version"):
        from_events(drawn(), **OPTIONS).restore(state)


def test_a_state_cannot_be_restored_into_a_running_stream():
    stream = from_events(drawn(), **OPTIONS)
    next(stream)
    with pytest.raises(StateError, match="before the first slice"):
        stream.restore(stream.state())


# Order


@pytest.mark.parametrize("stretch", [10, 1 << 20])
@pytest.mark.parametrize("fold_at", [5, 1 << 21])
def test_shuffled_rows_give_the_same_slices(monkeypatch, stretch, fold_at):
    monkeypatch.setattr(spill, "_STRETCH", stretch)
    monkeypatch.setattr(cells, "_ROWS_BEFORE_FOLDING", fold_at)
    expected = list(from_events(drawn(), in_order=True, **OPTIONS))
    assert list(from_events(drawn(in_order=False), **OPTIONS)) == expected
    assert list(from_events(drawn(), in_order=False, **OPTIONS)) == expected


def test_files_are_read_in_order_of_time_whatever_their_names(tmp_path):
    table = drawn()
    names = ["9.parquet", "10.parquet", "z.parquet", "a.parquet"]
    for k, name in enumerate(names):
        table[k * 75 : (k + 1) * 75].write_parquet(tmp_path / name)
    stream = from_events(tmp_path / "*.parquet", **OPTIONS)
    assert list(stream) == list(from_events(table, **OPTIONS))


def test_rows_that_come_late_are_dropped_and_counted(caplog):
    table = pl.DataFrame(
        {"t": [f"2018-01-0{day}" for day in (1, 2, 1, 2, 3, 2)], "k": list("abcdef")}
    )
    stream = from_events(table, time="t", every="1d", modes=["k"], in_order=True)
    with caplog.at_level(logging.WARNING, logger="onlinegcp"):
        assert [(x.time.day, x.total) for x in stream] == [(1, 1), (2, 2), (3, 1)]
    assert stream.n_late == 2
    assert stream.labels == (("a", "b", "d", "e"),)
    assert "2 rows" in caplog.text


@pytest.mark.parametrize("block_rows", [1, 2, 4, 1000])
def test_what_is_late_does_not_depend_on_blocks(monkeypatch, block_rows):
    table = drawn(in_order=False)
    expected = from_events(table, in_order=True, **OPTIONS)
    slices = list(expected)
    monkeypatch.setattr(table_parts, "BLOCK_ROWS", block_rows)
    stream = from_events(table, in_order=True, **OPTIONS)
    assert list(stream) == slices
    assert summary(stream) == summary(expected)
    assert stream.n_events + stream.n_late == 300


def test_rows_left_out_are_told_once_per_source(caplog):
    table = pl.DataFrame({"t": ["2018-01-01", "2018-01-02", None], "k": ["a", None, "b"]})
    stream = from_events(table, time="t", every="1d", modes=["k"])
    with caplog.at_level(logging.WARNING, logger="onlinegcp"):
        list(stream)
        assert "2 rows without a time, a key or a value" in caplog.text
        caplog.clear()
        list(
            from_events(table, time="t", every="1d", modes=["k"]).restore(
                stream.state(), again=True
            )
        )
        assert not caplog.text


def test_a_late_row_can_be_an_error():
    text = b"t,k\n2018-01-01,a\n2018-01-03,b\n2018-01-02,c\n"
    stream = from_events(io.BytesIO(text), time="t", every="1d", modes=["k"], on_late="error")
    with pytest.raises(DataError, match=r"row 3 of the open file belongs to 2018-01-02"):
        list(stream)


# Live


def test_a_live_bin_is_closed_by_the_first_later_event():
    lines = [b"t,k\n", b"2018-01-01,a\n", b"2018-01-01,b\n", b"2018-01-02,a\n", b"2018-01-04,c\n"]

    class Pipe:
        name = "pipe"

        def read1(self, size):
            return lines.pop(0) if lines else b""

        read = read1

    stream = from_events(Pipe(), time="t", every="1d", modes=["k"])
    assert next(stream).total == 2
    assert len(lines) == 1
    assert [x.time.day for x in stream] == [2, 3, 4]


def test_the_most_frequent_labels_of_a_live_stream_are_unknown():
    with pytest.raises(DataError, match="can be read only once"):
        from_events(io.BytesIO(b"t,k\n"), time="t", every="1d", modes=["k"], top=3)


def test_an_empty_live_stream_gives_nothing():
    assert list(from_events(io.BytesIO(b""), time="t", every="1d", modes=["k"])) == []


# Use


def test_a_stream_is_read_once():
    stream = from_events(drawn(), **OPTIONS)
    assert list(stream)
    with pytest.raises(StateError, match="read once"):
        list(stream)


def test_closing_lets_go_of_temporary_files(tmp_path, monkeypatch):
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    stream = from_events(drawn(in_order=False), **OPTIONS)
    next(stream)
    assert list(tmp_path.iterdir())
    stream.close()
    assert not list(tmp_path.iterdir())
    from_events(drawn(), **OPTIONS).close()


def test_a_stream_that_is_dropped_half_way_leaves_no_file_open(tmp_path):
    """An open file would be a warning, which is an error here."""
    drawn().write_csv(tmp_path / "t.csv")
    for source in (tmp_path / "t.csv", drawn(in_order=False)):
        stream = from_events(source, **OPTIONS)
        next(stream)
        del stream


def test_attributes_speak_of_the_slices_handed_out():
    stream = from_events(drawn(), **OPTIONS)
    assert stream.shape == (0, 0)
    x = next(stream)
    assert stream.shape == x.shape == tuple(map(len, stream.labels))
    assert (stream.n_slices, stream.n_events) == (1, x.total)
    assert stream.mode_names == ("pu", "do")


@pytest.mark.parametrize("in_order", [None, True, False])
def test_progress_can_be_told(in_order):
    table = drawn().with_columns(pl.col("pu").replace(0, None))
    stream = from_events(table, in_order=in_order, since="2018-01-03", **OPTIONS)
    assert stream.n_read == 0
    list(stream)
    assert stream.n_read == 300
    assert stream.n_rows == (None if in_order else 300)


def test_a_first_bin_still_open_keeps_its_labels():
    """Vocabularies are empty then, and an empty one must not be taken for none."""
    table = {"t": ["2020-01-01", "2020-01-01"], "k": ["b", "a"]}
    later = {"t": ["2020-01-01", "2020-01-02"], "k": ["a", "c"]}
    options = {"time": "t", "every": "1d", "modes": ["k"], "close_last": False}
    first = from_events(pl.DataFrame(table), **options)
    assert list(first) == []
    state = json.loads(json.dumps(first.state()))
    again = from_events(pl.DataFrame(later), **options).restore(state)
    found = next(iter(again))
    counts = dict(zip(again.labels[0], found.to_dense().tolist(), strict=False))
    assert counts == {"a": 2.0, "b": 1.0}
