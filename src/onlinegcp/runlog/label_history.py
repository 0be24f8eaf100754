"""What each label held along a run: sums over blocks of slices that never are more than a few.

When there are too many blocks, neighbours are joined and blocks become twice as long, so that the
whole past is told in the same space however long it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]

MOST_BLOCKS = 32  # parts of a run; when they are full, two by two become one
MOST_LABELS = 50_000  # of a mode; labels of longer ones are not followed


@final
class LabelHistory:
    """Sums of all labels, block by block.

    Attributes
    ----------
    limits : (blocks, 2) array
        Numbers of the first and the last slice of each block.
    sums : list of (blocks, labels) arrays
        By mode, what the slices of a block held, or the sum of their means where data do not add
        up.
    seen : list of (blocks, labels) arrays
        Slices in which a label was observed; empty where data add up, for what was not there was 0.
    stride
        Slices in a whole block.
    adds_up
        Whether rows are sums, of which labels have shares, and not means.

    Examples
    --------
    >>> past = LabelHistory()
    >>> for number in range(1, 101):
    ...     past.add(number, [np.array([1.0, 2.0])])
    >>> past.stride, len(past.limits), past.limits[0].tolist(), past.sums[0][0].tolist()
    (4, 25, [1, 4], [4.0, 8.0])
    """

    def __init__(self, *, adds_up: bool = True) -> None:
        self.stride, self.adds_up = 1, adds_up
        self.limits = np.zeros((0, 2), dtype=np.int64)
        self.sums: list[FloatArray] = []
        self.seen: list[FloatArray] = []

    def add(self, number: int, rows: Sequence[FloatArray]) -> None:
        """One more slice.

        Parameters
        ----------
        number
            Its number in the run.
        rows
            For each mode what its labels hold, NaN for one that was not observed.
        """
        if not self.sums:
            self.sums = [np.zeros((0, 0)) for _ in rows]
            self.seen = [] if self.adds_up else [np.zeros((0, 0)) for _ in rows]
        if not len(self.limits) or self._is_whole():
            if len(self.limits) >= MOST_BLOCKS:
                self._join()
            self.limits = np.vstack([self.limits, [[number, number]]])
            for parts in (self.sums, self.seen):
                parts[:] = [np.concatenate([part, np.zeros((1, part.shape[1]))]) for part in parts]
        self.limits[-1, 1] = number
        self._add(
            self.sums, [row if math.isfinite(row.sum()) else np.nan_to_num(row) for row in rows]
        )
        if not self.adds_up:
            self._add(self.seen, [np.isfinite(row) for row in rows])

    def _add(self, parts: list[FloatArray], rows: Sequence[NDArray[Any]]) -> None:
        """Add numbers of the labels of each mode to the last block."""
        for k, row in enumerate(rows):
            if len(row) > MOST_LABELS:
                parts[k] = parts[k][:, :0]
                continue
            new = len(row) - parts[k].shape[1]
            if new > 0:
                parts[k] = np.concatenate([parts[k], np.zeros((len(parts[k]), new))], axis=1)
            parts[k][-1, : len(row)] += row

    def between(self, first: int, last: int) -> LabelHistory:
        """The blocks that lie within these slices, both included."""
        inside = (self.limits[:, 0] >= first) & (self.limits[:, 1] <= last)
        found = LabelHistory(adds_up=self.adds_up)
        found.stride, found.limits = self.stride, self.limits[inside]
        found.sums = [part[inside] for part in self.sums]
        found.seen = [part[inside] for part in self.seen]
        return found

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and numbers it goes on from."""
        arrays: dict[str, NDArray[Any]] = {"limits": self.limits}
        for name, parts in (("sums", self.sums), ("seen", self.seen)):
            arrays |= {f"{name}.{k}": part for k, part in enumerate(parts)}
        return arrays, {"stride": self.stride, "adds_up": self.adds_up}

    @classmethod
    def from_state(
        cls, arrays: Mapping[str, NDArray[Any]], record: Mapping[str, Any]
    ) -> LabelHistory:
        """What `state` described."""
        made = cls(adds_up=bool(record["adds_up"]))
        made.stride, made.limits = int(record["stride"]), np.array(arrays["limits"], dtype=np.int64)
        for name, parts in (("sums", made.sums), ("seen", made.seen)):
            while f"{name}.{len(parts)}" in arrays:
                parts.append(np.array(arrays[f"{name}.{len(parts)}"], dtype=np.float64))
        return made

    def _is_whole(self) -> bool:
        first, last = self.limits[-1]
        return bool(last - first + 1 >= self.stride)

    def _join(self) -> None:
        self.stride *= 2
        self.limits = np.column_stack([self.limits[::2, 0], self.limits[1::2, 1]])
        for parts in (self.sums, self.seen):
            parts[:] = [part[::2] + part[1::2] for part in parts]
