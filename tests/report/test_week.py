"""A day of the week is named where patterns hold more on it than chance and single days explain."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

from onlinegcp.report.week import Days, week_words


def said(held, start=datetime.date(2024, 1, 1), hours=1):
    """What is said of a pattern that held this much, slice by slice."""
    first = datetime.datetime.combine(start, datetime.time())
    moments = [first + datetime.timedelta(hours=24 / hours * k) for k in range(len(held))]
    day = np.array([moment.weekday() for moment in moments])
    profile = np.array([held[day == k].mean() for k in range(7)]) / held.mean()
    days = Days.of([moment.isoformat() for moment in moments], np.asarray(held, float)[:, None])
    return week_words(profile, days, 0)


def test_one_odd_day_makes_no_strong_weekday():
    held = np.random.default_rng(0).normal(100, 5, 60)
    held[22] = 450.0  # a Tuesday
    assert said(held) == ""


def test_a_slow_wave_makes_no_strong_weekday():
    days = np.arange(120)
    for length in (23, 57, 90):
        assert said(100 + 80 * np.sin(days / length * 2 * np.pi)) == "", length


def test_chance_names_a_day_hardly_ever():
    named = [said(np.random.default_rng(seed).gamma(3.0, size=21 + seed)) for seed in range(150)]
    assert sum(map(bool, named)) <= 6  # 36 of the same had one day clearly above the others


@pytest.mark.parametrize("weeks", [2, 4, 30])
def test_true_weeks_are_told_from_the_second_on(weeks):
    noise = np.random.default_rng(weeks).normal(1.0, 0.05, 7 * weeks)
    assert said(np.tile([9.0, 9, 9, 9, 9, 3, 3], weeks) * noise) == "mostly on working days"
    assert said(np.tile([5.0, 5, 5, 5, 9, 5, 5], weeks) * noise) == "strongest on Fridays"
    assert said(np.tile([5.0, 5, 5, 5, 5, 8, 8], weeks) * noise) == "strongest at weekends"
    assert said(np.tile([9.0, 9, 3, 9, 9, 9, 9], weeks) * noise) == "weakest on Wednesdays"


def test_hours_of_one_day_are_one_witness():
    """Two busy days among fourteen, by the hour: 48 values, which are two."""
    by_day = np.random.default_rng(3).gamma(2.0, size=14)
    hourly = np.repeat(by_day, 24) * np.random.default_rng(4).normal(1.0, 0.02, 14 * 24)
    assert said(hourly, hours=24) == ""
    days = Days.of(
        [f"2024-01-{k // 24 + 1:02}T{k % 24:02}:00" for k in range(48)], np.ones((48, 1))
    )
    assert days.held.shape == (2, 1)


def test_times_that_are_no_dates_have_no_weekdays():
    days = Days.of(["spring", "2024-01-01"], np.ones((2, 1)))
    assert week_words(np.array([1.0, 2, 1, 1, 1, 1, 1]), days, 0) == ""
