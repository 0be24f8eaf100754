"""Parts of the cells of a slice, each of which can be predicted from the others.

Every row of every mode gets a sign, and the product of the signs of a cell says to which half it
belongs. So each half holds about half of the cells of each row, patterns that live in a few rows
are seen by both, and a sum over half of all cells needs no visit: it is half the sum over all, plus
or minus half of the sum with signs, and both are products of sums over rows. Two such boards make
quarters, in the same way.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.random import HELD_OUT, stream_key, uniform

Array = NDArray[Any]


@dataclass(frozen=True)
class Checkerboard:
    """A division of the cells of a slice.

    Attributes
    ----------
    signs
        1 or -1 for every row, (boards, I_k) per mode; about as many of either.

    Examples
    --------
    >>> checkerboard((2, 2), 0, 0).of(np.array([[0, 0], [0, 1], [1, 0], [1, 1]])).tolist()
    [0, 1, 1, 0]
    """

    signs: tuple[Array, ...]

    @property
    def n_parts(self) -> int:
        """How many parts there are; slices of few rows may leave some of them empty."""
        return int(2 ** len(self.signs[0]))

    def of(self, index: Array) -> NDArray[np.int64]:
        """The part to which each of some cells (n, d) belongs."""
        found = np.ones((len(self.signs[0]), len(index)))
        for k, sign in enumerate(self.signs):
            found *= sign[:, index[:, k]]
        return _numbered(found)

    def full(self) -> NDArray[np.int64]:
        """The part of each cell, as an array of the slice's shape."""
        boards = zip(*self.signs, strict=True)
        return _numbered(np.array([functools.reduce(np.multiply.outer, each) for each in boards]))

    def sums(self, over_cells: Callable[[Sequence[Array]], Any]) -> Array:
        """Sums over the cells of every part, stacked.

        Parameters
        ----------
        over_cells
            Gives, for numbers that belong to the rows (I_k,) of every mode, the sum over all cells
            with each cell counted as often as the product of the numbers of its rows.
        """
        turned = []
        for some in product((False, True), repeat=len(self.signs[0])):
            # The signs of some of the boards multiplied, of none of them at first.
            at = np.array(some)
            turned.append(over_cells([np.prod(sign[at], axis=0) for sign in self.signs]))
        return np.tensordot(_mixes(len(self.signs[0])), np.array(turned), axes=1)


@functools.cache
def _mixes(boards: int) -> Array:
    """How sums with the signs of some of the boards make up those over the parts."""
    mixes = np.ones((1, 1))
    for _ in range(boards):
        mixes = 0.5 * np.block([[mixes, mixes], [mixes, -mixes]])
    return mixes


def checkerboard(shape: Sequence[int], seed: int, number: int, boards: int = 1) -> Checkerboard:
    """The division of slice `number`, in halves or, by two boards, in quarters."""
    rows = int(sum(shape))
    draws = uniform(stream_key(seed, number, HELD_OUT), boards * rows).reshape(boards, rows)
    signs = []
    for part in np.split(draws, np.cumsum(shape)[:-1], axis=1):
        sign = np.ones(part.shape)
        lower = np.argsort(part, axis=1, kind="stable")[:, : part.shape[1] // 2]
        np.put_along_axis(sign, lower, -1.0, axis=1)
        signs.append(sign)
    return Checkerboard(tuple(signs))


def _numbered(signs: Array) -> NDArray[np.int64]:
    """The number that signs (boards, ...) spell: the first half is 0, the first quarter as well."""
    found = np.zeros(signs.shape[1:], dtype=np.int64)
    for one in signs:
        found = 2 * found + (one < 0.0)
    return found
