"""What changed: patterns that grew, regimes, births; and what comes next."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.digest import Digest
from onlinegcp.report.changes import changes
from onlinegcp.report.outlook import drawn, outlook
from onlinegcp.report.payload import build
from onlinegcp.report.words import Pattern
from run_views import view

PATTERNS = [Pattern(0, 0.5, "To A", "To A"), Pattern(1, 0.5, "To B", "To B")]


def run_of(weights, **fields):
    """A run of days with these weights, (slices, 2), and no drift."""
    run = view(len(weights), rank=2, shape=(4, 3), **fields)
    for step, row in zip(run.steps, weights, strict=True):
        step["weights"], step["drift"] = list(map(float, row)), [0.0, 0.0]
        step["total"] = float(np.sum(row))
    for factor in run.factors:
        factor /= factor.sum(axis=0)  # a weight is then what a slice holds
    return run


def steady(n, rng=None):
    rng = rng or np.random.default_rng(0)
    return rng.gamma(400.0, 100 / 400.0, (n, 2))


def told(run):
    return [(change.kind, change.component) for change in changes(Digest(run), PATTERNS)]


def test_ups_and_downs_within_the_noise_are_no_change():
    rng = np.random.default_rng(1)
    assert told(run_of(rng.gamma(4.0, 25.0, (200, 2)))) == []


def test_a_pattern_that_doubled_in_the_last_weeks_is_told_with_numbers():
    weights = steady(120)
    weights[-28:, 1] *= 2
    (change,) = changes(Digest(run_of(weights)), PATTERNS)[:1]
    assert (change.kind, change.component) == ("up", 1)
    assert change.text.startswith("To B: up 10")
    assert "in the last 28 days, from 99.5 to 201 a day." in change.text
    weights[-28:, 1] /= 8
    (change,) = changes(Digest(run_of(weights)), PATTERNS)[:1]
    assert change.kind == "down"
    weights[-28:, 1] *= 40
    (change,) = changes(Digest(run_of(weights)), PATTERNS)[:1]
    assert "up to " in change.text
    assert " times in the last 28 days" in change.text


def test_a_pattern_that_was_not_there_came_from_nothing():
    weights = steady(120)
    weights[:-28, 1] = 0.0
    texts = [change.text for change in changes(Digest(run_of(weights)), PATTERNS)]
    assert texts[0].startswith("To B: up from nothing in the last 28 days, from 0 to ")
    weights[:-28, 1] = 0.01
    texts = [change.text for change in changes(Digest(run_of(weights)), PATTERNS)]
    assert texts[0].startswith("To B: up from next to nothing in the last 28 days, from 0.01 to ")
    assert "unknown" not in " ".join(texts)


def test_a_slow_change_is_seen_over_the_whole_run():
    weights = steady(300) * np.linspace([1.0, 1.0], [1.0, 2.0], 300)
    found = {change.component: change for change in changes(Digest(run_of(weights)), PATTERNS)}
    assert set(found) == {1}
    assert "from the first fifth of the run to the last" in found[1].text


def test_a_slice_that_was_cut_off_is_no_change_and_is_forecast():
    weights = steady(60)
    weights[-1] = 1.0
    run = run_of(weights)
    run.steps[-1]["partial"] = True
    assert told(run) == []
    found = outlook(Digest(run))
    assert found.times[0] == run.steps[-1]["time"]
    assert found.total[0] == pytest.approx(200, rel=0.1)
    assert build(run)["model"]["forecast"]["t"][0] == run.steps[-1]["time"]


@pytest.mark.parametrize(
    ("what", "words"),
    [("changed", "2 of 2 patterns were replaced"), ("returned", "an earlier regime came back")],
)
def test_regimes_are_told_from_where_they_began(what, words):
    run = run_of(steady(100))
    run.steps[60] |= {"regime": what, "regime_since": 58, "births": 2, "deaths": 2}
    found = changes(Digest(run), PATTERNS)
    assert found[0].kind == "regime"
    assert found[0].text.startswith("On 27 February 2013 ")  # the 58th day of the year
    assert words in found[0].text
    assert ("born", None) in told(run)
    assert build(run)["steps"]["rows"][60]["regime"] == what


@pytest.mark.parametrize(
    ("births", "deaths", "words"),
    [(1, 1, "1 of 3 patterns was replaced."), (2, 1, "2 patterns came and 1 went.")],
)
def test_a_regime_is_told_in_the_patterns_there_were_then(births, deaths, words):
    run = run_of(steady(100))  # which ended with two
    run.steps[60] |= {"regime": "changed", "births": births, "deaths": deaths, "rank": 3}
    assert changes(Digest(run), PATTERNS)[0].text.endswith(words)


def test_of_many_regimes_the_newest_are_told():
    run = run_of(steady(100))
    for t in range(50, 60):
        run.steps[t] |= {"regime": "changed", "regime_since": t + 1, "births": 1}
    texts = [change.text for change in changes(Digest(run), PATTERNS) if change.kind == "regime"]
    assert texts[0] == "Many patterns changed at once 10 times, of late:"
    assert len(texts) == 4


def test_too_few_slices_and_losses_of_the_caller_are_not_forecast():
    assert outlook(Digest(run_of(steady(12)))) is None
    assert drawn(None) is None
    run = run_of(steady(60))
    run.info["model"]["parameters"]["loss"] = {"own_loss": "mine"}
    assert outlook(Digest(run)) is None
    assert build(run)["model"]["forecast"] is None


def test_a_forecast_knows_the_week():
    weights = steady(84) * np.where(np.arange(84) % 7 == 5, 0.4, 1.0)[:, None]
    found = outlook(Digest(run_of(weights)))
    assert len(found) == 14
    low = [h for h in range(14) if (84 + h) % 7 == 5]
    others = np.delete(found.total, low)
    assert found.total[low].max() < 0.6 * others.min()
