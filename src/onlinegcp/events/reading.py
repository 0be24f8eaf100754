"""Who reads the blocks of a table: this process, or the workers of a cluster.

A worker reads a piece of a file, finds out times, labels and values, and sends them as numbers,
with each label once. What depends on the rows before (late rows, bins, counts, which label gets
which code) is left to this process, so that slices and accounts are the same whoever has read.
Where a worker fails, or a piece is written otherwise than those before, this process reads it
itself and comes to the same error, or the same rows.
"""

from __future__ import annotations

import functools
import logging
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, final

import numpy as np

from onlinegcp.errors import DataError
from onlinegcp.events.rows import Parsed, RowReader, Rows
from onlinegcp.events.scanned import Scanned
from onlinegcp.events.table_parts import Block, Part
from onlinegcp.events.table_text import check_columns

if TYPE_CHECKING:
    import polars as pl

Item = TypeVar("Item")
Found = TypeVar("Found")
Span = tuple[int, int] | None
Counts = dict[int, int]


class Workers(Protocol):
    """Processes that do a task for each of many items."""

    def each(
        self, function: Callable[[Item], Found], items: Iterable[Item]
    ) -> Iterator[Found | None]:
        """What a function gives, in the order of the items; None where it could not be had."""


class Reading(Protocol):
    """How the blocks of a part are read."""

    def spans(self, part: Part) -> Iterator[tuple[int, Span]]:
        """Number of rows and `RowReader.span` of every block."""

    def counts(self, part: Part) -> Iterator[tuple[int, Counts]]:
        """Number of rows of every block, and how many that count are in which time bin."""

    def rows(self, part: Part) -> Iterator[Rows]:
        """The rows of every block."""


@final
class Here:
    """This process reads."""

    def __init__(self, reader: RowReader) -> None:
        self._reader = reader

    def spans(self, part: Part) -> Iterator[tuple[int, Span]]:
        """Number of rows and `RowReader.span` of every block."""
        for block in part.read([self._reader.time.name]):
            yield _span(self._reader, block)

    def counts(self, part: Part) -> Iterator[tuple[int, Counts]]:
        """Number of rows of every block, and how many that count are in which time bin."""
        for block in part.read([self._reader.time.name]):
            yield _counts(self._reader, block)

    def rows(self, part: Part) -> Iterator[Rows]:
        """The rows of every block."""
        for block in part.read(self._reader.columns):
            yield self._reader.read(block)


@final
class There:
    """Workers read, where they can: files of parquet and Arrow, which have pieces.

    Parameters
    ----------
    reader
        Knows the columns, and remembers how they are written.
    workers
        They must see the files under the same names.
    """

    def __init__(self, reader: RowReader, workers: Workers) -> None:
        self._reader, self._workers, self._here = reader, workers, Here(reader)
        self._complained = False

    def spans(self, part: Part) -> Iterator[tuple[int, Span]]:
        """Number of rows and `RowReader.span` of every block."""
        if part.anywhere is None:
            yield from self._here.spans(part)
            return
        for task, found in self._done(_span, part, [self._reader.time.name]):
            yield _span(self._reader, task.block()) if found is None else found

    def counts(self, part: Part) -> Iterator[tuple[int, Counts]]:
        """Number of rows of every block, and how many that count are in which time bin."""
        if part.anywhere is None:
            yield from self._here.counts(part)
            return
        for task, found in self._done(_counts, part, [self._reader.time.name]):
            yield _counts(self._reader, task.block()) if found is None else found

    def rows(self, part: Part) -> Iterator[Rows]:
        """The rows of every block."""
        if part.anywhere is None:
            yield from self._here.rows(part)
            return
        for task, found in self._done(_parsed, part, self._reader.columns):
            rows = None if found is None else self._merged(found, task)
            yield self._reader.read(task.block()) if rows is None else rows

    def _done(
        self, find: Callable[[RowReader, Block], Found], part: Part, columns: Sequence[str]
    ) -> Iterator[tuple[_Task, Found | None]]:
        """Every piece with what a worker found, None where it has to be read here."""
        assert part.anywhere is not None
        check_columns(columns, part.anywhere.columns(), part.name)
        pieces = [(part.anywhere, part.name, place) for place in part.anywhere.pieces()]
        first = 0
        while first < len(pieces) and self._reader.time.kind is None:
            # How times are written is found here, and then said to all.
            yield _Task(*pieces[first], columns, b""), None
            first += 1
        known, packed = self._reader.state(), pickle.dumps(self._reader.alone())
        tasks = [_Task(*piece, columns, packed) for piece in pieces[first:]]
        answers = self._workers.each(functools.partial(_do, find), tasks)
        for task, answer in zip(tasks, answers, strict=True):
            found, after = (None, None) if answer is None else answer
            if answer is None:
                self._complain(task)
            # Another state: it is written in another way, or what came before was.
            yield task, found if after == known == self._reader.state() else None

    def _merged(self, found: tuple[Parsed, dict[str, pl.Series]], task: _Task) -> Rows | None:
        import polars as pl

        parsed, labels = found
        ids = []
        for mode, own in zip(self._reader.modes, parsed.ids, strict=True):
            if mode.name not in labels:
                ids.append(own)
                continue
            try:
                known = self._reader.vocabularies[mode.name].identify(labels[mode.name])
            except DataError:
                return None  # reading it once more names the row
            ids.append(np.append(known, np.int32(-1))[own])
        block = Block(pl.DataFrame(), task.name, task.place[0] + 1)  # for errors, which name rows
        return self._reader.rows(replace(parsed, ids=tuple(ids)), block)

    def _complain(self, task: _Task) -> None:
        if not self._complained:
            logging.getLogger("onlinegcp").warning(
                "A worker could not read %s, and this process reads instead. Workers must see "
                "files under the same names: put them on storage that all share.",
                task.name,
            )
        self._complained = True


@final
@dataclass(frozen=True)
class _Task:
    """A piece of a file, and what reads it, packed: nobody shares what it remembers."""

    file: Scanned
    name: str
    place: tuple[int, int, int]
    columns: Sequence[str]
    reader: bytes

    def block(self) -> Block:
        return Block(self.file.frame(self.columns, *self.place), self.name, self.place[0] + 1)


def _do(find: Callable[[RowReader, Block], Found], task: _Task) -> tuple[Found, dict[str, Any]]:
    """What is found in a piece, and how its times were read."""
    reader: RowReader = pickle.loads(task.reader)
    return find(reader, task.block()), reader.state()


def _span(reader: RowReader, block: Block) -> tuple[int, Span]:
    return block.frame.height, reader.span(block)


def _counts(reader: RowReader, block: Block) -> tuple[int, Counts]:
    keys, keep = reader.keys(block)
    keys = keys if keep is None else keys[keep]
    if not len(keys):
        return block.frame.height, {}
    first = int(keys.min())
    if int(keys.max()) - first < 4 * len(keys):
        numbers = np.bincount(keys - first)
        found = np.flatnonzero(numbers)
        numbers = numbers[found]
        found = found + first
    else:
        found, numbers = np.unique(keys, return_counts=True)
    return block.frame.height, dict(zip(found.tolist(), numbers.tolist(), strict=True))


def _parsed(reader: RowReader, block: Block) -> tuple[Parsed, dict[str, pl.Series]]:
    parsed = reader.parse(block)
    return parsed, {name: known.arrived() for name, known in reader.vocabularies.items()}
