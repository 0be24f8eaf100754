"""Damaged files of a run: noticed by whoever reads them, and listed by verify."""

from __future__ import annotations

import json

import numpy as np
import pytest

from onlinegcp import runlog
from onlinegcp.cli import Exit, call
from onlinegcp.errors import StateError
from onlinegcp.runlog.labels import LABELS
from onlinegcp.runlog.sources import SOURCES
from run_tools import learn_events, write_events


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("verify")
    learn_events(folder / "r", write_events(folder / "all.csv", n_days=12))
    return folder / "r"


@pytest.fixture
def run(whole, tmp_path):
    for file in whole.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def test_a_whole_run_is_whole(run, capsys):
    assert all(verdict.whole for verdict in runlog.verify(run))
    assert [v.file for v in runlog.verify(run)][:4] == [runlog.RUN, runlog.STEPS, LABELS, SOURCES]
    assert call(["inspect", str(run), "--verify"]) is Exit.DONE
    assert "12 lines" in capsys.readouterr().out


@pytest.mark.parametrize("name", [runlog.RUN, runlog.STEPS, LABELS, SOURCES])
def test_a_changed_byte_anywhere_is_noticed(run, name, capsys):
    file = run / name
    content = file.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.choice(len(content) - 1, 60, replace=False).tolist():
        changed = bytearray(content)
        changed[place] ^= 1 << int(rng.integers(0, 8))
        file.write_bytes(changed)
        verdicts = {verdict.file: verdict.whole for verdict in runlog.verify(run)}
        assert not verdicts[name], place
    assert call(["inspect", str(run), "--verify", "--json"]) is Exit.BAD_STATE
    found = json.loads(capsys.readouterr().out)
    assert next(entry["file"] for entry in found if not entry["whole"]) == name


def test_what_is_wrong_with_lines_is_said(run):
    file = run / runlog.STEPS
    lines = file.read_bytes().splitlines(keepends=True)
    old = runlog.encode_step({"number": 3, "total": "many"})
    for damaged, told in (
        ([*lines[:-1], lines[-1][:-1]], "line 12 has no end"),
        ([lines[0], *lines], "line 2 is damaged: it is number 1"),
        ([*lines[:2], old, *lines[3:]], "line 3 is damaged: total is a str"),
    ):
        file.write_bytes(b"".join(damaged))
        verdict = next(v for v in runlog.verify(run) if v.file == runlog.STEPS)
        assert (verdict.whole, verdict.text) == (False, told)


def test_readers_name_the_line(run):
    lines = (run / runlog.STEPS).read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b'"total":', b'"total":1')
    (run / runlog.STEPS).write_bytes(b"".join(lines))
    with pytest.raises(StateError, match=r"line 4 .*checksum"):
        runlog.read_run(run)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"total": "many"}, "total is a str"),
        ({"anomaly": 3}, "anomaly is a int"),
        ({"anomaly": {"flagged": 1}}, "anomaly flagged is a int"),
        ({"anomaly": {"cells": [1]}}, "a cell is a int"),
        ({"weights": ["x"]}, "weights holds a str"),
        ({"warm": None}, "warm is a NoneType"),
    ],
)
def test_the_wrong_type_in_an_old_line_is_named(run, wrong, told, capsys):
    """Lines without a checksum are those of older versions, and may have been edited."""
    lines = (run / runlog.STEPS).read_bytes().splitlines(keepends=True)
    record = {k: v for k, v in json.loads(lines[6]).items() if k != "crc"}
    lines[6] = runlog.encode_step({**record, **wrong})
    (run / runlog.STEPS).write_bytes(b"".join(lines))
    for command in (["report", "--no-global"], ["anomalies"], ["components"], ["inspect"]):
        assert call([command[0], str(run), *command[1:]]) is Exit.BAD_STATE
        shown = " ".join(capsys.readouterr().err.split())
        assert "line 7" in shown
        assert told in shown


@pytest.mark.parametrize(
    "wrong", [{"modes": [1]}, {"modes": "ab"}, {"anomaly": []}, {"model": 7}, {"events": "x"}]
)
def test_the_wrong_type_in_old_settings_is_named(run, wrong, capsys):
    info = json.loads((run / runlog.RUN).read_bytes())
    info.pop("crc")
    (run / runlog.RUN).write_text(json.dumps({**info, **wrong}))
    for command in ("report", "anomalies", "components", "inspect", "update"):
        assert call([command, str(run), *(["-"] if command == "update" else [])]) is Exit.BAD_STATE
        assert "run.json" in " ".join(capsys.readouterr().err.split())


def test_a_run_of_an_older_version_goes_on(run, tmp_path):
    """Its lines have no checksums; new ones do."""
    for name in (runlog.STEPS, LABELS, SOURCES):
        old = [json.loads(line) for line in (run / name).read_bytes().splitlines()]
        for record in old:
            record.pop("crc")
        if name != LABELS:  # whose bytes the checkpoint counts
            (run / name).write_bytes(b"".join(map(runlog.encode_step, old)))
    assert all(verdict.whole for verdict in runlog.verify(run))
    learn_events(run, write_events(tmp_path / "more.csv", n_days=16))
    found = {verdict.file: verdict for verdict in runlog.verify(run)}
    assert all(verdict.whole for verdict in found.values())
    assert "12 of them written before" in found[runlog.STEPS].text
