"""Many small arrays as one block of bytes and an index: a zip member for each costs more.

A run stores a hundred arrays of a few numbers after every slice.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Layout = tuple[tuple[str, str, tuple[int, ...]], ...]  # name, type and shape of each


def joined(arrays: Mapping[str, NDArray[Any]]) -> tuple[str, bytes]:
    """The index as JSON, and the block.

    Examples
    --------
    >>> index, block = joined({"a": np.arange(2, dtype="<i2"), "b": np.ones((), dtype="<f4")})
    >>> index, block
    ('[["a", "<i2", [2]], ["b", "<f4", []]]', b'\\x00\\x00\\x01\\x00\\x00\\x00\\x80?')
    """
    layout = tuple([(name, array.dtype.str, array.shape) for name, array in arrays.items()])
    return _index(layout), b"".join([array.tobytes() for array in arrays.values()])


@lru_cache(maxsize=64)  # slices in a row have the same
def _index(layout: Layout) -> str:
    return json.dumps(layout)


def parted(index: Sequence[Any], block: bytes) -> dict[str, NDArray[Any]]:
    """The arrays again, each with memory of its own.

    Raises a ValueError or TypeError where index and block do not belong together.
    """
    found: dict[str, NDArray[Any]] = {}
    at = 0
    for name, kind, shape in index:
        dtype, count = np.dtype(kind), math.prod(shape)
        if dtype.hasobject or count < 0 or at + count * dtype.itemsize > len(block):
            raise ValueError("its block of arrays is not whole")
        values = np.frombuffer(block, dtype, count, at) if count else np.zeros(0, dtype)
        found[str(name)] = values.reshape(shape).copy()
        at += count * dtype.itemsize
    if at != len(block):
        raise ValueError("its block of arrays is longer than its index")
    return found
