"""How factor matrices lie in memory for the kernels: one stacked, padded, aligned array."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

LANES = 4  # numbers in a vector register of AVX
LINE_BYTES = 64  # of the cache
# In place of the number of a mode, where a pass can serve one mode or all of them.
ALL_MODES = -1


@dataclass(frozen=True)
class Blocks:
    """All factor matrices of a model, one below the other.

    Row ``offsets[k] + i`` of `data` is row i of factor k. Rows are padded with zeros to a whole
    number of vector registers, so that kernels need no remainder loops; the padding is always 0.

    Attributes
    ----------
    data
        Array (sum of the mode lengths, width), C order, first element on a 64-byte boundary.
    offsets
        First row of every factor, and the number of rows in all: (d + 1,) int64.
    rank
        Number of columns that mean something; the rest is padding.

    Examples
    --------
    >>> blocks = stack_factors([np.ones((3, 2)), np.ones((4, 2))])
    >>> blocks.data.shape, [view.shape for view in blocks.views()]
    ((7, 4), [(3, 2), (4, 2)])
    """

    data: NDArray[Any]
    offsets: NDArray[np.int64]
    rank: int

    @property
    def ndim(self) -> int:
        """Number of factor matrices."""
        return len(self.offsets) - 1

    @property
    def width(self) -> int:
        """Columns with padding."""
        return int(self.data.shape[1])

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows of every factor."""
        ends = self.offsets.tolist()  # asked for often: np.diff takes ten times as long
        return tuple(last - first for first, last in pairwise(ends))

    def views(self) -> tuple[NDArray[Any], ...]:
        """The factor matrices (I_k, R), sharing memory with `data`."""
        ends = pairwise(self.offsets.tolist())
        return tuple(self.data[first:last, : self.rank] for first, last in ends)

    def copy(self) -> Blocks:
        """The same numbers in new memory."""
        out = self.zeros_like()
        out.data[...] = self.data
        return out

    def some_rows(self, rows: Sequence[range | NDArray[np.int64]]) -> Blocks:
        """Some rows of every factor, for cells that lie in these.

        A range keeps the numbers of its rows; rows of a list are numbered by their place in it.
        Of the offsets the result keeps the promise, row i of factor k is row ``offsets[k] + i``,
        but their differences are not its shape.
        """
        ends = np.cumsum([0, *map(len, rows)])
        data = aligned_zeros((int(ends[-1]), self.width), self.data.dtype)
        offsets = ends.copy()
        for k, some in enumerate(rows):
            begin, target = self.offsets[k], data[ends[k] : ends[k + 1]]
            if isinstance(some, range):
                target[...] = self.data[begin + some.start : begin + some.stop]
                offsets[k] -= some.start
            else:
                np.take(self.data, begin + some, axis=0, out=target, mode="clip")
        return Blocks(data, offsets, self.rank)

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickle and deepcopy would lose the alignment that the kernels' loads rely on.
        return _aligned_blocks, (self.data, self.offsets, self.rank)

    def zeros_like(self) -> Blocks:
        """Zeros of the same layout in new memory."""
        return Blocks(aligned_zeros(self.data.shape, self.data.dtype), self.offsets, self.rank)


def _aligned_blocks(data: NDArray[Any], offsets: NDArray[np.int64], rank: int) -> Blocks:
    if data.flags.writeable and data.ctypes.data % LINE_BYTES == 0:  # shared memory, mostly
        return Blocks(data, offsets, rank)
    out = aligned_zeros(data.shape, data.dtype)
    out[...] = data
    return Blocks(out, offsets, rank)


def stack_factors(factors: Sequence[NDArray[Any]]) -> Blocks:
    """Copy factor matrices (I_k, R) into the kernels' layout."""
    rank = int(factors[0].shape[1])
    offsets = np.concatenate([[0], np.cumsum([len(factor) for factor in factors])]).astype(np.int64)
    data = aligned_zeros((int(offsets[-1]), padded_width(rank)))
    blocks = Blocks(data, offsets, rank)
    for view, factor in zip(blocks.views(), factors, strict=True):
        view[...] = factor
    return blocks


def padded_width(rank: int) -> int:
    """Smallest number of columns that fills whole vector registers.

    Examples
    --------
    >>> padded_width(50)
    52
    """
    return -(-rank // LANES) * LANES


def pad_vector(vector: NDArray[Any]) -> NDArray[Any]:
    """Copy a vector (R,) into an aligned one of padded length."""
    out = aligned_zeros((padded_width(len(vector)),))
    out[: len(vector)] = vector
    return out


def pad_matrix(matrix: NDArray[Any]) -> NDArray[Any]:
    """Copy a matrix (R, R) into an aligned one (width, width), the rest 0."""
    width = padded_width(matrix.shape[1])
    out = aligned_zeros((width, width))
    out[: matrix.shape[0], : matrix.shape[1]] = matrix
    return out


def aligned_zeros(shape: tuple[int, ...], dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """Zeros whose first element lies on a cache-line boundary."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    raw = np.zeros(size + LINE_BYTES, dtype=np.uint8)
    start = -raw.ctypes.data % LINE_BYTES
    return raw[start : start + size].view(dtype).reshape(shape)
