"""A run in bounded space: sums equal those over all lines, and no alarm is lost."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from line_profiles import activations, describe, strengths, time_profile
from onlinegcp import runlog
from onlinegcp.digest import Digest, read_digest
from onlinegcp.digest import digest as digests
from onlinegcp.digest.batch import Batch
from onlinegcp.digest.thinning import Thinned, point
from onlinegcp.drawing.profiles import mode_profiles
from onlinegcp.report.fit import mean_losses
from onlinegcp.report.payload import build, build_steps
from onlinegcp.report.steady import SteadyNames
from onlinegcp.report.words import Pattern, described
from run_views import view

N = 700


@pytest.fixture
def run():
    """Two years of days of which every fiftieth is an alarm, and one was cut off."""
    found = view(N, rank=3, shape=(5, 7))
    rng = np.random.default_rng(1)
    for t, step in enumerate(found.steps):
        step["total"] = float(rng.poisson(100 + 50 * (t % 7 == 5)))
        step["births"] = int(t == 300)
        if step["anomaly"]:
            step["anomaly"]["flagged"] = t % 50 == 3
            step["anomaly"]["p"] = 10.0 ** -rng.uniform(3, 9) if t % 50 == 3 else 0.5
    return found


@pytest.fixture
def few(monkeypatch):
    """Only so many points, and so many of the newest in full."""
    monkeypatch.setattr(digests, "MOST_POINTS", 64)
    monkeypatch.setattr(digests, "NEWEST", 40)
    monkeypatch.setattr(digests, "_AT_ONCE", 13)


@pytest.mark.usefixtures("few")
def test_sums_over_points_are_sums_over_lines(run):
    found = Digest(run)
    assert found.series.stride == 16
    assert len(found.series) <= 64
    assert found.count == N == sum(p.count for p in found.series)
    active = activations(run)
    np.testing.assert_allclose(found.shares, strengths(active))
    wanted = time_profile(run.times, active)
    np.testing.assert_allclose(found.calendar.weekday, wanted.weekday)
    np.testing.assert_allclose(found.calendar.month, wanted.month)
    totals = np.array([step["total"] for step in run.steps])
    assert found.events == pytest.approx(totals.sum())
    assert min(p.low for p in found.series) == totals.min()
    assert max(p.high for p in found.series) == totals.max()
    drift = np.array([step["drift"] for step in run.steps])
    np.testing.assert_allclose(found.moved, drift.sum(axis=0))
    np.testing.assert_allclose(np.max([p.drift for p in found.series], axis=0), drift.max(axis=0))
    later = run.steps[5:]
    means = {n: np.mean([s[n] / s["total"] for s in later]) for n in ("prequential", "local")}
    assert mean_losses(found) == pytest.approx(means)
    assert (found.births, found.flagged) == (1, sum(t % 50 == 3 for t in range(5, N)))


@pytest.mark.usefixtures("few")
def test_no_alarm_is_lost_and_the_newest_slices_are_whole(run):
    steps = json.loads(json.dumps(build_steps(Digest(run)), allow_nan=False))
    rows = steps["rows"]
    flags = sum(row.get("flags", int(row.get("a", {}).get("flagged", False))) for row in rows)
    assert flags == steps["flagged"]
    assert sum(row.get("k", 1) for row in rows) == N
    newest = [row for row in rows if "k" not in row]
    assert 40 - 16 <= len(newest) <= 40
    assert [row["n"] for row in newest] == list(range(N - len(newest) + 1, N + 1))
    for row in newest:
        assert row["w"] == pytest.approx(run.steps[row["n"] - 1]["weights"], rel=1e-3)
    assert [alarm["n"] for alarm in steps["lately"][:3]] == [654, 604, 554]


def test_a_short_run_is_told_as_by_all_its_lines(run):
    short = dataclasses.replace(run, steps=run.steps[:200])
    found = Digest(short)
    assert found.series.stride == 1
    payload = build(short)
    assert [row["total"] for row in payload["steps"]["rows"]] == [s["total"] for s in short.steps]


def test_a_digest_leaves_the_lines_it_was_made_of_alone(run):
    before = json.dumps(run.steps)
    build(run)
    assert json.dumps(run.steps) == before


@pytest.mark.usefixtures("few")
def test_a_stored_run_gives_the_same_digest(run, tmp_path):
    (tmp_path / "run.json").write_text(json.dumps(run.info))
    runlog.append_lines(tmp_path, [runlog.encode_step(step) for step in run.steps])
    stored = read_digest(tmp_path)
    with_model = dataclasses.replace(run, steps=[])
    stored.with_model(with_model)
    assert build_steps(stored) == build_steps(Digest(run))
    final = read_digest(tmp_path, np.arange(N, dtype=float))
    assert final.count == N
    assert final.fit.means["global"][1] == N - 5


def test_components_that_came_later_are_counted(run):
    for step in run.steps[:350]:
        step["weights"], step["drift"] = step["weights"][:2], step["drift"][:2]
    found = Digest(run)
    assert np.isfinite(found.shares).all()
    weights = np.array([step["weights"] for step in run.steps[350:]])
    scale = found.scale[2]
    assert found.held_in_all[2] == pytest.approx(weights[:, 2].sum() * scale)


def test_joining_keeps_the_oddest_and_the_extremes():
    series = Thinned(4)
    steps = [
        {
            "number": n,
            "time": n,
            "total": float(n % 5),
            "anomaly": {"p": 0.5 / n, "flagged": n == 9, "score": n / 10},
        }
        for n in range(1, 33)
    ]
    for at in range(0, 32, 3):
        series.add(Batch(steps[at : at + 3], "total"))
    assert (series.stride, len(series)) == (8, 4)
    assert [p.odd["number"] for p in series] == [8, 9, 24, 32]
    assert [p.flagged for p in series] == [0, 1, 0, 0]
    whole = point(steps, "total")
    joined = next(iter(series))
    for other in list(series)[1:]:
        joined = joined.joined(other)
    assert (joined.low, joined.high, joined.count) == (whole.low, whole.high, 32)
    np.testing.assert_allclose(joined.total, whole.total)


def test_a_name_stays_while_its_pattern_does():
    names, rng = SteadyNames(), np.random.default_rng(0)
    factors = [rng.random((6, 2)), rng.random((5, 2))]
    first = names.keep([Pattern(r, 0.5, f"name {r}", "") for r in range(2)], factors)
    moved = [factor + 0.05 * rng.random(factor.shape) for factor in factors]
    moved[0][:, 1] = [0, 0, 0, 0, 0, 9]
    grown = [np.vstack([moved[0], np.zeros((1, 2))]), moved[1]]
    then = names.keep([Pattern(r, 0.5, f"other {r}", "") for r in range(2)], grown)
    assert [pattern.headline for pattern in first] == ["name 0", "name 1"]
    assert [pattern.headline for pattern in then] == ["name 0", "other 1"]


def calendar(times, weights):
    found = view(len(times), rank=1)
    for step, time, weight in zip(found.steps, times, weights, strict=True):
        step["time"], step["weights"] = time, [weight]
    return Digest(found).calendar


def test_calendars_need_dates_and_enough_of_them():
    # Twenty days from a Monday on.
    days = np.arange("2013-01-07", "2013-01-27", dtype="M8[D]").astype(str).tolist()
    assert calendar(range(20), [1.0] * 20).weekday is None
    assert calendar(["2013-01-01"] * 20, [1.0] * 20).weekday is None
    assert calendar(days, [1.0] * 20).weekday.shape == (7, 1)
    assert calendar(days, [1.0] * 20).month is None
    hourly = [f"2013-01-{1 + t // 24:02}T{t % 24:02}:00:00" for t in range(24 * 20)]
    profile = calendar(hourly, [4.0 if t % 24 == 8 else 1.0 for t in range(24 * 20)])
    assert profile.hour[:, 0].argmax() == 8
    np.testing.assert_allclose(np.nanmean(profile.hour), 1)


def test_words_come_from_the_digest_as_from_all_slices(run):
    modes = mode_profiles(run)
    found = described(Digest(run), modes)
    wanted = describe(modes, activations(run), run.times)
    assert [(p.headline, p.sentence) for p in found] == [(p.headline, p.sentence) for p in wanted]
    assert [p.share for p in found] == pytest.approx([p.share for p in wanted])
