"""Which cells of a slice are listed, and where: the structure behind zero rejection.

Up to 2^29 cells a bitmap with one bit per cell answers at once, and counting bits (a running total
per word) gives the position in the sorted list. Larger slices get a bitmap of hashes, which says
"surely not listed" for 15 cells of 16, before an open-addressing table of linear indices.
Binary search was measured seven times slower.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from onlinegcp.entries import linear_index
from onlinegcp.kernels import random
from onlinegcp.kernels.jit import kernel
from onlinegcp.kernels.sgd.plan import Plan, words_of_modes
from onlinegcp.kernels.simd import count_bits, peek

if TYPE_CHECKING:
    from onlinegcp.slices import Slice

# Largest bitmap: 64 MB.
BITMAP_CELLS = 1 << 29

NONE, BITMAP, TABLE = 0, 1, 2

mix64 = kernel(random.mix64, forceinline=True)


@dataclass(frozen=True)
class Cells:
    """A slice as the drawing kernels read it.

    Attributes
    ----------
    shape, words
        Mode lengths, and the random word that serves each mode: (d,) int64.
    index
        Coordinates of listed cells, flattened: (n d,) int32; empty for a dense array.
    value
        Values of the listed cells, or the flattened dense array.
    linear
        Linear indices of the listed cells where zeros are counted, else empty.
    bitmap, ranks
        Bits of cells (or of hashes), and listed cells before each word.
    keys, positions
        The hash table: linear index or -1, and position in the list.
    counts
        n_listed, n_unlisted, size, kind (NONE, BITMAP or TABLE), bitmap mask, table mask:
        (6,) int64.
    """

    shape: NDArray[np.int64]
    words: NDArray[np.int64]
    index: NDArray[np.int32]
    value: NDArray[np.float64]
    linear: NDArray[np.int64]
    bitmap: NDArray[np.uint64]
    ranks: NDArray[np.int64]
    keys: NDArray[np.int64]
    positions: NDArray[np.int64]
    counts: NDArray[np.int64]


def build_cells(x: Slice, plan: Plan, *, bitmap_cells: int = BITMAP_CELLS) -> Cells:
    """Prepare a slice for a plan; what the plan does not ask for is not built.

    Parameters
    ----------
    x
        The slice.
    plan
        The draws to come.
    bitmap_cells
        Largest slice that gets one bit per cell.
    """
    dense = x.array is not None
    index = np.zeros(0, np.int32) if x.array is not None else x.index.reshape(-1)
    value = x.value if x.array is None else np.ascontiguousarray(x.array).reshape(-1)
    nothing = np.zeros(0, np.int64)
    linear, kind = nothing, NONE
    bitmap, ranks = np.zeros(1, np.uint64), nothing
    keys, positions = nothing, nothing
    bitmap_mask = table_mask = 0
    if not dense and (plan.needs_membership or plan.needs_linear):
        linear = linear_index(x.index, x.shape)
    if not dense and plan.needs_membership:
        if x.size <= bitmap_cells:
            kind = BITMAP
            bitmap = _bitmap(linear, x.size)
            if plan.needs_lookup:
                ones = np.bitwise_count(bitmap).astype(np.int64)
                ranks = np.cumsum(ones) - ones
        else:
            kind = TABLE
            bits = 1 << max(6, (16 * x.n_listed - 1).bit_length())
            slots = 1 << max(3, (2 * x.n_listed - 1).bit_length())
            bitmap_mask, table_mask = min(bits, BITMAP_CELLS) - 1, slots - 1
            bitmap = np.zeros((bitmap_mask + 1) // 64, np.uint64)
            keys, positions = np.full(slots, -1, np.int64), np.zeros(slots, np.int64)
            _fill_table(linear, bitmap, bitmap_mask, keys, positions, table_mask)
    # Numba compiles read-only and writable arrays apart: here they are always read-only.
    index, value = index.view(), value.view()
    index.flags.writeable = value.flags.writeable = False
    counts = np.array(
        [x.n_listed, x.size - x.n_listed, x.size, kind, bitmap_mask, table_mask], np.int64
    )
    if not plan.needs_linear:
        linear = nothing
    return Cells(
        np.array(x.shape, np.int64),
        words_of_modes(x.shape),
        index,
        value,
        linear,
        bitmap,
        ranks,
        keys,
        positions,
        counts,
    )


def _bitmap(linear: NDArray[np.int64], size: int) -> NDArray[np.uint64]:
    bitmap = np.zeros(-(-size // 64), np.uint64)
    _set_bits(linear, bitmap)
    return bitmap


@kernel
def _set_bits(linear, bitmap):
    for i in range(len(linear)):
        cell = np.uint64(linear[i])
        bitmap[np.int64(cell >> np.uint64(6))] |= np.uint64(1) << (cell & np.uint64(63))


@kernel
def _fill_table(linear, bitmap, bitmap_mask, keys, positions, table_mask):
    # Writes the table serially: linear probing depends on the order of insertion.
    for i in range(len(linear)):
        code = mix64(np.uint64(linear[i]))
        bit = (code >> np.uint64(32)) & np.uint64(bitmap_mask)
        bitmap[np.int64(bit >> np.uint64(6))] |= np.uint64(1) << (bit & np.uint64(63))
        slot = np.int64(code & np.uint64(table_mask))
        while keys[slot] >= 0:
            slot = (slot + 1) & table_mask
        keys[slot] = linear[i]
        positions[slot] = i


@kernel(forceinline=True)
def is_listed(cell, kind, bitmap, bitmap_mask, keys, table_mask):
    """Whether the cell of this linear index (uint64) is listed."""
    if kind == BITMAP:
        bits = peek(bitmap, np.int64(cell >> np.uint64(6)))
        return ((bits >> (cell & np.uint64(63))) & np.uint64(1)) != 0
    code = mix64(cell)
    bit = (code >> np.uint64(32)) & np.uint64(bitmap_mask)
    bits = peek(bitmap, np.int64(bit >> np.uint64(6)))
    if ((bits >> (bit & np.uint64(63))) & np.uint64(1)) == 0:
        return False
    slot = np.int64(code & np.uint64(table_mask))
    while True:
        key = peek(keys, slot)
        if key == np.int64(cell):
            return True
        if key < 0:
            return False
        slot = (slot + 1) & table_mask


@kernel(forceinline=True)
def find_listed(cell, kind, bitmap, ranks, keys, positions, table_mask):
    """Position of a cell (uint64) in the sorted list, or -1."""
    if kind == BITMAP:
        at = np.int64(cell >> np.uint64(6))
        bits = peek(bitmap, at)
        mask = np.uint64(1) << (cell & np.uint64(63))
        if (bits & mask) == 0:
            return np.int64(-1)
        return peek(ranks, at) + count_bits(bits & (mask - np.uint64(1)))
    code = mix64(cell)
    slot = np.int64(code & np.uint64(table_mask))
    while True:
        key = peek(keys, slot)
        if key == np.int64(cell):
            return peek(positions, slot)
        if key < 0:
            return np.int64(-1)
        slot = (slot + 1) & table_mask


@kernel
def unlisted_cell(rank, linear, n_listed):
    """Linear index of the unlisted cell that has `rank` unlisted cells before it."""
    low, high = 0, n_listed
    # The first listed position with more than `rank` unlisted cells before it.
    while low < high:
        middle = (low + high) // 2
        if peek(linear, middle) - middle > rank:
            high = middle
        else:
            low = middle + 1
    return rank + low
