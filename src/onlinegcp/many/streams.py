"""Many streams in one directory: independent models, learned over all cores, kept together."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self, final

from onlinegcp import runlog
from onlinegcp.checks import check_jobs
from onlinegcp.errors import DataError, StateError
from onlinegcp.events import from_events
from onlinegcp.events.grouping import Groups, group_rows
from onlinegcp.events.tables import open_tables
from onlinegcp.events.temporary import TemporaryFolder
from onlinegcp.losses import Loss
from onlinegcp.many.files import STREAMS_JSON, is_many, read_settings, shard_numbers
from onlinegcp.many.learning import WARNINGS, Job, News, Task
from onlinegcp.many.pool import learn_shards
from onlinegcp.many.read_sources import begin_source, end_source
from onlinegcp.many.reading import Oddest, StreamFacts, facts_of, oddest
from onlinegcp.many.shard_files import shard_records
from onlinegcp.many.slice_files import write_slices
from onlinegcp.run import making
from onlinegcp.run.settings import event_settings
from onlinegcp.run.sources import describe
from onlinegcp.streaming import StreamingModel
from onlinegcp.sums.local import cores

# Streams of a shard at most; fewer where that would leave less than a few shards for every core.
MOST, SHARDS_AT_LEAST = 32, 64
PATIENCE = 3.0  # seconds: the processes of a run that was killed may still be ending
Progress = Callable[[News], object]


@final
class ManyStreams:
    """Thousands of independent models: one per customer, machine or shop.

    Made by `create` or `open`; use it as a context manager, which holds the lock. Every stream has
    the same settings and a model of its own, the one it would have in a run of its own. Bins are
    closed by the events of all: a stream that has none has an empty slice.

    Attributes
    ----------
    path : Path
        The directory.
    info : dict
        Settings of all streams.
    loss : Loss or None
        The caller's own loss, where the run was made with one.
    busy : bool
        Whether streams are being learned, rather than their rows read.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from onlinegcp import OnlineGCP, Slice
    >>> rng = np.random.default_rng(0)
    >>> shops = {
    ...     name: [Slice.dense(rng.poisson(3.0, (4, 3)), time=t) for t in range(6)]
    ...     for name in ("north", "south")
    ... }
    >>> folder = Path(tempfile.mkdtemp(), "shops.run")
    >>> model = OnlineGCP(1, "poisson", init_slices=3)
    >>> with ManyStreams.create(folder, model, modes=["a", "b"]) as many:
    ...     many.learn(shops, n_jobs=1).slices
    12
    """

    def __init__(self, path: Path, info: dict[str, Any], loss: Loss | None = None) -> None:
        self.path, self.info, self.loss = path, info, loss
        self.busy = False
        self._lock: runlog.Lock | None = None
        self._begun = self._overwrite = False
        self._new = False  # whether nothing of it is stored yet

    def __repr__(self) -> str:
        return f"ManyStreams({str(self.path)!r}, {len(self.places()):,} streams)"

    # ---- making and opening

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        model: StreamingModel,
        *,
        modes: Sequence[str] | None = None,
        labels: Sequence[Sequence[object]] | None = None,
        by: str | None = None,
        events: Mapping[str, Any] | None = None,
        command: Sequence[str] | None = None,
        unit: str | None = None,
        level: float = 0.01,
        top: int = 10,
        period: int | None = None,
        longer: bool = False,
        holidays: str | None = None,
        hold_flagged: bool = False,
        overwrite: bool = False,
    ) -> ManyStreams:
        """A new run of many streams. Its directory is made when the first source has been read.

        Parameters
        ----------
        path
            The directory; it may exist, but not hold a run.
        model
            What every stream begins with; not fitted yet.
        modes, labels
            Names of the modes, and of their rows, where streams are given as slices.
        by
            Column of the table that tells streams apart.
        events
            Settings of `from_events`, without the source.
        command, unit, level, top, period, longer, holidays, hold_flagged, overwrite
            As for `Run.create`, the same for all streams.
        """
        folder = Path(path)
        refuse_cluster(getattr(model, "cluster", None))
        if model.__sklearn_is_fitted__():
            raise DataError(
                "Every stream begins with a model that has learned nothing, but the one given is "
                "fitted. Give a new one with its parameters, such as sklearn.base.clone(model)."
            )
        if (events is None) != (by is None):
            raise DataError(
                "a table needs both a column to tell streams apart by and the settings of its "
                f"events, but by is {by!r} and events are {'not ' if events is None else ''}given. "
                "Give both, or none and a mapping of slices."
            )
        # What a kill left before the first shard was stored holds nothing.
        runlog.check_new(folder, overwrite or _is_hollow(folder))
        options = making.anomaly_options(level, top, period, longer, holidays, hold_flagged, model)
        info: dict[str, Any] = {
            **making.begin_settings(model),
            "modes": list(modes or ()),
            "labels": None if labels is None else [list(map(str, names)) for names in labels],
            "by": by,
            "events": None if events is None else event_settings(events),
            "unit": making.checked_unit(unit),
            "anomaly": options,
            "command": None if command is None else list(command),
        }
        loss = model.get_params(deep=False).get("loss")
        many = cls(folder, info, loss if _is_own(info) else None)
        many._overwrite, many._new = overwrite or _is_hollow(folder), True
        return many

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], *, write: bool = True, loss: Loss | None = None
    ) -> ManyStreams:
        """The run at `path`; see `Run.open`."""
        folder = Path(path)
        info = read_settings(folder)
        many = cls(folder, info, loss)
        many._begun = True
        if write:
            lock = runlog.Lock(folder)
            lock.acquire(patience=PATIENCE)
            try:
                if not shard_numbers(folder):
                    making.put_back(folder)  # replacing it was cut off
                    many.info = read_settings(folder)
                making.sweep(folder)
                making.drop(folder)
            except BaseException:
                lock.release()
                raise
            many._lock = lock
        return many

    def close(self) -> None:
        """Give the lock back."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def places(self) -> dict[str, int]:
        """The shard of every stream."""
        return {
            str(record["stream"]): number
            for number in shard_numbers(self.path)
            for record in shard_records(self.path, number)[0]
        }

    # ---- reading

    def facts(self) -> list[StreamFacts]:
        """What is known about every stream."""
        return facts_of(self.path)

    def oddest(self, top: int = 20, **options: Any) -> Oddest:
        """The oddest slices of all streams, sorted together; see `many.reading.oddest`."""
        return oddest(self.path, top, **options)

    # ---- learning

    def learn(
        self,
        source: Any,
        *,
        n_jobs: int | None = None,
        progress: Progress | None = None,
        stop: Callable[[], bool] | None = None,
        hold_flagged: bool | None = None,
        abandon: bool = False,
        **options: Any,
    ) -> News:
        """Learn what is new for every stream, over several processes.

        Parameters
        ----------
        source
            A table, as `from_events` takes it, or a mapping from names to slices. What was learned
            before is passed over, so that a source may be given again.
        n_jobs
            Processes to use; all cores by default. The result does not depend on it.
        progress
            Called with all `News` so far, several times a second.
        stop
            Asked now and then whether to leave it at that; give the source again to go on.
        hold_flagged
            Whether the odd rows of flagged slices are held; as the run was made by default.
        abandon
            Whether an earlier source that was not read to its end may stay so.
        **options
            Settings of this source alone: since, until, close_last, format, max_gap.

        Returns
        -------
        news
            What was learned.
        """
        if self._begun and self._lock is None:
            raise StateError(
                f"{self.path} must be open for writing to learn, but it is not. Use "
                "ManyStreams.open(path)."
            )
        processes = check_jobs(n_jobs) or cores()
        news = News()

        def tell(more: Mapping[str, Any]) -> None:
            news.add(more)
            self._settle()
            if progress is not None:
                progress(news)

        hold = self.info["anomaly"]["hold_flagged"] if hold_flagged is None else hold_flagged
        with TemporaryFolder("The rows of each stream are put together on disk") as folder:
            if self.info["by"] is None:
                work = self._of_slices(source, folder)
            else:
                work = self._of_rows(source, folder, options, news)
            self._begin(work)
            self.busy = True
            try:
                begin_source(self.path, work.source, abandon=abandon)
                stopped = stop or (lambda: False)
                tasks = self._tasks(work)
                news.n_streams = sum(len(task.streams) for task in tasks)
                learn_shards(
                    work.job(self, hold),
                    tasks,
                    processes=processes,
                    tell=tell,
                    stop=stopped,
                    lock=None if self._lock is None else self._lock.handle,
                    loss=self.loss,
                )
                if not stopped():
                    end_source(self.path)
            except BaseException:
                self._undo()
                raise
            finally:
                self.busy = False
                self._warn(news.warnings)
            self._settle()
        return news

    def _warn(self, told: Sequence[tuple[str, str, str]]) -> None:
        """Say once of each kind what streams were warned of."""
        kinds: dict[str, list[tuple[str, str]]] = {}
        for name, kind, text in sorted(told):
            kinds.setdefault(kind, []).append((name, text))
        for kind, found in kinds.items():
            (name, text), names = found[0], {name for name, _ in found}
            more = f" ({len(names) - 1:,} more were warned alike)" if len(names) > 1 else ""
            whose = f"{self.info['by'] or 'stream'} {name!r}: {text}{more}"
            warnings.warn(whose, WARNINGS[kind], stacklevel=3)

    def _of_slices(self, source: Any, folder: TemporaryFolder) -> _Work:
        if not isinstance(source, Mapping):
            raise DataError(
                "streams must be a mapping from names to slices, but "
                f"{type(source).__qualname__} was found. For a table, say by=... and how its "
                "events are read."
            )
        if not source and not self._begun:
            raise DataError("at least one stream was needed, but the mapping is empty. Name one.")
        fresh = {
            str(name): write_slices(slices, folder.path, str(number))
            for number, (name, slices) in enumerate(source.items())
        }
        if len(fresh) < len(source):
            raise DataError(
                "The names of streams must differ as text, but some do not. Rename them."
            )
        return _Work(fresh, {name: len(files) for name, files in fresh.items()})

    def _of_rows(
        self, source: Any, folder: TemporaryFolder, options: Mapping[str, Any], news: News
    ) -> _Work:
        tables = open_tables(source, format=options.get("format"))
        given = {name: value for name, value in options.items() if name != "format"}
        settings = {**self.info["events"], **given}
        stream = from_events(tables, **settings)  # refuses what cannot be
        described = describe(stream, 0)
        self.info["modes"] = list(stream.mode_names)
        stream.close()
        groups = group_rows(tables, self.info["by"], settings, folder, self.info.get("columns"))
        news.count({"read": groups.n_unnamed, "dropped": groups.n_unnamed})
        closed = self._closed()
        groups.check_gaps(closed, settings)
        if not groups.labels and not self._begun:
            raise DataError(
                f"at least one stream was needed, but no row has a {self.info['by']!r}. Check the "
                "source, --by, --since and --until."
            )
        clock = groups.clock(closed, close_last=bool(given.get("close_last", True)))
        return _Work(
            dict(zip(groups.labels, groups.pieces, strict=True)),
            dict(zip(groups.labels, groups.n_rows, strict=True)),
            described,
            groups,
            None if clock is None else asdict(clock),
            given,
        )

    def _closed(self) -> int | None:
        """The last bin that any stream has closed."""
        found = [
            (record.get("events") or {}).get("closed")
            for number in shard_numbers(self.path)
            for record in shard_records(self.path, number)[0]
        ]
        return max((key for key in found if key is not None), default=None)

    def _tasks(self, work: _Work) -> list[Task]:
        """Every shard with what is new for its streams, the longest first."""
        known = self.places()
        streams: dict[int, list[str]] = {}
        for name, shard in known.items():
            streams.setdefault(shard, []).append(name)
        room = 0
        for name in work.fresh:
            if name not in known:
                while len(streams.setdefault(room, [])) >= self.info["per_shard"]:
                    room += 1
                streams[room].append(name)
        tasks = [
            Task(shard, [(name, list(work.fresh.get(name, ()))) for name in names])
            for shard, names in sorted(streams.items())
            if work.groups is not None or any(name in work.fresh for name in names)
        ]
        sizes = {
            task.shard: sum(work.sizes.get(name, 0) for name, _ in task.streams) for task in tasks
        }
        return sorted(tasks, key=lambda task: -sizes[task.shard])

    # ---- the directory

    def _begin(self, work: _Work) -> None:
        """Make the directory of a new run, now that the source can be read."""
        if self._begun:
            return
        each = math.ceil(len(work.fresh) / SHARDS_AT_LEAST)
        self.info["per_shard"] = max(1, min(MOST, each))
        self.info["columns"] = None if work.groups is None else work.groups.columns
        self._lock = making.begin(
            self.path, self.info, overwrite=self._overwrite, write=STREAMS_JSON.write
        )
        self._begun = True

    def _settle(self) -> None:
        """Let go of the run that was replaced, once this one has something to keep."""
        if self._new and shard_numbers(self.path):
            making.drop(self.path)
            self._new = False

    def _undo(self) -> None:
        """Leave nothing of a new run that has nothing."""
        self._settle()
        if not self._new:
            return
        if (self.path / making.REPLACED).is_dir():
            making.put_back(self.path)
        else:
            making.remove(self.path)


@final
class _Work:
    """What is new for the streams: where it lies, how much it is, and how it is to be read."""

    def __init__(
        self,
        fresh: Mapping[str, Sequence[Any]],
        sizes: Mapping[str, int],
        source: dict[str, Any] | None = None,
        groups: Groups | None = None,
        clock: dict[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.fresh, self.sizes, self.groups, self._clock = fresh, sizes, groups, clock
        self.source = source or {"after": 0, "kind": "slices"}
        self._options = dict(options or {})

    def job(self, many: ManyStreams, hold: bool) -> Job:
        wanted = None if self.groups is None else self.groups.wanted
        by = many.info["by"] or "stream"
        # Through JSON, because another process may be told: dates become their text.
        options = json.loads(runlog.encode_step(self._options))
        return Job(str(many.path), many.info, by, wanted, self._clock, options, hold)


def refuse_cluster(cluster: object) -> None:
    """Refuse a cluster: each process that learns streams would use, or start, its own."""
    if cluster is not None:
        raise DataError(
            f"many streams are learned side by side by processes of this machine, but a cluster "
            f"was given ({cluster}). Leave it out; n_jobs (--jobs) says how many processes."
        )


def _is_hollow(folder: Path) -> bool:
    """Whether a directory was made for many streams and has none, as after an early kill."""
    return is_many(folder) and not shard_numbers(folder) and not (folder / making.REPLACED).exists()


def _is_own(info: Mapping[str, Any]) -> bool:
    """Whether the loss was made from functions, which no file holds."""
    loss = info["model"]["parameters"].get("loss")
    return isinstance(loss, dict) and "own_loss" in loss
