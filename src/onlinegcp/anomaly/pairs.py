"""Pairs of rows that carry mass: what moves within a row without changing its sum.

Of each two modes the heaviest pairs have a past of their own, a few per row. The others are judged
like new rows: as if they had no more events than the lightest pair that is kept. A pair comes in
with two events in one slice: what never has two is too light to tell anything.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from onlinegcp.anomaly.shares import MEMORY, Judged, RowShares
from onlinegcp.kernels.pairs import behind_known, count_pairs, mix_rows
from onlinegcp.kernels.shares import FIELDS_OF_PAIRS
from onlinegcp.slices import Slice

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]

PER_ROW = 8  # pairs kept, per row of the two modes
FEWEST = 4096  # pairs kept in any case
FORGOTTEN = 0.05  # events left in memory below which a pair is dropped
ENTRANCE = 2.0  # events in one slice with which a pair comes in
SLACK = 1.25  # times as many as are kept, before the lightest are dropped
TABLE = 1 << 20  # pairs up to which counting goes through a table of them all
SHIFT = 32  # a pair is one number: a row of the first mode above it, of the second below
MASK = (1 << SHIFT) - 1
LARGEST = 10.0  # surprise that a single pair counts for in the mixture of its row
FEW = 3  # pairs of a row below which it has no mixture


class Mixtures(NamedTuple):
    """How far the mixture within each row is off, as a normal z; 0 for rows of few pairs.

    Of the rows of both modes, with the largest of all and how many there are.
    """

    first: FloatArray
    second: FloatArray
    largest: float
    number: int


def mixtures(keys: IntArray, seen: Judged) -> Mixtures | None:
    """The mixtures of rows, where pairs are judged.

    The squared surprises of n pairs sum up to a chi-square.
    """
    if not seen.ready or not len(keys):
        return None
    return Mixtures(*mix_rows(keys, SHIFT, seen.surprise, LARGEST, FEW))


@final
class HeavyPairs:
    """The heaviest pairs of rows of two modes.

    Parameters
    ----------
    first, second
        The modes.
    period
        Slices after which shares repeat; 1 for none.
    """

    def __init__(self, first: int, second: int, period: int = 1) -> None:
        self.first, self.second = first, second
        self.keys = np.zeros(0, dtype=np.int64)  # sorted
        self.shares = RowShares(period, FIELDS_OF_PAIRS)
        self.shares.newcomer = ENTRANCE

    def judge(
        self, x: Slice, unit: float, *, special: int, total: float
    ) -> tuple[IntArray, Judged]:
        """Keys of the kept pairs and of the others in the slice, and how they compare."""
        keys, sums = behind_known(self.keys, *self._count(x))
        if unit != 1.0:
            sums /= unit
        return keys, self.shares.judge(sums, special=special, total=total)

    def learn(self, keys: IntArray, seen: Judged, *, special: int, shape: tuple[int, ...]) -> None:
        """Remember a judged slice and keep the heaviest pairs."""
        known = len(self.keys)
        (fresh,) = (seen.observed[known:] >= ENTRANCE).nonzero()
        if len(fresh):
            fresh += known
            chosen = np.concatenate([np.arange(known), fresh])
            observed, compared = seen.observed[chosen], seen.compared.take(chosen, axis=1)
            seen = Judged(observed, compared, seen.total, known, seen.ready)
        self.shares.learn(seen, special=special, n_rows=known + len(fresh))
        if not len(fresh):
            return
        most = max(FEWEST, PER_ROW * (shape[self.first] + shape[self.second]))
        self.keys = np.concatenate([self.keys, keys[fresh]])
        if len(self.keys) > SLACK * most:
            events = self.shares.events
            order = np.flatnonzero(events > FORGOTTEN)
            if len(order) > most:
                heaviest = np.argsort(-events[order], kind="stable")
                dropped = order[heaviest[most:]]
                # One that has just come in, and goes again, may be there in every slice.
                steady = np.where(dropped >= known, MEMORY, 1.0) * events[dropped]
                self.shares.newcomer = max(ENTRANCE, float(steady.max()))
                order = order[heaviest[:most]]
            order = order[np.argsort(self.keys[order], kind="stable")]
        else:
            order = np.argsort(self.keys, kind="stable")
        self.shares.keep(order)
        self.keys = self.keys[order]

    def rows(self, key: int) -> tuple[int, int]:
        """The two rows of a pair."""
        return int(key >> SHIFT), int(key & MASK)

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and numbers it goes on from."""
        arrays, record = self.shares.state()
        return {**arrays, "keys": self.keys}, {**record, "modes": [self.first, self.second]}

    @classmethod
    def from_state(cls, arrays: dict[str, NDArray[Any]], record: dict[str, Any]) -> HeavyPairs:
        """What `state` described."""
        made = cls(*map(int, record["modes"]))
        made.keys = np.array(arrays["keys"], dtype=np.int64)
        made.shares = RowShares.from_state(arrays, record, FIELDS_OF_PAIRS)
        return made

    def _count(self, x: Slice) -> tuple[IntArray, FloatArray]:
        lengths = x.shape[self.first], x.shape[self.second]
        if lengths[0] * lengths[1] <= min(TABLE, 64 * max(x.n_listed, 256)):
            found: tuple[IntArray, FloatArray] = count_pairs(
                x.index, self.first, self.second, x.value, SHIFT, np.zeros(lengths)
            )
            return found
        one, two = x.index[:, self.first].astype(np.int64), x.index[:, self.second]
        keys, place = np.unique((one << SHIFT) | two, return_inverse=True)
        sums = np.asarray(np.bincount(place, x.value, minlength=len(keys)), np.float64)
        return keys, sums
