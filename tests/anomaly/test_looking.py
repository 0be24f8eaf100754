"""A season is looked for along a stream: found where there is one, and nowhere else."""

import datetime

import numpy as np
import pytest

from onlinegcp.anomaly import AnomalyTracker
from onlinegcp.anomaly.looking import PeriodSearch, looks_for
from onlinegcp.slices import Slice


def period_found(values, known=1):
    """The longest period that is found while slices come in; the first column is the total."""
    search, found = PeriodSearch(known), known
    for total, *rows in values:
        if search.on:
            found = max(found, search.add(total, [np.array(rows)], counted=False))
            search.end()
    return found


def rows_of(kind, rng, n=510, k=8):
    noise = rng.normal(size=(n, k + 1))
    if kind == "heavy tails":
        return rng.standard_t(3, size=(n, k + 1))
    if kind == "in common":
        return 0.3 * noise + rng.normal(size=(n, 1))
    if kind == "total that never moves":
        noise[:, 0] = 1000.0
        noise[:, 3] = 0.0
    if kind == "wandering":
        return np.cumsum(noise, axis=0)
    return noise


KINDS = ("noise", "heavy tails", "in common", "wandering", "total that never moves")


@pytest.mark.parametrize("kind", KINDS)
def test_streams_without_a_season_get_none(kind):
    found = [period_found(rows_of(kind, np.random.default_rng(seed))) for seed in range(12)]
    assert sum(period > 1 for period in found) <= 1, found


@pytest.mark.parametrize("known", [24, 48])
def test_a_week_is_found_where_only_its_nights_tell(known):
    """Weekends are quieter by a third, from midnight to midnight: a week has two such jumps."""
    rng = np.random.default_rng(known)
    n = looks_for(known)[-1]
    hours = np.arange(n)
    level = 40.0 + 15.0 * np.sin(2 * np.pi * hours / known) - 13.0 * (hours // known % 7 > 4)
    rows = level[:, None] + 2.0 * rng.normal(size=(n, 5))
    assert period_found(rows, known) == 7 * known
    assert period_found(rows + 13.0 * (hours // known % 7 > 4)[:, None], known) == known


def test_nothing_is_looked_for_where_a_period_was_given():
    assert not AnomalyTracker(24).search.on
    assert not AnomalyTracker(7, longer=True).search.on
    assert AnomalyTracker(24, longer=True).search.on


def days(n, missing=()):
    rng = np.random.default_rng(0)
    start = datetime.date(2024, 1, 1)
    for t in range(n):
        day = start + datetime.timedelta(t)
        if t in missing:
            nothing = np.zeros((0, 2), dtype=np.int32)
            yield Slice(nothing, np.zeros(0), (4, 3), time=day, unlisted="missing")
        else:
            yield Slice.dense(rng.poisson(20.0 if t % 7 < 5 else 60.0, (4, 3)), time=day)


def test_a_day_nobody_saw_moves_no_season():
    tracker = AnomalyTracker()
    for x in days(40, missing=(9, 16)):
        tracker.update_unscored(x, counted=True)
    assert tracker.period == 7
    forecasts = []
    for x in list(days(54))[40:]:
        verdict = tracker.judge(x, counted=True)
        forecasts.append(verdict.whole.forecast[0])
        assert abs(verdict.whole.surprise[0]) < 4.0, tracker.n_slices
        tracker.learn(verdict)
    assert max(forecasts) > 1.5 * min(forecasts)


def test_a_search_goes_on_where_it_was_stored():
    slices = list(days(60, missing=(12,)))
    whole, parts = AnomalyTracker(), AnomalyTracker()
    for t, x in enumerate(slices):
        whole.update_unscored(x, counted=True)
        parts.update_unscored(x, counted=True)
        if t in (5, 12, 30):
            parts = parts.copy()
    one, other = whole.state(), parts.state()
    assert one[1] == other[1]
    assert all(
        np.array_equal(values, other[0][name], equal_nan=True) for name, values in one[0].items()
    )
