"""Periods are found where they are and nowhere else; special days are recognised."""

import datetime

import numpy as np
import pytest

from onlinegcp.anomaly import AnomalyTracker
from onlinegcp.anomaly.season import CANDIDATES, calendar, find_period, moment_of
from onlinegcp.errors import DataError


@pytest.mark.parametrize("period", CANDIDATES)
def test_a_period_is_found(period):
    rng = np.random.default_rng(period)
    profile = rng.normal(size=(period, 3))
    n = 3 * period + 4
    series = profile[np.arange(n) % period] + 0.4 * rng.normal(size=(n, 3)) + np.arange(n)[:, None]
    assert find_period(series) == period


@pytest.mark.parametrize("seed", range(20))
def test_noise_and_random_walks_have_no_period(seed):
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(160, 5))
    assert find_period(noise) == 1
    assert find_period(np.cumsum(noise, axis=0)) == 1


def test_holidays_come_from_their_package():
    pytest.importorskip("holidays")
    is_holiday = calendar("US")
    assert is_holiday(datetime.date(2013, 7, 4))
    assert not is_holiday(datetime.date(2013, 7, 5))
    assert not calendar(None)(datetime.date(2013, 7, 4))
    with pytest.raises(DataError, match="country code"):
        AnomalyTracker(7, holidays="Atlantis")


def test_moments():
    assert moment_of(np.datetime64("2013-07-04")) == datetime.datetime(2013, 7, 4)
    assert moment_of(datetime.date(2013, 7, 4)) == datetime.datetime(2013, 7, 4)
    assert moment_of("week 3") is None
    assert moment_of(12) is None
