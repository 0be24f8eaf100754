"""Rows of counts: their surprise is a negative binomial's, whatever the spread that was learned."""

import math

import numpy as np
import pytest
from scipy import stats

from onlinegcp.kernels import shares


def row_of(*fields):
    rows = np.zeros((shares.FIELDS, 1))
    rows[: len(fields), 0] = fields
    return rows


def compared(
    x, mean, *, unrest=1.0, events=1e9, squares=0.0, noise=0.0, sizes=0.0, pool=(0.0, 0.0, 0.0)
):
    """Forecast, deviation and surprise of one row whose share of a total of 100 is mean / 100."""
    rows = row_of(events, 1.0, squares, noise, sizes)
    out = np.zeros((3, 1))
    share = np.array([mean / 100.0])
    shares.compare_rows(rows, np.array(pool), unrest, share, np.array([float(x)]), 100.0, out)
    return out[:, 0]


@pytest.mark.parametrize("mean", [2.0, 9.0, 60.0])
@pytest.mark.parametrize("z", [-3.0, -1.0, 1.5, 3.5])
def test_the_surprise_of_a_poisson_row_is_the_normal_quantile_of_its_tail(mean, z):
    x = round(mean + z * math.sqrt(mean))
    if x < 0:
        pytest.skip("no such count")
    surprise = compared(x, mean)[shares.SURPRISE]
    tail = stats.poisson.cdf(x, mean) if x < mean else stats.poisson.sf(x - 1, mean)
    assert abs(surprise) == pytest.approx(-stats.norm.ppf(min(tail, 0.5)), abs=0.16)
    assert np.sign(surprise) in (0.0, np.sign(x - mean))


def test_over_dispersion_is_a_negative_binomial():
    # Squares five times the noise: variance 5 m. The two quasi-likelihoods agree near the middle.
    mean, slices = 40.0, 1e6
    surprise = compared(
        80, mean, squares=5 * mean * slices, noise=mean * slices, sizes=mean**2 * slices
    )[shares.SURPRISE]
    size = mean / 4.0
    tail = stats.nbinom.sf(79, size, size / (size + mean))
    assert surprise == pytest.approx(-stats.norm.ppf(tail), abs=0.1)


def test_under_dispersion_makes_a_small_change_large_but_not_for_a_single_event():
    mean, slices = 40.0, 1e6
    learned = {"squares": 0.1 * mean * slices, "noise": mean * slices, "sizes": 1e9}
    assert compared(30, mean, **learned)[shares.SURPRISE] < -4.5
    assert compared(30, mean)[shares.SURPRISE] > -1.7
    # A count of mean one half is one or none.
    light = {"squares": 0.0, "noise": 0.5 * slices, "sizes": 1e9}
    assert abs(compared(1, 0.5, **light)[shares.SURPRISE]) < 2.0


def test_a_row_without_events_is_surprised_by_many_and_not_by_one():
    one, many = (compared(x, 0.02, events=0.0)[shares.SURPRISE] for x in (1, 500))
    assert one < 2.5
    assert many > 30.0


def test_shares_follow_season_and_special_day_and_new_rows_get_the_newcomers():
    rows = row_of(100.0, 1000.0)
    season, special = np.array([[1e6], [5e5]]), np.array([[3e6], [1e6]])
    share, none = np.zeros(2), np.zeros((2, 0))
    shares.row_shares(rows, none, none, 0.001, share)
    np.testing.assert_allclose(share, [100.5 / 1000.0, 0.001])
    shares.row_shares(rows, season, special, 0.001, share)
    np.testing.assert_allclose(share, [6.0 * 100.5 / 1000.0, 0.001], rtol=1e-4)


def test_the_total_is_told_by_the_rows_that_are_as_usual():
    share, sums = np.array([0.25, 0.25, 0.5]), np.array([25.0, 25.0, 500.0])
    out = np.zeros((3, 3))
    out[shares.SURPRISE] = [0.0, 0.0, 20.0]
    assert shares.total_of_usual_rows(share, sums, out, 3, 7.0) == pytest.approx(100.0)
    out[shares.SURPRISE] = 20.0
    assert shares.total_of_usual_rows(share, sums, out, 3, 7.0) == 7.0


def learned(x, surprise, streak=0.0, weight=1.0):
    rows = row_of(100.0, 1000.0, 50.0, 50.0, 50.0, streak)
    out = np.array([[10.0], [3.0], [surprise]])
    none, pool = np.zeros((2, 0)), np.zeros(3)
    shares.learn_rows(
        rows, none, none, pool, np.array([float(x)]), out, 1, 100.0, weight, True,
        (0.9, 0.9, 0.9), False,
    )  # fmt: skip
    return rows[:, 0]


def test_what_is_odd_is_held_until_it_stays():
    width = 3.0 * math.sqrt(9.25)
    assert learned(12, 0.7)[shares.EVENTS] == pytest.approx(90.0 + 12.0)
    assert learned(80, 9.0)[shares.EVENTS] == pytest.approx(90.0 + 10.0 + width)
    assert learned(80, 9.0)[shares.STREAK] == 1.0
    assert learned(80, 9.0, streak=9.0)[shares.EVENTS] == pytest.approx(90.0 + 80.0)
    # A slice ten times as loud counts as an ordinary one, and says nothing of the spread.
    loud = learned(80, 0.5, weight=0.1)
    assert loud[shares.EXPOSURE] == pytest.approx(900.0 + 10.0)
    assert loud[shares.SQUARES] == 50.0


def test_extremes_are_those_of_numpy():
    rng = np.random.default_rng(0)
    out = np.stack([rng.exponential(size=40), np.ones(40), rng.normal(size=40)])
    largest, smallest, number = shares.extremes(out, 0.5)
    assert (largest, smallest) == (out[2].max(), out[2].min())
    assert number == np.count_nonzero(out[0] > 0.5)
