"""The three verbs in which every pass over cells or rows is written.

`cells` turns chunks of cells into short arrays, added along a fixed tree. `spread` turns them into
row sums as well, added in the order of chunks. `rows` goes over blocks of rows, whose short arrays
are added in the order of blocks. Who does the pieces cannot be seen in the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.sums.chunks import LEAST_WORK, Chunks, RowChunks, add_tree
from onlinegcp.sums.local import ONE, engine

Array = NDArray[Any]


def cells(
    function: Callable[..., tuple[Array, ...]], chunks: Chunks, *small: Any
) -> tuple[Array, ...]:
    """Short arrays summed over all cells.

    Parameters
    ----------
    function
        Called with some of the chunks and `small`; gives arrays, one line per chunk. It is a
        function of a module and changes nothing it is given: it may run in another process.
    chunks
        The cells.
    *small
        What every chunk needs besides.
    """
    if chunks.count == 1:
        return tuple(array[0] for array in function(chunks, *small))
    return tuple(add_tree(array) for array in engine().cells(function, chunks, small))


def spread(
    function: Callable[..., tuple[Array, ...]],
    chunks: RowChunks,
    modes: range,
    offsets: NDArray[np.int64],
    out: Array,
    *small: Any,
    fresh: bool = True,
) -> tuple[Array, ...]:
    """Set the rows of some modes to sums over their cells; give short arrays summed over all cells.

    Parameters
    ----------
    function
        Called with one chunk, where the rows of each mode begin in an array of zeros (row i of
        mode k is ``places[k] + i``), that array to add to, and `small`; gives short arrays.
    chunks
        The cells, with the rows they can lie in.
    modes
        The modes wanted, one after the other.
    offsets
        Where the rows of each mode begin in `out`.
    out
        Rows of other modes are left alone.
    *small
        What every chunk needs besides.
    fresh
        False: add to what is in the rows.
    """
    if fresh:
        out[offsets[modes[0]] : offsets[modes[-1] + 1]] = 0.0
    if chunks.count == 1:
        return function(chunks, offsets, out, *small)
    found = engine().spread(function, chunks, modes, offsets, small, out)
    return tuple(add_tree(np.stack(arrays)) for arrays in zip(*found, strict=True))


def rows(
    function: Callable[[int, int], Array | None], blocks: Sequence[tuple[int, int]], work: float
) -> Array:
    """Go over blocks of rows; add up the short arrays they give, if they do.

    Parameters
    ----------
    function
        Called with the first row of a block and the one after its last; only it writes there.
    blocks
        The blocks.
    work
        Multiply-adds in all: threads are not worth waking for a few.
    """
    found: list[Any] = [None] * len(blocks)

    def piece(i: int) -> None:
        found[i] = function(*blocks[i])

    (engine() if work >= 2 * LEAST_WORK else ONE).run(piece, len(blocks))
    if not found or found[0] is None:
        return np.empty(0)
    total = found[0]
    for part in found[1:]:
        total = total + part
    return np.asarray(total)
