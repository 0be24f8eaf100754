"""The rows of a bin that is not closed yet, as JSON and back; and of one that is, as a slice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from onlinegcp.events.cells import Aggregation, Cells, Entries
from onlinegcp.events.modes import Mode
from onlinegcp.events.vocabulary import Vocabulary
from onlinegcp.slices import Slice


def slice_of(cells: Entries, aggregation: Aggregation, shape: tuple[int, ...], time: Any) -> Slice:
    """The slice of a bin, from one entry per cell."""
    value = cells.total
    if value is not None and cells.weight is not None:
        value = value / cells.weight
    return Slice(
        np.stack(cells.ids, axis=1),
        value,  # type: ignore[arg-type]
        shape,
        time=time,
        unlisted="missing" if aggregation in ("mean", "max") else "zero",
    )


def pack_bin(
    key: int, cells: Cells, modes: Sequence[Mode], vocabularies: Mapping[str, Vocabulary]
) -> dict[str, Any]:
    """A bin by its labels: ids mean nothing to another program."""
    found = {"key": key, "n_events": cells.n_events, "n_null": cells.n_null, "n_rows": cells.n_rows}
    if cells.empty:
        return {**found, "cells": None}
    entries = cells.fold()
    columns = []
    for mode, ids in zip(modes, entries.ids, strict=True):
        vocabulary = vocabularies.get(mode.name)
        columns.append(ids.tolist() if vocabulary is None else vocabulary.names(ids))
    total = None if entries.total is None else entries.total.tolist()
    weight = None if entries.weight is None else entries.weight.tolist()
    return {**found, "cells": {"labels": columns, "total": total, "weight": weight}}


def unpack_bin(
    state: Mapping[str, Any],
    aggregation: Aggregation,
    modes: Sequence[Mode],
    vocabularies: Mapping[str, Vocabulary],
) -> tuple[int, Cells]:
    """The bin that `pack_bin` packed: its key and its cells."""
    import polars as pl

    cells = Cells(aggregation)
    kept = state["cells"]
    if kept is not None:
        ids = []
        for mode, labels in zip(modes, kept["labels"], strict=True):
            vocabulary = vocabularies.get(mode.name)
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
    # Older versions did not count them apart.
    cells.n_rows = state.get("n_rows", cells.n_events + cells.n_null)
    return state["key"], cells
