"""The run directory: written, cut short, followed and locked."""

from __future__ import annotations

import datetime
import json
import math
import multiprocessing
import os
import subprocess
import sys

import numpy as np
import pytest

from onlinegcp import runlog
from onlinegcp.errors import StateError
from onlinegcp.storage.archive import write_archive


def step(number, **more):
    return {"number": number, "time": f"2013-01-{number:02}", "local": number / 3, **more}


@pytest.fixture
def run(tmp_path):
    path = tmp_path / "a.run"
    path.mkdir()
    runlog.write_run_json(path, {"modes": ["dest", "hour"], "model": {"parameters": {"rank": 2}}})
    return path


def checkpoint(path, labels=None, weights=(2.0, 1.0)):
    factors = [np.arange(6.0).reshape(3, 2), np.ones((2, 2))]
    arrays = {f"factor.{k}": a for k, a in enumerate(factors)}
    arrays["weights"] = np.array(weights)
    record = {"n_steps": 1, "labels": labels, "last_step": step(1)}
    write_archive(path / runlog.CHECKPOINT, runlog.CHECKPOINT_KIND, arrays, record, of_run=True)
    return factors


def test_what_is_written_is_read(run):
    factors = checkpoint(run, labels=[["a", "b", "c"], ["x", "y"]])
    runlog.append_lines(
        run, [runlog.encode_step(step(1, weights=np.ones(2), time=datetime.date(2013, 1, 1)))]
    )
    runlog.append_lines(
        run,
        [runlog.encode_step(step(2, weights=[math.nan, np.float64(1.5)], flagged=np.bool_(True)))],
    )
    view = runlog.read_run(run)
    assert view.info["format"] == 2
    assert view.modes == ("dest", "hour")
    assert view.times == ["2013-01-01", "2013-01-02"]
    assert view.steps[0]["weights"] == [1.0, 1.0]
    assert view.steps[1]["weights"] == [None, 1.5]
    assert view.steps[1]["flagged"] is True
    assert view.labels == (("a", "b", "c"), ("x", "y"))
    assert view.rank == 2
    for a, b in zip(view.factors, factors, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_run_that_only_just_began_is_empty(run):
    view = runlog.read_run(run)
    assert (view.steps, view.factors, view.rank, view.modes) == ([], (), 0, ("dest", "hour"))


@pytest.mark.parametrize("labels", [None, [], [["a"]], [None, ["x", "y", "z"]]])
def test_labels_that_are_missing_become_row_numbers(run, labels):
    checkpoint(run, labels)
    view = runlog.read_run(run)
    assert [len(names) for names in view.labels] == [3, 2]
    assert view.labels[0] == (("a", "1", "2") if labels == [["a"]] else ("0", "1", "2"))


def test_labels_of_any_characters_come_back(run):
    odd = "Zürich\r\n\u2028\ud800 😀"
    runlog.append_lines(run, [runlog.encode_step(step(1, cells=[{"labels": [odd]}]))])
    assert runlog.read_run(run).steps[0]["cells"][0]["labels"] == [odd]
    assert len(runlog.tail(run).steps) == 1


def test_what_is_no_run_is_named(tmp_path, run):
    with pytest.raises(StateError, match="nowhere is no directory"):
        runlog.read_run(tmp_path / "nowhere")
    with pytest.raises(StateError, match="has no run"):
        runlog.read_run(tmp_path)
    with pytest.raises(StateError, match="is no directory"):
        runlog.read_run(run / runlog.RUN)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\xff", b'{"format": "x"}'])
def test_a_damaged_run_json_is_named(run, content):
    (run / runlog.RUN).write_bytes(content)
    with pytest.raises(StateError, match=r"run\.json"):
        runlog.read_run(run)


def test_a_newer_format_asks_for_an_upgrade(run):
    (run / runlog.RUN).write_text(json.dumps({"format": 3}))
    with pytest.raises(StateError, match=r"format 3\. Upgrade"):
        runlog.read_run(run)


def test_a_damaged_checkpoint_is_named(run):
    (run / runlog.CHECKPOINT).write_bytes(b"PK nothing")
    with pytest.raises(StateError, match=r"checkpoint\.npz"):
        runlog.read_run(run)


def write_lines(run, n):
    for number in range(1, n + 1):
        runlog.append_lines(run, [runlog.encode_step(step(number))])
    return (run / runlog.STEPS).read_bytes()


def test_a_last_line_cut_anywhere_is_left_out_and_recovered(run):
    whole = write_lines(run, 4)
    file = run / runlog.STEPS
    start = whole[:-1].rfind(b"\n") + 1
    for end in range(start, len(whole)):
        file.write_bytes(whole[:end])
        assert len(runlog.read_run(run).steps) == 3
        runlog.recover(run, 4, step(4))
        assert file.read_bytes() == whole


def test_a_last_line_of_zeros_after_a_power_cut_is_recovered(run):
    whole = write_lines(run, 3)
    file = run / runlog.STEPS
    file.write_bytes(whole + b"\0" * 20 + b"\n")
    assert len(runlog.read_run(run).steps) == 3
    assert len(runlog.tail(run).steps) == 3
    runlog.recover(run, 3, step(3))
    assert file.read_bytes() == whole


def test_lines_beyond_the_checkpoint_are_dropped(run):
    write_lines(run, 5)
    runlog.recover(run, 3, step(3))
    assert [s["number"] for s in runlog.read_run(run).steps] == [1, 2, 3]


@pytest.mark.parametrize("present", range(6))
def test_the_lines_of_a_warm_start_come_back_together(run, present):
    whole = write_lines(run, 5)
    lines = whole.splitlines(keepends=True)
    (run / runlog.STEPS).write_bytes(b"".join(lines[:present]))
    runlog.recover(run, 5, [step(number) for number in range(1, 6)])
    assert (run / runlog.STEPS).read_bytes() == whole


def test_nothing_to_recover_makes_an_empty_file(run):
    runlog.recover(run, 0, None)
    assert (run / runlog.STEPS).read_bytes() == b""


def test_lost_lines_are_an_error_and_nothing_is_touched(run):
    before = write_lines(run, 2)
    with pytest.raises(StateError, match=r"learned 5 slices, but steps\.jsonl holds 2"):
        runlog.recover(run, 5, step(5))
    assert (run / runlog.STEPS).read_bytes() == before


def test_lines_out_of_order_or_damaged_in_the_middle_are_named(run):
    lines = write_lines(run, 3).splitlines(keepends=True)
    file = run / runlog.STEPS
    file.write_bytes(lines[0] + lines[2])
    with pytest.raises(StateError, match="line 2 is number 3"):
        runlog.recover(run, 2, step(2))
    # The last one is of an older version, without a checksum, or was made by another program.
    for damaged in (b"oops\n", b"[2]\n", b'{"number":2,"total":"many"}\n'):
        file.write_bytes(lines[0] + damaged + lines[2])
        for read in (runlog.read_run, runlog.tail, lambda path: runlog.recover(path, 3, step(3))):
            with pytest.raises(StateError, match="line 2 is none"):
                read(run)


def test_a_disk_that_fills_leaves_the_file_as_it_was(run):
    before = write_lines(run, 3)
    code = (
        "import resource, signal, sys\n"
        "from onlinegcp import runlog\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({len(before) + 10}, resource.RLIM_INFINITY))\n"
        "line = runlog.encode_step({'number': 4, 'time': 'x' * 100})\n"
        "try: runlog.append_lines(sys.argv[1], [line])\n"
        "except runlog.StateError as error: sys.exit(str(error))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, run], capture_output=True, text=True)
    assert "File too large" in done.stderr
    assert "steps.jsonl was to be written" in done.stderr
    assert (run / runlog.STEPS).read_bytes() == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_files_without_permission_are_named(run):
    (run / runlog.STEPS).touch(0o000)
    with pytest.raises(StateError, match="Permission"):
        runlog.read_run(run)


def test_errors_of_the_system_are_named(run):
    (run / runlog.STEPS).mkdir()
    for read in (runlog.read_run, runlog.tail):
        with pytest.raises(StateError, match=r"steps\.jsonl was to be read"):
            read(run)
    with pytest.raises(StateError, match=r"steps\.jsonl was to be written"):
        runlog.append_lines(run, [runlog.encode_step(step(1))])
    with pytest.raises(StateError, match="lock was to be written"):
        runlog.Lock(run / "nowhere").acquire()


def test_a_follower_sees_each_record_once(run):
    seen, position = [], None
    assert runlog.tail(run).steps == []
    for number in range(1, 6):
        runlog.append_lines(run, [runlog.encode_step(step(number))])
        if number % 2:
            new = runlog.tail(run, position)
            assert not new.restarted
            position = new.position
            seen += [s["number"] for s in new.steps]
    assert seen == [1, 2, 3, 4, 5]
    assert runlog.tail(run, position).steps == []


def test_a_follower_waits_for_the_end_of_a_line(run):
    file = run / runlog.STEPS
    line = runlog.encode_step(step(1))
    file.write_bytes(line[:10])
    new = runlog.tail(run)
    assert new.steps == []
    file.write_bytes(line)
    assert len(runlog.tail(run, new.position).steps) == 1


@pytest.mark.parametrize("then", ["shorter", "grown again", "gone"])
def test_a_follower_starts_over_when_lines_were_dropped(run, then):
    write_lines(run, 4)
    position = runlog.tail(run).position
    file = run / runlog.STEPS
    if then == "gone":
        file.unlink()
    else:
        runlog.recover(run, 3, step(3))
    if then == "grown again":
        for number in (4, 5):
            runlog.append_lines(run, [runlog.encode_step(step(number, seconds=0.123456))])
    new = runlog.tail(run, position)
    assert new.restarted
    expected = {"shorter": [1, 2, 3], "grown again": [1, 2, 3, 4, 5], "gone": []}[then]
    assert [s["number"] for s in new.steps] == expected
    assert not runlog.tail(run, new.position).restarted


def hold(path, ready, done):
    with runlog.Lock(path):
        ready.set()
        done.wait(30)


def test_a_second_writer_is_refused_with_the_name_of_the_first(run):
    assert not runlog.is_locked(run)
    context = multiprocessing.get_context("spawn")
    ready, done = context.Event(), context.Event()
    writer = context.Process(target=hold, args=(str(run), ready, done))
    writer.start()
    try:
        assert ready.wait(30)
        assert runlog.is_locked(run)
        with pytest.raises(StateError, match=f"written by process {writer.pid} on "):
            runlog.Lock(run).acquire()
        # However it ends, its lock ends with it.
        writer.kill()
        writer.join()
        assert not runlog.is_locked(run)
        with runlog.Lock(run):
            assert runlog.is_locked(run)
    finally:
        writer.kill()
        writer.join()
    assert not runlog.is_locked(run)


def test_the_environment_names_its_versions():
    assert runlog.environment()["numpy"] == np.__version__
