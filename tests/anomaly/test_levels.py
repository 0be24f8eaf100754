"""Series by exponential smoothing: growth and jumps are followed, odd values are not learned."""

import numpy as np
import pytest

from onlinegcp.anomaly.levels import Levels


def run(values, period=1, noise=0.0):
    """Forecasts and surprises of one series."""
    levels, found = Levels(period, noise), []
    for value in values:
        seen = levels.judge(np.array([value]))
        found.append((seen.forecast[0], seen.surprise[0]))
        levels.learn(seen)
    return np.array(found).T


def test_growth_is_followed():
    # Three in ten slices of such a series were flagged when the forecast was a median of 28.
    rng = np.random.default_rng(0)
    values = 100.0 * 1.02 ** np.arange(150) * (1.0 + 0.02 * rng.normal(size=150))
    forecast, surprise = run(values)
    late = slice(40, None)
    assert np.abs(forecast[late] / values[late] - 1.0).max() < 0.15
    assert np.mean(np.abs(surprise[late]) > 4.0) < 0.03


def test_a_level_shift_is_the_new_level_after_a_few_slices():
    rng = np.random.default_rng(1)
    values = np.where(np.arange(120) < 60, 156.0, 630.0) + 5.0 * rng.normal(size=120)
    forecast, surprise = run(values)
    assert surprise[60] > 20.0
    assert np.abs(forecast[70:] / 630.0 - 1.0).max() < 0.1


def test_one_odd_value_moves_nothing():
    rng = np.random.default_rng(2)
    values = 50.0 + rng.normal(size=100)
    values[70] = 5000.0
    forecast, _ = run(values)
    assert np.abs(forecast[71:80] - 50.0).max() < 3.0


def test_a_season_is_learned():
    rng = np.random.default_rng(3)
    days = np.arange(140)
    values = 400.0 - 280.0 * (days % 7 == 6) + 5.0 * rng.normal(size=140)
    forecast, surprise = run(values, period=7)
    assert np.abs(forecast[70:] - (400.0 - 280.0 * (days[70:] % 7 == 6))).max() < 25.0
    assert np.mean(np.abs(surprise[70:]) > 3.0) < 0.03


def test_missing_values_are_passed_over_and_new_series_come_in():
    levels = Levels()
    for t in range(30):
        values = np.array([10.0 + t % 2, np.nan if t % 3 else 5.0])
        seen = levels.judge(values)
        assert np.isfinite(seen.surprise).all()
        levels.learn(seen)
    seen = levels.judge(np.array([10.5, 5.0, 1e6]))
    assert seen.n_known == 2
    assert seen.surprise[2] == 0.0
    assert seen.forecast[:2] == pytest.approx([10.5, 5.0], abs=0.6)


def test_constant_totals_are_not_alarmed_by_one_event():
    levels = Levels(noise=0.5)
    for _ in range(50):
        levels.learn(levels.judge(np.array([2.0 * np.sqrt(100.0)])))
    assert abs(levels.judge(np.array([2.0 * np.sqrt(101.0)])).surprise[0]) < 1.0


def test_a_longer_season_goes_on_from_a_shorter_one():
    levels = Levels(7)
    for t in range(70):
        values = np.array([100.0 + 30.0 * (t % 7 == 5)])
        levels.learn(levels.judge(values))
    ahead = [levels.judge(np.array([0.0])).forecast[0]]
    levels.start_season(14)
    assert levels.judge(np.array([0.0])).forecast[0] == ahead[0]
    for t in range(70, 76):
        seen = levels.judge(np.array([100.0 + 30.0 * (t % 7 == 5)]))
        assert abs(seen.forecast[0] - seen.observed[0]) < 5.0
        levels.learn(seen)


@pytest.mark.parametrize("stays", [0.0, 0.8])
def test_a_series_that_stays_off_is_expected_to(stays):
    # A busy hour is followed by another: forecasts of hourly totals were off by three quarters of
    # how far they had been off before.
    rng = np.random.default_rng(4)
    off, values = 0.0, []
    for hour in range(24 * 60):
        off = stays * off + np.sqrt(1.0 - stays**2) * rng.normal()
        values.append(100.0 + 20.0 * np.cos(hour * np.pi / 12.0) + off)
    forecast, _ = run(values, period=24)
    error = (np.array(values) - forecast)[24 * 20 :]
    # 1 - stays^2 of the variance is new in every hour.
    assert np.mean(error**2) < (0.55 if stays else 1.2)
    assert abs(np.corrcoef(error[1:], error[:-1])[0, 1]) < 0.2


def test_restless_hours_have_a_wider_range():
    rng = np.random.default_rng(5)
    hours = np.arange(24 * 40)
    values = 1000.0 + np.where(hours % 24 < 6, 8.0, 1.0) * rng.normal(size=len(hours))
    _, surprise = run(values, period=24)
    late = hours >= 24 * 20
    night = np.mean(np.minimum(surprise[late & (hours % 24 < 6)] ** 2, 25.0))
    day = np.mean(np.minimum(surprise[late & (hours % 24 >= 6)] ** 2, 25.0))
    assert night < 3.0 * day
