"""A table taken apart by the labels of one column: the rows of each customer, machine or shop.

The source is read once. Its blocks are put aside on disk with the rows of each label together, and
mapped into memory when they are read, so that neither a long table nor a label with most of the
rows takes memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

import numpy as np

from onlinegcp.errors import DataError
from onlinegcp.events.clock import Clock
from onlinegcp.events.in_memory import table_part
from onlinegcp.events.modes import parse_mode
from onlinegcp.events.refusals import gap_error
from onlinegcp.events.rows import RowReader
from onlinegcp.events.table_parts import Part, Tables
from onlinegcp.events.table_text import check_columns
from onlinegcp.events.temporary import TemporaryFolder
from onlinegcp.events.time_bins import TimeBins, parse_every
from onlinegcp.events.time_column import TimeColumn
from onlinegcp.events.vocabulary import Vocabulary

if TYPE_CHECKING:
    import polars as pl

_FEW = 100_000  # rows that are read at once; more are read when they are asked for
Piece = tuple[str, int, int]  # a file, and which of its rows


@final
@dataclass
class Groups:
    """What `group_rows` found.

    Attributes
    ----------
    labels
        Labels of the column, in the order they came.
    pieces
        Where the rows of each label are, in the order they came.
    n_rows
        Rows of each label.
    n_unnamed
        Rows without a label, which are left out.
    columns
        How times are read, for `Clock`.
    keys
        The bins of all rows, in order.
    bins
        What a bin is.
    wanted
        Columns that the streams need.
    cut
        Bins of which the table holds a part only.
    """

    labels: list[str]
    pieces: list[list[Piece]]
    n_rows: list[int]
    n_unnamed: int
    columns: dict[str, Any]
    keys: list[int]
    bins: TimeBins
    wanted: list[str] = field(default_factory=list)
    cut: list[int] = field(default_factory=list)

    def clock(self, closed: int | None, *, close_last: bool) -> Clock | None:
        """The clock at the end of the table; None if nothing has told it the time yet.

        Parameters
        ----------
        closed
            The last bin that was closed before.
        close_last
            Whether the end of the table closes its last bin.
        """
        ends = [] if closed is None else [self.bins.after(closed)]
        if self.keys:
            last = self.keys[-1]
            ends.append(self.bins.after(last) if close_last else last)
        return Clock(self.columns, max(ends), self.cut) if ends else None

    def check_gaps(self, closed: int | None, settings: Mapping[str, Any]) -> None:
        """Refuse a table whose clock jumps over more bins than it may, mostly by a wrong time."""
        given = settings.get("max_gap")
        most = self.bins.usual_gap if given is None else int(given)
        if settings.get("empty") == "skip":
            return
        before = closed
        for key in self.keys:
            n_between = 0 if before is None else self.bins.between(before, key) - 1
            if before is not None and n_between > most:
                times = self.bins.time(before), self.bins.time(key)
                raise gap_error("a row of the source", *times, n_between, most)
            before = key if before is None else max(before, key)


def group_rows(
    tables: Tables,
    by: str,
    settings: Mapping[str, Any],
    folder: TemporaryFolder,
    columns: Mapping[str, Any] | None = None,
) -> Groups:
    """Put the rows of every label of a column together.

    Parameters
    ----------
    tables
        The source; it is read once, from its first row to its last.
    by
        The column.
    settings
        Arguments of `from_events`, with `since` and `until` of this source.
    folder
        Where to put them; the pieces are good while it lasts.
    columns
        How times were read before, from `Groups.columns`.
    """
    reader, wanted = _reader(tables, by, settings)
    if columns is not None:
        reader.restore(columns)
    if tables.place is not None:
        if tables.place.keeps_open:
            raise DataError(
                f"Many streams must be read from their first row to their last, but "
                f"{tables.place.name} has no end. Read it into files or a database first."
            )
        tables.place.begin(reader, None, None)
    names = Vocabulary()
    found = Groups([], [], [], 0, {}, [], reader.bins, wanted)
    keys: set[int] = set()
    for number, block in enumerate(_blocks(tables, [*wanted, by])):
        for name, clock in reader.clocks.items():
            clock.read(block.frame[name], block.where)
        bins, keep = reader.keys(block, note=True)
        keys.update(np.unique(bins if keep is None else bins[keep]).tolist())
        ids = names.identify(block.frame[by], block.where)
        if settings.get("on_null") == "error" and ids.min(initial=0) < 0:
            raise DataError(
                f"Column {by!r} must have a value in every row, but "
                f"{block.where(int(np.argmax(ids < 0)))} has none. Fill it in, or use "
                "on_null='drop' to leave such rows out and count them."
            )
        _put_aside(block.frame.select(wanted), ids, folder, number, found)
    found.labels = names.names(np.arange(names.n_ids, dtype=np.int32))
    found.keys, found.columns = sorted(keys), reader.state()
    if reader.edges is not None and found.keys:
        first, last = found.keys[0], found.keys[-1]
        found.cut = [first] if reader.edges.cut_at_start(first) else []
        # As in one stream: what a database or a pipe holds later would tell another story.
        if not tables.live and tables.place is None and reader.edges.cut_at_end(last):
            found.cut.append(last)
    return found


def rows_of(pieces: Sequence[Piece], wanted: Sequence[str], name: str) -> Tables:
    """The rows of one label, as a source for `from_events`.

    Parameters
    ----------
    pieces
        From `Groups.pieces`; none for a label that is silent.
    wanted
        Columns, from `Groups.wanted`.
    name
        What to call them in errors.
    """
    import polars as pl

    if not pieces:
        nothing = pl.DataFrame({column: [] for column in wanted})
        return Tables((table_part(nothing, name),))
    parts: list[Part] = []
    for file, start, end in pieces:
        # Only these rows come into memory, and many of them only when they are asked for.
        rows = pl.scan_ipc(file).slice(start, end - start)
        parts.append(table_part(rows.collect() if end - start <= _FEW else rows, name))
    return Tables(tuple(parts))


def _put_aside(
    frame: pl.DataFrame, ids: Any, folder: TemporaryFolder, number: int, found: Groups
) -> None:
    order = np.argsort(ids, kind="stable")
    ids = ids[order]
    starts = np.flatnonzero(np.diff(ids, prepend=-2))
    path = folder.path / f"{number}.arrow"
    try:
        frame[order].write_ipc(path, compression="uncompressed")
    except OSError as error:
        raise folder.full(error) from error
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(ids)], strict=True):
        label = int(ids[start])
        if label < 0:
            found.n_unnamed += end - start
            continue
        while len(found.pieces) <= label:
            found.pieces.append([])
            found.n_rows.append(0)
        found.pieces[label].append((str(path), start, end))
        found.n_rows[label] += end - start


def _blocks(tables: Tables, columns: Sequence[str]) -> Any:
    for part in tables.parts:
        yield from part.read(list(dict.fromkeys(columns)))


def _reader(tables: Tables, by: str, settings: Mapping[str, Any]) -> tuple[RowReader, list[str]]:
    """What reads the times, and the columns that the streams need."""
    part = tables.parts[0]
    known = part.columns()
    given = settings["modes"]
    modes = [
        parse_mode(mode, known or ())
        for mode in ([given] if isinstance(given, str) or hasattr(given, "source") else given)
    ]
    value = settings.get("value")
    values = [] if value is None else [value] if isinstance(value, str) else list(value)
    unit, _ = parse_every(settings["every"])
    time = TimeColumn(
        settings["time"],
        timezone=settings.get("timezone"),
        unit=settings.get("time_unit"),
        layout=settings.get("time_format"),
        plain=unit == "number",
    )
    reader = RowReader(
        time,
        TimeBins(settings["every"], time),
        modes,
        value=None,
        since=settings.get("since"),
        until=settings.get("until"),
        nulls=True,
    )
    wanted = list(dict.fromkeys([*reader.columns, *values]))
    if by in wanted:
        raise DataError(
            f"The column that tells streams apart must be none of those they are made of, but "
            f"{by!r} is: within a stream it has one value only. Leave it out of the modes."
        )
    if known is not None:
        check_columns([*wanted, by], known, part.name)
    return reader, wanted
