"""The stream of slices itself: bins are filled, closed and handed out, and all of it can resume.

A bin is closed when a row of a later bin has been read, or at the end. Sources that can be read
twice are looked through first: if their rows, or whole files, are in order of time they are then
streamed, else sorted on disk. Memory follows the cells of a bin and the labels, not the events.
"""

from __future__ import annotations

import functools
import itertools
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self, final

import numpy as np

from onlinegcp.errors import DataError, StateError
from onlinegcp.events import shown
from onlinegcp.events.account import Account
from onlinegcp.events.cells import Cells, Entries, fold
from onlinegcp.events.clock import Clock
from onlinegcp.events.modes import Mode
from onlinegcp.events.open_bin import pack_bin, slice_of, unpack_bin
from onlinegcp.events.options import Groups, Options
from onlinegcp.events.order import all_rows, most_frequent
from onlinegcp.events.places import Ints, places
from onlinegcp.events.refusals import gap_error, late_error
from onlinegcp.events.remote.visit import Visit
from onlinegcp.events.rows import RowReader, Rows
from onlinegcp.events.seen import (
    Passing,
    Print,
    Returning,
    Seen,
    marks_of_codes,
    print_of,
    restored,
)
from onlinegcp.events.table_parts import Tables
from onlinegcp.events.vocabulary import Vocabulary
from onlinegcp.events.wall_clock import Ticks
from onlinegcp.slices import Slice

_VERSION = 1
_COUNTERS = ("n_slices", "n_events", "n_late", "n_null")


@final
class EventStream:
    """Slices of a table of events, in order of time and without gaps; made by `from_events`.

    It is read once, like a file. Between two slices, all attributes and `state` speak of the
    slices handed out so far, however much has been read ahead.

    Attributes
    ----------
    mode_names : tuple of str
        Names of the modes.
    labels : tuple of sequences of str
        Labels of every mode in the order of their codes. They only ever grow at the end. Each is a
        tuple or, where there are thousands, `Labels`, which reads like one.
    shape : tuple of int
        Number of labels of every mode, 0 where none has been seen.
    n_slices, n_events : int
        Slices handed out, and events in them.
    n_late : int
        Rows dropped because their bin was closed already.
    n_null : int
        Rows dropped because time, key or value was missing.
    n_outside, n_again, n_read, n_rows : int or None
        Rows of this source: dropped because of `since` and `until`, read and learned before, passed
        so far, and in all, None if it was not looked through.
    partial : bool
        Whether the slice handed out last was cut off: the source ends, or begins, within its bin.
    source : dict
        What it reads, so that it can be read again: `kind` ("files", "table", "live", "database" or
        "log"), `files`, and the `options` that belong to this source alone.

    Examples
    --------
    >>> from onlinegcp.events import from_events
    >>> sales = {"day": ["2024-01-01", "2024-01-01", "2024-01-03"], "shop": ["a", "b", "a"]}
    >>> stream = from_events(sales, time="day", every="1d", modes=["shop"])
    >>> [x.total for x in stream], stream.labels, stream.n_events
    ([2.0, 0.0, 1.0], (('a', 'b'),), 3)
    """

    def __init__(self, tables: Tables, reader: RowReader, groups: Groups, options: Options) -> None:
        self._tables, self._reader, self._groups, self._options = tables, reader, groups, options
        self.mode_names = tuple(mode.name for mode in reader.modes)
        self.n_slices = self.n_events = self.n_late = self.n_null = self.n_outside = 0
        self.n_read = self.n_again = 0
        self.partial = False
        self.source: dict[str, Any] = {}
        self._closed: int | None = None  # key of the last bin handed out or passed over
        self._seen: int | None = None  # rows up to this bin are passed over in silence
        self._latest: int | None = None  # latest bin of any row of this source so far
        self._late: Counter[int] = Counter()  # late rows, by the bin that was open then
        self._before = Account()  # of the sources before this one
        self._fingerprints = Seen()
        self._passing: Passing | None = None  # while rows up to `_seen` come in
        self._returning: Returning | None = None  # while those of the open bin may come again
        self._untimed = 0  # rows without a time before the first that has one
        self._open: tuple[int, Cells] | None = None
        self._visit = Visit(tables.place)
        self._clock: Clock | None = None  # of the table, if this is one of many streams of it
        self._silent = 0  # empty bins in a row
        self._restored = False
        self._slices: Iterator[Slice] | None = None
        self._finished = False
        self._set_vocabularies(options.known)

    def __repr__(self) -> str:
        return shown.as_line(self, self._reader.bins.every)

    def _repr_html_(self) -> str:
        return shown.as_card(self, self._reader.bins.every)

    @property
    def labels(self) -> tuple[Sequence[str], ...]:
        vocabularies = self._reader.vocabularies
        return tuple(
            vocabularies[mode.name].labels if mode.labels is None else mode.labels
            for mode in self._reader.modes
        )

    @property
    def n_rows(self) -> int | None:
        return self._reader.n_rows

    @property
    def shape(self) -> tuple[int, ...]:
        vocabularies = self._reader.vocabularies
        return tuple(
            len(vocabularies[mode.name]) if mode.labels is None else len(mode.labels)
            for mode in self._reader.modes
        )

    def __iter__(self) -> Self:
        if self._finished:
            raise StateError(
                "A stream of events can be read once, but this one has been read to its end. Call "
                "from_events again, or keep the slices in a list."
            )
        return self

    def __next__(self) -> Slice:
        if self._slices is None:
            # A stream that is dropped half-way is to be gone at once, with its open files.
            self._slices = EventStream._run(weakref.proxy(self))
        try:
            return next(self._slices)
        except StopIteration:
            self._finished = True
            raise

    def close(self) -> None:
        """Stop reading and let go of files."""
        if self._slices is not None:
            self._slices.close()  # type: ignore[attr-defined]
        self._finished = True

    def places(self) -> Iterator[tuple[list[tuple[Any, Ints]], Ints]]:
        """Where the rows of the source went, once all slices are out; see `events.places`."""
        return places(self._tables, self._reader)

    def state(self, *, vocabularies: bool = True) -> dict[str, Any]:
        """Everything that must be kept to go on later, ready for JSON.

        After the last slice this also holds the rows of an open bin (``close_last=False``). Before
        that, rows that were read ahead are not in it: give `restore` the same source again, with
        ``again=True``.

        Parameters
        ----------
        vocabularies
            Whether the labels are in it. If not, add them before `restore`, under this name: all
            `labels` of the first mode of each of the groups in "shared".
        """
        known = self._reader.vocabularies
        labels = {group[0]: [*known[group[0]].labels] for group in self._groups if vocabularies}
        return {
            "version": _VERSION,
            **self._settings(),
            **({"vocabularies": labels} if vocabularies else {}),
            "columns": self._reader.state(),
            "closed": self._closed,
            "open": self._visit.open_bin(self._closed, self._packed_bin),
            "positions": self._visit.positions(self._closed),
            "seen": self._fingerprints.state(),
            **{name: getattr(self, name) for name in _COUNTERS},
            **({} if self._clock is None else {"silent": self._silent}),
        }

    def restore(self, state: Mapping[str, Any], *, again: bool = False) -> Self:
        """Go on where another stream stopped: same codes, same counters, no bin twice.

        Parameters
        ----------
        state
            From `state`, perhaps by way of JSON.
        again
            Whether the source starts again with rows that are in the state already, as after a
            crash; they are then passed over, instead of being taken for late.
        """
        if self._slices is not None:
            raise StateError(
                "A state must be restored before the first slice, but slices have been read. Call "
                "from_events again and restore first."
            )
        if not isinstance(state, Mapping) or state.get("version") != _VERSION:
            found = state.get("version") if isinstance(state, Mapping) else type(state).__name__
            raise StateError(
                f"A state of version {_VERSION} is needed, but {found!r} was found. Use the "
                "version of onlinegcp that wrote it."
            )
        for name, wanted in self._settings().items():
            if state[name] != wanted:
                raise StateError(
                    f"A stream can go on only as it began, but {name} was {state[name]!r} and is "
                    f"{wanted!r} now. Use the same settings, or start afresh."
                )
        again = not self._visit.restore(state) and again  # a log goes on after its last row
        self._restored = bool(state["n_slices"] or state["open"])
        self._set_vocabularies(state["vocabularies"])
        self._reader.restore(state["columns"])
        self._closed = state["closed"]
        self._seen = self._closed if again else None
        self._open = None
        if state["open"]:
            self._open = unpack_bin(state["open"], self._options.aggregation, *self._names)
        for name in _COUNTERS:
            setattr(self, name, int(state[name]))
        self._silent = int(state.get("silent", 0))
        self._fingerprints = restored(state)
        if self._seen is not None:
            cells = functools.partial(Cells, self._options.aggregation)
            self._passing = Passing(self._fingerprints, cells, *self._names)
        self._before = self.account
        return self

    def follow(self, clock: Clock) -> Self:
        """Be one of many: all close bins for each, which sleeps after `max_gap` silent ones."""
        self._clock = clock
        if not self._restored:
            self._reader.restore(clock.columns)
        return self

    def stored(self) -> None:
        """What `state` told last is stored: a log need not keep rows up to there."""
        self._visit.stored()

    def _packed_bin(self) -> dict[str, Any] | None:
        return None if self._open is None else pack_bin(*self._open, *self._names)

    @property
    def _names(self) -> tuple[Sequence[Mode], Mapping[str, Vocabulary]]:
        return self._reader.modes, self._reader.vocabularies

    def _settings(self) -> dict[str, Any]:
        """What must be the same when a stream goes on."""
        return {
            "modes": list(self.mode_names),
            "every": self._reader.bins.every,
            "timezone": self._reader.time.given_zone,
            "aggregation": self._options.aggregation,
            "shared": [list(group) for group in self._groups],
        }

    def _set_vocabularies(self, known: Mapping[str, Sequence[str]], *strangers: str) -> None:
        """One vocabulary per group; groups in `strangers` read what they do not know as other."""
        for group in self._groups:
            on_new = "other" if group[0] in strangers else self._options.on_new
            vocabulary = Vocabulary(known.get(group[0], ()), on_new=on_new)
            self._reader.vocabularies |= dict.fromkeys(group, vocabulary)

    def _start(self) -> None:
        """Settle what depends on whether a state was restored."""
        refuse = self._options.on_late == "error"
        n_late = self._visit.begin(self._reader, self._closed, refuse_late=refuse)
        self.n_late, self.n_read = self.n_late + n_late, self.n_read + n_late
        top = {} if self._restored else self._options.top
        if top:
            groups = {group: top[group[0]] for group in self._groups if group[0] in top}
            found = most_frequent(self._tables.parts, self._reader, groups)
            known: dict[str, Sequence[str]] = {g[0]: labels for g, labels in found.items()}
            self._set_vocabularies({**self._options.known, **known}, *known)
        elif self._options.top:
            all_known = self._reader.vocabularies
            known = {group[0]: all_known[group[0]].labels for group in self._groups}
            self._set_vocabularies(known, *self._options.top)
        if self._options.on_new == "grow" or self._restored:
            return
        for group in self._groups:
            if group[0] not in self._options.known and group[0] not in top:
                raise DataError(
                    f"on_new={self._options.on_new!r} needs to know which labels are old, but mode "
                    f"{group[0]!r} has no vocabulary. Give vocabulary=... or top=..., restore a "
                    "state, or use on_new='grow'."
                )

    def _on_time(self, rows: Rows) -> Rows:
        """Leave out rows whose bin has been closed by a row before them."""
        if not len(rows):
            return rows
        start = int(rows.keys[0]) if self._latest is None else self._latest
        ordered = rows.keys[0] >= start and bool((rows.keys[1:] >= rows.keys[:-1]).all())
        latest = rows.keys if ordered else np.maximum(np.maximum.accumulate(rows.keys), start)
        self._latest = int(latest[-1])
        if self._seen is not None and latest[0] <= self._seen:
            fresh = latest > self._seen
            self._pass(rows.take(~fresh), latest[~fresh])
            rows, latest = rows.take(fresh), latest[fresh]
            if not len(rows):
                return rows
        self._end_passing()
        floor = int(latest[0])
        if self._open is not None:
            floor = self._open[0]
        elif self._closed is not None:
            floor = self._closed + 1
        if ordered and latest[0] >= floor:
            return rows
        late = rows.keys < (latest := np.maximum(latest, floor))
        if not late.any():
            return rows
        if self._options.on_late == "error":
            first = int(np.argmax(late))
            raise late_error(rows.where(first), self._time(rows.keys[first]))
        self._late.update(latest[late].tolist())
        return rows.take(~late)

    def _pass(self, rows: Rows, latest: Ticks) -> None:
        """Rows of bins that are closed since before this source: read then, or late."""
        assert self._passing is not None
        self.n_again, self._untimed = self.n_again + self._untimed, 0
        self._passing.take(rows, latest)

    def _end_passing(self) -> None:
        """The first row of a bin that is not closed has come, or the end."""
        if self._passing is None:
            return
        passed, self._passing = self._passing, None
        passed.finish()
        self.n_again += passed.n_again
        if passed.n_again and self._open is not None:
            self._returning = Returning(self._open[1], *self._names)
        if passed.late and self._options.on_late == "error":
            key, where = passed.first_late or (min(passed.late), "a row of the source")
            raise late_error(where, self._time(key))
        self.n_late += sum(passed.late.values())

    def _end_returning(self) -> None:
        """The open bin has all its rows, or all there are."""
        returning, self._returning = self._returning, None
        self.n_again += 0 if returning is None else returning.finish()

    @property
    def account(self) -> Account:
        """What became of all rows read so far, of this source and those before."""
        cells = None if self._open is None else self._open[1]
        return Account(
            read=self.n_read,
            learned=self.n_events,
            waiting=0 if cells is None else cells.n_events + cells.n_null,
            late=self.n_late + sum(self._late.values()),
            dropped=self.n_null + self._untimed,
            outside=self.n_outside,
            again=self.n_again,
        )

    @property
    def rows(self) -> Account:
        """What became of the rows of this source."""
        return self.account.since(self._before)

    def _count_late(self, up_to: int | None = None) -> None:
        """Count the late rows that came while bins up to this one were open, or all."""
        for key in [key for key in self._late if up_to is None or key <= up_to]:
            self.n_late += self._late.pop(key)

    def _check_gap(self, key: int, rows: Rows, position: int) -> None:
        """Refuse to make very many empty slices."""
        bins, options = self._reader.bins, self._options
        if self._closed is None or options.empty == "skip" or self._clock is not None:
            return
        n_between = bins.between(self._closed, key) - 1
        if n_between > options.max_gap:
            times = self._time(self._closed), self._time(key)
            raise gap_error(rows.where(position), *times, n_between, options.max_gap)

    def _pass_over(self, key: int) -> bool:
        """Go to the next bin, if there is one without events before this one."""
        if self._closed is None or self._options.empty == "skip":
            return False
        following = self._reader.bins.after(self._closed)
        if following >= key:
            return False
        self._closed = following
        return True

    def _empty_slice(self) -> Slice | None:
        """The slice of a bin without events."""
        # Before the first label there is no shape, and nothing to say.
        if self._options.empty == "skip" or not all(self.shape) or self._closed is None:
            return None
        self._silent += 1
        if self._clock is not None and self._silent > self._options.max_gap:
            return None
        self.n_slices += 1
        self.partial = self._clock is not None and self._clock.cut_at_start(self._closed)
        time = self._time(self._closed)
        return Slice([], [], self.shape, time=time, unlisted=self._options.empty)

    def _time(self, key: Any) -> Any:
        return self._reader.bins.time(int(key))

    def _close(self) -> Slice | None:
        """The slice of the open bin."""
        assert self._open is not None
        self._end_returning()
        (self._closed, cells), self._open = self._open, None
        edges = self._clock or self._reader.edges
        self.partial = edges is not None and edges.cut_at_start(self._closed)
        self._count_late(self._closed)
        self.n_events += cells.n_events
        self.n_null += cells.n_null
        if cells.empty:
            self._fingerprints.note(self._closed, Print(cells.n_rows, 0, 0.0))
            return self._empty_slice()
        self._silent = 0
        entries = cells.held()
        vocabularies = self._reader.vocabularies
        ids = dict(zip(self.mode_names, entries.ids, strict=True))
        for group in self._groups:
            vocabularies[group[0]].settle([ids[name] for name in group])
        codes = tuple(
            vocabularies[mode.name].codes(ids[mode.name]) if mode.labels is None else ids[mode.name]
            for mode in self._reader.modes
        )
        found = fold(Entries(codes, entries.total, entries.weight), self._options.aggregation)
        told = print_of(found, marks_of_codes(*self._names), cells.n_rows)
        self._fingerprints.note(self._closed, told)
        self.n_slices += 1
        time = self._time(self._closed)
        return slice_of(found, self._options.aggregation, self.shape, time)

    def _run(self) -> Iterator[Slice]:
        """The slices."""
        self._start()
        options = self._options
        for rows in all_rows(self._tables.parts, self._reader, options.in_order, options.workers):
            self.n_read += len(rows) + rows.n_outside + rows.n_untimed
            self.n_outside += rows.n_outside
            self._untimed += rows.n_untimed
            rows = self._on_time(rows)
            if not len(rows):
                continue
            changes = np.flatnonzero(rows.keys[1:] != rows.keys[:-1]) + 1
            for start, end in itertools.pairwise([0, *changes.tolist(), len(rows)]):
                key = int(rows.keys[start])
                self._visit.reached(rows, start, end)
                other = self._open is not None and self._open[0] != key
                if other and (x := self._close()) is not None:
                    yield x
                if self._open is None:
                    self._check_gap(key, rows, start)
                    while self._pass_over(key):
                        if (x := self._empty_slice()) is not None:
                            yield x
                    self._open = key, Cells(options.aggregation)
                # They count with the first row that has a time, as later ones with the row before.
                self._open[1].n_null += self._untimed
                self._untimed = 0
                (self._returning or self._open[1]).add(
                    [part[start:end] for part in rows.ids],
                    None if rows.values is None else rows.values[start:end],
                )
        self._visit.ended()
        clock_end = None if self._clock is None else self._clock.open_from
        last = self._open and (
            options.close_last if clock_end is None else self._open[0] < clock_end
        )
        if last and (x := self._close()) is not None:
            # What a database or a log holds later would tell another story after an interruption.
            edges = self._reader.edges if self.source.get("kind") in ("files", "table") else None
            if edges is not None and self._closed is not None and not self._clock:
                self.partial |= edges.cut_at_end(self._closed)
            yield x
        while clock_end is not None and not self._open and self._pass_over(clock_end):
            if (x := self._empty_slice()) is not None:
                yield x
        self._end_passing()
        self._end_returning()
        self._count_late()
        self.n_null, self._untimed = self.n_null + self._untimed, 0
        if self._clock is None:  # who has many tells of all together
            self.rows.warn()
