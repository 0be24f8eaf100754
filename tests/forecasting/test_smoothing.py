"""Long seasons are learned with neighbours, unless a single step differs."""

from __future__ import annotations

import numpy as np

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
