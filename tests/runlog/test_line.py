"""One schema for a line of steps.jsonl: what is written, what tests pretend, what is documented."""

from __future__ import annotations

import datetime
import json
import re
from pathlib import Path

import numpy as np
import pytest

import fake_run
from onlinegcp.runlog import Anomaly, Step, encode_step, read_run, smallest_p
from onlinegcp.runlog.line import SMALLEST_P, Cell, Row
from onlinegcp.runlog.told import score
from run_tools import learn_slices, make_slices

WRITTEN = set(Step.__annotations__) - {"global"}


def check(steps):
    for step in steps:
        assert set(step) == WRITTEN
        if step["anomaly"]:
            assert set(step["anomaly"]) == set(Anomaly.__annotations__)
            assert all(set(cell) == set(Cell.__annotations__) for cell in step["anomaly"]["cells"])
            rows = [row for mode in step["anomaly"]["modes"] for row in mode]
            assert all(set(row) == set(Row.__annotations__) for row in rows)
    assert any(step["anomaly"] for step in steps)


def test_a_run_writes_every_field_and_no_other(tmp_path):
    learn_slices(tmp_path / "r", make_slices(12))
    check(read_run(tmp_path / "r").steps)


def test_the_run_that_tests_make_up_has_the_same_fields():
    check(fake_run.make_steps(n_days=14, rank=2, n_iterations=2)[-1])


def test_lines_are_json_without_spaces_whatever_they_hold():
    moment, odd = datetime.datetime(2013, 1, 1, 12), Path("a")
    for number in (1.5, np.float64(1.5), float("nan")):
        line = encode_step({"time": moment, "local": number, "order": [0, 1], 3: odd})
        assert b" " not in line
        told = {"time": "2013-01-01T12:00:00", "order": [0, 1], "3": "a"}
        assert json.loads(line) == {**told, "local": 1.5 if number == 1.5 else None}


def test_the_documentation_names_every_field():
    page = Path(__file__).parents[2] / "docs" / "run-directory.md"
    table = page.read_text().partition("## A line of")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(\w+)`", table))
    assert WRITTEN | set(Anomaly.__annotations__) <= named


@pytest.mark.parametrize(
    ("anomaly", "least"),
    [
        (None, 1.0),
        ({}, 1.0),
        ({"p": None, "volume_p": 0.3}, 0.3),
        ({"p": 0.1, "volume_p": 1}, 0.1),
        ({"p": 0.1, "volume_p": 0.01, "score": 1.0}, 0.1),
    ],
)
def test_the_smallest_p_is_that_of_the_slice_or_of_pattern_or_volume(anomaly, least):
    assert smallest_p({"anomaly": anomaly}) == least


def test_the_score_of_an_older_line_follows_its_smallest_p_and_ends_somewhere():
    assert score({"anomaly": {"p": 1e-40, "volume_p": 1e-3}}) == pytest.approx(40.0)
    assert score({"anomaly": {"p": 0.0}}) == score({"anomaly": {"p": SMALLEST_P}}) < 400.0
