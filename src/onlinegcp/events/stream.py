"""The stream of slices itself: bins are filled, closed and handed out, and all of it can resume.

A bin is closed when a row of a later bin has been read, or at the end. Sources that can be read
twice are looked through first: if their rows, or whole files, are in order of time they are then
streamed, else sorted on disk. Memory follows the cells of a bin and the number of labels, not the
number of events.
"""

from __future__ import annotations

import itertools
import logging
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self, final

import numpy as np

from onlinegcp.errors import DataError, StateError
from onlinegcp.events.cells import Aggregation, Cells, Entries, fold
from onlinegcp.events.order import in_order_of_time, most_frequent, sorted_rows
from onlinegcp.events.rows import RowReader, Rows
from onlinegcp.events.tables import Part, Tables
from onlinegcp.events.vocabulary import OnNew, Vocabulary
from onlinegcp.slices import Slice

if TYPE_CHECKING:
    from onlinegcp.events.remote.place import Place

OnLate = Literal["drop", "error"]
Empty = Literal["zero", "missing", "skip"]
Groups = tuple[tuple[str, ...], ...]

_VERSION = 1
_COUNTERS = ("n_slices", "n_events", "n_late", "n_null")


@final
@dataclass(frozen=True)
class Options:
    """What `from_events` was asked for, checked; see there. `known` and `top` go by group."""

    aggregation: Aggregation
    empty: Empty
    on_new: OnNew
    on_late: OnLate
    in_order: bool | None
    close_last: bool
    max_gap: int
    known: Mapping[str, list[str]] = field(default_factory=dict)
    top: Mapping[str, int] = field(default_factory=dict)


@final
class EventStream:
    """Slices of a table of events, in order of time and without gaps; made by `from_events`.

    It is read once, like a file. Between two slices, all attributes and `state` speak of the
    slices handed out so far, however much has been read ahead.

    Attributes
    ----------
    mode_names : tuple of str
        Names of the modes.
    labels : tuple of tuples of str
        Labels of every mode in the order of their codes. They only ever grow at the end.
    shape : tuple of int
        Number of labels of every mode, 0 where none has been seen.
    n_slices, n_events : int
        Slices handed out, and events in them.
    n_late : int
        Rows dropped because their bin was closed already.
    n_null : int
        Rows dropped because time, key or value was missing.
    n_outside, n_read, n_rows : int or None
        Rows of this source: dropped because of `since` and `until`, passed so far, and in all, None
        if it was not looked through.
    source : dict
        What it reads, so that it can be read again: `kind` ("files", "table", "live", or that of a place), `files`,
        and the `options` that belong to this source alone.
    """

    def __init__(self, tables: Tables, reader: RowReader, groups: Groups, options: Options) -> None:
        self._tables, self._reader, self._groups, self._options = tables, reader, groups, options
        self.mode_names = tuple(mode.name for mode in reader.modes)
        self.n_slices = self.n_events = self.n_late = self.n_null = self.n_outside = 0
        self.n_read = 0
        self.source: dict[str, Any] = {}
        self._closed: int | None = None  # key of the last bin handed out or passed over
        self._seen: int | None = None  # rows up to this bin are passed over in silence
        self._latest: int | None = None  # latest bin of any row of this source so far
        self._late: Counter[int] = Counter()  # late rows, by the bin that was open then
        self._before = (0, 0)  # rows left out of sources before this one
        self._untimed = 0  # rows without a time before the first that has one
        self._open: tuple[int, Cells] | None = None
        self._positions: dict[str, Any] = {}  # how far places have been read, by name
        self._brought: dict[str, Any] | None = None  # the open bin of the state that was restored
        self._restored = False
        self._slices: Iterator[Slice] | None = None
        self._finished = False
        self._set_vocabularies(options.known)

    @property
    def labels(self) -> tuple[tuple[str, ...], ...]:
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
            self._slices = _run(weakref.proxy(self))
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
            "open": self._open_now(),
            "positions": self._positions_now(),
            **{name: getattr(self, name) for name in _COUNTERS},
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
        self._positions, self._brought = dict(state.get("positions") or {}), state["open"]
        # A log goes on after its last row, so that no row comes again.
        again = again and not (self._place is not None and self._place.continues(self._positions))
        self._restored = bool(state["n_slices"] or state["open"])
        self._set_vocabularies(state["vocabularies"])
        self._reader.restore(state["columns"])
        self._closed = state["closed"]
        self._seen = self._closed if again else None
        self._open = self._opened(state["open"]) if state["open"] else None
        for name in _COUNTERS:
            setattr(self, name, int(state[name]))
        self._before = self._left_out()
        return self

    def stored(self) -> None:
        """What `state` told last is stored: a place need not keep rows up to there."""
        if self._place is not None:
            self._place.stored()

    @property
    def _place(self) -> Place | None:
        return self._tables.place

    def _open_now(self) -> dict[str, Any] | None:
        """The open bin as the state keeps it: without rows that will be asked for again."""
        if self._place is None or self._place.keeps_open:
            return self._open_state()
        kept, closed = self._brought, self._closed
        return kept if kept and (closed is None or kept["key"] > closed) else None

    def _positions_now(self) -> dict[str, Any]:
        if self._place is None or self._slices is None:
            return dict(self._positions)
        return {**self._positions, self._place.name: self._place.position(self._closed)}

    def _go_to_place(self) -> None:
        """Tell a place how far the run has come; it may tell of rows that came late meanwhile."""
        if self._place is None:
            return
        position = self._positions.get(self._place.name)
        n_late = self._place.begin(self._reader, self._closed, position)
        if n_late and self._options.on_late == "error":
            raise DataError(
                f"Rows must come before their time bin is closed, but {self._place.name} has "
                f"{n_late:,} new ones in bins up to "
                f"{self._reader.bins.time(self._closed or 0)}. Use on_late='drop' to leave such "
                "rows out and count them."
            )
        self.n_late += n_late

    def _settings(self) -> dict[str, Any]:
        """What must be the same when a stream goes on."""
        return {
            "modes": list(self.mode_names),
            "every": self._reader.bins.every,
            "timezone": self._reader.time.given_zone,
            "aggregation": self._options.aggregation,
            "shared": [list(group) for group in self._groups],
        }

    def _set_vocabularies(self, known: Mapping[str, list[str]], *strangers: str) -> None:
        """One vocabulary per group; groups in `strangers` read what they do not know as other."""
        for group in self._groups:
            on_new = "other" if group[0] in strangers else self._options.on_new
            vocabulary = Vocabulary(known.get(group[0], ()), on_new=on_new)
            self._reader.vocabularies |= dict.fromkeys(group, vocabulary)

    def _start(self) -> None:
        """Settle what depends on whether a state was restored."""
        self._go_to_place()
        top = {} if self._restored else self._options.top
        if top:
            groups = {group: top[group[0]] for group in self._groups if group[0] in top}
            found = most_frequent(self._tables.parts, self._reader, groups)
            known = {group[0]: labels for group, labels in found.items()}
            self._set_vocabularies({**self._options.known, **known}, *known)
        elif self._options.top:
            labels = {
                group[0]: self._reader.vocabularies[group[0]].labels for group in self._groups
            }
            known = {name: list(names) for name, names in labels.items()}
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
            # Read before: what was kept and what was late then is in the state.
            fresh = latest > self._seen
            rows, latest = rows.take(fresh), latest[fresh]
            self._untimed = 0
            if not len(rows):
                return rows
        floor = int(latest[0])
        if self._open is not None:
            floor = self._open[0]
        elif self._closed is not None:
            floor = self._closed + 1
        if ordered and latest[0] >= floor:
            return rows
        latest = np.maximum(latest, floor)
        late = rows.keys < latest
        if not late.any():
            return rows
        if self._options.on_late == "error":
            first = int(np.argmax(late))
            bins = self._reader.bins
            raise DataError(
                f"Rows must come in order of time, but {rows.where(first)} belongs to "
                f"{bins.time(int(rows.keys[first]))}, which was closed before. Sort the source, or "
                "use on_late='drop' to leave such rows out and count them."
            )
        self._late.update(latest[late].tolist())
        return rows.take(~late)

    def _left_out(self) -> tuple[int, int]:
        return self.n_late, self.n_null

    def _count_late(self, up_to: int | None = None) -> None:
        """Count the late rows that came while bins up to this one were open, or all."""
        for key in [key for key in self._late if up_to is None or key <= up_to]:
            self.n_late += self._late.pop(key)

    def _check_gap(self, key: int, rows: Rows, position: int) -> None:
        """Refuse to make very many empty slices."""
        bins, options = self._reader.bins, self._options
        if self._closed is None or options.empty == "skip":
            return
        n_between = bins.between(self._closed, key) - 1
        if n_between > options.max_gap:
            raise DataError(
                f"Time may jump over at most max_gap={options.max_gap:,} bins, but "
                f"{rows.where(position)} belongs to {bins.time(key)}, {n_between:,} bins after "
                f"{bins.time(self._closed)}. Use since=... and until=... to leave out wrong times, "
                "empty='skip', or a larger max_gap."
            )

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
        self.n_slices += 1
        time = self._reader.bins.time(self._closed)
        return Slice([], [], self.shape, time=time, unlisted=self._options.empty)

    def _close(self) -> Slice | None:
        """The slice of the open bin."""
        assert self._open is not None
        (self._closed, cells), self._open = self._open, None
        self._count_late(self._closed)
        self.n_events += cells.n_events
        self.n_null += cells.n_null
        if cells.empty:
            return self._empty_slice()
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
        value = found.total
        if value is not None and found.weight is not None:
            value = value / found.weight
        measured = self._options.aggregation in ("mean", "max")
        self.n_slices += 1
        return Slice(
            np.stack(found.ids, axis=1),
            value,  # type: ignore[arg-type]
            self.shape,
            time=self._reader.bins.time(self._closed),
            unlisted="missing" if measured else "zero",
        )

    def _open_state(self) -> dict[str, Any] | None:
        if self._open is None:
            return None
        key, cells = self._open
        found = {"key": key, "n_events": cells.n_events, "n_null": cells.n_null}
        if cells.empty:
            return {**found, "cells": None}
        entries = cells.fold()
        columns = []
        for mode, ids in zip(self._reader.modes, entries.ids, strict=True):
            vocabulary = self._reader.vocabularies.get(mode.name)
            columns.append([i if vocabulary is None else vocabulary.name(i) for i in ids.tolist()])
        total = None if entries.total is None else entries.total.tolist()
        weight = None if entries.weight is None else entries.weight.tolist()
        return {**found, "cells": {"labels": columns, "total": total, "weight": weight}}

    def _opened(self, state: Mapping[str, Any]) -> tuple[int, Cells]:
        """The open bin of a state."""
        import polars as pl

        cells = Cells(self._options.aggregation)
        kept = state["cells"]
        if kept is not None:
            ids = []
            for mode, labels in zip(self._reader.modes, kept["labels"], strict=True):
                vocabulary = self._reader.vocabularies.get(mode.name)
                column = pl.Series(mode.source, labels)
                ids.append(
                    np.array(labels, dtype=np.int32)
                    if vocabulary is None
                    else vocabulary.identify(column)
                )
            total = None if kept["total"] is None else np.array(kept["total"], dtype=np.float64)
            weight = None if kept["weight"] is None else np.array(kept["weight"], dtype=np.float64)
            cells.hold(Entries(tuple(ids), total, weight))
        cells.n_events, cells.n_null = state["n_events"], state["n_null"]
        return state["key"], cells


def _run(stream: EventStream) -> Iterator[Slice]:
    """The slices of a stream, to which only a weak reference may be given.

    A stream that is dropped half-way then is gone at once, with its open files.
    """
    stream._start()
    for rows in _rows(stream._tables.parts, stream._reader, stream._options.in_order):
        stream.n_read += len(rows) + rows.n_outside + rows.n_untimed
        stream.n_outside += rows.n_outside
        stream._untimed += rows.n_untimed
        rows = stream._on_time(rows)
        if not len(rows):
            continue
        changes = np.flatnonzero(rows.keys[1:] != rows.keys[:-1]) + 1
        for start, end in itertools.pairwise([0, *changes.tolist(), len(rows)]):
            key = int(rows.keys[start])
            if stream._place is not None:
                row = rows.row(start)
                stream._place.reached(key, row, rows.row(end - 1) - row + 1)
            if (
                stream._open is not None
                and stream._open[0] != key
                and (x := stream._close()) is not None
            ):
                yield x
            if stream._open is None:
                stream._check_gap(key, rows, start)
                while stream._pass_over(key):
                    if (x := stream._empty_slice()) is not None:
                        yield x
                stream._open = key, Cells(stream._options.aggregation)
            # They count with the first row that has a time, as later ones with the row before.
            stream._open[1].n_null += stream._untimed
            stream._untimed = 0
            stream._open[1].add(
                [part[start:end] for part in rows.ids],
                None if rows.values is None else rows.values[start:end],
            )
    if stream._place is not None:
        stream._place.ended()
    if (
        stream._open is not None
        and stream._options.close_last
        and (x := stream._close()) is not None
    ):
        yield x
    stream._count_late()
    stream.n_null += stream._untimed
    n_late, n_null = (
        now - before for now, before in zip(stream._left_out(), stream._before, strict=True)
    )
    if n_late:
        logging.getLogger("onlinegcp").warning(
            "%d rows came after their time bin was closed and were dropped", n_late
        )
    if n_null:
        logging.getLogger("onlinegcp").warning(
            "%d rows without a time, a key or a value were dropped", n_null
        )


def _rows(parts: Sequence[Part], reader: RowReader, in_order: bool | None) -> Iterator[Rows]:
    """All rows, in order of time if there is a way to have them so."""
    ordered = in_order_of_time(parts, reader) if in_order is None else list(parts)
    if ordered is None or in_order is False:
        yield from sorted_rows(parts, reader)
        return
    for part in ordered:
        for block in part.read(reader.columns):
            yield reader.read(block)
