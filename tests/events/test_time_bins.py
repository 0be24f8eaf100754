"""Time bins: calendar days, clock changes, and no bin left out between two others."""

from __future__ import annotations

import datetime
import itertools
import zoneinfo

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from onlinegcp.errors import DataError
from onlinegcp.events.time_bins import TimeBins, parse_every
from onlinegcp.events.time_column import TimeColumn

UTC = datetime.UTC
EPOCH = datetime.datetime(1970, 1, 1)
MICROSECOND = datetime.timedelta(microseconds=1)


def made(every, kind="local", zone=None):
    column = TimeColumn("t", timezone=zone, plain=kind == "number")
    column.kind = kind
    return TimeBins(every, column)


def ticks_of(*times):
    naive = [time.astimezone(UTC).replace(tzinfo=None) if time.tzinfo else time for time in times]
    return np.array([(time - EPOCH) // MICROSECOND for time in naive], dtype=np.int64)


def key_of(bins, time):
    return int(bins.keys(ticks_of(time))[0])


@pytest.mark.parametrize(
    ("every", "start"),
    [
        ("1d", datetime.date(2018, 3, 7)),
        ("24h", datetime.date(2018, 3, 7)),
        (datetime.timedelta(days=1), datetime.date(2018, 3, 7)),
        ("1h", datetime.datetime(2018, 3, 7, 14)),
        ("h", datetime.datetime(2018, 3, 7, 14)),
        ("15m", datetime.datetime(2018, 3, 7, 14, 30)),
        ("15min", datetime.datetime(2018, 3, 7, 14, 30)),
        (datetime.timedelta(minutes=15), datetime.datetime(2018, 3, 7, 14, 30)),
        ("10s", datetime.datetime(2018, 3, 7, 14, 44, 50)),
        ("6h", datetime.datetime(2018, 3, 7, 12)),
        ("1w", datetime.date(2018, 3, 5)),
        ("1mo", datetime.date(2018, 3, 1)),
        ("1q", datetime.date(2018, 1, 1)),
        ("6mo", datetime.date(2018, 1, 1)),
        ("1y", datetime.date(2018, 1, 1)),
    ],
)
def test_a_bin_starts_where_the_calendar_says(every, start):
    bins = made(every)
    time = datetime.datetime(2018, 3, 7, 14, 44, 59, 999_999)
    assert bins.time(key_of(bins, time)) == start


def test_plain_numbers_are_divided():
    bins = made(7, "number")
    assert bins.keys(np.array([-1, 0, 6, 7])).tolist() == [-1, 0, 0, 1]
    assert (bins.time(-1), bins.time(1), bins.after(1)) == (-7, 7, 2)
    assert made("7", "number").length == 7


@settings(deadline=None)
@example("5y", datetime.datetime(4, 1, 1))  # its bin would begin before the calendar
@given(
    st.sampled_from(["1d", "3d", "1w", "2w", "1mo", "1q", "5y", "1h", "7d", "30s", "12h"]),
    st.datetimes(datetime.datetime(3, 1, 1), datetime.datetime(9990, 1, 1)),
)
def test_a_moment_lies_in_its_bin_and_not_in_the_next(every, time):
    bins = made(every)
    key = key_of(bins, time)
    start, end = bins.time(key), bins.time(bins.after(key))
    moment = time if isinstance(start, datetime.datetime) else time.date()
    assert start <= moment < end


@pytest.mark.parametrize(
    ("day", "hours"),
    [
        (datetime.date(2018, 3, 10), 24),
        (datetime.date(2018, 3, 11), 23),
        (datetime.date(2018, 11, 4), 25),
    ],
)
@pytest.mark.parametrize("every", ["1h", "15m"])
def test_days_of_23_and_25_hours_have_as_many_bins(day, hours, every):
    zone = zoneinfo.ZoneInfo("America/New_York")
    bins = made(every, "instant", "America/New_York")
    start = datetime.datetime(day.year, day.month, day.day, tzinfo=zone)
    end = datetime.datetime.combine(day + datetime.timedelta(days=1), datetime.time(), zone)
    key, last = key_of(bins, start), key_of(bins, end)
    count = 0
    while key < last:
        key, count = bins.after(key), count + 1
    assert key == last
    assert count == hours * (1 if every == "1h" else 4)


def test_the_hour_that_comes_twice_is_two_bins():
    bins = made("1h", "instant", "America/New_York")
    first = datetime.datetime(2018, 11, 4, 5, 30, tzinfo=UTC)
    second = datetime.datetime(2018, 11, 4, 6, 30, tzinfo=UTC)
    starts = [bins.time(key_of(bins, time)) for time in (first, second)]
    assert [start.isoformat() for start in starts] == [
        "2018-11-04T01:00:00-04:00",
        "2018-11-04T01:00:00-05:00",
    ]
    assert starts[0] < starts[1]  # which Python denies for two times of one zone object


def test_long_days_still_are_one_bin_by_the_day():
    zone = zoneinfo.ZoneInfo("America/New_York")
    bins = made("1d", "instant", "America/New_York")
    for day in (datetime.date(2018, 3, 11), datetime.date(2018, 11, 4)):
        ends = [
            datetime.datetime(day.year, day.month, day.day, 0, 0, tzinfo=zone),
            datetime.datetime(day.year, day.month, day.day, 23, 59, tzinfo=zone),
        ]
        assert [bins.time(key) for key in bins.keys(ticks_of(*ends)).tolist()] == [day, day]


ZONES = [
    ("America/New_York", 2018),
    ("Australia/Lord_Howe", 2018),  # clocks move by half an hour
    ("Asia/Beirut", 2018),  # clocks move at midnight
    ("America/Asuncion", 2018),
    ("America/Havana", 2018),  # midnight comes twice
    ("Pacific/Apia", 2011),  # 30 December was left out
    ("Asia/Kathmandu", 2018),
    ("Africa/Casablanca", 2018),
]


@pytest.mark.parametrize(("name", "year"), ZONES)
@pytest.mark.parametrize("every", ["1h", "30m", "12h"])
def test_bins_of_a_year_follow_each_other_in_every_zone(name, year, every):
    """Walking from bin to bin meets exactly the bins of moments spread over the year."""
    bins = made(every, "instant", name)
    start = ticks_of(datetime.datetime(year, 1, 1, 12))
    moments = start + np.arange(6 * 24 * 365) * 600_000_000
    met = np.unique(bins.keys(moments))
    walked = [int(met[0])]
    while walked[-1] < met[-1]:
        walked.append(bins.after(walked[-1]))
    assert walked == met.tolist()
    assert all(0 < b - a <= bins.length for a, b in itertools.pairwise(walked))
    # Whatever the clocks do, no bin has moments of two days.
    days = bins.column.wall(moments) // 86_400_000_000
    assert len(np.unique(np.stack([bins.keys(moments), days]), axis=1).T) == len(met)


@pytest.mark.parametrize("name", ["Asia/Tokyo", "America/New_York", "UTC"])
@pytest.mark.parametrize("every", ["1d", "1h", "1mo"])
def test_the_ends_of_the_calendar_do_no_harm(every, name):
    """31 December 9999 often stands for never."""
    bins = made(every, "instant", name)
    ends = ticks_of(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59))
    keys = bins.keys(ends).tolist()
    assert keys[0] < keys[1]
    for key in keys:
        if every == "1h":
            assert bins.time(key).year in (1, 9999)


def test_times_have_a_zone_when_the_column_has():
    assert made("1h").time(0) == datetime.datetime(1970, 1, 1)
    assert made("1h", "instant").time(0) == datetime.datetime(1970, 1, 1, tzinfo=UTC)
    tokyo = made("1h", "instant", "Asia/Tokyo").time(0)
    assert tokyo.isoformat() == "1970-01-01T09:00:00+09:00"
    assert made("1d", "instant", "Asia/Tokyo").time(0) == datetime.date(1970, 1, 1)


@pytest.mark.parametrize(
    ("given", "every"),
    [
        ("24h", "1d"),
        ("60min", "1h"),
        ("90s", "90s"),
        ("900s", "15m"),
        (datetime.timedelta(hours=6), "6h"),
        (datetime.timedelta(milliseconds=250), "250ms"),
        ("1000ms", "1s"),
        ("2w", "2w"),
        ("1q", "3mo"),
        ("y", "12mo"),
        (7, "7"),
    ],
)
def test_every_length_has_one_spelling(given, every):
    bins = made(given)
    assert bins.every == every
    assert parse_every(every) == (bins.unit, bins.length)


@pytest.mark.parametrize(
    "every", ["", "d1", "1 fortnight", "0d", "-1d", "1.5h", None, 0, -3, True, 2.5, "1M", []]
)
def test_what_is_no_length_is_explained(every):
    with pytest.raises(DataError, match="every must be"):
        parse_every(every)


@pytest.mark.parametrize("every", ["7h", "36h", "50m", "7s", "7ms", datetime.timedelta(hours=5)])
def test_bins_that_do_not_divide_a_day_are_refused(every):
    with pytest.raises(DataError, match="divide"):
        parse_every(every)


@pytest.mark.parametrize("every", [datetime.timedelta(microseconds=1400), datetime.timedelta(0)])
def test_a_duration_that_is_no_length_is_not_rounded_to_one(every):
    with pytest.raises(DataError, match="every must be"):
        parse_every(every)


def test_bins_shorter_than_a_second_hold_what_falls_between_their_limits():
    bins = made("100ms")
    start = datetime.datetime(2025, 6, 1, 12, 0, 0, 400_000)
    times = [start + datetime.timedelta(microseconds=us) for us in (-1, 0, 99_999, 100_000)]
    keys = [key_of(bins, time) for time in times]
    assert [bins.time(key) - start for key in keys] == [
        datetime.timedelta(milliseconds=ms) for ms in (-100, 0, 0, 100)
    ]
    assert bins.after(keys[1]) == keys[3]
    assert bins.usual_gap == made("1s").usual_gap  # no millions of empty bins without a question


# Limits


def test_limits_are_read_on_the_scale_of_the_column():
    ten = datetime.datetime(2018, 1, 1, 10)
    assert made("1d").ticks("2018-01-01T10:00", "since") == ticks_of(ten)[0]
    assert made("1d").ticks(ten.date(), "since") == ticks_of(datetime.datetime(2018, 1, 1))[0]
    assert made("1d").ticks(np.datetime64("2018-01-01"), "since") % 86_400_000_000 == 0
    assert made(1, "number").ticks(7, "since") == 7
    zoned = made("1d", "instant", "America/New_York")
    eastern = datetime.datetime(2018, 1, 1, 15, tzinfo=UTC)
    assert zoned.ticks(ten, "since") == zoned.ticks(eastern, "since") == ticks_of(eastern)[0]


@pytest.mark.parametrize("limit", ["soon", 3, "", []])
def test_a_limit_that_is_no_time_is_named(limit):
    with pytest.raises(DataError, match="until must be a date"):
        made("1d").ticks(limit, "until")
    if not isinstance(limit, int):
        with pytest.raises(DataError, match="until must be a whole number"):
            made(1, "number").ticks(limit, "until")
