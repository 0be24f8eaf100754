"""A process that learns shards: it is told what to do, line by line, and tells how it goes.

It is started as a program of its own rather than forked, because threads of polars and of BLAS do
not survive a fork, and without importing the caller's script, which may have no guard against it.
It has its parent's lock on the run, and ends with its parent.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import sys
import traceback
from typing import IO, Any

READY = "ready"


def main() -> None:
    """Do what standard input says until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: the parent says when to stop
    _end_with_parent()
    # What a library prints must not be taken for an answer.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    orders = os.fdopen(os.dup(0), "r", encoding="utf-8", buffering=1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    _serve(orders, answers)


def _serve(orders: IO[str], answers: IO[str]) -> None:
    from onlinegcp.many.learning import Job, Task, learn_shard

    def tell(what: str, content: Any) -> None:
        answers.write(json.dumps([what, content]) + "\n")
        answers.flush()

    def stop() -> bool:
        # The only thing that is said during a task; also the end of the parent.
        return bool(select.select([orders], [], [], 0)[0])

    first = orders.readline()
    if not first:
        return
    job = Job(**json.loads(first))
    tell(READY, None)
    while line := orders.readline():
        order = json.loads(line)
        if order is None:  # to stop, when there was nothing to be stopped
            continue
        try:
            learn_shard(job, Task(**order), lambda news: tell("news", news), stop)
        except BaseException as error:
            kind = type(error).__name__
            tell("error", {"kind": kind, "text": str(error), "trace": traceback.format_exc()})
            return
        tell("done", order["shard"])


def _end_with_parent() -> None:
    """Ask the system to kill this process with its parent, where it can."""
    if sys.platform == "linux":
        set_death_signal = 1
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)
