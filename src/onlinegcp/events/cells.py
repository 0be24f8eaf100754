"""The cells of one time bin while its rows come in.

Rows are kept as ids (see `vocabulary`) and folded into one entry per cell whenever there are many,
so that memory follows the number of cells, not of events.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
import numpy.typing as npt

from onlinegcp.entries import unravel
from onlinegcp.events.label_ids import Ids

Aggregation = Literal["count", "sum", "any", "mean", "max"]
Numbers = npt.NDArray[np.float64]

_ROWS_BEFORE_FOLDING = 1 << 21  # rows of a bin that are held before they are added up by cell


@final
@dataclass(frozen=True)
class Entries:
    """Rows or cells: ids per mode, the aggregate so far, and for means how many rows it is of.

    `total` is None where every row counts 1.
    """

    ids: tuple[Ids, ...]
    total: Numbers | None
    weight: Numbers | None = None

    def __len__(self) -> int:
        return len(self.ids[0])


@final
class Cells:
    """Accumulates the rows of one bin.

    Examples
    --------
    >>> cells = Cells("count")
    >>> cells.add((np.array([3, 3, -1], np.int32),), None)
    >>> cells.n_events, cells.n_null
    (2, 1)
    """

    def __init__(self, aggregation: Aggregation) -> None:
        self.aggregation = aggregation
        self.n_events = 0
        self.n_null = 0
        self.n_rows = 0  # taken in by `add`, null or not
        self._held: list[Entries] = []
        self._n_held = 0
        self._fold_at = _ROWS_BEFORE_FOLDING

    def add(self, ids: Sequence[Ids], values: Numbers | None) -> None:
        """Take in rows; those with a negative id or a NaN value count as null and are left out."""
        keep: npt.NDArray[np.bool_] | None = None
        self.n_rows += len(ids[0])
        for part in ids:
            if len(part) and part.min() < 0:
                keep = part >= 0 if keep is None else keep & (part >= 0)
        if values is not None and np.isnan(values.sum()):
            known = ~np.isnan(values)
            keep = known if keep is None else keep & known
        if keep is not None:
            self.n_null += len(keep) - int(np.count_nonzero(keep))
            ids = [part[keep] for part in ids]
            values = None if values is None else values[keep]
        n_rows = len(ids[0])
        self.n_events += n_rows
        if not n_rows:
            return
        weight = None
        if self.aggregation == "mean":
            weight = np.ones(n_rows)
        if self.aggregation == "any" and values is not None:
            values = (values != 0).astype(np.float64)
        self.hold(Entries(tuple(ids), values, weight))

    def hold(self, entries: Entries) -> None:
        """Take in rows or cells that are already aggregated in part."""
        self._held.append(entries)
        self._n_held += len(entries)
        if self._n_held > self._fold_at:
            folded = self.fold()
            self._held, self._n_held = [folded], len(folded)
            self._fold_at = max(_ROWS_BEFORE_FOLDING, 2 * len(folded))

    def join(self, other: Cells) -> None:
        """Take in all that another bin has."""
        self.n_events += other.n_events
        self.n_null += other.n_null
        self.n_rows += other.n_rows
        if not other.empty:
            self.hold(other.held())

    def held(self) -> Entries:
        """Everything taken in, in one piece."""
        if len(self._held) != 1:
            self._held = [_joined(self._held)] if self._held else []
        return self._held[0]

    @property
    def empty(self) -> bool:
        return not self._held

    def fold(self) -> Entries:
        """One entry per cell, ordered by ids."""
        return fold(self.held(), self.aggregation)


def fold(entries: Entries, aggregation: Aggregation) -> Entries:
    """Join the entries of each cell, and order cells by their ids."""
    dims = [int(part.max()) + 1 for part in entries.ids]
    if math.prod(dims) < 1 << 62:
        linear = entries.ids[0].astype(np.int64)
        for part, dim in zip(entries.ids[1:], dims[1:], strict=True):
            linear *= dim
            linear += part
    else:  # too many cells to number them all: number those that occur
        _, linear = np.unique(np.stack(entries.ids, axis=1), axis=0, return_inverse=True)
        linear = linear.reshape(-1).astype(np.int64)
        dims = []
    if entries.total is None and dims:
        ordered = np.sort(linear)
        starts = _starts(ordered)
        counts = np.diff(starts, append=len(ordered)).astype(np.float64)
        total = np.ones(len(starts)) if aggregation == "any" else counts
        return Entries(tuple(unravel(ordered[starts], tuple(dims)).T), total)
    order = np.argsort(linear, kind="stable")
    starts = _starts(linear[order])
    ids = tuple(part[order[starts]] for part in entries.ids)
    values = np.ones(len(linear)) if entries.total is None else entries.total
    join = np.maximum if aggregation in ("any", "max") else np.add
    with np.errstate(over="ignore", invalid="ignore"):  # the slice refuses what is not finite
        total = join.reduceat(values[order], starts)
    if entries.weight is None:
        return Entries(ids, total)
    return Entries(ids, total, np.add.reduceat(entries.weight[order], starts))


def _joined(parts: Sequence[Entries]) -> Entries:
    ids = tuple(
        np.concatenate(column) for column in zip(*(part.ids for part in parts), strict=True)
    )
    total = weight = None
    if any(part.total is not None for part in parts):
        total = np.concatenate(
            [np.ones(len(part)) if part.total is None else part.total for part in parts]
        )
    if any(part.weight is not None for part in parts):
        weight = np.concatenate([part.weight for part in parts if part.weight is not None])
    return Entries(ids, total, weight)


def _starts(ordered: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    first = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return np.flatnonzero(first)
