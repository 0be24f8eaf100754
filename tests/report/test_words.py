"""Patterns in words: components built to say something are said so."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

from line_profiles import describe
from onlinegcp.drawing.profiles import ModeProfile, guess_kind

HOURS = tuple(f"{h:02}" for h in range(24))
DEST = ("ATL", "BOS", "MIA", "ORD", "SFO")
DAYS = [datetime.date(2013, 1, 7) + datetime.timedelta(days=t) for t in range(364)]  # a Monday


def mode(name, labels, *columns):
    shares = np.array(columns, dtype=float).T
    shares = shares / np.abs(shares).sum(axis=0)
    return ModeProfile(name, guess_kind(name, labels), tuple(labels), shares)


def hours(*busy):
    column = np.full(24, 0.01)
    column[list(busy)] = 1.0
    return column


def words(modes, active=None, times=None):
    if active is None:
        active = np.ones((30, modes[0].shares.shape[1]))
    if times is None:
        times = [None] * len(active)
    return describe(modes, np.asarray(active, dtype=float), [t and str(t) for t in times])


def test_evening_departures_to_two_cities_strongest_on_fridays():
    active = np.array([[3.0 if day.weekday() == 4 else 1.0] for day in DAYS])
    modes = [
        mode("dest", DEST, [0.02, 0.5, 0.02, 0.42, 0.04]),
        mode("hour", HOURS, hours(17, 18, 19, 20)),
    ]
    (pattern,) = words(modes, active, DAYS)
    assert pattern.headline == "Evening · to BOS and ORD"
    assert pattern.sentence.startswith("Evening (17–21 h), to BOS (50 %) and ORD (42 %); ")
    assert pattern.sentence.endswith("; strongest on Fridays")


@pytest.mark.parametrize(
    ("busy", "expected"),
    [
        ((6, 7), "Early morning"),
        ((9, 10), "Morning"),
        ((12,), "Midday"),
        ((14, 15, 16), "Afternoon"),
        ((23, 0, 1, 2), "Night"),
        ((7, 8, 17, 18), "Early morning and evening"),
        (range(24), "A bit of everything"),
    ],
)
def test_parts_of_the_day(busy, expected):
    (pattern,) = words([mode("pickup:hour", HOURS, hours(*busy))])
    assert pattern.headline == expected


def test_what_all_do_by_day_is_told_by_the_difference():
    early, late = hours(*range(6, 22)), hours(*range(6, 22))
    early[6:10] += 2
    late[17:21] += 2
    first, second = words([mode("hour", HOURS, early, late)])
    assert "more in the" in first.sentence.lower() + second.sentence.lower()
    assert {"morning", "evening"} <= set((first.headline + " " + second.headline).split())


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([1, 1, 1, 1, 1, 2, 2], "strongest at weekends"),
        ([1, 1, 1, 1, 1, 1, 3], "strongest on Sundays"),
        ([2, 2, 2, 2, 2, 1, 1], "mostly on working days"),
        ([2, 2, 2, 2, 2.6, 1, 1], "mostly on working days, most on Fridays"),
        ([1, 2, 1, 1, 1, 1, 1], "strongest on Tuesdays"),
        ([2, 2, 2, 2, 2, 1, 2], "weakest on Saturdays"),
        ([1, 1, 1, 1, 1, 1, 1], ""),
    ],
)
def test_days_of_the_week(weights, expected):
    active = np.array([[float(weights[day.weekday()])] for day in DAYS])
    (pattern,) = words([mode("dest", DEST, [5, 1, 1, 1, 1])], active, DAYS)
    said = pattern.sentence.partition("; ")[2]
    assert said == expected


@pytest.mark.parametrize(
    ("months", "expected"),
    [
        ((7,), "strongest in July"),
        ((6, 7, 8), "strongest from June to August"),
        ((12, 1), "strongest from December to January"),
    ],
)
def test_seasons(months, expected):
    active = np.array([[2.0 if day.month in months else 1.0] for day in DAYS])
    (pattern,) = words([mode("dest", DEST, [5, 1, 1, 1, 1])], active, DAYS)
    assert expected in pattern.sentence


def test_a_pattern_that_came_late_and_one_that_left():
    late = np.arange(364) >= 200
    active = np.column_stack([late, ~late]).astype(float)
    modes = [mode("dest", DEST, [5, 1, 1, 1, 1], [1, 5, 1, 1, 1])]
    said = {p.component: p.sentence for p in words(modes, active, DAYS)}
    assert "only since July 2013" in said[0]
    assert "gone after July 2013" in said[1]
    # It is as strong in every month that it was there: these tell of its life, not of a season.
    assert not any("strongest" in sentence for sentence in said.values())


@pytest.mark.parametrize(
    ("name", "lead"),
    [("origin", "From"), ("dest", "To"), ("carrier", "By"), ("district", "In"), ("Sort", "Sort")],
)
def test_modes_are_called_as_people_call_them(name, lead):
    (pattern,) = words([mode(name, DEST, [96, 1, 1, 1, 1])])
    assert pattern.headline == f"{lead} ATL"
    assert pattern.sentence.lower() == f"almost only {lead} atl".lower()


def test_strongest_first_and_shares_sum_to_one():
    modes = [mode("dest", DEST, *np.eye(5))]
    found = words(modes, np.tile([1.0, 5.0, 3.0, 0.0, 2.0], (10, 1)))
    assert [p.component for p in found] == [1, 2, 4, 0, 3]
    assert sum(p.share for p in found) == pytest.approx(1)


@pytest.mark.parametrize(
    "modes",
    [
        [mode("dest", DEST, np.ones(5))],
        [mode("dest", ("only",), [1.0])],
        [mode("zone", [f"z{i}" for i in range(997)], np.ones(997))],
    ],
)
def test_a_flat_component_claims_nothing(modes):
    (pattern,) = words(modes)
    assert pattern.headline == "A bit of everything"


def test_headlines_stay_short_where_labels_are_long():
    labels = [f"a very long name of a sensor, number {i}" for i in range(5)]
    modes = [mode(f"mode{k}", labels, [9, 1, 1, 1, 1]) for k in range(5)]
    (pattern,) = words(modes)
    assert len(pattern.headline) < 100
    assert pattern.sentence.count(labels[0]) == 5


def test_dead_components_empty_runs_and_signs_do_not_fail():
    dead = ModeProfile("dest", "category", DEST, np.zeros((5, 1)))
    assert words([dead], np.zeros((0, 1)))[0].share == 0
    (pattern,) = words([mode("sensor", DEST, [4, -5, 0.1, 0, 0])])
    assert pattern.headline == "Sensor less BOS and more ATL"


@pytest.mark.parametrize(
    ("name", "labels", "column", "expected"),
    [
        ("fare", ("<0", "0 to 5", "5 to 10", ">=10"), [0, 9, 1, 0], "Fare 0 to 5"),
        (
            "day",
            ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"),
            [0, 0, 0, 0, 0, 5, 5],
            "On Sat–Sun",
        ),
        (
            "day",
            ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"),
            [0, 5, 0, 0.2, 5, 0, 0],
            "On Tue and Fri",
        ),
        ("x", tuple(map(str, range(11))), [0, 0, 0, 1, 2, 1, 0, 0, 0, 0, 0], "X 3 up to 4"),
    ],
)
def test_ordered_modes_are_told_by_their_range(name, labels, column, expected):
    (pattern,) = words([mode(name, labels, column)])
    assert pattern.headline == expected


def test_patterns_that_are_everywhere_are_told_apart_by_what_they_have_more_of():
    channels, waves = [f"c{k:02}" for k in range(40)], np.cos(np.arange(40) / 40 * 2 * np.pi)
    found = words([mode("channel", channels, 10 + waves, 10 - waves)])
    assert [p.headline for p in found] == ["More channel c00 and c01", "More channel c20 and c19"]


def test_numbers_are_names_when_they_come_from_data_and_places_when_nobody_named_the_rows():
    zones = [str(i) for i in range(30)]
    assert guess_kind("pu", zones, from_data=True) == "category"
    assert guess_kind("mode 1", zones) == "ordered"
    assert guess_kind("hour", [str(i) for i in range(24)], from_data=True) == "hour"
    assert guess_kind("fare", ["<0", "0 to 5", ">=5"], from_data=True) == "ordered"


def test_hours_that_have_less_are_not_those_that_have_more():
    """A pattern of measurements: the night lies as far below nothing as the day above it."""
    labels = tuple(f"{h:02}" for h in range(24))
    day = np.where((np.arange(24) >= 9) & (np.arange(24) < 15), 1.0, 0.0)
    night = np.where(np.arange(24) < 6, -1.5, 0.0)
    (pattern,) = words([mode("hour", labels, day + night)])
    assert "night" not in pattern.headline.lower()
    assert "midday" in pattern.headline.lower() or "morning" in pattern.headline.lower()
