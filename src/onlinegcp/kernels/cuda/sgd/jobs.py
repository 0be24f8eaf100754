"""What a recording of the paper's solver depends on, and how its work is cut.

Everything follows from the problem and nothing from the card, so that bits repeat on any card.
"""

from __future__ import annotations

from dataclasses import dataclass

from onlinegcp.kernels.cuda.plan import size_class
from onlinegcp.kernels.cuda.sgd.panels import WIDEST
from onlinegcp.kernels.cuda.sgd.sorting import Sort, sort_for
from onlinegcp.kernels.sgd.plan import CELL_ALL, LISTED_ALL, ZERO_ALL, Plan

BATCH = 50  # iterations of a recording
DRAWN_BYTES = 1 << 30  # of memory that samples drawn ahead may take
PANEL_ROWS = 8192  # rows from which on blocks take panels of them
# Samples of a row from which on they are added up in parts, and of such a part.
MANY, MANY_IN_PANEL = 512, 64
PART, MOST_PARTS = 32, 1024
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
        Iterations whose samples are drawn ahead.
    fixed
        Whether every iteration has the same samples.
    parts
        In how many parts the sums of each mode's rows are gathered before they move: 0: when they
        move, -1: never.
    panels
        Whether blocks take panels of rows.
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
    panels: bool
    sort: Sort


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
    each = room * (16 + 16 * len(shape) + 4 * len(shape) ** 2) + 4 * sum(shape)
    slots = 1 if fixed else max(1, min(BATCH, DRAWN_BYTES // each))
    panels = sum(shape) >= PANEL_ROWS and width <= WIDEST
    many = MANY_IN_PANEL if panels else MANY
    parts = [
        (min(MOST_PARTS, -(-room // n // PART)) if room > many * n else 0) if k in modes else -1
        for k, n in enumerate(shape)
    ]
    return Job(
        kind, code, parameter, modes, weighs, folds, room, slots, fixed, tuple(parts), panels,
        sort_for(shape, room),
    )  # fmt: skip
