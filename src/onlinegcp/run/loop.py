"""A run: a model, its stream and its directory, wired so that a kill loses nothing.

Per slice: score it, learn it, append new labels, replace the checkpoint, append the line. The
checkpoint holds the line as well and says which labels count, so that whatever is cut off in
between can be put right when the run is opened again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, final

from onlinegcp import runlog
from onlinegcp.anomaly import AnomalyTracker
from onlinegcp.digest.reading import Keeper
from onlinegcp.drawing.text import shown_modes
from onlinegcp.errors import DataError, StateError
from onlinegcp.events.stream import EventStream
from onlinegcp.losses import Loss
from onlinegcp.notebook.components import component_card
from onlinegcp.notebook.html import card
from onlinegcp.run import making
from onlinegcp.run.advancing import advance, after, collected
from onlinegcp.run.checkpoint import (
    Checkpoint,
    Labels,
    open_checkpoint,
    with_vocabularies,
    write_checkpoint,
)
from onlinegcp.run.disk import DiskSync
from onlinegcp.run.lines import written
from onlinegcp.run.progress import Progress
from onlinegcp.run.scoring import score_table
from onlinegcp.run.settings import event_settings
from onlinegcp.run.sources import describe, note
from onlinegcp.runlog.names import renumber
from onlinegcp.runlog.sources import Source
from onlinegcp.slices import Slice, as_slice
from onlinegcp.storage.labels import held
from onlinegcp.streaming import StreamingModel


@final
class Run:
    """A model that learns a stream and keeps its account in a directory.

    Made by `create` or `open`; use it as a context manager, which holds the lock.

    Attributes
    ----------
    path : Path
        The directory.
    model : StreamingModel
        The model.
    info : dict
        What run.json holds.
    n_steps : int
        Slices that have a line.
    n_sources : int
        Lines of sources.jsonl that count.
    labels : tuple of sequences of str, or None
        Names of the rows of each mode, if there are any: tuples, or `Labels` of thousands.
    busy : bool
        Whether a slice is in flight, rather than waited for.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from onlinegcp.streaming import OnlineGCP
    >>> rng = np.random.default_rng(0)
    >>> slices = [Slice.dense(rng.poisson(3.0, (4, 3)), time=t) for t in range(7)]
    >>> folder = Path(tempfile.mkdtemp(), "small.run")
    >>> with Run.create(folder, OnlineGCP(1, "poisson", init_slices=3), modes=["a", "b"]) as run:
    ...     run.learn(slices[:5])
    5
    >>> with Run.open(folder) as run:  # slices that were learned are passed over
    ...     run.learn(slices), run.n_steps
    (2, 7)
    """

    def __init__(self, path: Path, point: Checkpoint, info: dict[str, Any]) -> None:
        self.path, self.info = path, info
        self.busy = False
        self._point = point
        self._disk, self._digest = DiskSync(path), Keeper(path)
        self._source: Source | None = None  # of the stream at hand, until it is written down
        self._lock: runlog.Lock | None = None
        self._begun = self._broken = self._overwrite = False

    @property
    def model(self) -> StreamingModel:
        return self._point.model

    @property
    def n_steps(self) -> int:
        return self._point.n_steps

    @property
    def n_sources(self) -> int:
        return self._point.n_sources

    @property
    def labels(self) -> Labels | None:
        return self._point.labels

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, {self.n_steps:,} slices up to {self.last_time})"

    def _repr_html_(self) -> str:
        facts = f"{self.n_steps:,} slices up to {self.last_time}"
        if not self.n_steps:
            return card(f"Run {self.path}", facts)
        found = self.model.components(self.labels, modes=shown_modes(self.info["modes"]))
        return component_card(f"Run {self.path}", facts, found)

    # ---- making and opening

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        model: StreamingModel,
        *,
        modes: Sequence[str],
        labels: Sequence[Sequence[object]] | None = None,
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
    ) -> Run:
        """A new run. Its directory is made when the first slice has been learned.

        Parameters
        ----------
        path
            The directory; it may exist, but not hold a run.
        model
            Not fitted yet.
        modes
            Names of the modes.
        labels
            Names of the rows of each mode; a stream of events brings its own.
        events
            Settings of `from_events`, without the source, kept for `stream`.
        command
            How the run was started, kept for the report.
        unit
            What is counted, in the plural, such as "deaths"; by default the value, or "events".
        level
            Share of ordinary slices that may be flagged.
        top
            Cells to name per slice.
        period
            Slices after which they repeat, such as 7 for days; 1 for none, None to look for it.
        longer
            Whether `period` is a day, such as 24 for hours, of which a week is looked for.
        holidays
            Country whose holidays are days of their own, as `AnomalyTracker` takes it.
        hold_flagged
            Whether the odd rows of flagged slices are learned as they usually are.
        overwrite
            Whether a run that is there already may go, once the first new slice is learned.
        """
        folder = Path(path)
        runlog.check_new(folder, overwrite)
        info: dict[str, Any] = {
            **making.begin_settings(model),
            "modes": list(modes),
            "events": None if events is None else event_settings(events),
            "anomaly": making.anomaly_options(
                level, top, period, longer, holidays, hold_flagged, model
            ),
            "command": None if command is None else list(command),
            "unit": making.checked_unit(unit),
        }
        point = Checkpoint(model, AnomalyTracker(period, holidays, longer=longer))
        if labels is not None:
            point.labels = tuple(held(map(str, names)) for names in labels)
        run = cls(folder, point, info)
        run._overwrite = overwrite
        return run

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], *, write: bool = True, loss: Loss | None = None
    ) -> Run:
        """The run at `path`, as its last checkpoint left it.

        Parameters
        ----------
        path
            The directory.
        write
            Whether to take the lock and put right what an interruption left behind.
        loss
            The caller's own loss, where the run was made with one.
        """
        folder = Path(path)
        info = runlog.read_run_json(folder)
        if not write:
            run = cls(folder, open_checkpoint(folder, info, loss, repair=False), info)
            run._begun = True
            return run
        lock = runlog.Lock(folder)
        lock.acquire()
        try:
            if not (folder / runlog.CHECKPOINT).exists():
                making.put_back(folder)  # replacing it was cut off
                info = runlog.read_run_json(folder)
            run = cls(folder, open_checkpoint(folder, info, loss, repair=True), info)
            making.sweep(folder)
            making.drop(folder)
        except BaseException:
            lock.release()
            raise
        run._lock, run._begun = lock, True
        return run

    def close(self) -> None:
        """Wait until all is on disk, and give the lock back."""
        if self._lock is not None:
            try:
                self._disk.sync()
            finally:
                self._lock.release()
                self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- learning

    def stream(self, source: Any, **options: Any) -> EventStream:
        """The slices of a table of events, read as the run was told to, going on where it stands.

        Parameters
        ----------
        source
            Anything `from_events` takes. Rows of time bins that were learned are passed over.
        **options
            Settings of this source alone: since, until, in_order, close_last, format, max_gap.
        """
        from onlinegcp.events import from_events

        settings = self.info.get("events")
        if settings is None:
            raise StateError(
                f"{self.path} must be a run on events to read a table, but it was made from "
                "slices. Open it in Python, Run.open(path).learn(slices)."
            )
        cluster = getattr(self.model, "cluster", None)
        stream = from_events(source, **{"cluster": cluster, **settings, **options})
        if self._point.events is not None:
            state = with_vocabularies(self._point.events, self._point.labels)
            stream.restore(state, again=True)
        return stream

    def learn(
        self,
        stream: Iterable[Any],
        *,
        progress: Callable[[Progress], object] | None = None,
        hold_flagged: bool | None = None,
        stop: Callable[[], bool] | None = None,
        command: Sequence[str] | None = None,
    ) -> int:
        """Learn every slice of a stream, keeping the directory up to date.

        Parameters
        ----------
        stream
            Slices, or what `stream` returned. Slices whose time is not after that of the last one
            learned are passed over at the start, so that the same data may be given again.
        progress
            Called after every slice.
        hold_flagged
            Whether the odd rows of flagged slices are held; as the run was made by default.
        stop
            Asked after every slice whether to leave it at that.
        command
            How this was asked for, kept for the report.

        Returns
        -------
        n_slices
            Slices learned.
        """
        self._check_usable()
        hold = self.info["anomaly"]["hold_flagged"] if hold_flagged is None else hold_flagged
        events = stream if isinstance(stream, EventStream) else None
        self._source = describe(stream, self.n_steps + self.warming_up, command)
        try:
            return self._learn(stream, events, progress, hold, stop)
        except DataError as error:
            if not self._begun or self.last_time is None:
                raise
            raise DataError(
                f"{error} All up to {self.last_time} is kept in {self.path}: go on with update."
            ) from error
        finally:
            self._disk.sync()

    def _learn(
        self,
        stream: Iterable[Any],
        events: EventStream | None,
        progress: Callable[[Progress], object] | None,
        hold: bool,
        stop: Callable[[], bool] | None,
    ) -> int:
        before = events.n_events if events is not None else 0
        n_slices, total = 0, 0.0
        for x in self._unseen(stream, skip=events is None):
            self.busy = True
            try:
                lines = advance(self._point, self.info, x, events, hold=hold)
                self._store(lines)
                self._renumber(lines)
                if events is not None:
                    events.stored()
            finally:
                self.busy = False
            n_slices += 1
            total += x.total
            if progress is not None:
                counted = total if events is None else events.n_events - before
                progress(Progress(x.time, n_slices, counted, lines[-1] if lines else None))
            if stop is not None and stop():
                return n_slices
        if events is not None:
            # The rows of a bin that is still open are known only now.
            state = events.state(vocabularies=False)
            if state != self._point.events and (self._begun or state["open"] is not None):
                self.busy = True
                self._point.events = state
                self._store([])
                events.stored()
                self.busy = False
        return n_slices

    def score_events(self, source: Any, **options: Any) -> Any:
        """Score every event of a table by what the run has seen; see `run.scoring`."""
        point = self._point
        return score_table(source, self.info, point.labels, point.tracker, self.model, **options)

    @property
    def warming_up(self) -> int:
        """Slices collected for a warm start that is not over yet."""
        return len(collected(self.model) or ())

    @property
    def last_time(self) -> Any:
        """Time of the last slice learned: ISO text, a number, or None."""
        return written(self._point.last_time)

    def _renumber(self, lines: Sequence[runlog.Step]) -> None:
        """Let the names people gave follow patterns that have moved."""
        for line in lines:
            order = line.get("order")
            if order is not None:
                renumber(self.path, order)

    def _unseen(self, stream: Iterable[Any], *, skip: bool) -> Iterator[Slice]:
        # What lies there already may be announced; a stream is never asked before its turn.
        items = self.model.coming(stream) if isinstance(stream, Sequence) else stream
        slices = map(as_slice, items)
        return after(self._point.last_time, slices) if skip else slices

    # ---- the directory

    def _store(self, lines: list[runlog.Step]) -> None:
        """The checkpoint first, the lines second: see `runlog`."""
        self._broken = True  # until all of it is written
        self._begin()
        if self.info["format"] != runlog.FORMAT:
            self.info = runlog.write_run_json(self.path, self.info)
        try:
            self._write(lines)
        except BaseException:
            if self._overwrite:
                making.put_back(self.path)
            raise
        if self._overwrite:
            making.drop(self.path)
            self._overwrite = False
        self._disk.written()
        self._broken = False
        self._digest.written(self.n_steps)

    def _write(self, lines: list[runlog.Step]) -> None:
        point = self._point
        if self._source is not None:
            point.n_sources = note(self.path, point.n_sources, self._source)
            self._source = None
        texts = [runlog.encode_step(line) for line in lines]
        point.n_steps += len(texts)
        # Through JSON, so that what a resumed run reads is what this one goes on with.
        point.last_lines = [json.loads(text) for text in texts] or point.last_lines
        write_checkpoint(self.path, point)
        if texts:
            runlog.append_lines(self.path, texts)

    def _begin(self) -> None:
        """Make the directory of a new run, once there is something to keep."""
        if self._begun:
            return
        self._lock = making.begin(self.path, self.info, overwrite=self._overwrite)
        self.info = runlog.read_run_json(self.path)
        self._begun = True

    def _check_usable(self) -> None:
        if self._broken:
            raise StateError(
                f"the last slice must be in {self.path} before the next is learned, but writing it "
                "failed. Make room, then open the run again."
            )
        if self._begun and self._lock is None:
            raise StateError(
                f"{self.path} must be open for writing to learn, but it is not. Use Run.open(path)."
            )
