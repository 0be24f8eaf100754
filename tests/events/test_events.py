"""From events to slices: totals, labels, times and nulls, against sums made by hand."""

from __future__ import annotations

import datetime
from collections import defaultdict

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from event_tables import DAY, JANUARY, cells, events
from onlinegcp.errors import DataError
from onlinegcp.events import from_events, table_parts
from onlinegcp.events.modes import bins, hour, weekday


def by_hand(table, modes):
    """Counts by day and label, and labels in order of first day, without any of our code."""
    counts = defaultdict(lambda: defaultdict(int))
    for row in table.iter_rows(named=True):
        counts[row["t"].date()][tuple(str(row[mode]) for mode in modes)] += 1
    labels = [[] for _ in modes]
    for day in sorted(counts):
        for k, known in enumerate(labels):
            known.extend(sorted({cell[k] for cell in counts[day]} - set(known)))
    return counts, tuple(tuple(known) for known in labels)


ROWS = st.lists(
    st.tuples(
        st.integers(1, 9), st.integers(0, 23), st.sampled_from("abcd"), st.sampled_from("xyz")
    ),
    min_size=1,
    max_size=40,
)


@settings(deadline=None, max_examples=30)
@given(ROWS, st.sampled_from([1, 3, 1000]), st.sampled_from([None, False]), st.integers(1, 3))
def test_slices_hold_the_counts_made_by_hand(rows, block_rows, in_order, n_parts):
    """Whatever the order of rows, the size of blocks and the number of parts."""
    table = events(*rows)
    counts, labels = by_hand(table, ["pu", "do"])
    parts = [table[k::n_parts] for k in range(n_parts)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_parts, "BLOCK_ROWS", block_rows)
        stream = from_events(parts, time="t", every="1d", modes=["pu", "do"], in_order=in_order)
        slices = list(stream)
    assert stream.labels == labels
    days = [min(counts) + n * DAY for n in range((max(counts) - min(counts)).days + 1)]
    assert [x.time for x in slices] == days
    known = [0, 0]
    for x in slices:
        assert cells(stream, x) == counts.get(x.time, {})
        shape = [max(before, now) for before, now in zip(known, x.shape, strict=True)]
        assert list(x.shape) == shape  # never shrinks
        known = shape
    assert stream.n_events == len(rows)
    assert stream.n_slices == len(slices)
    assert (stream.n_late, stream.n_null, stream.n_outside) == (0, 0, 0)
    assert stream.shape == slices[-1].shape


def test_days_without_events_are_there():
    table = events((1, 0, "a", "x"), (4, 0, "a", "x"))
    slices = list(from_events(table, time="t", every="1d", modes=["pu"]))
    assert [x.time.day for x in slices] == [1, 2, 3, 4]
    assert [x.total for x in slices] == [1, 0, 0, 1]
    assert [x.unlisted for x in slices] == ["zero"] * 4


@pytest.mark.parametrize(("empty", "days"), [("zero", 4), ("missing", 4), ("skip", 2)])
def test_what_an_empty_bin_becomes_is_a_choice(empty, days):
    table = events((1, 0, "a", "x"), (4, 0, "a", "x"))
    slices = list(from_events(table, time="t", every="1d", modes=["pu"], empty=empty))
    assert len(slices) == days
    assert slices[1].unlisted == ("missing" if empty == "missing" else "zero")
    assert slices[1].n_observed == (0 if empty == "missing" else 1)


def test_an_unseen_label_gets_the_next_code_and_not_the_last_row():
    table = events((1, 0, "m", "x"), (1, 0, "n", "x"), (2, 0, "a", "x"))
    stream = from_events(table, time="t", every="1d", modes=["pu"])
    first, second = stream
    assert (first.shape, second.shape) == ((2,), (3,))
    assert second.index.tolist() == [[2]]
    assert stream.labels == (("m", "n", "a"),)


def test_two_modes_can_share_one_vocabulary():
    table = events((1, 0, "b", "c"), (2, 0, "a", "b"))
    stream = from_events(table, time="t", every="1d", modes=["pu", "do"], share=[("pu", "do")])
    first, second = stream
    assert stream.labels == (("b", "c", "a"),) * 2
    assert (first.shape, second.shape) == ((2, 2), (3, 3))
    assert second.index.tolist() == [[2, 0]]


def test_sharing_joins_groups_that_overlap():
    table = pl.DataFrame({"t": [JANUARY], "a": ["1"], "b": ["2"], "c": ["3"], "d": ["4"]})
    stream = from_events(
        table, time="t", every="1d", modes=["a", "b", "c", "d"], share=[("a", "c"), ("c", "d")]
    )
    assert next(stream).shape == (3, 1, 3, 3)


def test_derived_modes_have_all_their_labels():
    table = events((1, 7, "a", "x"), (7, 23, "b", "y"))
    stream = from_events(table, time="t", every="1w", modes=[hour("t"), weekday("t"), "t:month"])
    (x,) = stream
    assert x.shape == (24, 7, 12)
    assert cells(stream, x) == {("07", "Mon", "Jan"): 1, ("23", "Sun", "Jan"): 1}
    assert stream.mode_names == ("t:hour", "t:weekday", "t:month")


def test_a_derived_mode_may_read_another_time_column():
    table = pl.DataFrame({"t": [JANUARY] * 2, "end": ["2018-01-01T05:10", None]})
    stream = from_events(table, time="t", every="1d", modes=["end:hour"])
    assert cells(stream, next(stream)) == {("05",): 1}
    assert stream.n_null == 1


def test_ranges_of_numbers_can_be_a_mode():
    table = pl.DataFrame({"t": [JANUARY] * 4, "fare": ["3", "5", "70", ""]})
    stream = from_events(table, time="t", every="1d", modes=[bins("fare", [0, 5, 10])])
    assert cells(stream, next(stream)) == {("0 to 5",): 1, ("5 to 10",): 1, (">=10",): 1}
    assert stream.n_null == 1


# Aggregation


@pytest.mark.parametrize(
    ("agg", "expected", "unlisted"),
    [
        (None, {("a",): 1.5, ("b",): 4.0}, "zero"),
        ("sum", {("a",): 1.5, ("b",): 4.0}, "zero"),
        ("any", {("a",): 1.0, ("b",): 1.0}, "zero"),
        ("mean", {("a",): 0.75, ("b",): 4.0, ("c",): 0.0}, "missing"),
        ("max", {("a",): 2.0, ("b",): 4.0, ("c",): 0.0}, "missing"),
    ],
)
def test_values_are_aggregated_per_cell(agg, expected, unlisted):
    table = pl.DataFrame({"t": [JANUARY] * 5, "k": list("abaca"), "v": [2.0, 4.0, -0.5, 0.0, None]})
    stream = from_events(table, time="t", every="1d", modes=["k"], value="v", agg=agg)
    (x,) = stream
    assert cells(stream, x) == expected
    assert x.unlisted == unlisted
    assert (stream.n_events, stream.n_null) == (4, 1)


def test_any_without_a_value_says_whether_there_was_an_event():
    stream = from_events(
        events((1, 0, "a", "x"), (1, 1, "a", "x")), time="t", every="1d", modes=["pu"], agg="any"
    )
    assert next(stream).value.tolist() == [1.0]


def test_bins_without_measurements_are_missing():
    table = pl.DataFrame({"t": [JANUARY, JANUARY + 2 * DAY], "k": ["a", "a"], "v": [1.0, 2.0]})
    slices = list(from_events(table, time="t", every="1d", modes=["k"], value="v", agg="mean"))
    assert [x.n_observed for x in slices] == [1, 0, 1]


# Labels


def test_the_most_frequent_labels_are_kept_and_the_rest_is_other():
    table = events(
        *[(1, 0, "rare", "x")],
        *[(2, 0, "often", "x")] * 3,
        *[(2, 0, "some", "x")] * 2,
        (3, 0, "b", "x"),
    )
    stream = from_events(table, time="t", every="1d", modes=["pu", "do"], top={"pu": 2})
    slices = list(stream)
    assert stream.labels == (("often", "some", "other"), ("x",))
    assert {x.shape for x in slices} == {(3, 1)}
    assert [cells(stream, x) for x in slices] == [
        {("other", "x"): 1},
        {("often", "x"): 3, ("some", "x"): 2},
        {("other", "x"): 1},
    ]


def test_top_counts_all_columns_of_a_shared_vocabulary_within_the_limits():
    table = events((1, 0, "a", "b"), (1, 0, "b", "c"), (1, 0, "c", "c"), *[(9, 0, "z", "z")] * 5)
    stream = from_events(
        table,
        time="t",
        every="1d",
        modes=["pu", "do"],
        share=[("pu", "do")],
        top=2,
        until="2018-01-09",
    )
    list(stream)
    assert stream.labels[0] == stream.labels[1] == ("c", "b", "other")
    assert stream.n_outside == 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"modes": ["pu", "pu"]}, "different names, but 'pu' occurs twice"),
        ({"top": True}, "top must be a whole number from 1, but for 'pu' it is True"),
        ({"top": {"pu": 0}}, "top must be a whole number from 1, but for 'pu' it is 0"),
    ],
)
def test_modes_and_numbers_of_labels_that_cannot_be_meant_are_refused(options, message):
    with pytest.raises(DataError, match=message):
        from_events(
            events((1, 0, "a", "b")), **{"time": "t", "every": "1d", "modes": ["pu"]} | options
        )


def test_ties_are_broken_by_label():
    stream = from_events(
        events((1, 0, "b", "x"), (1, 0, "10", "x"), (1, 0, "9", "x")),
        time="t", every="1d", modes=["pu"], top=1,
    )  # fmt: skip
    list(stream)
    assert stream.labels == (("9", "other"),)


def test_a_given_vocabulary_fixes_the_codes():
    table = events((1, 0, "b", "x"), (2, 0, "c", "x"))
    stream = from_events(table, time="t", every="1d", modes=["pu"], vocabulary={"pu": ["z", "b"]})
    first, _ = stream
    assert first.index.tolist() == [[1]]
    assert stream.labels == (("z", "b", "c"),)


def test_labels_outside_the_vocabulary_become_other_or_an_error():
    table = events((1, 0, "b", "x"), (2, 0, "c", "x"))
    options = {"time": "t", "every": "1d", "modes": ["pu"], "vocabulary": {"pu": ["b"]}}
    stream = from_events(table, on_new="other", **options)
    assert [cells(stream, x) for x in stream] == [{("b",): 1}, {("other",): 1}]
    with pytest.raises(DataError, match="row 2 of the table has 'c'"):
        list(from_events(table, on_new="error", **options))


@pytest.mark.parametrize("on_new", ["other", "error"])
def test_labels_can_only_be_new_if_some_are_old(on_new):
    stream = from_events(
        events((1, 0, "b", "x")), time="t", every="1d", modes=["pu"], on_new=on_new
    )
    with pytest.raises(DataError, match="'pu' has no vocabulary"):
        next(stream)


def test_numbers_booleans_and_text_are_labels():
    table = pl.DataFrame(
        {
            "t": ["2018-01-01"] * 2,
            "n": [10, 9],
            "f": [1.0, None],
            "b": [True, False],
            "s": ["x", "1"],
        }
    )
    stream = from_events(table, time="t", every="1d", modes=["n", "f", "b", "s"])
    (x,) = stream
    assert cells(stream, x) == {("10", "1", "true", "x"): 1}
    assert (stream.n_events, stream.n_null) == (1, 1)


# Time


def test_days_follow_the_local_calendar():
    """In New York 3:00 UTC still is the evening before."""
    table = pl.DataFrame({"t": ["2018-07-02T03:00Z", "2018-07-02T05:00Z"], "k": ["a", "a"]})
    options = {"time": "t", "every": "1d", "modes": ["k", "t:hour"]}
    assert [x.time.day for x in from_events(table, **options)] == [2]
    stream = from_events(table, timezone="America/New_York", **options)
    assert [(x.time.day, cells(stream, x)) for x in stream] == [
        (1, {("a", "23"): 1}),
        (2, {("a", "01"): 1}),
    ]


@pytest.mark.parametrize(("day", "n_bins"), [("2018-03-11", 23), ("2018-11-04", 25)])
def test_days_on_which_clocks_change_have_23_or_25_hours(day, n_bins):
    start = datetime.datetime.fromisoformat(day)
    instants = [start + datetime.timedelta(hours=h) for h in range(-2, 40)]
    table = pl.DataFrame({"t": instants, "k": ["a"] * 42}).with_columns(
        pl.col("t").dt.replace_time_zone("UTC")
    )
    stream = from_events(table, time="t", every="1h", modes=["t:hour"], timezone="America/New_York")
    slices = [x for x in stream if x.time.date().isoformat() == day]
    assert len(slices) == n_bins
    assert len({x.time for x in slices}) == n_bins
    hours = [cells(stream, x) for x in slices]
    assert all(len(found) == 1 for found in hours)
    labels = [next(iter(found))[0] for found in hours]
    assert labels.count("01") == (2 if n_bins == 25 else 1)
    assert labels.count("02") == (0 if n_bins == 23 else 1)
    assert [x.time.hour for x in slices] == list(map(int, labels))


@pytest.mark.parametrize(
    "times",
    [
        ["2018-01-01", "2018-01-03"],
        [datetime.date(2018, 1, 1), datetime.date(2018, 1, 3)],
        [1514764800, 1514937600 + 5],
        [1514764800_000, 1514937600_000],
        ["1514764800", "1514937605"],
        [JANUARY, JANUARY + 2 * DAY],
    ],
)
def test_times_come_in_many_spellings(times):
    table = pl.DataFrame({"t": times, "k": ["a", "b"]})
    slices = list(from_events(table, time="t", every="1d", modes=["k"]))
    assert [x.time for x in slices] == [datetime.date(2018, 1, n) for n in (1, 2, 3)]


def test_plain_numbers_can_be_the_time():
    table = pl.DataFrame({"t": [0, 4, 7], "k": ["a", "b", "a"]})
    slices = list(from_events(table, time="t", every=2, modes=["k"]))
    assert [(x.time, x.total) for x in slices] == [(0, 1), (2, 0), (4, 1), (6, 1)]


def test_rows_outside_the_limits_are_left_out_and_counted():
    table = events((1, 0, "a", "x"), (2, 5, "b", "x"), (3, 6, "a", "x"), (4, 0, "c", "x"))
    stream = from_events(
        table, time="t", every="1d", modes=["pu"], since="2018-01-02T05:00", until=JANUARY + 3 * DAY
    )
    assert [x.time.day for x in stream] == [2, 3]
    assert (stream.n_outside, stream.n_events, stream.labels) == (2, 2, (("b", "a"),))


def test_a_wrong_time_stamp_does_not_make_thousands_of_slices():
    table = events((1, 0, "a", "x"), (1_500, 0, "a", "x"))
    options = {"time": "t", "every": "1d", "modes": ["pu"]}
    with pytest.raises(DataError, match="row 2 of the table belongs to 2022-02-08, 1,498 bins"):
        list(from_events(table, **options))
    assert len(list(from_events(table, max_gap=1_498, **options))) == 1_500
    assert len(list(from_events(table, empty="skip", **options))) == 2
    assert len(list(from_events(table, until="2019-01-01", **options))) == 1


# Nulls


def test_rows_without_time_key_or_value_are_dropped_and_counted():
    table = pl.DataFrame(
        {
            "t": [None, JANUARY, None, JANUARY + DAY, JANUARY + DAY],
            "k": ["a", "a", "b", None, "c"],
            "v": [1.0, 1.0, 1.0, 1.0, float("nan")],
        }
    )
    stream = from_events(table, time="t", every="1d", modes=["k"], value="v")
    first, second = stream
    assert (stream.n_events, stream.n_null) == (1, 4)
    assert (first.total, second.total) == (1, 0)
    assert stream.labels == (("a",),)


@pytest.mark.parametrize(
    ("column", "value"), [("t", None), ("k", None), ("k", ""), ("v", None), ("v", float("nan"))]
)
def test_nulls_can_be_refused(column, value):
    good = {"t": JANUARY, "k": "a", "v": 1.0}
    table = pl.DataFrame([good, good, good | {column: value}])
    stream = from_events(table, time="t", every="1d", modes=["k"], value="v", on_null="error")
    with pytest.raises(DataError, match=f"Column '{column}' .* row 3 of the table"):
        list(stream)


@pytest.mark.parametrize("in_order", [None, True, False])
def test_a_source_without_usable_rows_gives_no_slices(in_order):
    nothing = pl.DataFrame(
        {"t": [None, None], "k": ["a", "b"]}, schema={"t": pl.Date, "k": pl.String}
    )
    stream = from_events(nothing, time="t", every="1d", modes=["k"], in_order=in_order)
    assert list(stream) == []
    stream = from_events(nothing.head(0), time="t", every="1d", modes=["k"], in_order=in_order)
    assert list(stream) == []
    keyless = pl.DataFrame({"t": [JANUARY, JANUARY + DAY], "k": [None, "a"]})
    stream = from_events(keyless, time="t", every="1d", modes=["k"], in_order=in_order)
    assert [x.time.day for x in stream] == [2]  # before the first label there is no shape
