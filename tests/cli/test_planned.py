"""`fit` without options: a plan is told, the command it names does the same, options override."""

from __future__ import annotations

import json
import shlex

import pytest

from cli_tools import steps_of, write_events
from onlinegcp import runlog
from onlinegcp.cli import Exit, call


@pytest.fixture
def events(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write_events(tmp_path / "events.jsonl").name


def test_a_table_alone_is_enough(events, capsys):
    assert call(["fit", events]) is Exit.DONE
    told = capsys.readouterr().out
    assert "events.run" in told
    lines = told.splitlines()
    assert [line.split()[0] for line in lines[:5]] == ["time", "modes", "values", "model", "run"]
    command = shlex.split(lines[5].partition("The same in full: ")[2])
    first = runlog.read_run_json("events.run")
    assert first["command"] == command
    again = [*command[1:-1], "again.run"]
    assert call(again) is Exit.DONE
    assert steps_of("again.run") == steps_of("events.run")


def test_plan_stops_before_anything_is_made(events, tmp_path, capsys):
    assert call(["fit", events, "--plan", "--rank", "3"]) is Exit.DONE
    assert "rank 3" in capsys.readouterr().out
    assert call(["fit", events, "--plan", "--json", "--every", "1w"]) is Exit.DONE
    told = json.loads(capsys.readouterr().out)
    assert told["events"]["every"] == "1w"
    assert told["model"]["loss"] == "poisson"
    assert "--every 1w" in told["command"]
    assert not (tmp_path / "events.run").exists()


def test_options_are_kept_in_the_command(events, capsys):
    words = ["--empty", "skip", "--seed", "4", "--set", "forget=30", "--top", "3"]
    assert call(["fit", events, "--plan", *words]) is Exit.DONE
    told = capsys.readouterr().out
    for name, value in zip(words[::2], words[1::2], strict=True):
        assert f"{name} {value}" in told


def test_options_of_the_run_are_in_the_command_as_well(events, capsys):
    words = ["--level", "0.02", "--season", "7", "--unit", "trips"]
    assert call(["fit", events, "--plan", "--json", "--hold-flagged", *words]) is Exit.DONE
    command = shlex.split(json.loads(capsys.readouterr().out)["command"])
    for option, value in zip(words[::2], words[1::2], strict=True):
        assert command[command.index(option) + 1] == value
    assert "--hold-flagged" in command
    assert call(["fit", events, "--plan", "--json"]) is Exit.DONE
    assert "--level" not in json.loads(capsys.readouterr().out)["command"]


def test_whole_values_get_a_loss_for_counts(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = [f"2024-01-{day:02},{site},{3 + (day + n) % 4}\n" for day in range(1, 29) for n, site in
            enumerate("abc")]  # fmt: skip
    (tmp_path / "counts.csv").write_text("day,site,visits\n" + "".join(rows))
    words = [
        "--time",
        "day",
        "--every",
        "1d",
        "--modes",
        "site",
        "--value",
        "visits",
        "--rank",
        "1",
    ]
    assert call(["fit", "counts.csv", *words, "-o", "c.run"]) is Exit.DONE
    assert runlog.read_run_json("c.run")["model"]["parameters"]["loss"] == "poisson"
    assert "poisson" in capsys.readouterr().err


def test_all_that_standard_input_lacks_is_named_at_once(capsys):
    assert call(["fit", "-", "--every", "1d"]) is Exit.BAD_INPUT
    said = " ".join(capsys.readouterr().err.split())
    assert "--time, --modes and --output are needed for standard input" in said


def test_a_wide_table_is_learned_with_its_columns_as_a_mode(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [
        f"2024-{m:02}-{d:02},{10 + d % 5}.5,{20 + d % 3}.5\n" for m in (1, 2) for d in range(1, 29)
    ]
    (tmp_path / "wide.csv").write_text("day,in,out\n" + "".join(rows))
    assert call(["fit", "wide.csv", "--quiet"]) is Exit.DONE
    assert runlog.read_run_json("wide.run")["modes"] == ["measure"]
    later = tmp_path / "later.csv"
    later.write_text("day,in,out\n2024-02-29,11.5,20.5\n")
    assert call(["update", "wide.run", str(later), "--quiet"]) is Exit.DONE
    assert len(steps_of("wide.run")) == 57 + 3  # the days after the 28th of January are empty


def test_compare_and_rank_plan_as_well(events, capsys):
    assert call(["compare", events, "--slices", "20", "--rank", "2", "--json"]) is Exit.DONE
    assert json.loads(capsys.readouterr().out)
    assert call(["rank", events, "--max", "2", "--slices", "20", "--json"]) is Exit.DONE
    assert json.loads(capsys.readouterr().out)["recommended"] in (1, 2)
