"""Which story is told of a slice: rows that are odd, or a total that is; how sure that can be."""

import math

import numpy as np
import pytest

from onlinegcp.anomaly import AnomalyTracker, score_slice
from onlinegcp.slices import Slice


@pytest.mark.parametrize("seed", range(6))
def test_a_light_row_that_bursts_is_blamed_for_as_long_as_it_is_odd(seed):
    """Two failures per check are usual; one check has thirty, and soon the total is no surprise."""
    rng = np.random.default_rng([seed, 5])
    labels = [[f"host{i}" for i in range(40)], [f"check{i}" for i in range(6)]]
    tracker, told = AnomalyTracker(1), []
    for t in range(205):
        p = np.full((40, 6), 0.05)
        p[:, 3] = 0.8 if t >= 200 else 0.05
        x = Slice.dense((rng.random(p.shape) < p).astype(float))
        anomaly = score_slice(None, x, labels, history=tracker, modes=("host", "check"))
        tracker.update(anomaly)
        told += [anomaly] if t >= 200 else []
    assert all(anomaly.flagged for anomaly in told[:4])
    for anomaly in told[:4]:
        named = [row for row in anomaly.modes[1] if f" {row['label']} " in anomaly.sentence]
        assert named[0]["label"] == "check3", anomaly.sentence
        assert named[0]["expected"] < 8.0, anomaly.sentence
        # Each of the others usually has two, of which chance may take away some: not nine of ten.
        others = anomaly.total - sum(row["observed"] for row in named)
        usual = 2.0 * (6 - len(named))
        assert anomaly.rest_usual or abs(anomaly.rest_change - (others / usual - 1.0)) < 0.3


@pytest.mark.parametrize("seed", range(4))
def test_where_one_row_is_nearly_all_chance_is_not_told_as_one_in_a_billion(seed):
    """Its share of a total is known well, the total of a slice is not: that is a forecast."""
    rng, tracker, found = np.random.default_rng(seed), AnomalyTracker(24), []
    for t in range(1500):
        total = 48.0 * (1.0 + 0.7 * math.sin((t % 24 - 8) / 12 * math.pi))
        mean = total * np.outer([0.62, 0.38], [0.9, 0.1])
        verdict = tracker.judge(Slice.dense(rng.poisson(mean).astype(float)), counted=True)
        found.append(verdict.log_p)
        tracker.learn(verdict)
    found = np.array(found[100:])
    assert found.min() > math.log(1e-6)
    assert np.mean(found < math.log(0.01)) < 0.0175


def test_a_total_that_a_slice_is_flagged_for_is_said_to_be_off():
    """With few kinds of oddity a slice may be flagged while its total alone is not quite as odd."""
    for seed in range(12):
        rng, tracker = np.random.default_rng(seed), AnomalyTracker(1)
        for _ in range(300):
            x = Slice.dense(rng.poisson(200.0, 1).astype(float))
            anomaly = score_slice(None, x, [["all"]], history=tracker, modes=("what",))
            if anomaly.flagged and anomaly.family == "volume":
                assert "than expected" in anomaly.sentence
                assert anomaly.volume_odd
            tracker.update(anomaly)


def test_the_label_that_did_it_comes_before_those_in_which_it_shows():
    """One shop sells twenty times as much, of all products."""
    rng = np.random.default_rng(5)
    labels = [[f"product{i}" for i in range(12)], [f"shop{i}" for i in range(8)]]
    base, tracker = rng.gamma(2.0, 3.0, (12, 8)), AnomalyTracker(1)
    for _ in range(80):
        tracker.learn(tracker.judge(Slice.dense(rng.poisson(base).astype(float)), counted=True))
    burst = base.copy()
    burst[:, 1] *= 50.0
    x = Slice.dense(rng.poisson(burst).astype(float))
    anomaly = score_slice(None, x, labels, history=tracker, modes=("product", "shop"))
    assert len(anomaly.modes[0]) > 1, "products are odd, too"
    assert ". Shop shop1 x" in anomaly.sentence, anomaly.sentence


def test_pairs_that_rose_less_than_everything_are_not_told_as_a_rise():
    """All is five times as much; of four pairs two rose by eight and a half and two by a half."""
    rng = np.random.default_rng(1)
    base, tracker = np.full((6, 5), 10.0), AnomalyTracker(1)
    for _ in range(80):
        tracker.learn(tracker.judge(Slice.dense(rng.poisson(base).astype(float)), counted=True))
    more = 5.0 * base
    for place, part in (((2, 3), 0.3), ((2, 4), 1.7), ((1, 3), 1.7), ((1, 4), 0.3)):
        more[place] *= part
    x = Slice.dense(rng.poisson(more).astype(float))
    anomaly = score_slice(None, x, None, history=tracker, modes=("a", "b"))
    milder = [cell for cell in anomaly.cells if cell["milder"]]
    assert milder
    for cell in milder:
        assert cell["observed"] > cell["expected"], "it rose, but less than all did"
        first, second = cell["labels"]
        assert f"{first} with {second}" not in anomaly.sentence
    assert "as usual" not in anomaly.sentence


@pytest.mark.parametrize("again", [lambda tracker: tracker, AnomalyTracker.copy])
def test_a_stream_that_fell_silent_is_one_alarm_until_it_comes_back(again):
    """Thirty hours without any event: they become no new usual, and the first ones after it are."""
    rng, told = np.random.default_rng(8), []
    base, tracker = rng.gamma(2.0, 3.0, (8, 12)), AnomalyTracker(24)
    for t in range(24 * 12):
        day = max(math.sin(t / 12 * math.pi), 0.0) ** 2 + 0.002  # hours of one event by night
        x = Slice.dense(rng.poisson(base * day * (not 200 <= t < 230)).astype(float))
        anomaly = score_slice(None, x, history=tracker, noun="orders")
        tracker.update(anomaly)
        tracker = again(tracker)
        told.append(anomaly)
    began = [t for t, anomaly in enumerate(told) if 200 <= t < 245 and anomaly.alarm == 1]
    ended = [t for t, anomaly in enumerate(told) if 200 <= t < 245 and anomaly.ended]
    assert (len(began), len(ended)) == (1, 1)
    assert began[0] == 200
    assert ended[0] == 230
    for anomaly in told[204:230]:
        assert "0 orders" in anomaly.sentence
    assert any(not anomaly.flagged for anomaly in told[204:230]), "nights are not odd by themselves"
    assert "as usual" in told[ended[0]].sentence


def test_silence_becomes_usual_in_the_end_and_at_once_where_it_often_is():
    rng = np.random.default_rng(9)
    for off in (lambda t: t >= 100, lambda t: t % 5 == 4):
        tracker, flagged = AnomalyTracker(1), []
        for t in range(200):
            x = Slice.dense(rng.poisson(np.full((4, 5), 0.0 if off(t) else 9.0)).astype(float))
            anomaly = score_slice(None, x, history=tracker)
            tracker.update(anomaly)
            flagged.append(anomaly.flagged)
        assert not any(flagged[170:])
