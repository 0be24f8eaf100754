"""Threads that help out, and the turns in which pieces of work are taken.

Helpers sleep between two calls, each at a bell of its own: ringing it takes a few microseconds,
where a queue that all of them share takes a tenth of a millisecond, as long as a short pass. One
that has not woken up when all is done is not waited for.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context

MOST_THREADS = 1024  # stands for no limit


class Turns:
    """Pieces that several threads take in turn, and what went wrong in them.

    Parameters
    ----------
    work
        Called with the number of every piece.
    count
        Pieces.
    """

    def __init__(self, work: Callable[[int], object], count: int) -> None:
        self._work, self._count, self._left, self._active = work, count, count, 0
        self._lock, self._over = threading.Lock(), threading.Lock()
        self._over.acquire()
        self._errors: list[tuple[int, BaseException]] = []

    def take(self) -> None:
        """Do pieces until none is left."""
        piece = self._next(None)
        while piece is not None:
            try:
                self._work(piece)
            except BaseException as error:
                self._errors.append((piece, error))
                self._stop()
            piece = self._next(piece)

    def share(self, begin: Callable[[], None], helpers: int) -> None:
        """Let so many helpers and this thread call `begin`, which takes; until all is done.

        Each has a context of its own, a copy of the caller's: NumPy's settings are in it.
        """
        outside, asked = copy_context(), []
        try:
            for _ in range(helpers):
                asked.append(_helper())
                asked[-1].ring(outside.copy().run, begin)
            outside.run(begin)
        finally:
            self._stop()
            for helper in asked:
                helper.call_off()
            self._wait()
        if self._errors:
            raise min(self._errors, key=lambda found: found[0])[1]

    def _next(self, done: int | None) -> int | None:
        with self._lock:
            if done is not None:
                self._active -= 1
            if self._left > 0:
                self._left -= 1
                self._active += 1
                return self._count - self._left - 1
            if done is not None and self._active == 0:
                self._over.release()
            return None

    def _stop(self) -> None:
        """Nobody begins another piece."""
        with self._lock:
            self._left = 0

    def _wait(self) -> None:
        """Until no piece is under way, whatever interrupts the waiting."""
        interrupt: BaseException | None = None
        while self._active:
            try:
                self._over.acquire()
            except BaseException as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt


class _Helper:
    """A thread that does what lies in its letter box when its bell rings."""

    def __init__(self) -> None:
        self._bell, self._letters = threading.Lock(), list[tuple[Callable[..., None], ...]]()
        self._bell.acquire()
        threading.Thread(target=self._live, name="onlinegcp", daemon=True).start()

    def ring(self, call: Callable[..., None], argument: Callable[[], None]) -> None:
        self._letters.append((call, argument))
        self._wake()

    def call_off(self) -> None:
        """Take the letter back, if it still lies there."""
        try:
            self._letters.pop()
        except IndexError:
            return
        _idle.append(self)

    def _wake(self) -> None:
        with suppress(RuntimeError):  # has been rung before, and not been heard yet
            self._bell.release()

    def _live(self) -> None:
        while True:
            self._bell.acquire()
            try:
                call, argument = self._letters.pop()
            except IndexError:
                continue
            call(argument)
            del call, argument  # nor are arrays kept for a thread that sleeps
            _idle.append(self)


_idle: list[_Helper] = []


def _helper() -> _Helper:
    try:
        return _idle.pop()
    except IndexError:
        return _Helper()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # threads do not survive a fork
