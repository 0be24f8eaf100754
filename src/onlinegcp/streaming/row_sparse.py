"""Rows of a factor that a sparse slice does not touch, held by a handful of rows in their place.

Least squares moves all rows without data alike, a -> a P with one matrix P of size R x R, whether
or not columns are scaled on the way. All that the touched rows need to know of the others is their
product with themselves, and R rows with the same product (a triangle) stand in for thousands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from onlinegcp.slices import Slice
from onlinegcp.streaming.state import FloatArray

# Stand-ins and bookkeeping are 2 R rows: worth it where they replace several times as many.
SAVING = 4


@final
class Block:
    """The rows of one mode that a solve works on.

    Attributes
    ----------
    old
        The rows before the slice.
    rows
        The same rows now.
    n
        How many of them count; the R after those follow P, starting from the identity.
    touched
        Which rows of the mode the first ones are; None where they are all of them.
    """

    def __init__(
        self, old: FloatArray, n: int | None = None, touched: NDArray[np.integer[Any]] | None = None
    ):
        self.old = old
        self.rows = old.copy()
        self.n = len(old) if n is None else n
        self.touched = touched

    @property
    def counted(self) -> FloatArray:
        """The rows that count."""
        return self.rows[: self.n]


def compress(x: Slice, factors: Sequence[FloatArray]) -> tuple[Slice, list[Block]]:
    """The slice and its modes without the rows it leaves alone, where that saves work."""
    blocks: list[Block] = []
    if x.array is not None or x.unlisted != "zero":
        return x, [Block(a) for a in factors]
    index = x.index.copy()
    for k, a in enumerate(factors):
        rank = a.shape[1]
        touched = np.unique(index[:, k])
        if SAVING * (len(touched) + 2 * rank) > len(a):
            blocks.append(Block(a))
            continue
        idle = np.ones(len(a), dtype=bool)
        idle[touched] = False
        stand_ins = np.linalg.qr(a[idle], mode="r")
        rows = np.vstack([a[touched], stand_ins, np.eye(rank)])
        blocks.append(Block(rows, len(touched) + len(stand_ins), touched))
        index[:, k] = np.searchsorted(touched, index[:, k])
    if all(block.touched is None for block in blocks):
        return x, blocks
    return Slice(index, x.value, tuple(block.n for block in blocks), time=x.time), blocks


def expand(blocks: Sequence[Block], factors: Sequence[FloatArray]) -> list[FloatArray]:
    """The whole factors: touched rows as solved, all others moved by P."""
    whole = []
    for block, a in zip(blocks, factors, strict=True):
        if block.touched is None:
            whole.append(block.rows)
            continue
        moved = a @ block.rows[block.n :]
        moved[block.touched] = block.rows[: len(block.touched)]
        whole.append(moved)
    return whole
