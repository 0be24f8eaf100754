"""What a recording of the paper's solver depends on, and how its work is cut.

Everything follows from the problem and nothing from the card, so that bits repeat on any card.
"""

from __future__ import annotations

from dataclasses import dataclass

from onlinegcp.kernels.cuda.mma import EDGE
from onlinegcp.kernels.cuda.plan import size_class
from onlinegcp.kernels.cuda.sgd.panels import WIDEST
from onlinegcp.kernels.cuda.sgd.sorting import Sort, sort_for
from onlinegcp.kernels.sgd.plan import CELL_ALL, LISTED_ALL, ZERO_ALL, Plan

BATCH = 50  # iterations of a recording
# Samples of iterations that are drawn and sorted at once: fewer do not fill a card.
DRAWN_TOGETHER = 1 << 19
LONG_MODE = 8192  # rows from which on a mode has enough tiles for a warp each
# Warps that gather sums of short modes at once: a large card has some two thousand under way; and
# samples of a tile that are worth one, and most of a tile.
GATHERING, LEAST_SAMPLES, MOST_PARTS = 2048, 16, 128
# Chunks of rows for Gram matrices: a large card has all of them under way at once.
GRAM_CHUNKS, SHORTEST_CHUNK = 264, 32
EVERY_CELL = {LISTED_ALL, CELL_ALL, ZERO_ALL}  # sources that draw the same in every iteration


@dataclass(frozen=True)
class Job:
    """One kind of iteration.

    Attributes
    ----------
    kind, code, parameter
        Kind of step, and the loss.
    modes, weighs, folds
        Factor matrices that move; whether weights do; whether there is a folded history.
    room
        Samples there is room for.
    slots
        Iterations whose samples are drawn at once, while those before are made.
    fixed
        Whether every iteration has the same samples.
    parts
        In how many parts the sums of each mode's tiles are gathered before they move: 0: when they
        move, -1: never.
    sort
        How samples are brought into the order of their rows.
    """

    kind: int
    code: int
    parameter: float
    modes: tuple[int, ...]
    weighs: bool
    folds: bool
    room: int
    slots: int
    fixed: bool
    parts: tuple[int, ...]
    sort: Sort

    @property
    def short(self) -> tuple[int, ...]:
        """Modes whose sums are gathered first."""
        return tuple(k for k, parts in enumerate(self.parts) if parts > 0)

    @property
    def long(self) -> tuple[int, ...]:
        """Modes whose rows move in one go."""
        return tuple(k for k, parts in enumerate(self.parts) if parts == 0)

    @property
    def places(self) -> int:
        """Iterations whose samples there is room for: some are drawn while others are made."""
        return self.slots if self.fixed else 2 * self.slots


def job_for(
    plan: Plan,
    shape: tuple[int, ...],
    width: int,
    *,
    kind: int,
    code: int,
    parameter: float,
    modes: tuple[int, ...],
    weighs: bool,
    folds: bool,
) -> Job:
    """How iterations that draw a plan are made for a model of this layout."""
    room = size_class(plan.count)
    fixed = plan.sources <= EVERY_CELL
    slots = 1 if fixed else max(1, min(BATCH, DRAWN_TOGETHER // room))
    long = {k for k in modes if shape[k] >= LONG_MODE and width <= WIDEST}
    sharing = max(1, len(modes) - len(long))
    parts = [-1] * len(shape)
    for k in modes:
        tiles = -(-shape[k] // EDGE)
        worth = min(MOST_PARTS, -(-room // (tiles * LEAST_SAMPLES)))
        parts[k] = 0 if k in long else max(1, min(worth, GATHERING // (sharing * tiles)))
    return Job(
        kind, code, parameter, modes, weighs, folds, room, slots, fixed, tuple(parts),
        sort_for(shape, room),
    )  # fmt: skip


def gram_cut(shape: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """First row of every chunk of rows, and their end; first chunk of every mode, and their end."""
    # Every mode may end in a chunk that is not full.
    length = max(SHORTEST_CHUNK, -(-sum(shape) // (GRAM_CHUNKS - len(shape))))
    firsts: list[int] = []
    bounds, offset = [0], 0
    for n in shape:
        firsts += range(offset, offset + n, length)
        bounds.append(len(firsts))
        offset += n
    return [*firsts, offset], bounds
