"""How the rows and cells of a model and its slices are shared out among blocks.

Everything follows from the problem and nothing from the card, so that bits repeat on any card.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.cuda.card import Card
from onlinegcp.kernels.cuda.lanes import LANES, THREADS, TOGETHER

Array = NDArray[Any]

WARPS = THREADS // LANES
MOST_BLOCKS = 2048  # that run over cells
MOST_SHARING = 4096  # that share counts out: small ones, so that none is left alone at the end
# The same up to so many cells: as many blocks as a large card runs at once, each of which takes
# cells in turns. A few more would run when all others have ended.
MOST_AT_ONCE, SHARED_AT_ONCE = 528, 1 << 18
MOST_CURVED = 528  # that add up matrices, all of which are added up in the end
MOST_CHUNKS = 256  # of rows per mode
SHORTEST_CHUNK = 8
# Threads of the whole card meet in rows of short modes: copies keep them apart.
COPIED_ROWS, MOST_COPIES = 4096, 16
SHARED_NUMBERS = 6000  # doubles that any card has room for in a block's shared memory
MANY = 1 << 20  # cells that are worth kernels of their own
MOST_PER_LANE = 8  # columns of a lane, so that ranks up to 256 fit into registers


class Plan:
    """The cut of one model's rows.

    Parameters
    ----------
    card
        Where the tables go.
    offsets, rank, width
        The layout of the stacked factors.

    Attributes
    ----------
    chunks, modes_of
        First row of every chunk (and the end of the last), and its mode; on the card.
    bounds
        First chunk of every mode, and the number of chunks: on the card, and `first_chunk` here.
    bases, copies
        First whole number of every mode where shares are added up, and how many copies; on the
        card, and `first_fixed`, `n_copies` here.
    """

    def __init__(self, card: Card, offsets: NDArray[np.int64], rank: int, width: int) -> None:
        self.rank, self.width = rank, width
        self.shape = tuple(int(n) for n in np.diff(offsets))
        self.modes, self.rows = len(self.shape), int(offsets[-1])
        self.per_lane = -(-width // LANES)
        firsts, modes, self.first_chunk = [], [], [0]
        for k, n in enumerate(self.shape):
            length = max(SHORTEST_CHUNK, -(-n // MOST_CHUNKS))
            starts = range(int(offsets[k]), int(offsets[k + 1]), length)
            firsts += list(starts)
            modes += [k] * len(starts)
            self.first_chunk.append(len(firsts))
        self.n_chunks = len(firsts)
        self.most_chunks = max(b - a for a, b in pairwise(self.first_chunk))  # of a mode
        copies = [1] + [min(MOST_COPIES, max(1, COPIED_ROWS // n)) for n in self.shape[1:]]
        sizes = np.array(self.shape) * np.array(copies) * width
        self.n_fixed = int(sizes.sum())
        self.n_copies = copies
        self.first_fixed = [int(n) for n in np.cumsum([0, *sizes[:-1]])]

        def table(numbers: Any) -> Any:
            held = np.asarray(numbers, dtype=np.int64)
            made = card.zeros(held.size, np.int64)
            card.push(held, made)
            return made

        self.offsets, self.lengths = table(offsets), table(self.shape)
        self.chunks, self.modes_of = table([*firsts, self.rows]), table(modes)
        self.bounds = table(self.first_chunk)
        self.bases, self.copies = table(self.first_fixed), table(copies)
        card.wait()

    @property
    def fits(self) -> bool:
        """Whether the kernels have room for this many components."""
        return self.per_lane <= MOST_PER_LANE

    @property
    def row_bytes(self) -> int:
        """Shared memory of a kernel that adds up `width` numbers per warp."""
        return 8 * WARPS * self.width


def blocks_for(cells: int, per_warp: int, most: int = MOST_BLOCKS) -> int:
    """Blocks for so many cells."""
    return int(max(1, min(most, -(-cells // (per_warp * WARPS)))))


def size_class(cells: int) -> int:
    """The number of cells a recorded phase is made for: the next power of two."""
    return 1 << max(6, int(cells - 1).bit_length()) if cells > 1 else 64


def exact_width(cells: int, width: int) -> int:
    """The width that kernels for so many cells are made for; 0: one kernel serves any.

    Where places of numbers are known to the compiler passes take a tenth less, and other widths
    seconds to compile.
    """
    return width if cells >= MANY else 0


def batch_for(cells: int, longest: int) -> int:
    """Cells a warp takes at a time: few while there are more warps than work."""
    return int(max(TOGETHER, min(longest, cells // 4096 // TOGETHER * TOGETHER)))
