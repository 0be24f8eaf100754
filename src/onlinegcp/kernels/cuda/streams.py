"""A second stream that leaves the card's own and comes back to it, also while it is recorded."""

# mypy: disable-error-code="no-untyped-call,attr-defined,call-arg"

from __future__ import annotations

from typing import Any

from onlinegcp.kernels.cuda.card import Card
from onlinegcp.kernels.cuda.lanes import SIMULATED


class Side:
    """The second stream.

    Attributes
    ----------
    stream
        What goes here between `fork` and `join` runs beside the card's own stream.
    """

    def __init__(self, card: Card) -> None:
        self._card = card
        self.stream: Any = card.stream
        if not SIMULATED:
            from numba import cuda

            self.stream = cuda.stream()
            self._left, self._back = cuda.event(timing=False), cuda.event(timing=False)

    def fork(self) -> None:
        """From here on the second stream goes its own way."""
        if not SIMULATED:
            self._left.record(self._card.stream)
            self._left.wait(self.stream)

    def join(self) -> None:
        """The card's own stream goes on when the second one has come as far as this."""
        if not SIMULATED:
            self._back.record(self.stream)
            self._back.wait(self._card.stream)
