"""What one process does: learn the streams of a shard, one after the other, and store them."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, final

from onlinegcp import errors
from onlinegcp.errors import DataError
from onlinegcp.events import from_events
from onlinegcp.events.clock import Clock
from onlinegcp.events.grouping import Piece, rows_of
from onlinegcp.events.stream import EventStream
from onlinegcp.losses import Loss
from onlinegcp.many.shard import Held, Shard
from onlinegcp.many.slice_files import read_slices
from onlinegcp.run.advancing import advance, after, collected
from onlinegcp.run.checkpoint import with_vocabularies
from onlinegcp.run.delivery import message_of
from onlinegcp.slices import Slice
from onlinegcp.sums.local import jobs

# A kill costs what was learned since the shard was last stored; storing takes some hundredths of a
# second.
STORE_SECONDS = 10.0
TELL_SECONDS = 0.2
WARNINGS = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, UserWarning)
}


@final
@dataclass
class Job:
    """What is the same for all shards of one source, ready for JSON.

    Attributes
    ----------
    folder
        The run directory.
    info
        Its settings.
    by
        What the streams are told apart by, for errors.
    wanted
        Columns that the streams need; None if they are given as slices.
    clock
        The fields of the table's clock; None if there is none.
    options
        Arguments of `from_events` for this source.
    hold
        Whether the odd rows of flagged slices are held.
    """

    folder: str
    info: dict[str, Any]
    by: str
    wanted: list[str] | None
    clock: dict[str, Any] | None
    options: dict[str, Any]
    hold: bool


@final
@dataclass
class Task:
    """A shard, and what is new for each of its streams: pieces of rows, or files of slices."""

    shard: int
    streams: list[tuple[str, list[Any]]]


@dataclass
class News:
    """What has happened since the last time it was told, ready for JSON.

    Attributes
    ----------
    slices, scored, flagged, streams
        How many were learned, scored, flagged, and are done.
    n_streams
        Streams in all, which the whole tells and its parts do not.
    total
        Sum of their values.
    rows
        What became of the rows, as `events.Account` counts them.
    messages
        Alarms that began or ended.
    newest
        Flagged slices of the newest bin.
    problems
        Streams that stopped, and why.
    warnings
        Streams that were warned of, the kind of warning, and what it says.
    """

    slices: int = 0
    scored: int = 0
    flagged: int = 0
    streams: int = 0
    n_streams: int = 0
    total: float = 0.0
    rows: dict[str, int] = field(default_factory=dict)
    messages: list[dict[str, Any]] = field(default_factory=list)
    newest: list[dict[str, Any]] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)
    warnings: list[tuple[str, str, str]] = field(default_factory=list)

    def count(self, rows: Mapping[str, int]) -> None:
        """What became of some more rows."""
        for name, number in rows.items():
            self.rows[name] = self.rows.get(name, 0) + number

    def add(self, other: Mapping[str, Any]) -> None:
        """Take in what another one says."""
        for name in ("slices", "scored", "flagged", "streams", "total"):
            setattr(self, name, getattr(self, name) + other[name])
        self.count(other["rows"])
        for name in ("messages", "newest", "problems", "warnings"):
            getattr(self, name).extend(other[name])


Tell = Callable[[Mapping[str, Any]], object]


def learn_shard(
    job: Job,
    task: Task,
    tell: Tell,
    stop: Callable[[], bool],
    loss: Loss | None = None,
    *,
    threads: int = 1,
) -> None:
    """Learn what is new for the streams of a shard.

    Parameters
    ----------
    job, task
        What is to be done.
    tell
        Given the `News` as a mapping, now and then and at the end.
    stop
        Asked after every slice whether to leave it at that; all that was learned is stored.
    loss
        The caller's own loss, where the run was made with one.
    threads
        Those of a model that was given no number: other processes have the other cores.
    """
    with jobs(threads):
        _Learner(job, task, tell, stop, loss).learn()


@final
class _Learner:
    def __init__(
        self, job: Job, task: Task, tell: Tell, stop: Callable[[], bool], loss: Loss | None
    ) -> None:
        self._job, self._task, self._tell, self._stop = job, task, tell, stop
        self._shard = Shard(Path(job.folder), task.shard, job.info, loss)
        self._clock = None if job.clock is None else Clock(**job.clock)
        self._news, self._stopped, self._changed = News(), False, False
        self._stored = self._told = time.monotonic()

    def learn(self) -> None:
        """Every stream of the shard, until one asks to stop."""
        for label, source in self._task.streams:
            self._changed |= label not in self._shard.streams
            held = self._shard.stream(label)
            if source or self._behind(held):
                self._changed = True
                problem, held.problem = held.problem, None
                with self._named(label):
                    self._one(label, held, source)
                self._changed |= held.problem != problem
            if self._stopped:
                break
            self._news.streams += 1
        if self._changed:
            self._shard.store()
        self._report(now=True)

    @contextlib.contextmanager
    def _named(self, label: str) -> Iterator[None]:
        """Keep our warnings as news of a stream: nobody else knows which of them is meant."""
        with warnings.catch_warnings(record=True) as heard:
            for ours in WARNINGS.values():
                warnings.simplefilter("always", ours)  # each process would say it once
            yield
        for one in heard:
            kind = one.category.__name__
            if kind in WARNINGS:
                self._news.warnings.append((label, kind, str(one.message)))
            else:
                warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)

    def _behind(self, held: Held) -> bool:
        """Whether the clock has gone on for a stream without news of its own."""
        if self._clock is None or held.point.events is None:
            return False
        closed, opened = held.point.events["closed"], held.point.events["open"]
        return (closed is not None or opened is not None) and (closed or 0) < self._clock.open_from

    def _one(self, label: str, held: Held, source: list[Any]) -> None:
        point = held.point
        try:
            with self._slices(label, held, source) as (slices, events):
                for x in slices:
                    lines = advance(point, self._job.info, x, events, hold=self._job.hold)
                    point.n_steps += len(lines)
                    self._note(label, x, lines)
                    if self._stopped:
                        return
                if events is not None:
                    # The rows of a bin that is still open are known only now.
                    point.events = events.state(vocabularies=False)
                    self._news.count(vars(events.rows))
        except DataError as error:
            held.problem = str(error)
            self._news.problems.append((label, held.problem))
        finally:
            held.account.warming_up = len(collected(point.model) or ())

    def _note(self, label: str, x: Slice, lines: list[Any]) -> None:
        news = self._news
        news.slices += 1
        news.total += x.total
        for line in lines:
            step = self._shard.note(label, line)
            anomaly = step.get("anomaly")
            if anomaly:
                news.scored += 1
                news.flagged += bool(anomaly["flagged"])
                if anomaly["flagged"] and self._clock is not None:
                    news.newest.append(_brief(label, step))
            message = message_of(step, Path(self._job.folder).name)
            if message is not None:
                news.messages.append({"stream": label, **message})
        now = time.monotonic()
        self._report()
        if now - self._stored > STORE_SECONDS:
            self._shard.store()
            self._stored = time.monotonic()
        self._stopped = self._stop()

    def _report(self, *, now: bool = False) -> None:
        if now or time.monotonic() - self._told > TELL_SECONDS:
            self._tell(asdict(self._news))
            self._news, self._told = News(), time.monotonic()

    @contextlib.contextmanager
    def _slices(
        self, label: str, held: Held, source: list[Any]
    ) -> Iterator[tuple[Iterator[Slice], EventStream | None]]:
        """What a stream is to learn: of its rows, or the slices that were given."""
        job = self._job
        if job.wanted is None:
            yield after(held.point.last_time, read_slices(source)), None
            return
        pieces: list[Piece] = [(file, start, end) for file, start, end in source]
        tables = rows_of(pieces, job.wanted, f"the rows of {job.by} {label!r}")
        settings = {**job.info["events"], **job.options}
        stream = from_events(tables, **settings)
        if held.point.events is not None:
            state = with_vocabularies(held.point.events, held.point.labels)
            stream.restore(state, again=True)
        if self._clock is not None:
            stream.follow(self._clock)
        try:
            yield stream, stream
        finally:
            stream.close()


def _brief(label: str, step: Any) -> dict[str, Any]:
    anomaly = step["anomaly"]
    known = ("score", "severity", "sentence")
    return {"stream": label, "time": step["time"], **{name: anomaly.get(name) for name in known}}
