"""Slices against their own past: each of the failings that were found, alarm rates, and records."""

from __future__ import annotations

import copy
import datetime
import json
import math
import pickle
import re

import numpy as np
import pandas as pd
import pytest

from drawn_world import World
from onlinegcp.anomaly import AnomalyTracker, drift, held_back, score_slice
from onlinegcp.errors import DataError
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import LOSS_NAMES, get_loss
from onlinegcp.problems import load_flights
from onlinegcp.slices import Slice
from onlinegcp.streaming import CPStream, OnlineGCP

MODES = ("origin", "dest", "hour")


def warmed(world, count=40, period=1):
    tracker = AnomalyTracker(period)
    for _ in range(count):
        tracker.update(score_slice(world.model, world.draw(), history=tracker))
    return tracker


def counts(rates, rng, variance=1.0):
    """A slice of counts whose variance is a multiple of its mean."""
    if variance == 1.0:
        x = rng.poisson(rates)
    elif variance > 1.0:
        x = rng.negative_binomial(np.maximum(rates / (variance - 1.0), 1e-9), 1.0 / variance)
    else:
        tries = (rates / (1.0 - variance) + rng.random(rates.shape)).astype(int)
        x = rng.binomial(tries, 1.0 - variance)
    return Slice.dense(x.astype(float))


@pytest.fixture(scope="module")
def flights():
    """A tracker that has seen 108 days of flights out of New York, the next day, and the labels."""
    stream = load_flights(MODES)
    tracker = AnomalyTracker(7)
    for x in stream.slices[:108]:
        tracker.learn(tracker.judge(x, counted=True))
    return tracker, stream.slices[108], stream.labels


def moved(x, mode, label, labels, new):
    """The slice with the events of one row, or some of them, in other rows of a mode."""
    index = x.index.copy()
    new(index, np.flatnonzero(index[:, mode] == labels[mode].index(label)))
    return Slice(index, x.value, x.shape, time=x.time)


# ---- the eight failings


def test_1_all_departures_to_boston_moved_to_anchorage_are_an_alarm(flights):
    tracker, x, labels = flights
    other = labels[1].index("ANC")

    def away(index, rows):
        index[rows, 1] = other

    odd = score_slice(None, moved(x, 1, "BOS", labels, away), labels, history=tracker, modes=MODES)
    assert odd.flagged
    assert {row["label"] for row in odd.modes[1][:2]} == {"BOS", "ANC"}
    assert not score_slice(None, x, labels, history=tracker).flagged


def test_1_the_mornings_of_one_airport_moved_by_nine_hours_are_an_alarm():
    # A timetable: counts vary far less than Poisson. No airport's sum changes, no hour's by much.
    rng, tracker = np.random.default_rng(0), AnomalyTracker(1)
    rates = rng.gamma(4.0, 2.5, (20, 24))
    for _ in range(60):
        tracker.learn(tracker.judge(counts(rates, rng, 0.2), counted=True))
    usual = counts(rates, rng, 0.2)
    late = usual.to_dense()
    late[3, 15:21] += late[3, 6:12]
    late[3, 6:12] = 0.0
    labels = [[f"A{i}" for i in range(20)], [f"{h:02d}" for h in range(24)]]
    odd = score_slice(None, Slice.dense(late), labels, history=tracker, modes=("airport", "hour"))
    assert odd.flagged
    assert odd.family in ("mixture", "pairs up", "pairs down")
    assert re.search(r"irport A3 moved from (0[6-9]|1[01]).* to 1[5-9]", odd.sentence)
    assert not score_slice(None, usual, history=tracker).flagged


@pytest.mark.parametrize(("variance", "total"), [(0.2, 3000.0), (1.0, 300.0), (5.0, 3000.0)])
@pytest.mark.slow
def test_1_alarms_are_as_rare_as_promised_whatever_the_dispersion(variance, total):
    rng = np.random.default_rng(0)
    factors = [rng.dirichlet(np.full(n, 0.5), 4).T for n in (24, 30)]
    tracker, flags, count = AnomalyTracker(1), 0, 1200
    for t in range(count + 30):
        weights = rng.gamma(30.0, 1.0 / 30.0, 4) * total / 4.0
        x = counts(KTensor(weights, factors).full(), rng, variance)
        verdict = tracker.judge(x, counted=True)
        flags += t >= 30 and verdict.log_p < math.log(0.01)
        tracker.learn(verdict)
    assert 0.005 <= flags / count <= 0.018


def test_2_one_airport_that_loses_most_of_its_flights_is_an_alarm_and_named(flights):
    tracker, x, labels = flights
    row = labels[1].index("ORD")
    mine = x.index[:, 1] == row
    kept = np.random.default_rng(0).binomial(x.value.astype(int), 0.1)
    odd = score_slice(
        None,
        Slice(x.index, np.where(mine, kept, x.value), x.shape, time=x.time),
        labels,
        history=tracker,
        modes=MODES,
    )
    assert odd.flagged
    first = odd.modes[1][0]
    assert first["label"] == "ORD"
    assert first["observed"] < 0.3 * first["expected"]
    assert "dest ORD -" in odd.sentence.replace("Dest", "dest")


def test_3_a_label_never_seen_that_takes_half_the_events_is_an_alarm():
    rng, tracker = np.random.default_rng(0), AnomalyTracker(1)
    rates = rng.gamma(2.0, 20.0, (6, 5))
    for _ in range(40):
        tracker.learn(tracker.judge(counts(rates, rng), counted=True))
    x = counts(rates, rng)
    grown = Slice(
        np.vstack([x.index, [[6, 2]]]), np.append(x.value, x.total), (7, 5), time="2024-01-01"
    )
    odd = score_slice(None, grown, [list("abcdefz"), list("vwxyz")], history=tracker)
    assert odd.flagged
    assert odd.modes[0][0]["new"]
    assert "z is new" in odd.sentence


def test_3_streams_whose_labels_are_always_new_are_not_alarmed_by_one_more():
    rng, tracker, flags = np.random.default_rng(0), AnomalyTracker(1), 0
    for t in range(200):
        users = np.concatenate([rng.integers(0, 5, 60), 5 + 9 * t + np.arange(rng.poisson(9))])
        index = np.stack([users, rng.integers(0, 4, len(users))], axis=1)
        x = Slice(index, np.ones(len(users)), (5 + 9 * t + 40, 4))
        verdict = tracker.judge(x, counted=True)
        flags += t > 30 and verdict.log_p < math.log(0.01)
        tracker.learn(verdict)
    assert flags <= 6


def test_4_reasons_compare_with_the_past_of_the_row_and_not_with_the_model(flights):
    tracker, x, labels = flights
    lost = Slice(x.index, np.floor(0.5 * x.value + 0.25), x.shape, time=x.time)
    odd = score_slice(None, lost, labels, history=tracker, modes=MODES)
    assert odd.flagged
    for rows in odd.modes:
        for row in rows:
            assert row["p"] < 0.01
    index = {name: k for k, name in enumerate(labels[1])}
    for cell in odd.cells:
        assert cell["labels"][1] == "" or cell["labels"][1] in index


@pytest.mark.slow
def test_5_weekends_are_no_anomaly_of_pattern_and_first_days_of_months_become_usual():
    rng, flags = np.random.default_rng(0), []
    tracker = AnomalyTracker()  # it has to find the week itself
    week, weekend, first = (rng.gamma(3.0, 10.0, (8, 6)) for _ in range(3))
    day = datetime.date(2020, 1, 1)
    for _ in range(700):
        rates = weekend if day.weekday() >= 5 else week
        rates = rates + (first * np.eye(8, 6)[:, :1] if day.day == 1 else 0.0)
        x = counts(rates, rng).with_time(day)
        verdict = tracker.judge(x, counted=True)
        if verdict.log_p < math.log(0.01):
            flags.append(day)
        tracker.learn(verdict)
        day += datetime.timedelta(1)
    assert tracker.period == 7
    late = [day for day in flags if day >= datetime.date(2020, 9, 1)]
    assert len(late) <= 10
    assert sum(day.weekday() >= 5 for day in late) <= 4
    assert sum(day.day == 1 for day in late) <= 2


def test_6_a_growing_series_is_not_flagged_for_growing():
    rng, tracker, flags = np.random.default_rng(0), AnomalyTracker(1), 0
    for t in range(200):
        x = counts(np.full((4, 3), 20.0 * 1.02**t), rng)
        verdict = tracker.judge(x, counted=True)
        flags += t > 30 and verdict.log_p < math.log(0.01)
        tracker.learn(verdict)
    assert flags <= 5


@pytest.mark.slow
def test_7_no_cells_are_drawn_to_judge_a_small_slice_of_a_huge_tensor():
    rng, tracker = np.random.default_rng(0), AnomalyTracker(1)
    shape = (25_000, 20_000, 20_000)
    for _ in range(15):
        index = np.stack([rng.integers(0, 40, 100) for _ in shape], axis=1)
        verdict = tracker.judge(Slice(index, np.ones(100), shape), counted=True)
        tracker.learn(verdict)
    assert sum(len(part.keys) for part in tracker.pairs) < 100 * 15 * 3


def test_8_a_slice_is_flagged_exactly_where_p_is_below_the_level(flights):
    tracker, x, _ = flights
    p = score_slice(None, x, history=tracker).p
    assert score_slice(None, x, history=tracker, level=min(1.01 * p, 0.99)).flagged
    assert not score_slice(None, x, history=tracker, level=0.99 * p).flagged


# ---- volume, model, holding


def test_twice_the_total_is_an_anomaly_of_volume_alone():
    world = World("poisson", total=300.0)
    tracker = warmed(world)
    for times, sign in ((2.5, 1.0), (0.1, -1.0)):
        anomaly = score_slice(world.model, world.draw(times=times), history=tracker)
        assert anomaly.flagged
        assert anomaly.kind == "volume"
        assert sign * anomaly.volume_z > 2.5
        assert anomaly.expected_total == pytest.approx(300.0, rel=0.25)
        assert anomaly.expected_low < anomaly.expected_total < anomaly.expected_high


def test_what_never_occurred_together_is_told_by_the_model():
    # Three modes: rows and pairs keep their sums, triples do not.
    rng = np.random.default_rng(0)
    even = np.indices((2, 2, 2)).sum(axis=0) % 2 == 0
    rates = np.where(even, 100.0, 1.0)
    model, tracker = OnlineGCP(4, "poisson", init_slices=5, random_state=0), AnomalyTracker(1)
    for t in range(60):
        x = counts(rates, rng)
        if t >= 5:
            tracker.update(score_slice(model, x, history=tracker))
        model.partial_fit(x)
    odd = score_slice(model, counts(rates[::-1], rng), history=tracker)
    assert odd.family == "misfit"
    assert "occur together" in odd.sentence


def test_odd_rows_are_held_and_the_rest_is_learned(flights):
    tracker, x, labels = flights
    row = labels[1].index("ORD")
    burst = Slice(
        x.index, np.where(x.index[:, 1] == row, 9.0 * x.value, x.value), x.shape, time=x.time
    )
    odd = score_slice(None, burst, labels, history=tracker)
    learned = held_back(burst, odd)
    sums = [np.bincount(s.index[:, 1], s.value) for s in (x, learned)]
    assert sums[1][row] == pytest.approx(sums[0][row], rel=0.15)
    others = np.arange(len(sums[0])) != row
    assert sums[1][others].sum() == pytest.approx(sums[0][others].sum(), rel=0.1)
    quiet = score_slice(None, x, labels, history=tracker)
    assert held_back(x, quiet) is x


def test_a_row_that_stays_odd_becomes_usual_and_a_row_odd_once_does_not():
    rng, tracker = np.random.default_rng(0), AnomalyTracker(1)
    usual = np.full((6, 4), 25.0)
    more = usual * np.array([4.0, 1.0, 1.0, 1.0, 1.0, 1.0])[:, None]
    flags = []
    for t in range(120):
        x = counts(more if t == 40 or t >= 70 else usual, rng)
        verdict = tracker.judge(x, counted=True)
        flags += [t] if verdict.log_p < math.log(0.01) else []
        tracker.learn(verdict)
    assert {40, 70} <= set(flags)
    assert not [t for t in flags if 41 <= t < 47]
    assert not [t for t in flags if t >= 100]


# ---- purity, records, resuming


def state_of(tracker):
    arrays, record = tracker.state()
    return {name: values.tobytes() for name, values in arrays.items()}, json.dumps(record)


def test_scoring_changes_neither_model_nor_history():
    world = World("poisson")
    tracker = warmed(world, 15)
    before = pickle.dumps(world.model.get_state()), copy.deepcopy(state_of(tracker))
    x = world.draw()
    first = score_slice(world.model, x, history=tracker)
    assert score_slice(world.model, x, history=tracker).to_json() == first.to_json()
    assert (pickle.dumps(world.model.get_state()), state_of(tracker)) == before


def test_the_record_is_plain_json():
    world = World("poisson")
    record = score_slice(world.model, world.draw(), history=warmed(world, 15)).to_json()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert {"p", "score", "severity", "sentence", "modes", "cells", "alarm"} <= set(record)
    assert record["score"] == pytest.approx(-math.log10(record["p"]))


@pytest.mark.parametrize("name", ["poisson", "gaussian"])
@pytest.mark.parametrize("period", [1, 3, None])
def test_a_tracker_resumes_exactly_from_its_state(name, period):
    world = World(name)
    slices = [world.draw() for _ in range(40)]
    slices[4] = Slice(np.empty((0, 2), int), [], (7, 5), unlisted="missing")
    tracker, records = AnomalyTracker(period), []
    for number, x in enumerate(slices):
        if number == 17:
            arrays, record = tracker.state()
            kept = {key: values.copy() for key, values in arrays.items()}
            resumed = AnomalyTracker.from_state(kept, json.loads(json.dumps(record)))
        anomaly = score_slice(world.model, x, history=tracker)
        tracker.update(anomaly)
        records.append(anomaly.to_json())
    for number, x in enumerate(slices[17:], start=17):
        anomaly = score_slice(world.model, x, history=resumed)
        resumed.update(anomaly)
        assert anomaly.to_json() == records[number]
    assert state_of(resumed) == state_of(tracker)


def test_a_tracker_stays_small():
    rng, tracker = np.random.default_rng(0), AnomalyTracker()
    for _ in range(700):
        index = np.stack([rng.integers(0, n, 50) for n in (40, 30)], axis=1)
        x = Slice(index, np.ones(50), (40, 30))
        tracker.learn(tracker.judge(x, counted=True))
    arrays, _ = tracker.state()
    # 1,270 rows and pairs of sixteen numbers, or so; 365 of each statistic; 512 slices watched.
    assert sum(values.size for values in arrays.values()) < 50_000


# ---- every kind of slice and loss


@pytest.mark.parametrize("name", LOSS_NAMES)
def test_every_loss_gets_a_record_and_finds_a_row_that_is_far_out(name):
    loss = get_loss(name)
    drawn = name if name not in ("huber", "beta") else "gaussian" if name == "huber" else "poisson"
    rng, shape = np.random.default_rng(0), (5, 1, 4)
    factors = [rng.random((n, 2)) + 0.2 for n in shape]
    truth = KTensor([1.0, 2.0], factors)
    model, tracker = OnlineGCP(2, loss, init=truth), AnomalyTracker(1)
    slices = [Slice.dense(get_loss(drawn).sample(rng, truth.full())) for _ in range(25)]
    model.partial_fit(slices[0])
    for x in slices[1:]:
        anomaly = score_slice(model, x, history=tracker)
        tracker.update(anomaly)
    assert not anomaly.flagged
    record = json.loads(json.dumps(anomaly.to_json(), allow_nan=False))
    assert 0.0 < record["p"] <= 1.0
    if loss.domain != "binary":
        dense = slices[3].to_dense()
        dense[4, 0] = 4000.0
        found = score_slice(model, Slice.dense(dense), history=tracker)
        assert found.flagged
        assert found.modes[0][0]["label"] == "4"


@pytest.mark.parametrize("name", ["poisson", "bernoulli_odds", "gaussian"])
@pytest.mark.parametrize("shape", [(7, 5), (1,), (1, 1, 1), (13,)])
def test_empty_zero_and_tiny_slices_get_a_record(name, shape):
    world = World(name, shape=shape, rank=1, total=5.0)
    tracker = warmed(world, 12)
    none = np.empty((0, len(shape)), int)
    for x in (Slice(none, [], shape), Slice(none, [], shape, unlisted="missing"),
              Slice([[0] * len(shape)], [1.0], shape, unlisted="missing")):  # fmt: skip
        anomaly = score_slice(world.model, x, history=tracker)
        tracker.update(anomaly)
        json.dumps(anomaly.to_json(), allow_nan=False)
    nothing = score_slice(world.model, Slice(none, [], shape, unlisted="missing"), history=tracker)
    assert (nothing.p, nothing.volume_p, nothing.flagged) == (1.0, 1.0, False)


def test_missing_cells_do_not_change_the_expected_volume_per_cell():
    world = World("poisson", total=800.0)
    tracker = warmed(world)
    dense = np.full((7, 5), 20.0)
    full = score_slice(world.model, Slice.dense(dense), history=tracker)
    dense[:, 1::2] = np.nan
    half = score_slice(world.model, Slice.dense(dense), history=tracker)
    share = np.isfinite(dense).mean()
    assert half.expected_total == pytest.approx(share * full.expected_total)


def test_other_streaming_methods_are_scored_too():
    rng, tracker = np.random.default_rng(0), AnomalyTracker()
    model = CPStream(2, init_slices=4)
    for _ in range(6):
        model.partial_fit(Slice.dense(rng.normal(size=(5, 4))))
    assert score_slice(model, Slice.dense(rng.normal(size=(5, 4))), history=tracker).p == 1.0


def test_nothing_is_flagged_while_the_history_is_young():
    world, tracker = World("poisson", total=300.0), AnomalyTracker()
    for _ in range(9):
        x = world.draw(times=world.rng.uniform(0.1, 9.0))
        anomaly = score_slice(world.model, x, history=tracker)
        assert not anomaly.flagged
        assert (anomaly.p, anomaly.z) == (1.0, 0.0)
        tracker.update(anomaly)


# ---- drift


def test_drift_is_blind_to_scale_and_sign_and_sees_turns():
    rng = np.random.default_rng(0)
    old = [rng.normal(size=(n, 3)) for n in (5, 1, 4)]
    new = [a.copy() for a in old]
    new[0] *= -3.0
    new[2][:, 1] = np.linalg.svd(old[2][:, 1:2])[0][:, 1]  # orthogonal to the old column
    np.testing.assert_allclose(drift(old, new), [0.0, 1.0, 0.0], atol=1e-12)
    angle = 0.3
    turned = [np.array([[math.cos(angle)], [math.sin(angle)]])] * 2
    straight = [np.array([[1.0], [0.0]])] * 2
    expected = 1.0 - KTensor(None, straight).score(KTensor(None, turned)).score
    np.testing.assert_allclose(drift(straight, turned), [expected])


def test_drift_takes_new_rows_and_columns_of_zeros():
    old, grown = np.array([[1.0, 0.0]]), np.array([[1.0, 0.0], [1.0, 0.0]])
    np.testing.assert_allclose(drift([old], [grown]), [1.0 - math.sqrt(0.5), 0.0])
    np.testing.assert_allclose(drift([old], [np.array([[0.0, 1.0]])]), [1.0, 1.0])


# ---- refusals


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, float("nan")])
def test_a_level_that_is_no_share_is_refused(level):
    with pytest.raises(DataError, match="between 0 and 1"):
        score_slice(None, Slice.dense([[1.0]]), history=AnomalyTracker(), level=level)


@pytest.mark.parametrize("period", [0, 1.5, True, "week"])
def test_a_period_that_is_no_number_of_slices_is_refused(period):
    with pytest.raises(DataError, match="whole number of slices"):
        AnomalyTracker(period)


def test_an_alarm_goes_on_over_a_slice_that_nothing_is_known_of():
    # Such as the bin that was cut off where a file ended: no second beginning after a resume.
    rng, tracker = np.random.default_rng(6), AnomalyTracker(1)
    for _ in range(40):
        tracker.update(score_slice(None, counts(np.full((5, 4), 12.0), rng), history=tracker))
    nothing = Slice(np.zeros((0, 2), dtype=np.int32), np.zeros(0), (5, 4), unlisted="missing")
    outage = np.full((5, 4), 12.0) * (np.arange(5) > 0)[:, None]
    told = []
    for x in (
        counts(outage, rng),
        nothing,
        counts(outage, rng),
        counts(np.full((5, 4), 12.0), rng),
    ):
        anomaly = score_slice(None, x, history=tracker)
        tracker.update(anomaly)
        told.append((anomaly.alarm, anomaly.ended))
    assert told == [(1, 0), (0, 0), (2, 0), (0, 2)]


def test_rows_of_a_frame_are_judged_where_the_model_has_them_and_called_by_their_labels():
    """In another order a frame is the same day; by position it was odder than one in 10^20."""
    rng = np.random.default_rng(31)
    rates = np.array([[90.0, 80.0], [5.0, 4.0], [30.0, 20.0]])

    def day(where=slice(None), times=1.0):
        factor = np.ones((3, 1))
        factor[where] = times
        found = pd.DataFrame(rng.poisson(rates * factor), index=list("abc"))
        return found.rename_axis(index="shop")

    model, tracker = OnlineGCP(1, "poisson", ndim=2, init_slices=5), AnomalyTracker(1)
    for t in range(100):
        if t >= 5:
            tracker.update(score_slice(model, day(), history=tracker))
        model.partial_fit(day())
    today = day()
    straight, turned = (score_slice(model, x, history=tracker) for x in (today, today.iloc[::-1]))
    assert turned.p == straight.p > 0.01
    odd = score_slice(model, day(2, 0.1).iloc[::-1], history=tracker)
    assert odd.flagged
    assert odd.modes[0][0]["label"] == "c"
    assert "Shop c -" in odd.sentence
    new = day()
    new.loc["d"] = [40, 40]
    assert score_slice(model, new, history=tracker).modes[0][0]["label"] == "d"
    given = [list("xyz"), None]
    assert score_slice(model, day(2, 0.1), given, history=tracker).modes[0][0]["label"] == "z"
