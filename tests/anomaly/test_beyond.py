"""What is beyond any season is told while the season is not known."""

import math
import pickle

import numpy as np
import pytest

from onlinegcp import Slice
from onlinegcp.anomaly import AnomalyTracker, score_slice

HALF_HOURS = 48


def half_hours(seed, start=0, steep=1.0, events=514.0, n=60, quietest=5):
    """Slices with a strong day, fewer on days 5 and 6, and rows with hours of their own."""
    rng = np.random.default_rng([seed, 31])
    shape = rng.dirichlet(np.full(40, 3.0)).reshape(8, 5)
    peaks = rng.uniform(0.0, 2.0 * np.pi, (8, 5))
    slices = []
    for t in range(start, start + n):
        turn = 2.0 * np.pi * t / HALF_HOURS
        day = np.exp(steep * (1.2 * np.sin(turn - 2.1) + 0.5 * np.sin(2.0 * turn - 1.8)))
        week = 0.6 if t // HALF_HOURS % 7 >= quietest else 1.0
        rates = events * day * week * shape * np.exp(0.5 * np.sin(turn + peaks))
        slices.append(rng.poisson(rates * rng.gamma(20.0, 0.05, shape.shape)).astype(float))
    return slices


def flagged(slices, tracker=None):
    """Numbers of the flagged slices, and what was said of them."""
    tracker = AnomalyTracker(HALF_HOURS, longer=True) if tracker is None else tracker
    found = {}
    for t, x in enumerate(slices):
        anomaly = score_slice(None, Slice.dense(x), history=tracker)
        tracker.update(anomaly)
        if anomaly.flagged:
            found[t] = anomaly
    return found


@pytest.mark.parametrize("steep", [0.5, 1.0, 2.0])
def test_no_season_is_beyond_any_season(steep):
    """From whatever time of the week a stream begins, at night and on Sundays too."""
    for seed, start in enumerate(range(0, 7 * HALF_HOURS, 31)):
        assert not flagged(half_hours(seed, start, steep)), (seed, start)


@pytest.mark.parametrize("at", [10, 25, 59])
def test_a_burst_that_no_season_has_is_told_from_slice_ten_on(at):
    slices = half_hours(3, start=20, steep=0.5)
    slices[at] = slices[at] * math.ceil(12.0 * max(x.sum() for x in slices) / slices[at].sum())
    found = flagged(slices)
    assert list(found) == [at]
    assert found[at].kind == "volume"
    assert f"{slices[at].sum():,.0f} events" in found[at].sentence
    # And what came before slice ten was the past.
    early = half_hours(3, start=20, steep=0.5)
    early[9] = early[9] * 40
    assert not flagged(early)


def test_one_row_beyond_its_own_range_is_named():
    """The total is far within what a season may do: the row held a hundredth of the events."""
    slices = half_hours(4, start=20, steep=0.3, events=20_000.0)
    for x in slices:
        x[5] //= 10.0
    usual, most = slices[15].sum(), max(x[5].sum() for x in slices)
    slices[15][5] = np.rint(40.0 * most * slices[15][5] / slices[15][5].sum())
    assert slices[15].sum() < 2.0 * usual
    found = flagged(slices)
    assert list(found) == [15]
    assert found[15].family == "up 0"
    assert [row["label"] for row in found[15].modes[0]] == ["5"]


def test_a_stream_that_nearly_sleeps_may_wake():
    """A shop that is closed when its table begins, with some events by night."""
    rng = np.random.default_rng(32)
    for seed in range(5):
        open_now = [t % HALF_HOURS >= 16 + seed for t in range(60)]
        slices = [rng.poisson(12.0 if on else 0.1, (8, 5)).astype(float) for on in open_now]
        assert not flagged(slices)


def test_it_goes_on_after_a_resume_and_forgets_once_the_season_is_known():
    slices = half_hours(5, n=64)
    slices[40] = slices[40] * 40
    through, kept = AnomalyTracker(HALF_HOURS), AnomalyTracker(HALF_HOURS)
    for x in map(Slice.dense, slices):
        kept = pickle.loads(pickle.dumps(kept))
        one, other = through.judge(x, counted=True), kept.judge(x, counted=True)
        assert (one.log_p, one.family) == (other.log_p, other.family)
        through.learn(one)
        kept.learn(other)
        if through.n_slices == 41:
            assert one.log_p < math.log(0.01)
            assert through.beyond.series
    assert not through.beyond.series


def test_new_rows_and_amounts_do_not_disturb_it():
    """Rows that come later had nothing before; amounts are judged in units of their own."""
    slices = half_hours(6, start=20, steep=0.5)
    for t, x in enumerate(slices):
        x[6:] *= t >= 20
    wide = [x[:6] if t < 20 else x for t, x in enumerate(slices)]
    assert not flagged(wide)
    money = [0.37 * x for x in wide]
    assert not flagged(money)
    money[30] = money[30] * 40
    assert list(flagged(money)) == [30]
