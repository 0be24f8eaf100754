"""Spellings of dates: what people write is recognised, what can mean two days is not guessed."""

from __future__ import annotations

import datetime

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinegcp.errors import DataError
from onlinegcp.events.spelling import fitting, layouts_of, read_as
from onlinegcp.events.time_column import TimeColumn

# Python's own formatting is the other side of what is tested.
SPELLINGS = [
    *("%Y/%m/%d", "%Y.%m.%d", "%Y%m%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%d-%m-%Y"),
    *("%b %d %Y", "%B %d, %Y", "%d %b %Y", "%d-%b-%y", "%a, %d %b %Y", "%A %d %B %Y"),
    *("%Y/%m/%d %H:%M:%S", "%m/%d/%Y %I:%M %p", "%d.%m.%Y %H:%M", "%b %d %Y %I:%M:%S%p"),
    *("%a %b %d %H:%M:%S %Y", "%d/%b/%Y:%H:%M:%S", "%Y/%m/%dT%H:%M", "%d.%m.%y"),
    *("%Y%m%dT%H%M%S", "%Y-%m-%d %H:%M:%S,%f"),
]


def where(row):
    return f"ROW {row}"


@pytest.mark.parametrize("spelling", SPELLINGS)
@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.datetimes(datetime.datetime(1971, 1, 1), datetime.datetime(2060, 1, 1)), max_size=8)
)
def test_what_python_writes_is_read_back(spelling, times):
    times = [datetime.datetime(2021, 12, 31, 23, 59, 58), *times]
    if "%y" in spelling:  # two digits mean 1970 to 2069
        times = [time for time in times if time.year < 2069]
    texts = [time.strftime(spelling) for time in times]
    column = TimeColumn("t")
    ticks, valid = column.read(pl.Series("t", texts), where)
    assert valid is None
    expected = [datetime.datetime.strptime(text, spelling) for text in texts]
    assert ticks.view("M8[us]").astype(datetime.datetime).tolist() == expected


@pytest.mark.parametrize(
    ("texts", "first"),
    [
        (["2015-03", "2016-12"], "2015-03-01"),
        (["Mar 2015"], "2015-03-01"),
        (["Mar-15", "Dec-14"], "2015-03-01"),
        (["2015-Q3"], "2015-07-01"),
        (["Q4 2015", "Q1 2016"], "2015-10-01"),
        (["2015-W01", "2015-W53"], "2014-12-29"),
        (["3/2015"], "2015-03-01"),
        (["1900", "2017"], "1900-01-01"),
        ([1900, None, 2017], "1900-01-01"),
        ([1900.0], "1900-01-01"),
    ],
)
def test_months_quarters_weeks_and_years_mean_their_first_day(texts, first):
    column = TimeColumn("t")
    ticks, _ = column.read(pl.Series("t", texts), where)
    assert str(ticks[:1].view("M8[us]")[0])[:10] == first
    assert column.kind == "date"


def test_an_order_that_only_later_rows_decide_is_taken_from_them():
    column = TimeColumn("t")
    ticks, _ = column.read(pl.Series(["03/04/2015", "25/04/2015"]), where)
    assert str(ticks.view("M8[us]")[0])[:10] == "2015-04-03"
    # Tomorrow's file goes on in the same way, though it could mean two days by itself.
    restored = TimeColumn("t")
    restored.restore(column.state())
    ticks, _ = restored.read(pl.Series(["03/04/2015"]), where)
    assert str(ticks.view("M8[us]")[0])[:10] == "2015-04-03"


def test_who_writes_dots_puts_the_day_first():
    ticks, _ = TimeColumn("t").read(pl.Series(["03.04.2015", "05.06.2015"]), where)
    assert str(ticks.view("M8[us]")[0])[:10] == "2015-04-03"


def test_what_can_mean_two_days_is_refused_with_both_formats():
    with pytest.raises(DataError, match="ROW 1 has '03/04/2015'") as error:
        TimeColumn("t").read(pl.Series([None, "03/04/2015", "01/02/2015"]), where)
    assert "time_format='%m/%d/%Y' or time_format='%d/%m/%Y'" in str(error.value)


@pytest.mark.parametrize("text", ["24.12.", "12/24", "24 Dec", "20151224 12345"])
def test_what_lacks_a_year_or_a_digit_is_not_a_date(text):
    assert layouts_of(text) == []


def test_the_row_that_is_written_otherwise_is_named_with_a_format_that_fits_it():
    with pytest.raises(DataError, match="written as %B %d %Y, but ROW 1 has '2001/05/06'") as error:
        TimeColumn("t").read(pl.Series(["Jan 1 2000", "2001/05/06"]), where)
    assert "time_format='%Y/%m/%d'" in str(error.value)
    with pytest.raises(DataError, match=r"ROW 0 has 'soon'.*%Y, %m, %d"):
        TimeColumn("t").read(pl.Series(["soon"]), where)


@settings(deadline=None)
@given(st.text(max_size=25))
def test_any_text_gives_formats_that_polars_understands(text):
    for layout in layouts_of(text):
        read_as(pl.Series([text]), layout)
    assert isinstance(fitting(pl.Series([text, None])), list)


@pytest.mark.parametrize(
    "text",
    [
        "05/Mar/2024:10:11:12 +0530",  # a web server
        "Tue, 05 Mar 2024 04:41:12 GMT",
        "2024-03-05 04:41:12 UTC",
        "Tue Mar 5 04:41:12 UTC 2024",
        "20240305T044112Z",
    ],
)
def test_a_zone_that_is_written_makes_an_instant(text):
    column = TimeColumn("t")
    ticks, _ = column.read(pl.Series("t", [text]), where)
    assert column.kind == "instant"
    assert str(ticks.view("M8[us]")[0])[:19] == "2024-03-05T04:41:12"


@pytest.mark.parametrize(
    ("texts", "first"),
    [
        (["3. März 2023", "12. Dezember 2023"], "2023-03-03T00"),
        (["12 janv. 2023", "3 mai 2023", "1 août 2024"], "2023-01-12T00"),
        (["3 de marzo de 2023", "4 de enero de 2024"], "2023-03-03T00"),
        (["12-okt-2023"], "2023-10-12T00"),
        (["Sept. 3, 2023", "March 4, 2023"], "2023-09-03T00"),
        (["5th March 2024", "21st May 2024"], "2024-03-05T00"),
        (["Jan. 2, 2020 3:04 p.m."], "2020-01-02T15"),
        (["Mon, 1 May 2000 10:00:00 -0700 (PDT)"], "2000-05-01T17"),
        (["FY10 Q2", "FY23 Q4"], "2010-04-01T00"),
        (["Q4 FY2010"], "2010-10-01T00"),
        (["FY2019", "FY2020"], "2019-01-01T00"),
        (["Q3'10"], "2010-07-01T00"),
        (["24Q1", "24Q4"], "2024-01-01T00"),
        (["4Q24", "1Q25"], "2024-10-01T00"),
        (["2024M03", "2024M12"], "2024-03-01T00"),
        (["2024-W3", "2024-W10"], "2024-01-15T00"),
        (["2024-01-31 23:00", "2024-01-31 24:00"], "2024-01-31T23"),
        (["2023-12-31T24:00:00Z"], "2024-01-01T00"),
        (["31.12.2023 24:00", "01.02.2024 10:00"], "2024-01-01T00"),
    ],
)
def test_what_statistics_offices_and_mail_write_is_read(texts, first):
    ticks, valid = TimeColumn("t").read(pl.Series("t", texts), where)
    assert valid is None
    assert str(ticks[:1].view("M8[us]")[0])[:13] == first


@pytest.mark.parametrize("text", ["set-12", "out 3", "mag 7", "Mars Attacks", "FY", "24:00"])
def test_words_of_another_kind_are_no_months(text):
    assert layouts_of(text) == []


def test_no_format_is_advised_that_cannot_read_the_text():
    with pytest.raises(DataError, match="24:30") as error:
        TimeColumn("t").read(pl.Series(["2024-01-01 23:30", "2024-01-01 24:30"]), where)
    assert "time_format='" not in str(error.value)
