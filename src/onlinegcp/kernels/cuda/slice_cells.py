"""The cells of the newest slice on the card, in buffers that every model's step reads."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.cuda.card import Card

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

    def load(self, index: Array, value: Array, total: float) -> None:
        """Copy cells (n, d) and values (n,) to the card."""
        self.n, self.total = len(value), total
        self.largest = float(value.max(initial=0.0))
        self.index = self._card.room(f"{self.name} index", index.size, np.int32)
        self.value = self._card.room(f"{self.name} value", value.size)
        self._card.push(index.reshape(-1), self.index)
        self._card.push(value, self.value)
