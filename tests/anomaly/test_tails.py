"""Tails of distributions against another package, and far out where probabilities underflow."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from onlinegcp.anomaly.tails import (
    LOWEST_LOG,
    log_of,
    median,
    normal_quantile,
    pearson_log_tail,
    quantiles,
    recent_log_tail,
    student_log_tail,
)


@pytest.mark.parametrize("skewness", [0.05, 0.5, 2.0])
def test_the_tail_is_that_of_pearson_type_three(skewness):
    for z in (-1.0, 0.5, 3.0, 8.0, 60.0):
        expected = stats.pearson3.logsf(z, skewness)
        if np.isfinite(expected):
            assert pearson_log_tail(z, skewness) == pytest.approx(expected, rel=1e-6, abs=1e-9)
    # Far out, where probabilities underflow, it still falls.
    far = [pearson_log_tail(z, skewness) for z in (50.0, 500.0, 5000.0)]
    assert far[0] > far[1] > far[2]
    assert np.isfinite(far).all()


def test_skewness_to_the_left_is_taken_for_none():
    assert pearson_log_tail(2.0, -0.5) == pytest.approx(stats.norm.logsf(2.0))


def test_the_tail_of_a_normal_past_is_normal():
    past = stats.norm.ppf((np.arange(1000) + 0.5) / 1000)
    for z in (-1.0, 0.3):
        found = math.exp(recent_log_tail(past, z, -math.inf, 0.0))
        assert found == pytest.approx(stats.norm.sf(z), abs=0.01)
    for z in (2.0, 3.0, 40.0):
        found = recent_log_tail(past, z, -math.inf, 0.0)
        assert found == pytest.approx(stats.norm.logsf(z), rel=0.05)


def test_a_few_odd_values_in_the_past_do_not_move_its_tail():
    past = np.random.default_rng(0).normal(size=365)
    odd = past.copy()
    odd[np.argsort(past)[-4:]] = 1e6
    assert recent_log_tail(odd, 4.0, -math.inf, 0.0) == recent_log_tail(past, 4.0, -math.inf, 0.0)


def test_a_constant_past_takes_the_floors():
    past = np.zeros(200)
    assert math.exp(recent_log_tail(past, 0.0, 1.645, 0.882)) == pytest.approx(1.0)
    # About the two-sided tail of the normal distribution.
    found = math.exp(recent_log_tail(past, 2.807, 1.645, 0.882))
    assert found == pytest.approx(0.005, rel=0.1)


def test_quantiles_turn_tails_back_also_where_they_underflow():
    for z in (-2.0, 0.5, 6.0, 300.0):
        assert normal_quantile(float(stats.norm.logsf(z))) == pytest.approx(z, rel=1e-6)
    assert math.isfinite(normal_quantile(0.0))


def test_students_tail_is_heavier_with_a_short_past():
    assert student_log_tail(3.0, 10) > student_log_tail(3.0, 100) > stats.norm.logsf(3.0)
    assert math.exp(student_log_tail(2.0, 100)) == pytest.approx(stats.t.sf(2.0, 37))
    assert log_of(0.0) == LOWEST_LOG


@pytest.mark.parametrize("count", [1, 2, 7, 365])
def test_quantiles_and_medians_are_those_of_numpy(count):
    values = np.random.default_rng(count).normal(size=count)
    shares = (0.0, 0.16, 0.5, 0.84, 0.9, 0.98, 1.0)
    np.testing.assert_allclose(quantiles(values, *shares), np.quantile(values, shares))
    assert median(values.tolist()) == pytest.approx(np.median(values))
