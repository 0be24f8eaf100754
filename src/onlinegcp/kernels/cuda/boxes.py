"""Short vectors that travel together between host and card."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.cuda.card import Card

Array = NDArray[Any]


class Box:
    """Short vectors by name, in one piece on the card and in one on the host.

    One copy takes all of them along: each would cost as much as a small kernel.

    Parameters
    ----------
    card
        The card.
    whole
        Lengths of vectors of whole numbers, by name.
    **sizes
        Lengths of vectors of float64.
    """

    def __init__(self, card: Card, whole: dict[str, int] | None = None, **sizes: int) -> None:
        self._card, places, end = card, {}, 0
        whole = whole or {}
        for name, size in (whole | sizes).items():
            places[name] = slice(end, end + size)
            end += size
        self._here, self._there = card.pinned(end), card.zeros(end)

        def cut(array: Any) -> dict[str, Any]:
            kinds = {name: np.int64 if name in whole else np.float64 for name in places}
            return {name: array[at].view(kinds[name]) for name, at in places.items()}

        self._ours: dict[str, Array] = cut(self._here)
        self._theirs = cut(self._there)
        self._cuts: dict[tuple[str, int, int], Any] = {}

    def __getitem__(self, name: str) -> Array:
        return self._ours[name]

    def card(self, name: str, first: int = 0, end: int | None = None) -> Any:
        """The vector on the card, or a part of it; cut once, for cutting takes Numba long."""
        if end is None:
            return self._theirs[name]
        if (name, first, end) not in self._cuts:
            self._cuts[name, first, end] = self._theirs[name][first:end]
        return self._cuts[name, first, end]

    def send(self) -> None:
        """Copy all of them to the card."""
        self._there.copy_to_device(self._here, stream=self._card.stream)

    def receive(self) -> None:
        """Copy all of them to the host."""
        self._there.copy_to_host(self._here, stream=self._card.stream)
