"""Tails: what is rare among its own past is as rare as they say."""

import math

import numpy as np
import pytest
from scipy import stats

from onlinegcp.anomaly import AnomalyTracker
from onlinegcp.anomaly.tails import (
    LOWEST_LOG,
    NO_TAIL,
    RARE,
    WINDOW,
    Past,
    after_one_more,
    largest_of,
    log_tail,
    normal_quantile,
    settled,
    smallest_of,
    surprises_of_largest,
)
from onlinegcp.anomaly.tracker import REAL
from onlinegcp.slices import Slice


def test_a_past_of_another_scale_is_learned():
    past = Past((7.0 * np.random.default_rng(0).exponential(size=5000)).tolist()).marks
    for p in (0.2, 0.05, 0.01, 0.001):
        found = log_tail(past, 7.0 * -math.log(p))
        assert found == pytest.approx(math.log(p), rel=0.1)


def test_a_few_odd_slices_do_not_move_it_and_a_young_past_leans_on_theory():
    calm = np.random.default_rng(1).exponential(size=300)
    odd = np.concatenate([calm, [500.0, 600.0, 700.0, 800.0]])
    found = [log_tail(Past(past.tolist()).marks, 5.0) for past in (odd, calm)]
    assert found[0] == pytest.approx(found[1], abs=0.3)
    assert log_tail(Past([0.0] * 3).marks, 5.0) == pytest.approx(-5.0)


def test_a_past_that_goes_on_is_its_newest_values():
    values = (
        np.random.default_rng(5).poisson(3.0, WINDOW + 200).astype(float).tolist()
    )  # many equal
    past = Past()
    for value in values:
        past.add(value)
    assert past.to_array().tolist() == values[-WINDOW:]
    assert past.marks == Past(values[-WINDOW:]).marks


def test_tails_fall_and_end():
    past = Past(np.random.default_rng(2).exponential(size=100).tolist()).marks
    values = [log_tail(past, v) for v in (-1.0, 0.0, 0.5, 1.0, 2.0, 5.0, 1e9)]
    assert values == sorted(values, reverse=True)
    assert values[0] == 0.0
    assert values[-1] == LOWEST_LOG


def test_the_largest_of_some_normal_values():
    for n in (1, 5, 300):
        for share, point in zip((0.75, 0.95), largest_of(n), strict=True):
            assert stats.norm.cdf(point) ** n == pytest.approx(share)


@pytest.mark.parametrize("log_p", [-1e-12, -0.5, -5.0, -29.0, -31.0, -600.0])
def test_the_smallest_of_some_chances(log_p):
    n = 8
    exact = math.log(-math.expm1(n * math.log1p(-math.exp(log_p)))) if log_p > -30 else None
    found = smallest_of(log_p, n)
    assert found == pytest.approx(log_p + math.log(n) if exact is None else exact, abs=1e-6)
    assert found <= 0.0


def test_quantiles_and_normal_quantiles_agree_with_others():
    for past in np.random.default_rng(3).normal(size=(4, 37)):
        n, low, high = Past(past.tolist()).marks
        assert n == 37
        assert (low, high) == pytest.approx(tuple(np.quantile(past, [0.75, 0.95])))
    assert normal_quantile(math.log(0.01)) == pytest.approx(stats.norm.isf(0.01))


@pytest.mark.parametrize("rate", [0.6, 0.8, 1.0])
def test_p_values_of_a_heavier_tail_become_true(rate):
    # Said p = u ** (1 / rate) beyond one in twenty: rarer than it is, unless the rate is 1.
    rng = np.random.default_rng(4)
    log_u = np.log(rng.random(20_000))
    said = np.where(log_u < RARE, RARE + (log_u - RARE) / rate, log_u)
    tail, found = NO_TAIL, []
    for log_p in said:
        found.append(settled(tail, log_p))
        tail = after_one_more(tail, log_p)
    for level, factor in ((0.01, 1.3), (0.001, 2.0)):
        share = np.mean(np.array(found[5000:]) < math.log(level))
        assert level / factor < share < factor * level


def test_one_wild_slice_does_not_make_a_tail_heavy():
    tail = NO_TAIL
    for beyond in [0.3, 1.0, 2.0] * 7:
        tail = after_one_more(tail, RARE - beyond)
    wild = after_one_more(tail, LOWEST_LOG)
    assert settled(wild, RARE - 5.0) == pytest.approx(settled(tail, RARE - 5.0), abs=0.5)
    assert settled(wild, LOWEST_LOG) >= LOWEST_LOG
    assert after_one_more(wild, RARE + 0.1) is wild


@pytest.mark.parametrize("n", [1, 24, 500])
def test_the_surprise_of_the_largest_of_some_normal_values(n):
    points = (-1.0, 0.0, 2.0, 4.0)
    exact = [-math.log1p(-(stats.norm.cdf(z) ** n)) for z in points]
    exact.append(-stats.norm.logsf(30.0) - math.log(n))
    found = surprises_of_largest([*points, 30.0], [n] * 5)
    assert found == pytest.approx(exact, rel=1e-6, abs=1e-9)


def test_what_is_odd_beyond_all_chance_does_not_make_tails_heavy():
    # Else a few holidays would hide the failures of a year.
    rng, tracker = np.random.default_rng(4), AnomalyTracker(period=1)
    for _ in range(120):
        tracker.learn(tracker.judge(Slice.dense(rng.poisson(9.0, (8, 6))), counted=True))
    odd = tracker.judge(Slice.dense(rng.poisson(40.0, (8, 6))), counted=True)
    assert max(odd.log_p, odd.plain["volume"]) < REAL
    before = dict(tracker.tails)
    tracker.learn(odd)
    assert all(tracker.tails[name] is held for name, held in before.items())
