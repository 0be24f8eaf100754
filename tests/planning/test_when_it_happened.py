"""Columns that say when, in tables of many trades: epochs of any name, intervals, versions."""

from __future__ import annotations

import datetime

import numpy as np
import polars as pl
import pytest

from onlinegcp.errors import DataError
from onlinegcp.events import from_events
from onlinegcp.planning import make_plan

RNG = np.random.default_rng(11)
MOMENTS = [datetime.datetime(2024, 3, 1) + datetime.timedelta(minutes=20 * k) for k in range(6000)]
KIND = RNG.choice(list("abc"), len(MOMENTS))


def planned(**columns):
    return make_plan(pl.DataFrame({**columns, "kind": KIND}))


@pytest.mark.parametrize(
    ("layout", "offset"),
    [
        ("%Y/%m/%d %I:%M:%S %p GMT+1", 1),  # forms
        ("%a %b %d %Y %H:%M:%S GMT+0100 (Central European Standard Time)", 1),  # browsers
        ("%Y-%m-%d %H:%M:%S UTC+01:00", 1),
        ("[%d/%b/%Y:%H:%M:%S +0100]", 1),  # web servers
        ("%a, %d %b %Y %H:%M:%S +0100 (CET)", 1),  # mail
    ],
)
def test_what_stands_around_a_date_is_no_part_of_it(layout, offset):
    written = [moment.strftime(layout) for moment in MOMENTS]
    plan = planned(at=written)
    assert plan.events["time"] == "at"
    # The days are those of whoever wrote them.
    slices = list(from_events({"at": written, "kind": KIND}, **plan.events))
    assert slices[0].time == MOMENTS[0].date()
    assert {x.total for x in slices[:-1]} == {72.0}
    utc = list(from_events({"at": written, "kind": KIND}, time="at", every="1h", modes=["kind"]))
    assert utc[0].time.hour == 24 - offset


@pytest.mark.parametrize("between", [" - ", "/", " – "])
@pytest.mark.parametrize("layout", ["%d.%m.%Y %H:%M", "%Y-%m-%dT%H:%MZ"])
def test_an_interval_is_when_it_begins(layout, between):
    later = [moment + datetime.timedelta(minutes=20) for moment in MOMENTS]
    ends = zip(MOMENTS, later, strict=True)
    written = [f"{a.strftime(layout)}{between}{b.strftime(layout)}" for a, b in ends]
    plan = planned(unit=written)
    assert plan.events["time"] == "unit"
    slices = list(from_events({"unit": written, "kind": KIND}, **plan.events))
    assert sum(x.total for x in slices) == len(MOMENTS)
    assert slices[0].time == MOMENTS[0].date()


@pytest.mark.parametrize("name", ["created_at", "t0", "_source"])
@pytest.mark.parametrize("unit", [1, 1000, 10**6])
def test_seconds_since_1970_need_neither_a_name_nor_an_order(name, unit):
    times = [round(moment.timestamp() * unit) for moment in RNG.permutation(MOMENTS)]
    amounts = RNG.integers(10**3, 10**6, len(times))
    plan = planned(price=amounts, **{name: times})
    assert plan.events["time"] == name


def test_account_numbers_are_no_times():
    with pytest.raises(DataError, match="column that says when"):
        planned(account=RNG.integers(4 * 10**9, 9 * 10**9, len(KIND)))


@pytest.mark.parametrize("versions", [["1.4.2", "1.5.0"], ["3.11.12", "3.12.1"], ["1.4.20"]])
def test_versions_are_no_dates(versions):
    """A release for each half of the rows, of which a sample may see one only."""
    build = np.repeat(versions, len(KIND) // len(versions))
    times = [round(moment.timestamp() * 1000) for moment in MOMENTS]
    plan = planned(build=build, ts_ms=times)
    assert plan.events["time"] == "ts_ms"
    day = [moment.date().isoformat() for moment in MOMENTS]
    assert planned(build=build, day=day).events["time"] == "day"


def test_words_come_before_numbers_that_may_be_amounts():
    """Goals are few and even, but whoever counts games asks for teams first."""
    table = {
        "day": [moment.date() for moment in MOMENTS],
        "department": RNG.choice(["it", "sales", "hr"], len(KIND), p=[0.7, 0.2, 0.1]),
        "q1": RNG.integers(1, 6, len(KIND)),
        "q2": RNG.integers(1, 6, len(KIND)),
        "q3": RNG.integers(1, 6, len(KIND)),
        "zone": RNG.integers(1, 6, len(KIND)),
    }
    plan = make_plan(pl.DataFrame(table))
    assert {"department", "zone"} < set(plan.events["modes"])
    told = {what: why for what, _, why in plan.lines}["modes"]
    assert "numbers that may be amounts; words come first" in told
