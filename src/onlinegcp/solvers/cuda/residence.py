"""Models whose matrices lie on the card, and come to the host when somebody looks at them.

Matrices on the card are values: a step leaves the old ones and makes new ones. A copy of such a
model is an ordinary model on the host, for whoever wants to change one; what goes from step to step
on the card shares its matrices instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.cuda.matrices import Matrices
from onlinegcp.kernels.layout import Blocks, aligned_zeros
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto.model import Model

Array = NDArray[Any]

# Nonzeros times components from which a slice is worth its way to the card for a question alone.
WORTH_ASKING = 20_000
SHORT = ("mean_weights", "usage", "last_weights")


class CardBlocks(Blocks):
    """Stacked factors on the card; `data` fetches them, once."""

    def __init__(
        self,
        matrices: Matrices,
        offsets: NDArray[np.int64],
        rank: int,
        width: int,
        magnitudes: Array,
        bench: Any = None,
    ) -> None:
        # `magnitudes`: what each component of weight one adds up to over all cells (R,).
        vars(self).update(
            matrices=matrices, offsets=offsets, rank=rank, _width=width, magnitudes=magnitudes,
            bench=bench,
        )  # fmt: skip

    def log_sum(self, x: Slice, weights: Array, floor: float) -> float | None:
        """See `solvers.objective.log_sum`; None where the card would not gain."""
        bench: Any = vars(self)["bench"]
        place = vars(self)["matrices"].place
        return None if bench is None else bench.log_sum(place, x, weights, floor)

    @property
    def data(self) -> Array:
        """The factors on the host, to be read only."""
        found: Matrices = vars(self)["matrices"]
        return found.pull("factors", (int(self.offsets[-1]), self.width))

    @property
    def width(self) -> int:
        """Columns with padding."""
        return int(vars(self)["_width"])

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows of every factor."""
        known = vars(self).get("_shape")
        if known is None:
            known = vars(self)["_shape"] = super().shape
        return known

    def zeros_like(self) -> Blocks:
        """Zeros of the same layout on the host."""
        return Blocks(aligned_zeros((int(self.offsets[-1]), self.width)), self.offsets, self.rank)


@dataclass
class CardModel(Model):
    """A model on the card. `copy` brings it to the host; `handed_on` stays."""

    def copy(self) -> Model:
        """The same model on the host, in memory of its own."""
        short = {name: getattr(self, name).copy() for name in SHORT}
        return Model(
            self.factors.copy(),
            self.memory.copy(),
            self.past.copy(),
            **short,
            bounded=self.bounded,
            unit=self.unit,
            volume=self.volume,
            n_slices=self.n_slices,
        )

    def handed_on(self) -> CardModel:
        """The model for the next step, which puts new matrices in the place of these."""
        past: Any = self.past
        return CardModel(
            self.factors,
            self.memory.copy(),
            past.handed_on(),
            self.mean_weights.copy(),
            self.usage.copy(),
            self.last_weights,
            self.bounded,
            self.unit,
            self.volume,
            self.n_slices,
        )

    def __reduce__(self) -> Any:
        return _as_it_is, (self.copy(),)


def _as_it_is(model: Model) -> Model:
    return model
