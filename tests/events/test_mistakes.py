"""Mistakes in options and in files are explained, with the row; noise never does worse."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from event_tables import events
from onlinegcp.errors import DataError
from onlinegcp.events import from_events

OPTIONS = {"time": "t", "every": "1d", "modes": ["pu"]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"time": "when"}, "Column 'when' is needed"),
        ({"time": "T"}, "Column 'T' is needed"),
        ({"modes": ["pu", "doo"]}, "Did you mean 'do'"),
        ({"modes": ["t:hours"]}, "Did you mean 'hour'"),
        ({"modes": []}, "At least one mode"),
        ({"modes": ["pu", "pu"]}, "'pu' occurs twice"),
        ({"value": "fare"}, "Column 'fare' is needed"),
        ({"value": "do"}, "'x'"),
        ({"value": "do", "agg": "count"}, "agg='count' counts rows"),
        ({"agg": "sum"}, "value is None"),
        ({"agg": "men", "value": "do"}, "Did you mean 'mean'"),
        ({"empty": "zeros"}, "Did you mean 'zero'"),
        ({"on_new": "others"}, "Did you mean 'other'"),
        ({"on_late": "dropp"}, "Did you mean 'drop'"),
        ({"on_null": "err"}, "on_null must be"),
        ({"every": "1fortnight"}, "every must be"),
        ({"every": 1}, "every was given as a number"),
        ({"timezone": "Nowhere"}, "timezone must be"),
        ({"time_unit": "hours"}, "time_unit must be"),
        ({"since": "soon"}, "since must be"),
        ({"share": [("pu", "do")]}, "'do' was found"),
        ({"share": ["pu"]}, "share must hold groups"),
        ({"vocabulary": {"do": ["a"]}}, "'do' was found"),
        ({"vocabulary": {"puu": ["a"]}}, "Did you mean 'pu'"),
        ({"top": 0}, "whole number from 1"),
        ({"top": {"do": 3}}, "'do' was found"),
        ({"top": 3, "vocabulary": {"pu": ["a"]}}, "Leave one of them out"),
        ({"format": "xml"}, "format must be"),
        ({"modes": ["pu:hour"]}, "'pu' must hold"),
    ],
)
def test_a_mistake_is_explained(change, message):
    with pytest.raises(DataError, match=message):
        list(from_events(events((1, 0, "a", "x")), **(OPTIONS | change)))


def test_dates_have_no_hours():
    table = pl.DataFrame({"t": ["2018-01-01"], "k": ["a"]})
    with pytest.raises(DataError, match="'t' holds dates"):
        list(from_events(table, time="t", every="1h", modes=["k"]))
    with pytest.raises(DataError, match="'t' holds dates"):
        list(from_events(table, time="t", every="1d", modes=["t:hour"]))
    with pytest.raises(DataError, match="'k' holds numbers in row 1 of"):
        list(from_events({"k": [1]}, time="k", every=1, modes=["k:hour"]))


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("when,pu\n2018-01-01,a\n", {}, r"bad\.csv has only 'when', 'pu'"),
        ("t,pu\n2018-01-01,a\nyesterday,b\n", {}, r"row 2 of .*bad\.csv has 'yesterday'"),
        ("t,pu,v\n2018-01-01,a,1\n2018-01-01,b,many\n", {"value": "v"}, r"row 2 of .* has 'many'"),
        ("t,pu\n2018-01-01,a\n2018-01-01,a,b\n", {}, r"row 2 of .*bad\.csv has 3"),
        (
            "t,pu\n2018-01-01,a\n2018-01-01,\n",
            {"on_null": "error"},
            r"row 2 of .*bad\.csv has none",
        ),
        ("t,pu\n2018-01-01,a\n17,a\n", {}, r"row 2 of .*bad\.csv has '17'"),
        ("t,pu\n2018-01-01T10:00Z,a\n2018-01-01T10:00,a\n", {}, "all have a zone or all"),
        ("\0\1\2", {}, r"bad\.csv holds binary"),
        ("", {}, r"bad\.csv is empty"),
    ],
)
def test_a_bad_file_is_named_with_the_row(tmp_path, text, options, message):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        list(from_events(path, **(OPTIONS | options)))


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_any_csv_gives_slices_or_a_data_error(tmp_path_factory, data):
    field = st.sampled_from(
        ["2018-01-01", "2018-01-02T03:00", "1514764800", "a", "", "7", "é", '"', "\n", ",", "nan"]
    )
    line = st.lists(field, max_size=4).map(",".join)
    text = "t,pu,v\n" + "\n".join(data.draw(st.lists(line, max_size=6)))
    noise = data.draw(st.binary(max_size=5))
    path = tmp_path_factory.getbasetemp() / "noise.csv"
    path.write_bytes(text.encode() + noise)
    options = data.draw(
        st.fixed_dictionaries(
            {},
            optional={
                "value": st.just("v"),
                "every": st.sampled_from(["1h", 1]),
                "in_order": st.booleans(),
                "timezone": st.just("Asia/Tokyo"),
                "empty": st.just("skip"),
            },
        )
    )
    try:
        stream = from_events(path, **(OPTIONS | options))
        slices = list(stream)
    except DataError:
        return
    assert len(slices) == stream.n_slices
    times = [x.time for x in slices]
    assert times == sorted(set(times))
