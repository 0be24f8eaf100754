"""Times of slices are the same in words wherever they are told."""

from __future__ import annotations

import datetime

import polars as pl
import pytest

from onlinegcp.drawing.text import interval_of, say_interval
from onlinegcp.events import from_events
from onlinegcp.report.sentences import said, sentence


@pytest.mark.parametrize(
    "every", ["1h", "1d", "1w", "1mo", "2mo", "1q", "6mo", "1y", "2y", "4y", "5y", "10y"]
)
def test_the_spacing_of_slices_is_called_what_the_length_of_a_bin_is(every):
    start = datetime.datetime(1900, 1, 1)
    step = datetime.timedelta(hours=1) if every == "1h" else datetime.timedelta(days=1)
    times = [start + k * step for k in range(2_000 if every == "1h" else 40_000)]
    table = pl.DataFrame({"t": times, "a": ["a"] * len(times)})
    slices = list(from_events(table, time="t", every=every, modes=["a"]))
    assert say_interval([str(x.time) for x in slices[:60]]) == interval_of(every)


def test_a_slice_of_four_years_is_told_with_its_last():
    line = {"time": "2018-01-01", "anomaly": {"sentence": "2018–2021: 9 votes."}}
    assert said(line) == "9 votes."
    assert sentence(line, "4-year") == "2018–2021: 9 votes."
    other = {"time": "2018-01-01", "anomaly": {"sentence": "1018–2021: 9 votes."}}
    assert said(other) == "1018–2021: 9 votes."
