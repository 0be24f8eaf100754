"""The cells of the newest slice on the card, in buffers that every model's step reads.

The next slice may come ahead, while this one is learned: through memory that the card can reach by
itself, on a stream of its own, to a waiting room on the card. From there it is a short way to the
buffers, whose places are part of recordings and stay.

Cells that would take too much of the card's memory stay in the host's: every pass streams them
through the card, a warp's few dozen at a time, in the order and to the bits of any other slice.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.cuda.card import Card
from onlinegcp.kernels.cuda.tape import copy_on_card, copy_to_card

Array = NDArray[Any]


class SliceCells:
    """Cells and values.

    Attributes
    ----------
    index, value
        Buffers of at least n * d int32 and n float64.
    n
        Cells that mean something.
    total
        Sum of their values.
    largest
        The largest of them, or 0.
    """

    def __init__(self, card: Card, name: str) -> None:
        self._card, self.name = card, name
        self.n, self.total, self.largest = 0, 0.0, 0.0
        self.index: Any = None
        self.value: Any = None
        self._ahead: _Ahead | None = None

    def load(self, index: Array, value: Array, total: float) -> None:
        """Copy cells (n, d) and values (n,) to the card."""
        self._note(len(value), index.size, total, float(value.max(initial=0.0)))
        self._card.push(index.reshape(-1), self.index)
        self._card.push(value, self.value)

    def send_ahead(self, index: Array, value: Array, total: float) -> bool:
        """Let cells that `take_ahead` will ask for travel; False for too many. Returns at once."""
        if self._is_far(len(value), index.size):
            return False
        if self._ahead is None:
            self._ahead = _Ahead(self._card)
        self._ahead.send(index.reshape(-1), value, total)
        return True

    def take_ahead(self) -> None:
        """Load the cells that were sent ahead."""
        ahead = self._ahead
        assert ahead is not None
        self._note(ahead.n, ahead.positions, ahead.total, ahead.largest)
        ahead.take(self.index, self.value)

    def _note(self, n: int, positions: int, total: float, largest: float) -> None:
        self.n, self.total, self.largest = n, total, largest
        far = self._is_far(n, positions)
        self.index = self._card.room(f"{self.name} index", positions, np.int32, far=far)
        self.value = self._card.room(f"{self.name} value", n, far=far)

    def _is_far(self, n: int, positions: int) -> bool:
        return 8 * n + 4 * positions > self._card.most_cell_bytes


class _Ahead:
    """The way of a slice that comes ahead: here in memory the card can reach, then in its own."""

    def __init__(self, card: Card) -> None:
        self._card = card
        self.n = self.positions = 0
        self.total = self.largest = 0.0
        self._here: tuple[Any, Any] = (np.empty(0, np.int32), np.empty(0))
        self._there: tuple[Any, Any] = (None, None)
        self._come, self._gone = card.event(), card.event()
        self._gone.record(card.stream)

    def send(self, index: Array, value: Array, total: float) -> None:
        card, side = self._card, self._card.side
        side.synchronize()  # what was sent before has left the memory here
        if self._here[0].size < index.size or self._here[1].size < value.size:
            sizes = 3 * index.size // 2, 3 * value.size // 2
            self._here = card.pinned(sizes[0], np.int32), card.pinned(sizes[1])
            self._there = card.zeros(sizes[0], np.int32), card.zeros(sizes[1])
            card.stream.synchronize()  # zeros are written by the other stream
        self._gone.wait(side)
        for numbers, here, there in zip((index, value), self._here, self._there, strict=True):
            here[: numbers.size] = numbers
            copy_to_card(there, here, numbers.size, side)
        self._come.record(side)
        self.n, self.positions, self.total = value.size, index.size, total
        self.largest = float(value.max(initial=0.0))

    def take(self, *buffers: Any) -> None:
        stream = self._card.stream
        self._come.wait(stream)
        for buffer, there, size in zip(buffers, self._there, (self.positions, self.n), strict=True):
            copy_on_card(buffer, there, size, stream)
        self._gone.record(stream)
