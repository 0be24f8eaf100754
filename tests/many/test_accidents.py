"""Processes that are killed while they learn many streams: nothing is lost, nobody is left over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from many_tools import assert_same_streams, customers, fit
from onlinegcp import StateError
from onlinegcp.cli import Exit, call
from onlinegcp.errors import DataError
from onlinegcp.many import pool
from onlinegcp.many.files import shard_numbers

PROGRAM = """
import sys
sys.path.insert(0, {tests!r})
from many_tools import fit
fit({path!r}, {table!r}, n_jobs=2)
"""


def start(path, table):
    """A process that learns with two others, in a session of its own."""
    tests = str(Path(__file__).parents[1])
    text = PROGRAM.format(tests=tests, path=str(path), table=str(table))
    return subprocess.Popen([sys.executable, "-c", text], start_new_session=True)


def n_bytes(path):
    return sum(file.stat().st_size for file in (Path(path) / "shards").glob("*.jsonl"))


def members(session):
    """Processes of a session that live."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry.name))
    return found


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for processes in /proc")
def test_killed_runs_go_on_to_the_same_bits(tmp_path, monkeypatch):
    # Stored after every slice, so that kills find streams half-way.
    table = tmp_path / "table.parquet"
    customers(n=6, n_days=14).write_parquet(table)
    fit(tmp_path / "whole", table)
    whole = n_bytes(tmp_path / "whole")
    for share in (0.0, 0.2, 0.6):
        process = start(tmp_path / "many", table)
        while process.poll() is None and n_bytes(tmp_path / "many") <= share * whole:
            time.sleep(0.002)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        deadline = time.monotonic() + 20.0
        while members(process.pid) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not members(process.pid)  # those it had started end with it
    assert shard_numbers(tmp_path / "many")
    fit(tmp_path / "many", table)
    assert_same_streams(tmp_path / "many", tmp_path / "whole")


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_learned_and_says_how_to_go_on(tmp_path):
    table, path = tmp_path / "table.parquet", tmp_path / "many"
    customers(n=6, n_days=40).write_parquet(table)
    words = [str(Path(sys.executable).parent / "onlinegcp"), "fit", str(table), "--by", "customer"]
    words += ["--time", "when", "--every", "1d", "--modes", "a,b", "--rank", "1"]
    words += ["--warm-start", "3", "--season", "1", "--jobs", "2"]
    process = subprocess.Popen(
        [*words, "-o", str(path)], start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    while process.poll() is None and not n_bytes(path):
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGINT)
    told = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 130
    assert f"onlinegcp update {path} {table}" in told
    assert not members(process.pid)
    before = n_bytes(path)
    fit(path, table)
    assert n_bytes(path) > before
    assert call([*words[1:-1], "1", "-o", str(tmp_path / "whole"), "-q"]) is Exit.DONE
    assert_same_streams(path, tmp_path / "whole")


def test_a_crash_while_a_shard_is_stored_is_put_right(tmp_path, monkeypatch):
    table = customers(n=2)
    fit(tmp_path / "whole", table)
    from onlinegcp.many import shard

    real, calls = shard.write_archive, iter(range(100))

    def crashing(*arguments, **options):
        if next(calls) == 1:
            raise KeyboardInterrupt
        real(*arguments, **options)

    monkeypatch.setattr(shard, "write_archive", crashing)
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path / "many", table)
    fit(tmp_path / "many", table)
    assert_same_streams(tmp_path / "many", tmp_path / "whole")


def test_streams_are_stored_half_way(tmp_path, monkeypatch):
    monkeypatch.setattr("onlinegcp.many.learning.STORE_SECONDS", 0.0)
    table = customers(n=2)
    fit(tmp_path / "often", table)
    monkeypatch.undo()
    fit(tmp_path / "once", table)
    assert_same_streams(tmp_path / "often", tmp_path / "once")


@pytest.mark.slow
def test_a_process_that_dies_is_told_and_what_it_stored_is_kept(tmp_path, monkeypatch):
    table = customers(n=4)
    fit(tmp_path / "whole", table)
    real, shot = pool._Worker.learn, []

    def learn(worker, task):
        real(worker, task)
        if not shot:
            shot.append(task)
            worker._process.kill()

    monkeypatch.setattr(pool._Worker, "learn", learn)
    with pytest.raises(StateError, match=r"ended with SIGKILL while it learned shard \d"):
        fit(tmp_path / "many", table, n_jobs=2)
    monkeypatch.undo()
    fit(tmp_path / "many", table)
    assert_same_streams(tmp_path / "many", tmp_path / "whole")


def test_errors_keep_their_kind_between_processes():
    told = {"text": "no room", "trace": "Traceback"}
    assert isinstance(pool._error({**told, "kind": "StateError"}), StateError)
    assert isinstance(pool._error({**told, "kind": "DamagedFile"}), StateError)
    assert isinstance(pool._error({**told, "kind": "DataError"}), DataError)
    assert isinstance(pool._error({**told, "kind": "MemoryError"}), MemoryError)
    assert "Traceback" in str(pool._error({**told, "kind": "ZeroDivisionError"}))
