"""Helpers come when their bell rings, go back to sleep, and are waited for only while they work."""

from __future__ import annotations

import threading
import time

import pytest

from onlinegcp.sums import crew
from onlinegcp.sums.crew import Turns


def shared(work, count, helpers):
    turns = Turns(work, count)
    turns.share(turns.take, helpers)


def test_helpers_are_used_again_and_not_multiplied():
    meeting = threading.Barrier(3)
    for _ in range(50):
        shared(lambda piece: meeting.wait(timeout=20), 3, helpers=2)
    names = [thread.name for thread in threading.enumerate()]
    before = names.count("onlinegcp")
    for _ in range(200):  # most end before a helper has woken up
        shared(lambda piece: None, 3, helpers=2)
    meeting = threading.Barrier(3)
    shared(lambda piece: meeting.wait(timeout=20), 3, helpers=2)
    names = [thread.name for thread in threading.enumerate()]
    assert names.count("onlinegcp") == before


def test_a_helper_that_sleeps_is_not_waited_for(monkeypatch):
    slow = threading.Event()

    class Late(crew._Helper):
        def _live(self):
            slow.wait(20)

    monkeypatch.setattr(crew, "_helper", Late)
    monkeypatch.setattr(crew, "_idle", [])
    done = []
    shared(done.append, 5, helpers=1)
    assert done == [0, 1, 2, 3, 4]
    assert len(crew._idle) == 1  # its letter was taken back
    slow.set()


def test_callers_at_the_same_time_have_helpers_of_their_own():
    together = threading.Barrier(4)

    def call():
        shared(lambda piece: together.wait(timeout=20), 2, helpers=1)

    callers = [threading.Thread(target=call) for _ in range(2)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(timeout=30)
    assert not any(caller.is_alive() for caller in callers)


def test_interrupts_while_others_work_are_told_when_these_have_ended(monkeypatch):
    began, ended = threading.Event(), []

    def work(piece):
        if threading.current_thread() is not threading.main_thread():
            began.set()
            time.sleep(0.1)
            ended.append(piece)
        else:
            began.wait(20)

    turns = Turns(work, 2)
    once = iter([KeyboardInterrupt()])

    class Interrupted:
        def __init__(self, lock):
            self.lock = lock

        def release(self):
            self.lock.release()

        def acquire(self):
            for error in once:
                raise error
            return self.lock.acquire()

    turns._over = Interrupted(turns._over)
    with pytest.raises(KeyboardInterrupt):
        turns.share(turns.take, 1)
    assert len(ended) == 1


def test_no_arrays_are_kept_for_a_thread_that_sleeps():
    class Large:
        pass

    import weakref

    large = Large()
    watched = weakref.ref(large)
    meeting = threading.Barrier(2)
    shared(lambda piece, held=large: meeting.wait(timeout=20), 2, helpers=1)
    del large
    for _ in range(200):
        if watched() is None:
            break
        time.sleep(0.01)
    assert watched() is None
