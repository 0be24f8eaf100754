"""Times with an offset keep the clock they were written by, where it is that of one place."""

from __future__ import annotations

import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from onlinegcp.events import from_events
from onlinegcp.planning import make_plan

START = datetime.datetime(2025, 1, 6, tzinfo=datetime.UTC)


def office(zones, n=6_000, days=200, seed=0):
    """Visits between nine and ten in the morning by the clock on the wall, here or there."""
    rng = np.random.default_rng(seed)
    moments = []
    for day in np.sort(rng.integers(0, days, n)):
        zone = ZoneInfo(str(rng.choice(zones)))
        date = (START + datetime.timedelta(days=int(day))).date()
        clock = datetime.time(9, int(rng.integers(0, 60)))
        moments.append(datetime.datetime.combine(date, clock, zone))
    moments.sort()
    return {
        "at": [moment.isoformat() for moment in moments],
        "who": rng.choice(["ann", "bob"], n),
        "door": rng.choice(["front", "back"], n, p=[0.9, 0.1]),
    }


@pytest.mark.parametrize(
    ("zone", "found", "told"),
    [
        ("Europe/Paris", "Europe/Berlin", "those of Europe/Berlin, among others"),
        ("America/New_York", "America/New_York", "those of America/New_York"),
        ("Australia/Lord_Howe", "Australia/LHI", "those of Australia/LHI"),  # half an hour
        ("America/Bogota", "Etc/GMT+5", "by the clock it was written by, UTC-05:00"),
        ("Asia/Tokyo", "Etc/GMT-9", "by the clock it was written by, UTC+09:00"),
    ],
)
def test_hours_are_those_of_the_clock_that_was_written(zone, found, told):
    table = office([zone])
    plan = make_plan(table, {"every": "1w", "modes": ["who", "at:hour"]})
    assert plan.events["timezone"] == found
    assert told in plan.lines[0][2]
    stream = from_events(table, **plan.events)
    held = np.zeros(24)
    for slice_ in stream:
        np.add.at(held, slice_.index[:, 1], slice_.value)
    assert np.flatnonzero(held).tolist() == [9]
    command = plan.command(["visits.csv"])
    assert f"--timezone {found}" in command


@pytest.mark.parametrize(
    ("zones", "told"),
    [
        (["Europe/Paris", "Asia/Tokyo"], "in UTC, as its offsets are of no one place"),
        (["Asia/Kolkata"], "in UTC, though written in UTC+05:30"),
    ],
)
def test_without_one_clock_it_is_utc_and_told(zones, told):
    plan = make_plan(office(zones))
    assert "timezone" not in plan.events
    assert told in plan.lines[0][2]


@pytest.mark.parametrize("write", [str, lambda text: text.replace("+00:00", "Z")])
def test_utc_is_nothing_to_choose(write):
    table = office(["UTC"])
    table["at"] = [write(text) for text in table["at"]]
    plan = make_plan(table)
    assert "timezone" not in plan.events
    assert "UTC" not in plan.lines[0][2]


def test_a_zone_that_was_given_is_kept():
    plan = make_plan(office(["Europe/Paris"]), settings={"timezone": "Asia/Tokyo"})
    assert "timezone" not in plan.events
