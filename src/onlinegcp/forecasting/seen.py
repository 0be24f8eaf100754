"""Which cells are usually observed: a total is the sum of these.

A sensor without a thermometer has no temperature, and nobody adds up what it would have been. So
where cells are missing each counts by the share of the newest slices that list it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from onlinegcp.forecasting.recent import Recent

FloatArray: TypeAlias = NDArray[np.float64]

# Slices after which one counts half: what is new, or gone, is soon all there is, and one outage is
# not taken for the rule.
_HALF_LIFE = 5.0


@final
@dataclass(frozen=True)
class Seen:
    """How often each cell is observed.

    Attributes
    ----------
    shape
        Lengths of the modes.
    always
        Share of slices in which no cell is missing.
    index, share
        Cells that others list, and the share of all slices that are such and list them.
    """

    shape: tuple[int, ...]
    always: float = 1.0
    index: NDArray[np.int64] | None = None
    share: FloatArray | None = None

    @staticmethod
    def lately(recent: Recent, shape: tuple[int, ...]) -> Seen:
        """In the newest slices, but for those that nobody observed.

        Examples
        --------
        >>> from onlinegcp.slices import Slice
        >>> both = Slice([[0], [1]], [5.0, 1.0], (3,), unlisted="missing")
        >>> one = Slice([[0]], [4.0], (3,), unlisted="missing")
        >>> Seen.lately(Recent().after(both, one), (3,)).dense().round(2).tolist()
        [1.0, 0.47, 0.0]
        """
        observed = [x for x in recent.slices if x.whole or len(x.value)]
        counts = 0.5 ** (np.arange(len(observed))[::-1] / _HALF_LIFE)
        counts /= max(counts.sum(), 1e-300)
        parts = [
            (x.index.astype(np.int64), np.full(len(x.value), count))
            for x, count in zip(observed, counts, strict=True)
            if not x.whole
        ]
        if not parts:
            return Seen(shape)
        listed, share = (np.concatenate([part[k] for part in parts]) for k in range(2))
        linear = np.ravel_multi_index(tuple(listed.T), shape)
        cells, place = np.unique(linear, return_inverse=True)
        index = np.stack(np.unravel_index(cells, shape), axis=1)
        whole = sum(count for x, count in zip(observed, counts, strict=True) if x.whole)
        return Seen(shape, float(whole), index, np.bincount(place, share).astype(np.float64))

    def sums(self, factors: Sequence[FloatArray]) -> FloatArray:
        """What each component holds in cells as often as they are observed."""
        found = self.always * np.prod([a.sum(axis=0) for a in factors], axis=0)
        if self.index is not None and self.share is not None:
            rows = [a[where] for a, where in zip(factors, self.index.T, strict=True)]
            found = found + self.share @ np.prod(rows, axis=0)
        return np.asarray(found)

    def at(self, index: NDArray[np.int64]) -> FloatArray:
        """The share of slices that have each of some cells."""
        found = np.full(len(index), self.always)
        if self.index is not None and self.share is not None and len(index):
            known = np.ravel_multi_index(tuple(self.index.T), self.shape)
            wanted = np.ravel_multi_index(tuple(index.T), self.shape)
            place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
            found += np.where(known[place] == wanted, self.share[place], 0.0)
        return found

    def dense(self) -> FloatArray:
        """The share of slices that have each cell, as an array."""
        found = np.full(self.shape, self.always)
        if self.index is not None and self.share is not None:
            found[tuple(self.index.T)] += self.share
        return found
