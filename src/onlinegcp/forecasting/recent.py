"""The newest slices of a stream in little space: what a forecast knows beyond the patterns.

Few slices are kept where they hold much, more where they hold little, and none of those that are
too large: what is kept is bounded whatever the stream. Numbers lie in the smallest type that holds
them, found anew from the numbers alone, so that a stored copy goes on as the original would.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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

    Examples
    --------
    >>> recent = Recent().after(Slice([[0, 1], [2, 0]], [3, 4], (3, 2)))
    >>> recent = Recent.of(recent.to_arrays())
    >>> recent.slices[0].index.tolist(), recent.slices[0].value.tolist(), len(recent)
    ([[0, 1], [2, 0]], [3, 4], 1)
    """

    slices: tuple[Kept, ...] = ()

    def __len__(self) -> int:
        return len(self.slices)

    def after(self, x: Slice) -> Recent:
        """With one slice more, and as many of the others as there is room for."""
        if x.n_listed > LARGEST:
            return Recent()
        index = x.index if x.array is None else np.argwhere(np.ones(x.shape, dtype=bool))
        return self._with(_kept(index, x.value, x.unlisted == "zero"))

    def _with(self, newest: Kept) -> Recent:
        slices, listed, first = (*self.slices, newest), 0, len(self.slices) + 1
        while first > 0:
            listed += len(slices[first - 1].value)
            count = len(slices) - first + 1
            if count > MOST or listed > (LARGE if count <= FEW else SMALL):
                break
            first -= 1
        return Recent(slices[first:])

    def without_last(self) -> Recent:
        """Without the newest one."""
        return Recent(self.slices[:-1])

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
        return Recent(tuple(_kept(index[a:b], value[a:b], whole) for (a, b), whole in parts))


def _kept(index: Array, value: Array, whole: bool) -> Kept:
    places = index.astype(np.min_scalar_type(int(index.max(initial=0))))
    return Kept(places, _smallest(value), whole)


def _smallest(value: Array) -> Array:
    """Counts as the shortest whole numbers, others with seven digits where those can hold them."""
    low, high = float(value.min(initial=0)), float(value.max(initial=0))
    if low >= 0 and high < 2**32 and (value == np.floor(value)).all():
        return value.astype(np.min_scalar_type(int(high)))
    return value.astype(np.float32 if max(-low, high) < 1e30 else np.float64)
