"""The judge of slices: what several kinds of oddity say together."""

import math

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
