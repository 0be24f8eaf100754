"""Matrices of a model that lie on the card: values that nobody changes once they are made.

The memory of those that nobody holds any more is used again, the latest first, so that a stream
goes to and fro between two places, and what was recorded for them is played again.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.cuda.card import Card

Array = NDArray[Any]

_serials = itertools.count()


class Place:
    """Memory for a few matrices, known by name; recordings hold on to it, and not to who is there.

    Attributes
    ----------
    serial
        Tells places apart.
    """

    factors: Any
    rate: Any
    curvature: Any
    slope: Any
    sensitivity: Any

    def __init__(self, arrays: dict[str, Any]) -> None:
        self.serial, self.arrays = next(_serials), arrays
        for name, array in arrays.items():
            setattr(self, name, array)


class Matrices:
    """What lies in a place; see `Shelf`, which makes them."""

    def __init__(self, card: Card, place: Place) -> None:
        self._card, self.place = card, place
        self._pulled: dict[str, Array] = {}

    def pull(self, name: str, shape: tuple[int, ...]) -> Array:
        """A matrix on the host; fetched once."""
        if name not in self._pulled:
            with self._card.turn:
                flat = self._card.pull(self.place.arrays[name], int(np.prod(shape)))
            self._pulled[name] = flat.reshape(shape)
        return self._pulled[name]

    def push(self, name: str, matrix: Array) -> None:
        """Fill a matrix from the host; for whoever has just made them."""
        self._card.push(np.ascontiguousarray(matrix).reshape(-1), self.place.arrays[name])


class Shelf:
    """Places for matrices of one size, and `others` of their own, taken and given back."""

    def __init__(self, card: Card, names: Sequence[str], size: int, **others: int) -> None:
        self._card, self._sizes = card, {**dict.fromkeys(names, size), **others}
        self._free: list[Place] = []
        self._after: dict[int, int] = {}  # the place that a step from a place went to last

    def take(self, after: Matrices | None = None) -> Matrices:
        """Matrices of any content, whose place comes back when they are gone.

        Where it is free, the place that steps from `after` went to before: there is a recording.
        """
        serials = [place.serial for place in self._free]
        if after is not None and self._after.get(after.place.serial) in serials:
            place = self._free.pop(serials.index(self._after[after.place.serial]))
        elif self._free:
            place = self._free.pop()
        else:
            place = Place({name: self._card.zeros(size) for name, size in self._sizes.items()})
        if after is not None:
            self._after[after.place.serial] = place.serial
        made = Matrices(self._card, place)
        weakref.finalize(made, self._free.append, place)
        return made
