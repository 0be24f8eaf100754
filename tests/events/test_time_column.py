"""Time columns: every way to write a time gives the same ticks, and a wrong one is named."""

from __future__ import annotations

import datetime
import zoneinfo

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinegcp.errors import DataError
from onlinegcp.events import from_events, wall_clock
from onlinegcp.events.time_column import TimeColumn
from onlinegcp.events.wall_clock import DAY, EPOCH, zone_of

NOON = datetime.datetime(2018, 3, 5, 12, 30, 15, 250_000)
TICKS = round(NOON.replace(tzinfo=datetime.UTC).timestamp() * 1e6)
UTC = datetime.UTC


def where(row):
    return f"ROW {row}"


def read(values, *, column=None, **options):
    column = column or TimeColumn("t", **options)
    series = values if isinstance(values, pl.Series) else pl.Series("t", values, strict=False)
    ticks, valid = column.read(series, where)
    return column, ticks.tolist(), valid


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([NOON], "local"),
        (pl.Series([NOON], dtype=pl.Datetime("ns")), "local"),
        (pl.Series([NOON], dtype=pl.Datetime("ms")), "local"),
        ([NOON.replace(tzinfo=UTC)], "instant"),
        (["2018-03-05 12:30:15.25"], "local"),
        (["2018-03-05T12:30:15.250000"], "local"),
        ([" 2018-03-05T12:30:15.25 "], "local"),
        (["2018-03-05T12:30:15.25Z"], "instant"),
        (["2018-03-05T12:30:15.25+00:00"], "instant"),
        (["2018-03-05 14:30:15.25+0200"], "instant"),
        (["20180305T123015.250"], "local"),
        (pl.Series(["2018-03-05 12:30:15.25"], dtype=pl.Categorical), "local"),
        ([TICKS], "local"),
        ([TICKS * 1000], "local"),
        ([TICKS // 1000], "local"),
        ([TICKS / 1e6], "local"),
        ([str(TICKS)], "local"),
        ([str(TICKS / 1e6)], "local"),
    ],
)
def test_all_spellings_of_a_time_agree(values, kind):
    column, ticks, valid = read(values)
    assert ticks == [TICKS]
    assert column.kind == kind
    assert valid is None


@pytest.mark.parametrize("values", [[NOON.date()], ["2018-03-05"], ["20180305"]])
def test_all_spellings_of_a_date_agree(values):
    column, ticks, _ = read(values)
    assert (column.kind, ticks) == ("date", [TICKS // DAY * DAY])


@pytest.mark.parametrize("values", [[1520253015], ["1520253015"], [1520253015.0]])
def test_whole_seconds_since_1970_are_recognised(values):
    column, ticks, _ = read(values)
    assert (column.unit, ticks) == ("s", [1520253015 * 10**6])


@pytest.mark.parametrize(("unit", "length"), [("d", DAY), ("s", 10**6), ("ms", 1000), ("us", 1)])
def test_a_given_unit_is_used(unit, length):
    for values in ([0, 17_000, -3], ["0", "17000", "-3"]):
        assert read(values, unit=unit)[1] == [0, 17_000 * length, -3 * length]
    assert read([2000], unit="ns")[1] == [2]


def test_small_numbers_are_not_guessed_to_be_seconds():
    with pytest.raises(DataError, match="time_unit='d'"):
        read([0, 17_000])


def test_plain_numbers_are_taken_as_they_are():
    for values in ([3, -7], ["3", "-7"], [3.0, -7.0], pl.Series([3, -7], dtype=pl.Int8)):
        column, ticks, _ = read(values, plain=True)
        assert (column.kind, ticks) == ("number", [3, -7])
    with pytest.raises(DataError, match=r"ROW 1 has 2\.5"):
        read([1.0, 2.5], plain=True)
    with pytest.raises(DataError, match="every='1d'"):
        read([NOON], plain=True)


def test_a_format_reads_what_is_not_iso():
    column, ticks, _ = read(["05/03/2018 12:30"], layout="%d/%m/%Y %H:%M")
    assert ticks == [TICKS // 60_000_000 * 60_000_000]
    column, ticks, _ = read(["05.03.2018"], layout="%d.%m.%Y")
    assert (column.kind, ticks) == ("date", [TICKS // DAY * DAY])
    with pytest.raises(DataError, match=r"ROW 0 has '2018-03-05'.*"):
        read(["2018-03-05"], layout="%d/%m/%Y")


@pytest.mark.parametrize(
    ("values", "row"),
    [
        (["2018-03-05", "yesterday"], 1),
        (["2018-03-05 10:00", "2018-03-05 25:00"], 1),
        (["2018-02-30"], 0),
        (["hello"], 0),
        (["03/05/2018"], 0),
        (["1520253015", "soon"], 1),
        ([None, "noon"], 1),
    ],
)
def test_text_that_is_no_time_is_named_with_its_row(values, row):
    with pytest.raises(DataError, match=f"ROW {row} ") as error:
        read(values)
    assert repr(values[row]) in str(error.value)
    assert "'t'" in str(error.value)


@pytest.mark.parametrize("value", [10**30, 1e30, float("inf"), -(2**62)])
def test_times_beyond_the_calendar_are_refused(value):
    with pytest.raises(DataError, match="ROW 1"):
        read(pl.Series([1520253015.0, float(value)]), unit="s")


def test_iso_times_need_not_all_be_written_alike():
    _, ticks, valid = read(["2018-03-05T12:30:15.25", "2018-03-05 12:30", None, "20180305T12", ""])
    assert [TICKS - tick for tick in ticks[:2]] == [0, 15_250_000]
    assert valid.tolist() == [True, True, False, True, False]


def test_times_with_and_without_a_zone_do_not_mix():
    with pytest.raises(DataError, match="all have a zone or all have none"):
        read(["2018-03-05 12:30", "2018-03-05T12:30Z"])
    column, _, _ = read([NOON])
    with pytest.raises(DataError, match="times with a zone from ROW 0 on"):
        read([NOON.replace(tzinfo=UTC)], column=column)


def test_dates_among_times_are_midnights():
    column, _, _ = read([NOON.date()])
    read([NOON], column=column)
    assert column.kind == "local"
    read([NOON.date()], column=column)
    assert column.kind == "local"


def test_nulls_are_pointed_out():
    for values in ([None, NOON], [None, "2018-03-05"], [float("nan"), 1520253015.0]):
        assert read(values)[2].tolist() == [False, True]
    column, _, valid = read(pl.Series([None, None], dtype=pl.String))
    assert (column.kind, valid.tolist()) == (None, [False, False])
    assert read(pl.Series(["", " "]))[2].tolist() == [False, False]
    assert read(pl.Series([], dtype=pl.Date))[1] == []


@pytest.mark.parametrize("values", [[True], [[1]], [datetime.time(3)], [b"2018"]])
def test_columns_of_something_else_are_refused(values):
    with pytest.raises(DataError, match="'t'"):
        read(pl.Series("t", values))


def test_an_unknown_zone_or_unit_is_explained():
    with pytest.raises(DataError, match="Did you mean 'America/New_York'"):
        TimeColumn("t", timezone="America/NewYork")
    for wrong in ("", "../etc", 3):
        with pytest.raises(DataError, match="timezone"):
            zone_of(wrong)
    with pytest.raises(DataError, match="time_unit"):
        TimeColumn("t", unit="sec")


# Zones


def test_a_zone_moves_instants_and_leaves_dates():
    column, ticks, _ = read([datetime.datetime(2018, 7, 1, 3)], timezone="America/New_York")
    assert column.kind == "instant"
    assert column.wall(np.array(ticks)).tolist() == [ticks[0] - 4 * 3600 * 10**6]
    column, ticks, _ = read([datetime.date(2018, 7, 1)], timezone="America/New_York")
    assert column.wall(np.array(ticks)).tolist() == ticks


def test_the_zone_of_a_column_is_its_own_unless_another_is_given():
    times = pl.Series([NOON]).dt.replace_time_zone("Asia/Tokyo")
    assert read(times)[0].zone == "Asia/Tokyo"
    assert read(times, timezone="UTC")[0].zone == "UTC"


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from(
        ["America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Africa/Monrovia"]
    ),
    st.integers(-(10**9), 2 * 10**9),
    st.lists(st.integers(0, 10**6), min_size=1, max_size=400),
)
def test_the_wall_clock_agrees_with_the_standard_library(name, start, steps):
    """Monrovia was 44 minutes and 30 seconds behind until 1972."""
    column = TimeColumn("t", timezone=name)
    seconds = [start + step for step in steps]
    ticks = np.array(seconds) * 10**6
    column.kind = "instant"
    zone = zoneinfo.ZoneInfo(name)
    epoch = datetime.datetime(1970, 1, 1, tzinfo=UTC)
    local = [(epoch + datetime.timedelta(seconds=s)).astimezone(zone) for s in seconds]
    expected = np.array([time.replace(tzinfo=None) for time in local], dtype="M8[us]")
    np.testing.assert_array_equal(column.wall(ticks), expected.view(np.int64))


def test_what_was_found_is_remembered():
    column, _, _ = read([1520253015], timezone="Europe/Berlin")
    other = TimeColumn("t", timezone="Europe/Berlin")
    other.restore(column.state())
    # By itself 100 would be refused, and 10^12 be taken for milliseconds.
    assert read([100], column=other)[1] == [100 * 10**6]
    assert (other.kind, other.zone, other.unit) == ("instant", "Europe/Berlin", "s")


@pytest.mark.parametrize("zone", ["Europe/Amsterdam", "America/New_York", "Pacific/Apia"])
@pytest.mark.parametrize("year", [1890, 1937, 1946, 2011, 2024])
def test_clocks_of_any_year_agree_with_the_starts_of_days(zone, year):
    """Bins need both; two databases that disagree drop rows that are in order."""
    start = int(datetime.datetime(year, 1, 1, tzinfo=datetime.UTC).timestamp())
    seconds = np.arange(start, start + 366 * 86_400, 7_919)
    source = pl.DataFrame({"t": pl.Series(seconds * 1_000_000).cast(pl.Datetime("us", "UTC"))})
    source = source.with_columns(a=pl.lit("x"))
    stream = from_events(
        source, time="t", every="6h", modes=["a"], timezone=zone, on_late="error", in_order=True
    )
    assert sum(x.total for x in stream) == len(seconds)
    column = TimeColumn("t", timezone=zone)
    ticks, _ = column.read(source["t"], str)
    known = zoneinfo.ZoneInfo(zone)
    for tick, wall in zip(ticks[::97].tolist(), column.wall(ticks)[::97].tolist(), strict=True):
        local = datetime.datetime.fromtimestamp(tick // 10**6, known).replace(tzinfo=None)
        assert EPOCH + datetime.timedelta(microseconds=wall) == local


@pytest.mark.parametrize("zone", ["America/New_York", "Australia/Lord_Howe"])
def test_years_far_apart_keep_their_own_clocks(zone):
    """One row of the year 9999 neither changes the others nor has ten thousand years looked up."""
    days = [(2, 7, 4), (1923, 6, 1), (2018, 1, 7), (2018, 7, 7), (2037, 12, 31), (9998, 7, 4)]
    moments = [datetime.datetime(*day, 23, 30, tzinfo=UTC) for day in days]
    local = [moment.astimezone(zoneinfo.ZoneInfo(zone)) for moment in moments]
    ticks, expected = (
        np.array([time.replace(tzinfo=None) for time in times], dtype="M8[us]").view(np.int64)
        for times in (moments, local)
    )
    column = TimeColumn("t", timezone=zone)
    column.kind = "instant"
    wall_clock._offsets.cache_clear()
    np.testing.assert_array_equal(column.wall(ticks), expected)
    assert wall_clock._offsets.cache_info().misses == 5  # 2018 twice
