"""Long seasons are learned with neighbours, unless a single step differs."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.forecasting.smoothing import carry_on


def test_weeks_of_a_year_learn_from_their_neighbours():
    """Of three noisy years the smooth course is found, not the noise of each week."""
    weeks = np.arange(52 * 3 + 26)
    course = 20.0 + 8.0 * np.sin(2 * np.pi * weeks / 52)
    errors, naive = [], []
    for seed in range(6):
        past = course + np.random.default_rng(seed).normal(0.0, 3.0, len(weeks))
        origin = 52 * 3 + 4 * seed
        found = carry_on(past[:origin, None], 4, 52).mean[:, 0]
        truth = course[origin : origin + 4]
        errors.append(found - truth)
        naive.append(past[origin - 52 : origin - 48] - truth)
    assert np.mean(np.square(errors)) < 0.45 * np.mean(np.square(naive))


def test_one_week_that_differs_every_year_stays_one_week():
    past = np.full(52 * 4, 10.0) + np.random.default_rng(0).normal(0.0, 0.1, 52 * 4)
    past[30::52] += 25.0
    found = carry_on(past[: 52 * 3 + 28, None], 5, 52).mean[:, 0]
    np.testing.assert_allclose(found, [10.0, 10.0, 35.0, 10.0, 10.0], atol=2.5)


@pytest.mark.parametrize(("period", "n"), [(7, 14), (7, 20), (12, 25), (24, 50)])
def test_a_season_of_the_calendar_is_carried_on_from_its_second_turn_on(period, n):
    rng = np.random.default_rng(n)
    course = 100.0 * (1.0 + 0.5 * np.sin(2 * np.pi * np.arange(n + period) / period))
    past = course[:n] + rng.normal(0.0, 4.0, n)
    found = carry_on(past[:, None], period, period)
    assert found.period == period
    truth = course[n:]
    assert np.abs(found.mean[:, 0] - truth).mean() < 8.0  # 32 for those who see no season
    assert np.sqrt(found.covariance[:, 0, 0]).max() < 16.0


def test_a_short_past_without_a_season_gets_none():
    """Two weeks of noise: the first turn is hardly believed."""
    errors, naive = [], []
    for seed in range(30):
        past = np.random.default_rng(seed).normal(100.0, 10.0, 23)
        found = carry_on(past[:16, None], 7, 7).mean[:, 0]
        errors.append(np.abs(found - past[16:]).mean())
        naive.append(np.abs(past[9:16] - past[16:]).mean())
    assert np.mean(errors) < 0.9 * np.mean(naive)
