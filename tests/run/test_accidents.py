"""Runs that are cut off anywhere, killed, refused or damaged: nothing is lost."""

from __future__ import annotations

import itertools
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from onlinegcp import runlog
from onlinegcp.errors import StateError
from onlinegcp.run import Run
from onlinegcp.run import checkpoint as run_checkpoint
from onlinegcp.run import disk as run_disk
from run_tools import (
    assert_same_run,
    files_of,
    learn_events,
    learn_slices,
    make_slices,
    small_model,
    steps_of,
    write_events,
)


@pytest.fixture
def finished(tmp_path):
    """A run over all slices in one go."""
    assert learn_slices(tmp_path / "whole", make_slices()) == 12
    return tmp_path / "whole"


class PowerCutError(BaseException):
    pass


def crashing(real, at, before, after):
    """The function, which does `before` or `after` in its `at`-th call and then is cut off."""
    calls = itertools.count(1)

    def function(*arguments, **options):
        cut = next(calls) == at
        if cut and before is not None:
            before(*arguments)
            raise PowerCutError
        result = real(*arguments, **options)
        if cut and after:
            raise PowerCutError
        return result

    return function


def write_half(path, lines):
    with (Path(path) / runlog.STEPS).open("ab") as file:
        file.write(b"".join(lines)[:20])


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("onlinegcp.run.checkpoint.write_archive", lambda *_: None, False),
        ("onlinegcp.run.checkpoint.write_archive", None, True),
        ("onlinegcp.runlog.append_lines", write_half, False),
        ("onlinegcp.runlog.append_lines", None, True),
    ],
    ids=["before the checkpoint", "before the line", "half a line", "after the line"],
)
def test_a_crash_at_any_moment_of_writing_is_put_right(
    tmp_path, finished, monkeypatch, name, before, after
):
    slices, where = make_slices(), tmp_path / "cut"
    home, _, function = name.rpartition(".")
    real = getattr(sys.modules[home], function)
    for at in (1, 3, 2, 2):
        monkeypatch.setattr(name, crashing(real, at, before, after))
        if (where / runlog.RUN).exists():
            run = Run.open(where)
        else:
            run = Run.create(where, small_model(), modes=["a", "b"])
        with run:
            with pytest.raises(PowerCutError):
                run.learn(slices)
            with pytest.raises(StateError, match="writing it failed"):
                run.learn(slices)
    monkeypatch.setattr(name, real)
    with Run.open(where) as run:
        assert run.learn(slices) > 0
    assert_same_run(where, finished)


@pytest.mark.slow
def test_labels_written_just_before_a_crash_do_not_count(tmp_path, monkeypatch):
    source, where = write_events(tmp_path / "events.csv", 16), tmp_path / "cut"
    learn_events(tmp_path / "whole", source)
    real = run_checkpoint.write_archive
    for at in (1, 4, 5, 4):  # new places come every fourth day
        monkeypatch.setattr(
            run_checkpoint, "write_archive", crashing(real, at, lambda *_: None, False)
        )
        with pytest.raises(PowerCutError):
            learn_events(where, source)
    monkeypatch.undo()
    learn_events(where, source)
    assert_same_run(where, tmp_path / "whole")


@pytest.mark.parametrize("lost", ["checkpoint", "lines"])
def test_a_power_cut_costs_what_was_not_on_disk_yet(tmp_path, finished, monkeypatch, caplog, lost):
    slices, where = make_slices(), tmp_path / "r"
    monkeypatch.setattr(run_disk.DiskSync, "written", lambda disk: setattr(disk, "_pending", True))
    with Run.create(where, small_model(), modes=["a", "b"]) as run:
        run.learn(slices[:7])  # ends on disk
        on_disk = (where / runlog.STEPS).read_bytes()
        monkeypatch.setattr(run_disk.DiskSync, "sync", lambda disk: None)
        run.learn(slices[:10])
    monkeypatch.undo()
    assert len(steps_of(where)) == 10
    if lost == "checkpoint":
        (where / runlog.CHECKPOINT).write_bytes(b"")
    else:
        (where / runlog.STEPS).write_bytes(on_disk + b"\0" * 100)
    view = runlog.read_run(where)  # readers do not mind
    assert view.rank == 2
    assert Run.open(where, write=False).n_steps == (7 if lost == "checkpoint" else 10)
    with caplog.at_level("WARNING"), Run.open(where) as run:
        assert run.n_steps == 7
        assert "Going on after slice 7" in caplog.text
        run.learn(slices)
    assert_same_run(where, finished)


def test_the_disk_is_waited_for_every_few_seconds_and_at_the_end(tmp_path, monkeypatch):
    forced, clock = [], itertools.count(0, 2)
    monkeypatch.setattr(run_disk, "force", lambda path: forced.append(path.name))
    monkeypatch.setattr(run_disk.time, "monotonic", lambda: next(clock))
    learn_slices(tmp_path / "r", make_slices(12))
    assert 3 <= forced.count(runlog.CHECKPOINT) <= 8
    lines, checkpoint = forced.index(runlog.STEPS), forced.index(runlog.CHECKPOINT)
    assert lines < checkpoint
    assert (tmp_path / "r" / runlog.SYNCED).samefile(tmp_path / "r" / runlog.CHECKPOINT)


def test_a_full_disk_is_a_clear_error_and_loses_nothing(tmp_path, finished):
    slices = make_slices()
    with Run.create(tmp_path / "r", small_model(), modes=["a", "b"]) as run:
        run.learn(slices[:6])
        before = files_of(tmp_path / "r")
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4000, limit[1]))
        try:
            with pytest.raises(StateError, match=r"checkpoint.npz could not be"):
                run.learn(slices)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    after = files_of(tmp_path / "r")
    assert {n: b for n, b in after.items() if n != "lock"} == {
        n: b for n, b in before.items() if n != "lock"
    }
    with Run.open(tmp_path / "r") as run:
        run.learn(slices)
    assert_same_run(tmp_path / "r", finished)


def test_a_second_writer_is_refused_and_told_who_writes(tmp_path, finished):
    with (
        Run.open(finished),
        pytest.raises(StateError, match=rf"being written by process {os.getpid()} on"),
    ):
        Run.open(finished)
    reader = Run.open(finished, write=False)
    with pytest.raises(StateError, match="open for writing"):
        reader.learn([])


def test_an_existing_run_is_never_started_over_by_accident(finished):
    before = files_of(finished)
    with pytest.raises(StateError, match="holds a run already"):
        Run.create(finished, small_model(), modes=["a", "b"])
    with Run.create(finished, small_model(rank=1), modes=["a", "b"], overwrite=True) as run:
        assert files_of(finished) == before
        run.learn(make_slices(5))
    assert len(steps_of(finished)) == 5
    assert runlog.read_run(finished).rank == 1


def test_a_place_that_cannot_be_written_is_refused_before_any_work(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match="is no directory"):
        Run.create(tmp_path / "file" / "r", small_model(), modes=["a"])
    # Root may write anywhere, so the system's answer is replaced.
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(StateError, match="may not write"):
        Run.create(tmp_path / "r", small_model(), modes=["a"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_directory_is_a_clear_error(finished):
    finished.chmod(0o500)
    try:
        with pytest.raises(StateError, match="to be written"):
            Run.open(finished)
    finally:
        finished.chmod(0o700)


def test_newer_formats_and_damage_are_refused_and_left_alone(finished):
    info = json.loads((finished / runlog.RUN).read_text())
    (finished / runlog.SYNCED).unlink()
    cases = {
        runlog.RUN: (json.dumps({**info, "format": 99}).encode(), "Upgrade"),
        runlog.CHECKPOINT: (b"PK not quite", "damaged"),
        runlog.STEPS: (b'{"number": 1}\nnonsense\n{"number": 3}\n', "line 2"),
    }
    for name, (content, message) in cases.items():
        kept = (finished / name).read_bytes()
        (finished / name).write_bytes(content)
        with pytest.raises(StateError, match=message):
            Run.open(finished)
        assert (finished / name).read_bytes() == content
        (finished / name).write_bytes(kept)
    (finished / runlog.CHECKPOINT).unlink()
    lines = (finished / runlog.STEPS).read_bytes()
    with pytest.raises(StateError, match="there is none"):
        Run.open(finished)
    assert (finished / runlog.STEPS).read_bytes() == lines
    info["model"]["method"] = "Oracle"
    (finished / runlog.RUN).write_text(json.dumps(info))
    with pytest.raises(StateError, match="Oracle"):
        Run.open(finished)


def test_half_written_files_of_a_kill_are_swept(finished):
    strays = [finished / f".{name}.12ab34cd.tmp" for name in (runlog.CHECKPOINT, runlog.RUN)]
    for stray in strays:
        stray.write_bytes(b"half")
    Run.open(finished, write=False)
    assert all(stray.exists() for stray in strays)
    Run.open(finished).close()
    assert not any(stray.exists() for stray in strays)


# Imports and loads the kernels once, then makes a process for every life of a run, which would
# else take seconds to start. Polars is used in those processes only: its threads survive no fork.
NURSERY = """
import os, sys
sys.path.insert(0, sys.argv[1])
import polars
import run_tools
import onlinegcp.events
model = run_tools.small_model()
for x in run_tools.make_slices(6):
    model.partial_fit(x)
print("ready", flush=True)
for line in sys.stdin:
    where, source = line.rstrip("\\n").split("\\t")
    child = os.fork()
    if child == 0:
        try:
            run_tools.learn_events(where, source)
            os._exit(0)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
    print(child, flush=True)
    sys.stdin.readline()  # not reaped before, or its number might be another's when it is killed
    print(os.waitpid(child, 0)[1], flush=True)
"""


@pytest.mark.slow
def test_fifty_kills_at_random_moments_leave_no_trace(tmp_path):
    source = write_events(tmp_path / "events.csv", 16)
    learn_events(tmp_path / "whole", source)
    nursery = subprocess.Popen(
        [sys.executable, "-c", NURSERY, str(Path(__file__).parents[1])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert nursery.stdout.readline() == "ready\n"
    moments = random.Random(0)

    def live(where, seconds=None):
        """One life of a run, killed after some seconds; whether it came to its end."""
        nursery.stdin.write(f"{where}\t{source}\n")
        nursery.stdin.flush()
        child = int(nursery.stdout.readline())
        if seconds is not None:
            time.sleep(seconds)
            os.kill(child, signal.SIGKILL)  # if it was done before, nothing happens
        nursery.stdin.write("reap\n")
        nursery.stdin.flush()
        status = int(nursery.stdout.readline())
        assert status in (0, signal.SIGKILL)
        return status == 0

    kills, runs = 0, 0
    try:
        start = time.perf_counter()
        assert live(tmp_path / "timed")
        whole_life = time.perf_counter() - start
        while kills < 50:
            where = tmp_path / f"run{runs}"
            runs += 1
            while not live(where, moments.uniform(0.0, whole_life)):
                kills += 1
            assert_same_run(where, tmp_path / "whole")
            assert sorted(files_of(where)) == sorted(files_of(tmp_path / "whole"))
    finally:
        nursery.stdin.close()
        nursery.wait(30)
        nursery.stdout.close()
    assert kills >= 50
