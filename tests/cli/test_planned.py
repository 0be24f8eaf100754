"""`fit` without options: a plan is told, the command it names does the same, options override."""

from __future__ import annotations

import datetime
import json
import shlex
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from cli_tools import write_events
from onlinegcp import runlog
from onlinegcp.cli import Exit, call
from run_tools import steps_of


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


@pytest.mark.parametrize(
    ("least", "words", "lower"),
    [
        (1.5, ["--loss", "gaussian"], 0),
        (-1.5, ["--loss", "gaussian"], None),
        (1.5, ["--loss", "gaussian", "--set", "lower=none"], None),
        (1.5, ["--loss", "huber:delta=2"], 0),
        (1.5, ["--loss", "gamma"], None),  # it has a bound of its own
        (1.5, ["--loss", "gaussian", "--set", "solver=sgd"], None),
    ],
)
def test_measurements_from_zero_on_get_a_bound_though_nothing_was_left_to_plan(
    least, words, lower, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    rows = [f"2024-01-{day:02},{site},{least + (day + n) % 4}\n" for day in range(1, 15)
            for n, site in enumerate("abc")]  # fmt: skip
    (tmp_path / "prices.csv").write_text("day,site,price\n" + "".join(rows))
    given = ["--time", "day", "--every", "1d", "--modes", "site", "--value", "price"]
    given += ["--agg", "mean", "--rank", "1", "--warm-start", "4", "-o", "prices.run"]
    assert call(["fit", "prices.csv", *given, *words]) is Exit.DONE
    parameters = runlog.read_run_json("prices.run")["model"]["parameters"]
    assert parameters["lower"] == lower
    told = capsys.readouterr()
    assert ("No value is negative" in told.out + told.err) == (lower == 0)


def test_columns_of_very_different_size_get_units_of_their_own(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = ["day,station,pascal,wind,rain"]
    rows += [
        f"2024-{1 + d // 28:02}-{1 + d % 28:02},{station},{101_300 + 40 * rng.normal():.1f},"
        f"{rng.gamma(2.0):.2f},{rng.gamma(1.0):.2f}"
        for d in range(40)
        for station in "abcd"
    ]
    Path("weather.csv").write_text("\n".join(rows))
    words = ["fit", "weather.csv", "--value", "pascal,wind,rain", "--agg", "mean"]
    assert call([*words, "--plan"]) is Exit.DONE
    assert "--set scale=1" in " ".join(capsys.readouterr().out.split())
    assert call([*words, "--plan", "--set", "scale=0"]) is Exit.DONE
    assert " ".join(capsys.readouterr().out.split()).count("--set scale=") == 1
    assert (
        call([*words, "--rank", "2", "--quiet", "-o", "w.run"]) is Exit.DONE
    )  # warnings are errors


@pytest.mark.parametrize("method", ["acp", "online_sgd", "online_gcp"])
def test_the_command_of_any_method_does_the_same_again(method, tmp_path, monkeypatch, capsys):
    """Written by clocks that change, so that the plan has all there is to say."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = ["at,meter,kWh"]
    for hour in range(24 * 44):
        moment = datetime.datetime(2025, 3, 1, tzinfo=datetime.UTC) + datetime.timedelta(hours=hour)
        at = moment.astimezone(ZoneInfo("Europe/Berlin")).isoformat()
        rows += [f"{at},{meter},{rng.gamma(3.0):.3f}" for meter in "ab"]
    Path("meters.csv").write_text("\n".join(rows))
    words = ["--method", method, "--rank", "1"]
    assert call(["fit", "meters.csv", *words, "-o", "first.run"]) is Exit.DONE
    told = capsys.readouterr().out
    command = shlex.split(told.partition("The same in full: ")[2].splitlines()[0])
    options = [word for word in command if word.startswith("--")]
    assert options.count("--timezone") == 1
    assert runlog.read_run_json("first.run")["command"] == command
    assert call([*command[1:-1], "again.run"]) is Exit.DONE
    assert steps_of("again.run") == steps_of("first.run")
