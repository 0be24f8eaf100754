"""How well a model predicts cells it did not see: weights from half a slice, loss of the other.

Loss with weights fitted to the whole slice falls with every component, useful or not. Here more
components do not win by fitting more. A pattern that lies in one half alone has nothing in the
other to learn its weight from: a weak prior, as wide as weights usually are, then keeps it near its
mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.random import LISTED_ZEROS, stream_key
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto.cells import Weighted, weighted_cells
from onlinegcp.solvers.auto.checkerboard import Checkerboard, checkerboard
from onlinegcp.solvers.auto.fisher_sums import FisherSums

if TYPE_CHECKING:
    from onlinegcp.solvers.auto.fisher_weights import Prior
    from onlinegcp.solvers.auto.model import Model

Array = NDArray[Any]

# Cells visited one by one; of the zeros of larger slices a sample is taken, the same for all
# models.
MOST_CELLS = 1 << 14
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Halves:
    """What either half of a slice says about the other.

    Attributes
    ----------
    board
        Which cells belong to which half.
    weights
        Those fitted to the first half (R,), then those fitted to the second.
    loss
        Loss of the slice, every cell with the weights of the other half.
    """

    board: Checkerboard
    weights: tuple[Array, Array]
    loss: float


def predict_halves(model: Model, x: Slice, loss: Loss, *, seed: int, number: int) -> Halves:
    """Predict either half of a slice from the other; changes nothing.

    Parameters
    ----------
    model, x, loss
        The model, a slice of its shape, and the loss.
    seed, number
        Say how the cells are divided, so that several models face the same task.
    """
    board = checkerboard(x.shape, seed, number)
    return model.past.predict_halves(model, x, loss, board, seed)


def by_cells(model: Model, x: Slice, loss: Loss, board: Checkerboard, seed: int) -> Halves:
    """Halves of a slice whose cells are visited one by one: serves every loss."""
    from onlinegcp.solvers.auto.fisher_weights import solve_weights, start_candidates

    cells = weighted_cells(x, stream_key(seed, 0, LISTED_ZEROS), most=MOST_CELLS)
    first, rank = board.of(cells.index), model.factors.rank
    parts = []
    for half in (first, ~first):
        some = Weighted(
            np.ascontiguousarray(cells.index[half]), cells.value[half], cells.weight[half]
        )
        parts.append(FisherSums(model.factors, some, loss))
    starts = start_candidates(model.last_weights, model.mean_weights, model.bounded, rank)
    prior = usual_weights(model)
    found = [
        solve_weights(part, starts, prior, bounded=model.bounded, tolerance=TOLERANCE).weights
        for part in parts
    ]
    lost = sum(part.value(row) for part, row in zip(parts, reversed(found), strict=True))
    return Halves(board, (found[0][:rank], found[1][:rank]), lost)


def usual_weights(model: Model) -> Prior:
    """A prior on the weights of half a slice, as wide as all weights usually are."""
    from onlinegcp.solvers.auto.fisher_weights import Prior

    rank = model.factors.rank
    usual = float(np.mean(model.usage[:rank] ** 2))
    precision = np.zeros_like(model.mean_weights)
    precision[:rank] = model.past.noise / usual if usual > 0.0 else 0.0
    return Prior(model.mean_weights, precision)
