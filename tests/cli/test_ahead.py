"""The second process that compiles: started where it helps, ended with the command, complete."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from onlinegcp.cli import ahead
from onlinegcp.kernels import jit
from onlinegcp.sums import local


class Helper:
    """What stands for the process."""

    def __init__(self, words, **options):
        self.words, self.ended, self.waited = words, False, False
        started.append(self)

    def terminate(self):
        self.ended = True

    def wait(self):
        self.waited = True


started: list[Helper] = []


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    started.clear()
    monkeypatch.setattr(jit, "cache_directory", lambda: tmp_path)
    monkeypatch.setattr(subprocess, "Popen", Helper)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})


def test_a_process_is_started_once_and_ended_with_the_block():
    with ahead.compiling_ahead("poisson"):
        (helper,) = started
        assert helper.words == [sys.executable, "-m", "onlinegcp.cli.ahead", "poisson"]
        assert not helper.ended
    assert helper.ended
    assert helper.waited


def test_it_is_ended_when_the_command_fails():
    with pytest.raises(KeyError), ahead.compiling_ahead("poisson"):
        raise KeyError
    assert started[0].waited


def test_what_is_compiled_is_not_compiled_again():
    ahead.mark_compiled("poisson")
    with ahead.compiling_ahead("poisson"):
        assert not started
    with ahead.compiling_ahead("gaussian"):
        assert started


def test_one_core_goes_alone(monkeypatch):
    monkeypatch.setattr(local, "cores", lambda: 1)
    with ahead.compiling_ahead("poisson"):
        assert not started


def test_a_machine_without_room_for_a_process_goes_on(monkeypatch):
    def refuse(*words, **options):
        raise OSError

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with ahead.compiling_ahead("poisson"):
        pass


LATER = """
import sys
from onlinegcp.cli.ahead import compile_streaming
from onlinegcp.problems import load_flights
from onlinegcp.run import Run
from onlinegcp.streaming import OnlineGCP


def compiled():
    return {
        (name.removeprefix("onlinegcp.kernels."), dispatcher.py_func.__name__, str(signature))
        for name, module in list(sys.modules.items())
        if name.startswith(("onlinegcp.kernels.auto.", "onlinegcp.kernels.shares"))
        for dispatcher in vars(module).values()
        if hasattr(dispatcher, "signatures") and dispatcher.py_func.__module__ == name
        for signature in dispatcher.signatures
    }


compile_streaming("poisson")
before = compiled()
flights = load_flights()
model = OnlineGCP(3, "poisson", init_slices=10)
with Run.create(sys.argv[1], model, modes=["dest", "carrier", "hour"], period=7) as run:
    run.learn(flights.slices[:40])
print(len(before), sorted(compiled() - before))
"""


@pytest.mark.slow
def test_what_a_stream_needs_early_on_was_compiled(tmp_path, monkeypatch):
    monkeypatch.undo()
    done = subprocess.run(
        [sys.executable, "-c", LATER, str(tmp_path / "a.run")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    n_before, missed = done.stdout.strip().split(" ", 1)
    assert int(n_before) > 10
    assert missed == "[]"
