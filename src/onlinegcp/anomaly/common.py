"""What rows have in common: moves that many make together, and what each shows without them.

A cold day has fewer reports from every park: rows follow one another, and one that does not is odd
long before it has left its own range. So the surprises of all rows are a few common moves plus what
each shows alone. The moves are the leading directions of the past, where they are more than chance
would show; how strongly each is present in a slice is told by all rows but the one that is judged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from onlinegcp.anomaly.shares import Judged
from onlinegcp.kernels.common import learn_common, without_common
from onlinegcp.kernels.shares import ODD

FloatArray: TypeAlias = NDArray[np.float64]

MOVES = 6  # that are followed
MEMORY = 200.0  # slices they are the average of: with fewer, a hundred rows move by chance
LEAST = 30  # slices before they are used
HEAVY = 5.0  # expected events of a row that is asked: fewer jump between whole numbers
PRIOR = 20.0  # slices in which a row is taken to have nothing in common with the others


@dataclass(frozen=True)
class Alone:
    """Rows of all modes without what they have in common.

    Attributes
    ----------
    surprise
        Of every row, one mode behind the other.
    heavy
        Rows that are asked; the others show nothing.
    left
        (2, n) the surprise without common moves, in the standard deviations of the surprise, and in
        those of what is left of it.
    starts
        Where each mode begins, and the end of all.
    """

    surprise: FloatArray
    heavy: NDArray[np.bool_]
    left: FloatArray
    starts: tuple[int, ...]

    def of_mode(self, k: int) -> FloatArray:
        """What `left` says of the rows of one mode."""
        part: FloatArray = self.left[:, self.starts[k] : self.starts[k + 1]]
        return part


@final
class CommonMoves:
    """Directions in which the rows of all modes move together."""

    def __init__(self) -> None:
        self.n_slices = 0
        self.asked = 0.0  # rows, in all slices of the memory
        self.lengths: list[int] = []
        self.sums = np.zeros((MOVES, 0))  # over the past, of rows times how strong a move was
        self.found = np.zeros((MOVES, 0))  # directions, of length one
        self.scale = np.zeros(MOVES)  # standard deviations of moves; 0 for what may be chance
        self.alone = np.zeros((2, 0))  # squares of what rows showed alone, and how often

    def judge(self, rows: Sequence[Judged], *, counted: bool) -> Alone:
        """What rows show alone; nothing is changed.

        Parameters
        ----------
        rows
            Those of each mode, judged.
        counted
            Whether they are sums of counts.
        """
        lengths = [len(seen.surprise) for seen in rows]
        compared = np.concatenate([seen.compared for seen in rows], axis=1)
        heavy = compared[0] >= HEAVY if counted else np.isfinite(compared[1])
        left, surprise = np.empty((2, len(heavy))), compared[2]
        found, alone = (_grown(part, self.lengths, lengths) for part in (self.found, self.alone))
        without_common(found, self.scale, alone, PRIOR, surprise, heavy, ODD, left)
        return Alone(surprise, heavy, left, tuple(accumulate(lengths, initial=0)))

    @property
    def ready(self) -> bool:
        """Whether rows are known to have something in common."""
        return self.n_slices >= LEAST and bool(self.scale.any())

    def learn(self, seen: Alone) -> None:
        """Remember a judged slice."""
        lengths = [end - start for start, end in pairwise(seen.starts)]
        begun = bool(self.lengths)
        keep = 1.0 - 1.0 / min(MEMORY, self.n_slices + 1.5)
        self.sums, self.found, self.alone = (
            _grown(part, self.lengths, lengths, copy=True)
            for part in (self.sums, self.found, self.alone)
        )
        if not begun:  # any directions will do: the data turn them
            n = len(seen.surprise)
            waves = np.outer(np.arange(1, MOVES + 1), np.arange(1, n + 1))
            self.found = np.cos(waves) * math.sqrt(2.0 / max(n, 1))
        self.lengths, self.scale = lengths, self.scale.copy()
        self.n_slices += 1
        slices = min(MEMORY, self.n_slices + 0.5)
        self.asked = keep * self.asked + int(np.count_nonzero(seen.heavy))
        learn_common(
            self.sums, self.found, self.scale, self.alone, seen.surprise, seen.heavy, seen.left,
            ODD, keep, slices, self.asked / slices,
        )  # fmt: skip

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and numbers it goes on from."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        return arrays, {name: getattr(self, name) for name in _NUMBERS}

    @classmethod
    def from_state(cls, arrays: dict[str, NDArray[Any]], record: dict[str, Any]) -> CommonMoves:
        """What `state` described."""
        made = cls()
        for name in _ARRAYS:
            setattr(made, name, np.array(arrays[name], dtype=np.float64))
        made.n_slices, made.asked = int(record["n_slices"]), float(record["asked"])
        made.lengths = list(map(int, record["lengths"]))
        return made


def _grown(
    part: FloatArray, before: list[int], now: list[int], *, copy: bool = False
) -> FloatArray:
    """Columns of rows, with zeros for those that have come to a mode since."""
    if before == now:
        return part.copy() if copy else part
    wider = np.zeros((len(part), sum(now)))
    old = new = 0
    for had, has in zip(before, now, strict=False):
        wider[:, new : new + had] = part[:, old : old + had]
        old, new = old + had, new + has
    return wider


_ARRAYS = ("sums", "found", "scale", "alone")
_NUMBERS = ("n_slices", "asked", "lengths")
