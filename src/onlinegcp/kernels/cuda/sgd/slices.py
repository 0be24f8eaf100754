"""The newest slice on the card as draws read it: listed cells, their bits and their linear indices.

What a plan does not ask for is not built; everything is built on the card.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import weakref
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from onlinegcp.kernels.cuda.card import Card, card
from onlinegcp.kernels.cuda.sgd.draws import list_kernel
from onlinegcp.kernels.sgd.membership import BITMAP, BITMAP_CELLS, NONE, TABLE
from onlinegcp.kernels.sgd.plan import Plan

if TYPE_CHECKING:
    from onlinegcp.slices import Slice

THREADS = 256


@dataclass(frozen=True)
class CardCells:
    """A slice, and what a plan asks of it; on the card once `load` was called."""

    x: Slice
    membership: bool
    linear: bool

    def load(self) -> SampledSlice:
        """The slice on the card."""
        return sampled_slice(card()).load(self.x, self.membership, self.linear)


def prepare_cells(x: Slice, plan: Plan) -> CardCells:
    """What draws of a plan need of a slice."""
    return CardCells(x, plan.needs_membership, plan.needs_membership or plan.needs_linear)


@cache
def sampled_slice(on: Card) -> SampledSlice:
    """The one slice that lies on a card."""
    return SampledSlice(on)


class SampledSlice:
    """Buffers of the newest slice.

    Attributes
    ----------
    index, value, linear, bitmap
        Coordinates, data, linear indices and bits of the listed cells.
    kind, mask
        What the bits stand for, as in `kernels.sgd.membership`.
    sorted
        Listed cells in `linear`.
    """

    def __init__(self, on: Card) -> None:
        self._card = on
        self._whose: weakref.ref[Slice] | None = None
        self.index: Any = None
        self.value: Any = None
        self.linear: Any = None
        self.bitmap: Any = None
        self.kind = NONE
        self.mask = self.sorted = self.n_listed = 0

    def load(self, x: Slice, membership: bool, linear: bool) -> SampledSlice:
        """Bring a slice and what is asked of it to the card, unless it is there."""
        on, dense = self._card, x.array is not None
        if self._whose is None or self._whose() is not x:
            self._whose = None
            self.kind, self.mask, self.sorted, self.n_listed = NONE, 0, 0, x.n_listed
            index = np.zeros(0, np.int32) if dense else np.ascontiguousarray(x.index, np.int32)
            value = x.value if x.array is None else np.ascontiguousarray(x.array)
            far = 4 * index.size + 8 * value.size > on.most_cell_bytes
            self.index = on.room("sgd index", index.size, np.int32, far=far)
            self.value = on.room("sgd value", value.size, far=far)
            self.linear = on.room("sgd linear", 1, np.int64)
            self.bitmap = on.room("sgd bitmap", 1, np.uint64)
            on.push(index.reshape(-1), self.index)
            on.push(np.ascontiguousarray(value.reshape(-1), np.float64), self.value)
            self._whose = weakref.ref(x)
        if not dense and ((membership and self.kind == NONE) or (linear and not self.sorted)):
            self._list(x, membership)
        return self

    def _list(self, x: Slice, membership: bool) -> None:
        on = self._card
        self.linear = on.room("sgd linear", x.n_listed, np.int64)
        self.sorted = x.n_listed
        if membership:
            bits = x.size
            self.kind = BITMAP if x.size <= BITMAP_CELLS else TABLE
            if self.kind == TABLE:
                bits = min(1 << max(6, (16 * x.n_listed - 1).bit_length()), BITMAP_CELLS)
                self.mask = bits - 1
            words = -(-bits // 64)
            self.bitmap = on.room("sgd bitmap", words, np.uint64)
            on.clear(self.bitmap)
        shape = on.zeros(x.ndim, np.int64)
        on.push(np.array(x.shape, np.int64), shape)
        blocks = max(1, min(4096, -(-x.n_listed // THREADS)))
        # One warp at a time is all that the simulator can do.
        threads = 32 if on.simulated else THREADS
        list_kernel(x.ndim)[blocks, threads, on.stream](
            self.index, x.n_listed, shape, self.kind, self.mask, self.linear, self.bitmap
        )
        on.wait()  # `shape` goes
