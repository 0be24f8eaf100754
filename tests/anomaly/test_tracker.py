"""The judge of slices: what several kinds of oddity say together."""

import copy
import math
import pickle

import numpy as np
import pytest

from onlinegcp import Slice
from onlinegcp.anomaly import AnomalyTracker
from onlinegcp.anomaly.tails import Past


@pytest.mark.parametrize("seed", range(4))
def test_odd_slices_of_the_past_do_not_hide_a_total_that_collapsed(seed):
    """The past of slices as wholes is full of oddity, as holidays make it; that of totals is not.

    Two days of a blizzard were so: on the second one, with a third of the usual passengers, the
    slice was no odder than others had been.
    """
    rng = np.random.default_rng([seed, 21])
    usual, tracker = rng.dirichlet(np.full(12, 8.0)), AnomalyTracker(1)
    for _ in range(100):
        x = Slice.dense(rng.poisson(2_000.0 * usual).astype(float))
        tracker.learn(tracker.judge(x, counted=True))
    tracker.past["slice"] = Past([1.0] * 300 + [60.0] * 60)
    half = tracker.judge(Slice.dense(rng.poisson(1_400.0 * usual).astype(float)), counted=True)
    assert half.families["volume"] < math.log(1e-6)
    assert half.family == "volume"
    assert half.log_p < math.log(1e-4)
    ordinary = tracker.judge(Slice.dense(rng.poisson(2_000.0 * usual).astype(float)), counted=True)
    assert ordinary.log_p > math.log(0.01)


@pytest.mark.parametrize("again", [lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy])
@pytest.mark.parametrize("counted", [True, False])
def test_a_tracker_can_be_pickled_and_copied_at_any_time_and_goes_on_the_same(again, counted):
    """With labels that come, labels that vanish and a season that is still looked for."""
    rng = np.random.default_rng(22)
    through, kept, judged = AnomalyTracker(), AnomalyTracker(), 0
    for t in range(40):
        rates = 9.0 * (1.5 + np.sin(2 * np.pi * t / 7)) * np.ones((4 + t // 10, 3))
        rates[1] *= not 15 < t < 25
        x = Slice.dense(rng.poisson(rates) + 0.0)
        one = through.judge(x, counted=counted)
        kept = again(kept)
        other = kept.judge(x, counted=counted)
        assert (one.log_p, one.families) == (other.log_p, other.families)
        judged += one.log_p != 0.0
        through.learn(one)
        kept.learn(other)
    assert judged > 10
