"""Rows in any order, given back in order of time, with disk instead of memory.

The bins are divided into stretches of about a million rows. Rows go to one temporary file per
stretch as they come, a few dozen bytes each, and every file is later read and sorted by itself. A
bin with more rows than that has a file of its own, which needs no sorting and is read in pieces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt

from onlinegcp.events.label_ids import Ids
from onlinegcp.events.temporary import TemporaryFolder

_STRETCH = 1 << 20  # rows that are held at a time
Rows = tuple[npt.NDArray[np.int64], tuple[Ids, ...], npt.NDArray[np.float64] | None]


@final
class Spill:
    """Sorts rows by bin outside memory; use as a context, which removes the files.

    Parameters
    ----------
    counts
        Number of rows of every bin, by key.
    n_modes
        Number of ids per row.
    valued
        Whether rows have a value.

    Examples
    --------
    >>> with Spill({4: 1, 5: 2}, 1, valued=False) as spill:
    ...     spill.add(np.array([5, 4, 5]), [np.array([0, 1, 2], np.int32)], None)
    ...     [(keys.tolist(), ids[0].tolist()) for keys, ids, _ in spill.rows()]
    [([4, 5, 5], [1, 0, 2])]
    """

    def __init__(self, counts: Mapping[int, int], n_modes: int, *, valued: bool) -> None:
        # A row without a time has the key of a row of a block before, perhaps of another source.
        self._firsts = _stretches(counts) if counts else np.zeros(1, dtype=np.int64)
        self._single = {key for key, count in counts.items() if count >= _STRETCH}
        fields: list[tuple[str, str]] = [("key", "<i8")]
        fields += [(f"id{k}", "<i4") for k in range(n_modes)]
        self._record = np.dtype(fields + [("value", "<f8")] * valued)
        self._n_modes, self._valued = n_modes, valued
        self._folder: TemporaryFolder | None = None

    def __enter__(self) -> Spill:
        self._folder = TemporaryFolder("Rows that are not in order of time are sorted on disk")
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            self._folder.remove()

    def add(
        self,
        keys: npt.NDArray[np.int64],
        ids: Sequence[Ids],
        values: npt.NDArray[np.float64] | None,
    ) -> None:
        """Put rows aside."""
        records = np.empty(len(keys), dtype=self._record)
        records["key"] = keys
        for k, part in enumerate(ids):
            records[f"id{k}"] = part
        if values is not None:
            records["value"] = values
        stretch = np.maximum(np.searchsorted(self._firsts, keys, side="right") - 1, 0)
        order = _order(stretch)
        records, stretch = records[order], stretch[order]
        starts = np.flatnonzero(np.diff(stretch, prepend=-1))
        for start, end in zip(starts, [*starts[1:], len(records)], strict=True):
            try:
                with self._path(int(stretch[start])).open("ab") as file:
                    file.write(records[start:end].tobytes())
            except OSError as error:
                assert self._folder is not None
                raise self._folder.full(error) from error

    def rows(self) -> Iterator[Rows]:
        """Everything put aside, in order of key and, within one, of arrival."""
        for number, first in enumerate(self._firsts.tolist()):
            path = self._path(number)
            if not path.exists():
                continue
            with path.open("rb") as file:
                while piece := file.read(_STRETCH * self._record.itemsize):
                    records = np.frombuffer(piece, dtype=self._record)
                    if first in self._single:
                        yield self._columns(records)
                        continue
                    records = np.concatenate([records, np.frombuffer(file.read(), self._record)])
                    yield self._columns(records[_order(records["key"])])
            path.unlink()

    def _columns(self, records: npt.NDArray[Any]) -> Rows:
        ids = tuple(np.ascontiguousarray(records[f"id{k}"]) for k in range(self._n_modes))
        values = np.ascontiguousarray(records["value"]) if self._valued else None
        return np.ascontiguousarray(records["key"]), ids, values

    def _path(self, number: int) -> Path:
        assert self._folder is not None
        return self._folder.path / f"{number}.rows"


def _order(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    """Positions that sort the keys, equal ones as they came."""
    first = keys.min()
    if keys.max() - first < 1 << 16:  # sixteen bits are sorted by counting, ten times faster
        return np.argsort((keys - first).astype(np.uint16), kind="stable")
    return np.argsort(keys, kind="stable")


def _stretches(counts: Mapping[int, int]) -> npt.NDArray[np.int64]:
    """The first key of every stretch."""
    firsts: list[int] = []
    held = 0
    for key in sorted(counts):
        if not firsts or held + counts[key] > _STRETCH:
            firsts.append(key)
            held = 0
        held += counts[key]
    return np.array(firsts, dtype=np.int64)
