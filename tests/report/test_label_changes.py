"""Labels that changed: found where they did, and not where they only go up and down."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from onlinegcp.digest import Digest
from onlinegcp.report.changes import changes
from onlinegcp.report.difference import changed_labels
from onlinegcp.report.label_changes import by_mode, label_changes
from onlinegcp.runlog.label_history import LabelHistory
from run_views import view

NAMES = tuple(f"L{i}" for i in range(20))
USUAL = 1.0 / np.arange(1, 21)


def run_of(rows, names=NAMES, *, adds_up=True):
    """A run of days whose one mode held these rows."""
    past = LabelHistory(adds_up=adds_up)
    for number, row in enumerate(rows, 1):
        past.add(number, [np.asarray(row, dtype=float)])
    run = view(len(rows), rank=1, shape=(len(names),), labels=(tuple(names),))
    return dataclasses.replace(run, past_labels=past)


def counts(n, rng, season=0.0):
    """Counts of 300 a day, of which weekends have other shares."""
    weekend = np.arange(n) % 7 >= 5
    usual = USUAL * np.where(weekend[:, None], np.where(np.arange(20) % 2, 1 + season, 1.0), 1.0)
    return rng.poisson(300 * usual / usual.sum(axis=1, keepdims=True)).astype(float)


def halves(run):
    last = len(run.steps)
    past = run.past_labels
    return label_changes(run, run, past.between(1, last // 2), past.between(last // 2 + 1, last))


@pytest.mark.parametrize("season", [0.0, 2.0])
@pytest.mark.parametrize("n", [20, 60, 365])
def test_quiet_labels_are_hardly_ever_named(n, season):
    named = sum(
        len(halves(run_of(counts(n, np.random.default_rng(seed), season)))) for seed in range(40)
    )
    assert named <= 2  # CHANCE per run of one mode: .2 of 40


def test_a_label_that_grew_steadily_is_told_once_by_its_mode():
    rows = counts(120, np.random.default_rng(0))
    rows[:, 3] *= np.linspace(1.0, 4.0, 120)
    run = run_of(rows)
    found = [change for change in changes(Digest(run), []) if change.kind == "labels"]
    (change,) = found
    early, late = rows[:40], rows[80:]
    was, now = (100 * part[:, 3].sum() / part.sum() for part in (early, late))
    assert change.text.startswith("mode0: L3 from ")
    low, high = (float(word) for word in change.text.split() if word.replace(".", "").isdigit())
    assert (low, high) == (pytest.approx(was, abs=0.6), pytest.approx(now, abs=0.6))
    assert "last third of the run against the first" in change.text


def test_labels_that_came_and_went_are_called_so():
    rows = counts(100, np.random.default_rng(1))
    rows[:50, 4], rows[50:, 2] = 0.0, 0.0
    texts = {change.label: change.text for change in halves(run_of(rows))}
    assert texts["L4"].startswith("L4 is new (")
    assert texts["L2"].startswith("L2 is gone (")


def test_two_runs_are_compared_by_label_whatever_the_order():
    rng = np.random.default_rng(2)
    first, second = counts(60, rng), counts(60, rng)
    second[:, 0] *= 3
    order = rng.permutation(20)
    other = run_of(second[:, order], [NAMES[i] for i in order])
    other = dataclasses.replace(other, path=other.path.with_name("y.run"))
    found = changed_labels(Digest(run_of(first)), Digest(other))
    assert found[0].label == "L0"
    assert found[0].now == pytest.approx(second[:, 0].sum() / second.sum(), abs=0.01)
    assert {change.label for change in found if change.now > change.was} == {"L0"}


def test_means_of_measurements_are_compared_as_means():
    rng = np.random.default_rng(3)
    rows = 20.0 + rng.normal(size=(90, 3))
    rows[45:, 1] += 10.0
    rows[::5, 2] = np.nan
    (change,) = halves(run_of(rows, ("a", "b", "c"), adds_up=False))
    assert change.text.startswith("b from 20")
    assert (change.was, change.now) == (pytest.approx(20, abs=0.6), pytest.approx(30, abs=0.6))


def test_what_was_not_there_yet_had_no_mean():
    rows = 50.0 + np.random.default_rng(6).normal(size=(60, 2))
    past = LabelHistory(adds_up=False)
    for number, row in enumerate(rows, 1):
        past.add(number, [row[: 1 if number < 25 else 2]])
    run = dataclasses.replace(run_of(rows, ("a", "b"), adds_up=False), past_labels=past)
    assert halves(run) == []


def test_of_many_labels_the_largest_are_told_and_the_others_counted():
    rows = counts(100, np.random.default_rng(4))
    rows[50:, :5] *= 4
    found = halves(run_of(rows))
    (text,) = by_mode(found, 3)
    assert text.endswith(f"; {len(found) - 2} more labels")


def test_short_runs_and_runs_without_a_past_tell_nothing():
    rng = np.random.default_rng(5)
    assert halves(run_of(counts(6, rng))) == []
    assert label_changes(view(20, rank=1, shape=(20,)), view(20, rank=1, shape=(20,))) == []


def test_labels_that_are_followed_before_they_have_names_tell_nothing():
    """Until the warm start is over a run has a past of its labels, and no factors."""
    run = run_of(counts(40, np.random.default_rng(5)))
    started = dataclasses.replace(run, labels=(), factors=(), steps=[])
    assert label_changes(started, started) == []
    assert changes(Digest(started), []) == []
