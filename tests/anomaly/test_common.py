"""Rows that follow one another: what one shows alone is found, named, told and resumed."""

from __future__ import annotations

import json

import numpy as np
import pytest

from onlinegcp.anomaly import Anomaly, AnomalyTracker, score_slice
from onlinegcp.anomaly.common import CommonMoves
from onlinegcp.anomaly.shares import Judged
from onlinegcp.ktensor import KTensor
from onlinegcp.slices import Slice


def moving_days(n: int, seed: int) -> list[np.ndarray]:
    """Counts of four patterns whose mixture changes a lot from day to day."""
    rng = np.random.default_rng(seed)
    factors = [rng.dirichlet(np.full(m, 0.7), 4).T for m in (20, 15)]
    return [
        rng.poisson(KTensor(rng.gamma(5.0, 100.0, 4), factors).full()).astype(float)
        for _ in range(n)
    ]


def watched(days: list[np.ndarray]) -> AnomalyTracker:
    tracker = AnomalyTracker(1)
    for day in days:
        tracker.update_unscored(Slice.dense(day), counted=True)
    return tracker


@pytest.fixture(scope="module")
def tracker() -> AnomalyTracker:
    return watched(moving_days(300, 0))


def failed(day: np.ndarray, row: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    out = day.copy()
    out[row] = rng.binomial(day[row].astype(int), 0.4)
    return out


def failures(tracker: AnomalyTracker) -> list[tuple[int, Anomaly]]:
    found = []
    for day in moving_days(340, 0)[300:]:
        for row in np.flatnonzero(day.sum(axis=1) >= 100)[:2].tolist():
            x = Slice.dense(failed(day, row))
            found.append((row, score_slice(None, x, history=tracker)))
    return found


def test_a_failure_among_moving_rows_is_found_and_named(tracker: AnomalyTracker) -> None:
    found = failures(tracker)
    flagged = [(row, odd) for row, odd in found if odd.flagged]
    assert len(flagged) > 0.8 * len(found)
    named = [odd.modes[0] and odd.modes[0][0]["label"] == str(row) for row, odd in flagged]
    assert np.mean(named) > 0.9
    assert all(odd.modes[0][0]["observed"] < odd.modes[0][0]["expected"] for _, odd in flagged)


def test_most_of_them_are_not_found_without_what_rows_have_in_common(
    tracker: AnomalyTracker,
) -> None:
    blind = tracker.copy()
    blind.common = CommonMoves()
    seen, unseen = (np.mean([odd.flagged for _, odd in failures(t)]) for t in (tracker, blind))
    assert seen > unseen + 0.2


def test_a_row_within_its_range_is_told_against_the_others(tracker: AnomalyTracker) -> None:
    told = [
        (row, odd)
        for _, odd in failures(tracker)
        for rows in odd.modes
        for row in rows
        if odd.flagged and row["follows"]
    ]
    assert told
    for row, _ in told:
        assert not row["low"] <= row["observed"] <= row["high"]
        assert row["low"] <= row["expected"] <= row["high"]
    assert any("the others suggest" in odd.sentence for _, odd in told)
    assert json.loads(json.dumps(told[0][1].to_json()))["modes"]


def test_quiet_days_are_as_rarely_flagged_as_promised() -> None:
    tracker, flags = AnomalyTracker(1), 0
    days = moving_days(1000, 3)
    for t, day in enumerate(days):
        anomaly = score_slice(None, Slice.dense(day), history=tracker)
        tracker.update(anomaly)
        flags += anomaly.flagged and t >= 60
    assert 2 <= flags <= 20


def test_what_is_in_common_is_resumed_to_the_last_bit() -> None:
    days = moving_days(160, 2)
    whole, half = watched(days), watched(days[:80])
    arrays, record = half.state()
    again = AnomalyTracker.from_state(arrays, json.loads(json.dumps(record)))
    for day in days[80:]:
        again.update_unscored(Slice.dense(day), counted=True)
    for name, values in whole.state()[0].items():
        assert np.array_equal(again.state()[0][name], values), name
    assert whole.common.ready


def test_judging_changes_nothing(tracker: AnomalyTracker) -> None:
    before = {name: values.copy() for name, values in tracker.state()[0].items()}
    score_slice(None, Slice.dense(moving_days(1, 9)[0]), history=tracker)
    assert all(np.array_equal(before[name], now) for name, now in tracker.state()[0].items())


def test_modes_grow_one_beside_the_other() -> None:
    def rows(n: int) -> Judged:
        compared = np.stack([np.full(n, 50.0), np.ones(n), np.linspace(-1.0, 1.0, n)])
        return Judged(np.full(n, 50.0), compared, 50.0 * n, n, True)

    moves = CommonMoves()
    for _ in range(5):
        moves.learn(moves.judge([rows(4), rows(3)], counted=True))
    before = moves.found.copy()
    wider = moves.judge([rows(6), rows(3)], counted=True)
    assert wider.left.shape == (2, 9)
    assert wider.starts == (0, 6, 9)
    assert np.array_equal(moves.found, before)
    moves.learn(wider)
    assert moves.lengths == [6, 3]
    assert moves.found.shape == (6, 9)
    assert moves.alone[1, 4:6].max() < moves.alone[1, :4].min()  # the new ones were asked once
