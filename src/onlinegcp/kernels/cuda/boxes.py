"""Short vectors that travel together between host and card."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.cuda.card import Card

Array = NDArray[Any]


class Box:
    """Short vectors by name, in one piece on the card and in one on the host."""

    def __init__(self, card: Card, **sizes: int) -> None:
        self._card, self._places, end = card, {}, 0
        for name, size in sizes.items():
            self._places[name] = slice(end, end + size)
            end += size
        self._here, self._there = card.pinned(end), card.zeros(end)
        self._views = {name: self._there[place] for name, place in self._places.items()}

    def __getitem__(self, name: str) -> Array:
        return np.asarray(self._here[self._places[name]])

    def card(self, name: str) -> Any:
        """The vector on the card."""
        return self._views[name]

    def send(self) -> None:
        """Copy all of them to the card."""
        self._there.copy_to_device(self._here, stream=self._card.stream)

    def receive(self) -> None:
        """Copy all of them to the host."""
        self._there.copy_to_host(self._here, stream=self._card.stream)
