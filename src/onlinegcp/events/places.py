"""Where the rows of a table went: the time bin and the cell of each, in the order of the table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from onlinegcp.events.rows import RowReader
from onlinegcp.events.table_parts import Tables

Ints: TypeAlias = npt.NDArray[np.int64]


def places(tables: Tables, reader: RowReader) -> Iterator[tuple[list[tuple[Any, Ints]], Ints]]:
    """For every block of a table, its time bins with the numbers of their rows, and all codes.

    Parameters
    ----------
    tables
        The table, which is read once more.
    reader
        What has read it, so that all labels have their codes.

    Yields
    ------
    bins, codes
        Pairs of the time of a slice and the rows in it; (n, d) codes, -1 where a row has none.
    """
    vocabularies = reader.vocabularies
    for part in tables.parts:
        for block in part.read(reader.columns):
            keys, ids = reader.place(block)
            codes = [
                vocabularies[mode.name].codes(column) if mode.labels is None else column
                for mode, column in zip(reader.modes, ids, strict=True)
            ]
            order = np.argsort(keys, kind="stable")
            starts = np.flatnonzero(np.diff(keys[order], prepend=keys[order[:1]] - 1))
            rows = np.split(order, starts[1:]) if len(order) else []
            bins = [(reader.bins.time(int(keys[some[0]])), some) for some in rows]
            yield bins, np.stack(codes, axis=1).astype(np.int64)
