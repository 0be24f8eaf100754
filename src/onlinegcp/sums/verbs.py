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

from onlinegcp.sums.chunks import LEAST_WORK, Chunks, RowChunks, add_tree, row_blocks
from onlinegcp.sums.local import Steps, engine

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
    found: tuple[Array, ...] = together(cells_steps(function, chunks, *small))[0]
    return found


def cells_steps(
    function: Callable[..., tuple[Array, ...]], chunks: Chunks, *small: Any
) -> Steps[tuple[Array, ...]]:
    """The same as a pass that has not been made: for `together`."""
    if chunks.count == 1:
        found: list[tuple[Array, ...]] = []
        yield lambda _: found.append(function(chunks, *small)), 1
        return tuple(array[0] for array in found[0])
    lines = yield from engine().cells(function, chunks, small)
    return tuple(add_tree(line) for line in lines)


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
    steps = spread_steps(function, chunks, modes, offsets, out, *small, fresh=fresh)
    found: tuple[Array, ...] = together(steps)[0]
    return found


def spread_steps(
    function: Callable[..., tuple[Array, ...]],
    chunks: RowChunks,
    modes: range,
    offsets: NDArray[np.int64],
    out: Array,
    *small: Any,
    fresh: bool = True,
) -> Steps[tuple[Array, ...]]:
    """The same as a pass that has not been made: for `together`."""
    first, last = offsets[modes[0]], offsets[modes[-1] + 1]
    if chunks.count == 1:
        short: list[tuple[Array, ...]] = []

        def whole(_: int) -> None:
            if fresh:
                out[first:last] = 0.0
            short.append(function(chunks, offsets, out, *small))

        yield whole, 1
        return short[0]

    passes = engine().spread(function, chunks, modes, offsets, small, out, fresh=fresh)
    found = yield from passes
    return tuple(add_tree(arrays) for arrays in zip(*found, strict=True))


def together(*passes: Steps[Any]) -> list[Any]:
    """What passes give that need nothing of each other: their pieces are handed out as one.

    A pass of one chunk comes first, lest all others wait for it at the end.
    """
    found: list[Any] = [None] * len(passes)
    live = dict(enumerate(passes))
    while live:
        pieces: list[tuple[Callable[[int], object], int]] = []
        longest = 0
        for number, steps in list(live.items()):
            try:
                work, count = next(steps)
            except StopIteration as done:
                found[number] = done.value
                del live[number]
                continue
            pieces += [(work, piece) for piece in range(count)]
            longest = max(longest, count)

        def do(i: int, pieces: list[tuple[Callable[[int], object], int]] = pieces) -> None:
            work, piece = pieces[i]
            work(piece)

        _share(do, len(pieces), pays=longest > 1)  # one piece each is too short to wake threads
    return found


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

    _share(piece, len(blocks), pays=work >= LEAST_WORK // 2)
    if not found or found[0] is None:
        return np.empty(0)
    total = found[0]
    for part in found[1:]:
        total = total + part
    return np.asarray(total)


def _share(work: Callable[[int], object], count: int, *, pays: bool) -> None:
    """Do some pieces: whoever has been chosen for it, if that pays."""
    if pays:
        engine().run(work, count)
        return
    for piece in range(count):
        work(piece)


def copied(array: Array) -> Array:
    """The same numbers in new memory; of a long array the rows are shared out."""
    if array.size < LEAST_WORK or not array.flags.c_contiguous:
        return array.copy()
    return copy_rows(array, np.empty_like(array))


def copy_rows(source: Array, target: Array) -> Array:
    """Copy the rows of one array to those of another, which is given back."""

    def copy(first: int, last: int) -> None:
        target[first:last] = source[first:last]

    rows(copy, row_blocks(0, len(source)), source.size)
    return target
