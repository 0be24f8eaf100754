"""The examples run as a user would run them, and say what they promise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.slow
def test_the_demo_names_its_patterns_in_words():
    run = subprocess.run(
        [sys.executable, str(EXAMPLES / "flights_static.py"), "--rank", "3", "--passes", "3"],
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": "80", "PYTHONIOENCODING": "utf-8"},
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "336,776 flights" in run.stdout
    for word in ("United", "Delta", "JetBlue", "Mon", "Dec", "of the deviance explained"):
        assert word in run.stdout
    assert max(map(len, run.stdout.splitlines())) <= 80


def run_script(name, folder):
    """What a shell script says, run with this interpreter's programs on the path."""
    programs = str(Path(sys.executable).parent)
    done = subprocess.run(
        ["sh", str(EXAMPLES / name), str(folder)],
        capture_output=True,
        text=True,
        env=os.environ | {"PATH": f"{programs}:{os.environ['PATH']}", "COLUMNS": "200"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_files_become_a_run_a_report_and_tables(tmp_path):
    told = run_script("fit_update_report.sh", tmp_path)
    assert "Learned 31 slices up to 2013-01-31" in told
    assert "Learned 28 slices up to 2013-02-28" in told
    assert "carrier 16, hour 19" in told
    numbers = json.loads(told[told.index("{") : told.rindex("}") + 1])
    assert set(numbers["mean_loss"]) == {"per", "prequential", "local", "global"}
    for name in ("report.html", "factors.csv", "activations.parquet", "model.npz"):
        assert (tmp_path / name).stat().st_size > 100
    assert len((tmp_path / "anomalies.jsonl").read_text().splitlines()) == 59 - 14


@pytest.mark.slow
def test_a_growing_log_is_followed(tmp_path):
    told = run_script("follow_a_log.sh", tmp_path)
    assert "Learned 9 slices up to 2013-02-09" in told  # the tenth is still open
    steps = (tmp_path / "live.run/steps.jsonl").read_text().splitlines()
    assert len(steps) == 31 + 9
    lines = (tmp_path / "all.jsonl").read_text().splitlines()
    days = Counter(json.loads(line)["date"] for line in lines)
    told = {step["time"]: step["total"] for step in map(json.loads, steps[31:])}
    assert told == {day: count for day, count in days.items() if day < "2013-02-10"}


@pytest.mark.slow
def test_independence_day_raises_the_alarm_and_no_other(tmp_path):
    told = run_script("raise_an_alarm.sh", tmp_path)
    assert told.count("ALARM") == 1
    assert "4 July 2013 " in told
    assert "fewer than expected" in told
    assert "1 of 4 scored slices was flagged." in told


@pytest.mark.slow
def test_a_stream_of_arrays_is_learned_in_python():
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "stream_arrays.py")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_every_example_is_listed():
    listed = (EXAMPLES / "README.md").read_text()
    for path in EXAMPLES.iterdir():
        if path.suffix in (".py", ".sh") and path.name != "flights_files.py":
            assert path.name in listed
