"""Pieces are done once, errors arrive, nothing waits for ever, and settings reach the threads."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
import pytest

from onlinegcp import OnlineGCP, cp_als, cp_apr, gcp
from onlinegcp.errors import DataError
from onlinegcp.sums import local
from onlinegcp.sums.local import ONE, Local, cores, engine, jobs


@pytest.mark.parametrize("count", [0, 1, 2, 7])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_piece_is_done_once(threads, count):
    done = []
    Local(threads).run(done.append, count)
    assert sorted(done) == list(range(count))


def test_two_threads_are_at_work_at_the_same_time():
    meeting = threading.Barrier(2)
    Local(2).run(lambda piece: meeting.wait(timeout=20), 2)


def test_the_error_of_the_first_piece_is_raised_and_no_further_piece_begins():
    done = []

    def work(piece):
        if piece in (3, 4):
            raise ValueError(f"piece {piece}")
        done.append(piece)

    with pytest.raises(ValueError, match="piece 3"):
        Local(1).run(work, 100)
    assert done == [0, 1, 2]
    with pytest.raises(ValueError, match=r"piece [34]"):
        Local(2).run(work, 100_000)
    assert len(done) < 50_000


def test_an_interrupt_waits_for_the_pieces_under_way():
    running = threading.Event()
    ended = []

    def work(piece):
        if threading.current_thread() is threading.main_thread():
            running.wait(20)
            raise KeyboardInterrupt
        running.set()
        time.sleep(0.05)
        ended.append(piece)

    with pytest.raises(KeyboardInterrupt):
        Local(2).run(work, 2)
    assert len(ended) == 1


def test_pieces_of_pieces_are_not_split_again_and_nesting_ends():
    seen = []

    def inner(piece):
        seen.append(engine().jobs)

    def outer(piece):
        assert engine() is ONE
        engine().run(inner, 3)

    with jobs(4) as four:
        four.run(outer, 4)
        assert engine() is four
    assert seen == [1] * 12


def test_calls_beside_each_other_share_the_threads():
    found = Local(6).beside([lambda: engine().jobs, lambda: engine().jobs])
    assert found == [3, 3]
    assert Local(1).beside([lambda: engine().jobs]) == [1]


def test_numpy_settings_of_the_caller_hold_in_every_thread():
    def work(piece):
        time.sleep(0.002)
        assert np.isinf(np.array([1.0]) / np.array([0.0])).all()

    with np.errstate(divide="ignore"):
        Local(3).run(work, 12)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        Local(3).run(work, 12)


def test_none_means_every_core_unless_somebody_has_decided(monkeypatch):
    monkeypatch.setattr(local, "cores", lambda: 7)
    with jobs(None) as found:
        assert found.jobs == 7
    with jobs(2), jobs(None) as found:
        assert found.jobs == 2
    assert engine() is ONE


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own():
    Local(2).run(lambda piece: None, 2)
    child = os.fork()
    if child == 0:
        done = []
        Local(2).run(done.append, 50)
        os._exit(0 if len(done) == 50 else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize(("count", "expected"), [(None, 1), (1, 1), (8, 8)])
def test_a_system_that_does_not_say_which_cores_are_ours_is_counted(monkeypatch, count, expected):
    monkeypatch.setattr(local, "_granted", lambda: local.MOST_THREADS)
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: count)
    assert cores.__wrapped__() == expected


def test_a_container_with_one_and_a_half_processors_has_two(monkeypatch, tmp_path):
    assert 1 <= cores() <= (os.cpu_count() or 1)
    read = {"/sys/fs/cgroup/cpu.max": "150000 100000\n"}
    monkeypatch.setattr(local.Path, "read_text", lambda path: read[str(path)])
    assert local._granted() == 2
    read["/sys/fs/cgroup/cpu.max"] = "max 100000\n"
    assert local._granted() == local.MOST_THREADS


@pytest.mark.parametrize("n_jobs", [0, -1, 1.5, True, "2"])
@pytest.mark.parametrize(
    "learn",
    [
        lambda x, n_jobs: OnlineGCP(1, "poisson", n_jobs=n_jobs).partial_fit(x),
        lambda x, n_jobs: cp_als(x, 1, n_jobs=n_jobs),
        lambda x, n_jobs: cp_apr(x, 1, n_jobs=n_jobs),
        lambda x, n_jobs: gcp(x, 1, "poisson", n_jobs=n_jobs),
    ],
    ids=["OnlineGCP", "cp_als", "cp_apr", "gcp"],
)
def test_other_numbers_of_threads_are_refused_with_what_gives_every_core(learn, n_jobs):
    with pytest.raises(DataError, match=r"n_jobs must be .* or None for every core"):
        learn(np.ones((3, 2)), n_jobs)
