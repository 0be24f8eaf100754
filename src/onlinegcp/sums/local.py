"""Pieces of work on the threads of this process; with one job, one after the other.

Threads are Python's: compiled code and NumPy release the interpreter lock, and pools of other
makes do not survive a fork or a second caller. Whoever asks for pieces does some of them itself,
so that one that is called from a piece, or that finds every thread busy, still comes to its end.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from onlinegcp.sums.adding import InOrder, Rows
from onlinegcp.sums.chunks import Chunks, RowChunks, add_tree
from onlinegcp.sums.crew import MOST_THREADS, Turns

Array = NDArray[Any]

# What may be done at the same time: a function of a piece's number, and how many there are. A pass
# gives some such steps, one after the other, and then its result.
Pieces = tuple[Callable[[int], object], int]
T = TypeVar("T")
Steps = Generator[Pieces, None, T]

# Pieces per thread, so that an unlucky thread can be helped out.
PIECES = 4
# Chunks whose row sums may wait to be added, which takes memory: so many per thread at least, and
# more if they are short (numbers, 32 MB).
WAITING = 2
WAITING_NUMBERS = 1 << 22


class Local:
    """Does pieces on up to `jobs` threads of this process.

    Parameters
    ----------
    jobs
        Threads, the caller's own included.
    """

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs

    def ready(self) -> None:
        """Refuse to begin if this cannot work."""

    def run(self, work: Callable[[int], object], count: int) -> None:
        """Call ``work(0)`` to ``work(count - 1)``, begun in this order; raise the first error."""
        helpers = min(self.jobs, count) - 1
        if helpers <= 0:
            for i in range(count):
                work(i)
            return
        turns = Turns(work, count)

        def begin() -> None:
            _engine.set(ONE)  # a piece is a whole: nothing in it is split again
            turns.take()

        turns.share(begin, helpers)

    def cells(
        self, function: Callable[..., tuple[Array, ...]], chunks: Chunks, small: tuple[Any, ...]
    ) -> Steps[list[list[Any]]]:
        """What `function` gives for runs of chunks, added up within each: lists to be added up."""
        cuts = self._runs(chunks.count)
        found: list[Any] = [None] * (len(cuts) - 1)

        def work(piece: int) -> None:
            part = chunks.part(cuts[piece], cuts[piece + 1])
            found[piece] = [add_tree(lines) for lines in function(part, *small)]

        yield work, len(found)
        return [list(parts) for parts in zip(*found, strict=True)]

    def spread(
        self,
        function: Callable[..., tuple[Array, ...]],
        chunks: RowChunks,
        modes: range,
        offsets: NDArray[np.int64],
        small: tuple[Any, ...],
        out: Array,
        *,
        fresh: bool,
    ) -> Steps[list[tuple[Array, ...]]]:
        """Add the row sums of every chunk to `out`, in the order of chunks; give their rest.

        With `fresh`, whatever was in the rows of these modes is gone.
        """
        found: list[Any] = [None] * chunks.count
        rows = Rows(chunks, modes, offsets, out, fresh=fresh)
        most = max(WAITING * self.jobs, WAITING_NUMBERS // max(1, rows.numbers))
        order = InOrder(rows, chunks.count, most)

        def work(chunk: int) -> None:
            def sums(memory: Array) -> tuple[list[int], Array]:
                places, target, found[chunk] = spread_chunk(
                    function, chunks, chunk, modes, memory, small
                )
                return places, target

            order.make(chunk, sums)

        if self.jobs == 1:  # one step, lest each piece is handed out

            def in_turn(_: int) -> None:
                for chunk in range(chunks.count):
                    work(chunk)

            yield in_turn, 1
        else:
            yield work, chunks.count
        rows.finish()
        return found

    def beside(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        """What independent calls give, made at the same time; each has its share of the threads."""
        share = Local(max(1, self.jobs // len(calls))) if len(calls) > 1 else self
        found: list[Any] = [None] * len(calls)

        def work(piece: int) -> None:
            with jobs(share):
                found[piece] = calls[piece]()

        self.run(work, len(calls))
        return found

    def _runs(self, count: int) -> list[int]:
        """Cut chunks into whole subtrees of their sum, a few per thread."""
        pieces, wanted = 1, PIECES * self.jobs if self.jobs > 1 else 1
        if count & (count - 1):  # then only single chunks are
            return list(range(count + 1))
        while pieces < min(wanted, count):
            pieces *= 2
        return _cut(0, count, pieces)


def _cut(first: int, last: int, pieces: int) -> list[int]:
    return [first + (last - first) * piece // pieces for piece in range(pieces + 1)]


def spread_chunk(
    function: Callable[..., tuple[Array, ...]],
    chunks: RowChunks,
    chunk: int,
    modes: range,
    scratch: Array,
    small: tuple[Any, ...],
) -> tuple[list[int], Array, tuple[Array, ...]]:
    """Row sums of one chunk: where each mode begins, sums (rows of `scratch`), and the rest."""
    spans = chunks.spans[chunk]
    places, rows = [0] * len(spans), 0
    for k in modes:
        low, high = spans[k]
        places[k] = rows - low
        rows += high - low
    target = scratch[:rows]
    target[...] = 0.0
    begins = np.array(places, dtype=np.int64)
    return places, target, function(chunks.part(chunk, chunk + 1), begins, target, *small)


ONE = Local(1)
_engine: ContextVar[Local | None] = ContextVar("onlinegcp_engine", default=None)


def engine() -> Local:
    """Who does the pieces at this place in the program."""
    return _engine.get() or ONE


@contextmanager
def jobs(n_jobs: int | Local | None) -> Iterator[Local]:
    """Let pieces be done by so many threads in this block, or by an engine.

    None leaves it to whoever has decided before; where nobody has, it takes every core.
    """
    if n_jobs is None:
        chosen = _engine.get() or Local(cores())
    else:
        chosen = n_jobs if isinstance(n_jobs, Local) else Local(n_jobs)
    chosen.ready()
    token = _engine.set(chosen)
    try:
        yield chosen
    finally:
        _engine.reset(token)


@lru_cache(maxsize=1)
def cores() -> int:
    """Cores this process may use: those it is bound to, and what its container grants."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(bound or 1, _granted()))


def _granted() -> int:
    """Processors' worth of time that a container may use (control groups, versions 2 and 1)."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            folder = Path("/sys/fs/cgroup/cpu")
            quota = (folder / "cpu.cfs_quota_us").read_text()
            period = (folder / "cpu.cfs_period_us").read_text()
        except OSError:
            return MOST_THREADS
    try:
        share = int(quota) / int(period)
    except ValueError:  # "max"
        return MOST_THREADS
    return max(1, math.ceil(share)) if share > 0 else MOST_THREADS
