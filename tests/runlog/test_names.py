"""Names of patterns: kept by number through updates, shown everywhere, gone with a new run."""

from __future__ import annotations

import json

import pytest

from cli_tools import MODEL, TABLE, event_lines, fit, write_events
from onlinegcp.cli import Exit, call
from onlinegcp.report.payload import build_model
from onlinegcp.runlog import read_run
from onlinegcp.runlog.names import NAMES, read_names


@pytest.fixture
def run(tmp_path):
    return str(fit(write_events(tmp_path / "e.jsonl"), tmp_path / "r.run"))


def headlines(run, capsys):
    capsys.readouterr()
    assert call(["components", run, "--json"]) is Exit.DONE
    return {one["component"]: one["headline"] for one in json.loads(capsys.readouterr().out)}


def test_a_name_is_shown_under_one_number_and_survives_an_update(run, tmp_path, capsys):
    before = headlines(run, capsys)
    assert call(["name", run, "2", "Evening leisure"]) is Exit.DONE
    assert "Evening leisure" in capsys.readouterr().out
    assert headlines(run, capsys) == {**before, 2: "Evening leisure"}
    more = tmp_path / "more.jsonl"
    more.write_text("".join(line for day in event_lines(33, first=30) for line in day))
    assert call(["update", run, str(more), "--quiet"]) is Exit.DONE
    assert headlines(run, capsys)[2] == "Evening leisure"
    page = {one["id"] + 1: one["headline"] for one in build_model(read_run(run))["components"]}
    assert page[2] == "Evening leisure"
    assert call(["name", run, "2"]) is Exit.DONE
    assert headlines(run, capsys)[2] != "Evening leisure"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["0", "x"], "1 to 2"),
        (["3", "x"], "1 to 2"),
        (["1", "x" * 81], "at most 80"),
        (["1", "a\x1b[2J"], "one line"),
        (["1", "a\nb"], "one line"),
    ],
)
def test_what_is_no_name_is_refused(run, words, message, capsys):
    assert call(["name", run, *words]) is Exit.BAD_INPUT
    assert message in " ".join(capsys.readouterr().err.split())
    assert read_names(run) == {}


def test_two_patterns_cannot_be_given_one_name(run, capsys):
    assert call(["name", run, "1", "Rush"]) is Exit.DONE
    assert call(["name", run, "2", "Rush"]) is Exit.BAD_INPUT
    assert "is the name of pattern 1" in " ".join(capsys.readouterr().err.split())
    assert call(["name", run, "1", "Rush"]) is Exit.DONE  # its own


def test_a_damaged_file_of_names_stops_naming_but_not_reading(run, tmp_path, capsys):
    (tmp_path / "r.run" / NAMES).write_text("[1, 2]")
    assert call(["components", run]) is Exit.DONE
    assert call(["name", run, "1", "x"]) is Exit.BAD_STATE


def test_a_new_run_in_its_place_has_no_names(run, tmp_path):
    assert call(["name", run, "1", "Old"]) is Exit.DONE
    words = ["fit", str(tmp_path / "e.jsonl"), *TABLE, *MODEL, "-o", run, "--overwrite", "--quiet"]
    assert call(words) is Exit.DONE
    assert read_names(run) == {}
