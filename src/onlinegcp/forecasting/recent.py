"""The newest slices of a stream in little space: what a forecast knows beyond the patterns.

Few slices are kept where they hold much, more where they hold little, and none of those that are
too large: what is kept is bounded whatever the stream. Numbers lie in the smallest type that holds
them, found anew from the numbers alone, so that a stored copy goes on as the original would.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from onlinegcp.slices import Slice

Array: TypeAlias = NDArray[Any]

MOST = 110  # slices: two years of weeks and a little more
SMALL = 2**15  # listed cells in all of them
FEW, LARGE = 15, 2**18  # so many slices, two weeks of days, may list more
LARGEST = 2**15  # cells of one slice; those that list more are not kept


@final
@dataclass(frozen=True)
class Kept:
    """The listed cells of one slice.

    Attributes
    ----------
    index : (n, d) array
        Where they are.
    value : (n,) array
        What they hold.
    whole
        Whether cells that are not listed are zeros, not missing.
    """

    index: Array
    value: Array
    whole: bool


@final
@dataclass(frozen=True)
class Recent:
    """The newest slices, oldest first.

    Attributes
    ----------
    slices
        What is kept of them.
    listed
        Cells that all of them list.

    Examples
    --------
    >>> recent = Recent().after(Slice([[0, 1], [2, 0]], [3, 4], (3, 2)))
    >>> recent = Recent.of(recent.to_arrays())
    >>> recent.slices[0].index.tolist(), recent.slices[0].value.tolist(), len(recent)
    ([[0, 1], [2, 0]], [3, 4], 1)
    """

    slices: tuple[Kept, ...] = ()
    listed: int = 0

    def __len__(self) -> int:
        return len(self.slices)

    def after(self, *newer: Slice) -> Recent:
        """With more slices, the newest last, and as many of all as there is room for."""
        large = [k for k, x in enumerate(newer) if x.n_listed > LARGEST]
        old = () if large else self.slices
        newer = newer[large[-1] + 1 :] if large else newer
        sizes, first = [x.n_listed for x in newer], 0
        listed, count = sum(sizes) + (self.listed if old else 0), len(old) + len(sizes)
        # From the oldest on: in the long run one leaves when another comes.
        while count > MOST or listed > (LARGE if count <= FEW else SMALL):
            listed -= len(old[first].value) if first < len(old) else sizes[first - len(old)]
            first, count = first + 1, count - 1
        kept = _made(newer[max(0, first - len(old)) :])
        return Recent((*old[first:], *kept), listed)

    def without_last(self) -> Recent:
        """Without the newest one."""
        return Recent(self.slices[:-1], self.listed - sum(len(x.value) for x in self.slices[-1:]))

    def to_arrays(self) -> dict[str, Array]:
        """All of it as a few arrays; none where there is nothing."""
        if not self.slices:
            return {}
        return {
            "counts": np.array([len(x.value) for x in self.slices], dtype=np.int32),
            "whole": np.array([x.whole for x in self.slices]),
            "index": np.concatenate([x.index for x in self.slices]),
            "value": np.concatenate([x.value for x in self.slices]),
        }

    @staticmethod
    def of(arrays: Mapping[str, Array]) -> Recent:
        """What `to_arrays` gave."""
        if not arrays:
            return Recent()
        ends = [0, *np.cumsum(arrays["counts"]).tolist()]
        parts = zip(pairwise(ends), arrays["whole"].tolist(), strict=True)
        index, value = arrays["index"], arrays["value"]
        return Recent(
            tuple(
                Kept(_places(index[a:b]), _smallest(value[a:b]), whole) for (a, b), whole in parts
            ),
            ends[-1],
        )


def _made(slices: Sequence[Slice]) -> list[Kept]:
    """The slices as they are kept; dense ones of one shape are looked at together."""
    if len(slices) > 1 and all(x.array is not None and x.shape == slices[0].shape for x in slices):
        index, values = _every_cell(slices[0].shape), np.array([x.value for x in slices])
        ends = zip(values.min(axis=1).tolist(), values.max(axis=1).tolist(), strict=True)
        whole = (values == np.floor(values)).all(axis=1).tolist()
        types = [_type(*pair, counts) for pair, counts in zip(ends, whole, strict=True)]
        rows = zip(slices, values, types, strict=True)
        return [Kept(index, row.astype(kind), x.unlisted == "zero") for x, row, kind in rows]
    return [
        Kept(
            _places(x.index) if x.array is None else _every_cell(x.shape),
            _smallest(x.value),
            x.unlisted == "zero",
        )
        for x in slices
    ]


@lru_cache(maxsize=4)
def _every_cell(shape: tuple[int, ...]) -> Array:
    return _places(np.argwhere(np.ones(shape, dtype=bool)))


def _places(index: Array) -> Array:
    return index.astype(np.min_scalar_type(int(index.max(initial=0))))


def _smallest(value: Array) -> Array:
    """Counts as the shortest whole numbers, others with seven digits where those can hold them."""
    # What the methods of an array call, without the way there.
    low = float(np.minimum.reduce(value, initial=0.0))
    high = float(np.maximum.reduce(value, initial=0.0))
    # Others are told from counts by the first few.
    counts = all(x % 1 == 0 for x in value[:4].tolist()) and (value == np.floor(value)).all()
    return value.astype(_type(low, high, bool(counts)))


def _type(low: float, high: float, counts: bool) -> Any:
    if counts and low >= 0 and high < 2**32:
        return np.min_scalar_type(int(high))
    return np.float32 if max(-low, high) < 1e30 else np.float64
