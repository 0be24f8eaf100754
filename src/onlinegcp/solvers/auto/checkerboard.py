"""Two halves of the cells of a slice, each of which knows enough of every row to predict the other.

Every row of every mode gets a sign, and the product of the signs of a cell says to which half it
belongs. So each half holds about half of the cells of each row, patterns that live in a few rows
are seen by both, and a sum over half of all cells needs no visit: it is half the sum over all, plus
or minus half of the sum with signs, and both are products of sums over rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
        1 or -1 for every row, one vector per mode; about as many of either.

    Examples
    --------
    >>> board = checkerboard((2, 2), 0, 0)
    >>> int(board.of(np.array([[0, 0], [0, 1], [1, 0], [1, 1]])).sum())
    2
    """

    signs: tuple[Array, ...]

    def of(self, index: Array) -> NDArray[np.bool_]:
        """Whether each of some cells (n, d) belongs to the first half."""
        product = np.ones(len(index))
        for k, sign in enumerate(self.signs):
            product *= sign[index[:, k]]
        return np.asarray(product > 0.0)

    def full(self) -> NDArray[np.bool_]:
        """Whether each cell belongs to the first half, as an array of the slice's shape."""
        product = np.ones(())
        for sign in self.signs:
            product = np.multiply.outer(product, sign)
        return np.asarray(product > 0.0)

    def sums(self, parts: Sequence[Array], signed: Sequence[Array]) -> tuple[Array, Array]:
        """Sums over the cells of either half, of what is a product over the modes.

        Parameters
        ----------
        parts
            For every mode the sum over its rows.
        signed
            The same with the rows' signs.
        """
        all_cells, difference = np.prod(parts, axis=0), np.prod(signed, axis=0)
        return 0.5 * (all_cells + difference), 0.5 * (all_cells - difference)


def checkerboard(shape: Sequence[int], seed: int, number: int) -> Checkerboard:
    """The division of slice `number`; the same for all models with this seed."""
    draws = uniform(stream_key(seed, number, HELD_OUT), int(sum(shape)))
    signs = []
    for part in np.split(draws, np.cumsum(shape)[:-1]):
        sign = np.ones(len(part))
        sign[np.argsort(part, kind="stable")[: len(part) // 2]] = -1.0
        signs.append(sign)
    return Checkerboard(tuple(signs))
