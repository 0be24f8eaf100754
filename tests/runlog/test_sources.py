"""The commands that made a run: fit and every update that read something else."""

from __future__ import annotations

import sys

import pytest

from cli_tools import MODEL, TABLE, event_lines
from onlinegcp.cli import Exit, call
from onlinegcp.errors import StateError
from onlinegcp.report.payload import build
from onlinegcp.runlog import read_run, read_run_json
from onlinegcp.runlog.sources import MOST_COMMANDS, SOURCES, commands, read_sources, told_sources


@pytest.fixture
def say(monkeypatch):
    """Runs a command as the shell would, so that it knows its own words."""

    def said(*words):
        monkeypatch.setattr(sys, "argv", ["onlinegcp", *words])
        assert call(words) is Exit.DONE

    return said


def days(path, first, last):
    lines = event_lines(last, first=first)
    path.write_text("".join(line for day in lines for line in day))
    return str(path)


def test_all_commands_of_a_run_are_told(tmp_path, say):
    run, january = str(tmp_path / "r.run"), days(tmp_path / "a.jsonl", 0, 20)
    say("fit", january, *TABLE, *MODEL, "-o", run, "--unit", "trips", "-q")
    more, rest = days(tmp_path / "b.jsonl", 20, 24), days(tmp_path / "c d.jsonl", 24, 28)
    say("update", run, more, "-q")
    say("update", run, more, "-q")  # again, as after an interruption: nothing new
    say("update", run, rest, "-q")
    told = commands(run)
    assert [command.split()[1] for command in told] == ["fit", "update", "update"]
    assert told[1] == f"onlinegcp update {run} {more} -q"
    assert "'" in told[2]  # a path with a blank is quoted
    payload = build(read_run(run))
    assert payload["run"]["commands"][2] == "onlinegcp update r.run 'c d.jsonl' -q"
    assert payload["title"] == "Trips, a"
    assert payload["run"]["unit"] == "trips"
    assert read_run_json(run)["unit"] == "trips"
    assert " trips" in read_run(run).steps[-1]["anomaly"]["sentence"]


def test_many_commands_are_told_in_part(tmp_path):
    lines = [f'{{"command": ["onlinegcp", "update", "{n}"]}}' for n in range(200)]
    (tmp_path / SOURCES).write_text("\n".join(lines))
    told = commands(tmp_path, {"command": ["onlinegcp", "fit"]})
    assert len(told) == MOST_COMMANDS + 1
    assert told[0] == "onlinegcp fit"
    assert told[1] == "# ... 161 more commands"
    assert told[-1] == "onlinegcp update 199"


def test_sources_that_cannot_be_read_are_an_error_only_where_they_are_needed(tmp_path):
    (tmp_path / SOURCES).write_text("no JSON\n")
    with pytest.raises(StateError, match="cannot be read"):
        read_sources(tmp_path, 1)
    assert told_sources(tmp_path) == []
    assert commands(tmp_path, {"command": ["onlinegcp", "fit"]}) == ["onlinegcp fit"]


@pytest.mark.parametrize("unit", ["", "  ", "a\nb", "x" * 41])
def test_a_unit_is_a_word(tmp_path, unit, capsys):
    events = days(tmp_path / "a.jsonl", 0, 8)
    words = ["fit", events, *TABLE, *MODEL, "-o", str(tmp_path / "r"), "--unit", unit, "-q"]
    assert call(words) is Exit.BAD_INPUT
    assert "unit must be a word" in capsys.readouterr().err
    assert not (tmp_path / "r").exists()
