"""Shards learned by several processes, or by this one: who is given what, and what they say."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, final

import onlinegcp
from onlinegcp import errors
from onlinegcp.errors import StateError
from onlinegcp.kernels.blas import one_blas_thread
from onlinegcp.losses import Loss
from onlinegcp.many.learning import Job, Task, Tell, learn_shard

Stop = Callable[[], bool]
# One shard is learned by one process, which leaves the cores to the others.
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS")
_PROGRAM = "from onlinegcp.many.worker import main; main()"
_WAIT = 0.1  # seconds between two looks at whether to stop


def learn_shards(
    job: Job,
    tasks: Sequence[Task],
    *,
    processes: int,
    tell: Tell,
    stop: Stop,
    lock: int | None = None,
    loss: Loss | None = None,
) -> None:
    """Learn all shards; the result does not depend on the number of processes.

    Parameters
    ----------
    job
        What is the same for all shards.
    tasks
        The shards; those that take longest should come first.
    processes
        How many to use; 1 for this one. What this one learns alone has as many threads.
    tell
        Given news as they come.
    stop
        Asked now and then whether to leave it at that.
    lock
        What holds the lock of the run; every process is given it.
    loss
        The caller's own loss. Functions cannot be sent to another process: this one learns all.
    """
    if processes <= 1 or len(tasks) <= 1 or loss is not None:
        with one_blas_thread():
            for task in tasks:
                if stop():
                    return
                learn_shard(job, task, tell, stop, loss, threads=processes)
        return
    with contextlib.ExitStack() as stack:
        number = min(processes, len(tasks))
        workers = [stack.enter_context(_Worker(job, lock)) for _ in range(number)]
        _serve(workers, deque(tasks), tell, stop)


def _serve(workers: Iterable[_Worker], tasks: deque[Task], tell: Tell, stop: Stop) -> None:
    with selectors.DefaultSelector() as ears:
        for worker in workers:
            ears.register(worker.answers, selectors.EVENT_READ, worker)
        stopping = False
        while ears.get_map():
            if not stopping and stop():
                stopping = True
                tasks.clear()
                for key in ears.get_map().values():
                    key.data.say(None)
            for key, _ in ears.select(_WAIT):
                worker = key.data
                for what, content in worker.heard():
                    if what == "news":
                        tell(content)
                    elif what == "error":
                        raise _error(content)
                    elif tasks:
                        worker.learn(tasks.popleft())
                    else:
                        ears.unregister(worker.answers)
                        break


@final
class _Worker:
    """A process, and what is said to it and heard of it."""

    def __init__(self, job: Job, lock: int | None) -> None:
        roots = [str(Path(onlinegcp.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={
                **os.environ,
                **dict.fromkeys(_ONE_THREAD, "1"),
                "PYTHONPATH": os.pathsep.join(filter(None, roots)),
            },
            pass_fds=() if lock is None else (lock,),
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.answers = self._process.stdout
        self._rest = b""
        self._shard: int | None = None
        self.say(asdict(job))

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self._process.kill()  # whatever it does can be cut off
        with contextlib.suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        self.answers.close()
        self._process.wait()

    def learn(self, task: Task) -> None:
        self._shard = task.shard
        self.say(asdict(task))

    def say(self, order: Any) -> None:
        assert self._process.stdin is not None
        # One that has ended is heard of in `heard`.
        with contextlib.suppress(OSError):
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()

    def heard(self) -> list[tuple[str, Any]]:
        """What it has said since; an error if it has ended."""
        content = os.read(self.answers.fileno(), 1 << 20)
        if not content:
            raise self._ended()
        *lines, self._rest = (self._rest + content).split(b"\n")
        return [(what, content) for what, content in map(json.loads, lines)]

    def _ended(self) -> StateError:
        code = self._process.wait()
        with contextlib.suppress(ValueError):
            code = signal.Signals(-code).name if code < 0 else code  # type: ignore[assignment]
        at = "" if self._shard is None else f" while it learned shard {self._shard}"
        return StateError(
            f"the processes that learn must live until the end, but one ended with {code}{at}. "
            "Perhaps memory ran out: use fewer of them. What was stored is kept; go on with update."
        )


def _error(told: Mapping[str, str]) -> Exception:
    """The error that a process met, as far as it can be the same here."""
    known = getattr(errors, told["kind"], None)
    if isinstance(known, type) and issubclass(known, Exception):
        return known(told["text"])
    if told["kind"] == "DamagedFile":
        return StateError(told["text"])
    if told["kind"] == "MemoryError":
        return MemoryError(told["text"])
    return RuntimeError(f"{told['kind']} in a process that learns:\n{told['trace']}")
