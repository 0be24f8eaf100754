"""Two periods of one run side by side, as text, JSON and page."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from onlinegcp import OnlineGCP, Slice
from onlinegcp.cli import Exit, call
from onlinegcp.digest import Digest
from onlinegcp.errors import DataError
from onlinegcp.report.difference import difference
from onlinegcp.report.periods import Period, parse_part, read_parts
from onlinegcp.run import Run
from onlinegcp.runlog import STEPS, read_run

LABELS = [list("abcdef"), list("uvwxyz")]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two blocks of cells; the second grows threefold, and then one of them all but ends."""
    rng = np.random.default_rng(0)
    slices = []
    for t in range(60):
        mean = np.full((6, 6), 0.01)
        mean[:2, :2] = 0.05 if t >= 40 else 20.0
        mean[3:5, 3:5] = 10.0 if t < 30 else 30.0
        time = np.datetime64("2013-01-01") + np.timedelta64(t, "D")
        slices.append(Slice.dense(rng.poisson(mean).astype(float), time=time))
    path = tmp_path_factory.mktemp("runs") / "p.run"
    model = OnlineGCP(2, "poisson", init_slices=5)
    with Run.create(path, model, modes=["left", "right"], labels=LABELS) as made:
        made.learn(slices)
    return path


def part_of(view, period):
    """The lines of a period that are in memory."""
    return replace(view, steps=[step for step in view.steps if period.holds(step)])


def test_what_grew_and_what_is_gone(run):
    early, late = read_parts(run, [Period("", "2013-01-31"), Period("2013-02-15", "")])
    assert (early.count, late.count) == (30, 15)
    pairs = {pair.kind: pair for pair in difference(early, late)}
    assert pairs["both"].held == pytest.approx(40, rel=0.2)
    assert pairs["both"].holds == pytest.approx(120, rel=0.2)
    assert pairs["gone"].held == pytest.approx(80, rel=0.2)
    assert pairs["gone"].after is None


def test_a_pattern_that_turned_into_another_is_new(run):
    view = read_run(run)
    view.steps[45]["drift"] = [0.9, 0.0]
    early, late = (part_of(view, p) for p in (Period("", "2013-01-31"), Period("2013-01-31", "")))
    kinds = {(pair.after or pair.before).component: pair.kind for pair in difference(early, late)}
    assert kinds[0] == "new"
    # Within the first period it counts from where it became what it is.
    view.steps[45]["drift"], view.steps[20]["drift"] = [0.0, 0.0], [0.9, 0.0]
    pairs = difference(early, late)
    held = next(p.held for p in pairs if (p.after or p.before).component == 0)
    scale = np.prod([factor[:, 0].sum() for factor in view.factors])
    wanted = np.mean([step["weights"][0] for step in view.steps[20:30]]) * scale
    assert held == pytest.approx(wanted)


@pytest.mark.parametrize("changes", [(), (4, 25, 40, 58)])
def test_periods_are_told_as_by_the_lines_of_all(run, tmp_path, changes):
    copy = Path(shutil.copytree(run, tmp_path / "copy.run"))
    lines = [json.loads(line) for line in (copy / STEPS).read_bytes().splitlines()]
    for at in changes:  # the two change places
        lines[at]["order"] = [1, 0]
    for line in lines:
        del line["crc"]
    (copy / STEPS).write_bytes(
        b"".join(json.dumps(x, separators=(",", ":")).encode() + b"\n" for x in lines)
    )
    periods = [Period("", "2013-01-31"), Period("2013-01-20", "2013-02-15"), Period()]
    view = read_run(copy)
    for period, found in zip(periods, read_parts(copy, periods), strict=True):
        wanted = Digest(part_of(view, period))
        assert (found.count, found.events) == (wanted.count, pytest.approx(wanted.events))
        for turn in (False, True):
            means = [part.weights.mean(2, since_turn=turn) for part in (found, wanted)]
            np.testing.assert_allclose(*means)
        np.testing.assert_allclose(found.shares, wanted.shares)


@pytest.mark.parametrize(
    ("text", "n"),
    [("@..2013-01-11", 10), ("@2013-01-11..", 50), ("@2013-01-11..2013-01-21", 10), ("", 60)],
)
def test_a_period_is_written_behind_the_run(run, text, n):
    path, period = parse_part(f"{run}{text}")
    (found,) = read_parts(path, [period])
    assert found.count == n


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("@2013", "RUN@FROM..TO"),
        ("@2013-01-01..soon", "'soon' was found"),
        ("@2015-01-01..", "none from 1 January 2015 on: its slices run from 2013-01-01"),
    ],
)
def test_a_period_that_is_none_is_refused(run, text, message):
    def read():
        path, period = parse_part(f"{run}{text}")
        read_parts(path, [period])

    with pytest.raises(DataError, match=message):
        read()


def test_the_command_tells_text_json_and_a_page(run, tmp_path, capsys):
    page = tmp_path / "d.html"
    assert call(["diff", str(run), "--before", "2013-01-31", "-o", str(page)]) is Exit.DONE
    told = " ".join(capsys.readouterr().out.split())
    assert "before 31 January 2013" in told
    assert "from 31 January 2013 on" in told
    text = page.read_text("utf-8")
    assert len(text) < 100_000
    payload = json.loads(text.split('id="payload">')[1].split("</script>")[0])
    assert len(payload["pairs"]) == 2
    assert "https://" not in text
    assert call(["diff", f"{run}@..2013-01-20", f"{run}@2013-02-10..", "--json"]) is Exit.DONE
    rows = json.loads(capsys.readouterr().out)
    assert {row["kind"] for row in rows} <= {"both", "new", "gone"}


@pytest.mark.parametrize("words", [[], ["other.run", "--before", "2013-01-31"]])
def test_one_run_needs_a_date_and_two_need_none(run, words, capsys):
    assert call(["diff", str(run), *words]) is Exit.BAD_INPUT
    assert "--before" in capsys.readouterr().err


def test_a_limit_written_otherwise_is_told_how_to_write_it(run, capsys):
    assert call(["diff", str(run), "--before", "01.02.2013"]) == Exit.BAD_INPUT
    told = capsys.readouterr().err
    assert "'01.02.2013' was given with --before" in told
    assert "2018-01-31" in told
