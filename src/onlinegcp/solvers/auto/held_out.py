"""How well a model predicts cells it did not see: weights from some of a slice, loss of the rest.

Loss with weights fitted to the whole slice falls with every component, useful or not. Here more
components do not win by fitting more. From three quarters of the cells the weights of faint
components are known well enough to pay, which from half of them they seldom are. A pattern that
lies in one part alone has nothing in the others to learn its weight from: a weak prior, about as
wide as its weights usually are, then keeps it near its mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.random import LISTED_ZEROS, stream_key
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto.cells import Weighted, weighted_cells
from onlinegcp.solvers.auto.checkerboard import Checkerboard
from onlinegcp.solvers.auto.fisher_sums import FisherSums

if TYPE_CHECKING:
    from onlinegcp.solvers.auto.fisher_weights import Prior
    from onlinegcp.solvers.auto.model import Model

Array = NDArray[Any]

# Cells visited one by one; of the zeros of larger slices a sample is taken, the same for all
# models.
MOST_CELLS = 1 << 14
TOLERANCE = 1e-5
FAINTEST = 1e-3  # times what is usual: no weight is held more tightly


@dataclass(frozen=True)
class Parts:
    """What the parts of a slice say about each other.

    Attributes
    ----------
    board
        Which cells belong to which part.
    weights
        For every part the weights (R,) fitted to all the others.
    loss
        Loss of the slice, every cell with the weights fitted to the other parts.
    """

    board: Checkerboard
    weights: tuple[Array, ...]
    loss: float


def boards_for(loss: Loss) -> int:
    """Boards by which the slices of a trial are divided: quarters where half of the cells say too
    little. Counts and measurements say more, and halves are the stricter judge of them.
    """
    return 1 if loss.traits.quadratic or loss.traits.poisson else 2


def by_cells(model: Model, x: Slice, loss: Loss, board: Checkerboard, seed: int) -> Parts:
    """Parts of a slice whose cells are visited one by one: serves every loss."""
    from onlinegcp.solvers.auto.fisher_weights import solve_weights, start_candidates

    cells = weighted_cells(x, stream_key(seed, 0, LISTED_ZEROS), most=MOST_CELLS)
    part_of, rank = board.of(cells.index), model.factors.rank
    starts = start_candidates(model.last_weights, model.mean_weights, model.bounded, rank)
    prior = usual_weights(model)

    def sums(some: NDArray[np.bool_]) -> FisherSums:
        index = np.ascontiguousarray(cells.index[some])
        return FisherSums(
            model.factors, Weighted(index, cells.value[some], cells.weight[some]), loss
        )

    found, lost = [], 0.0
    for part in range(board.n_parts):
        unseen = part_of == part
        row = solve_weights(
            sums(~unseen), starts, prior, bounded=model.bounded, tolerance=TOLERANCE
        ).weights
        lost += sums(unseen).value(row)
        found.append(row[:rank])
    return Parts(board, tuple(found), lost)


def usual_weights(model: Model) -> Prior:
    """A prior on the weights of some cells: how wide lies between what is usual for the component
    and for all, as one that rests may wake.
    """
    from onlinegcp.solvers.auto.fisher_weights import Prior

    rank = model.factors.rank
    own = np.abs(model.usage[:rank])
    usual = math.sqrt(float(np.mean(own**2)))
    precision = np.zeros_like(model.mean_weights)
    if usual > 0.0:
        precision[:rank] = model.past.noise / (usual * np.maximum(own, FAINTEST * usual))
    return Prior(model.mean_weights, precision)
