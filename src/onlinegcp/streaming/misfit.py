"""What a model leaves unexplained slice after slice, beside what its own noise explains.

A start that missed a pattern looks quiet: nothing surprises, and one slice is too noisy to show
what is missing. Residuals of several slices tell: noise adds up like a random walk, a pattern
straight. For some slices after its start a model is watched. If the sum of its residuals is a few
patterns beyond noise and nothing but noise besides, and these are not small beside what its
components explain, it had a bad start. Real streams always leave something unexplained, but many
things of all sizes: no gap.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.layout import Blocks
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice
from onlinegcp.streaming.residuals import (
    cells,
    component_sizes,
    full,
    measurable,
    noise_edge,
    residuals,
    squared_sizes,
)

FloatArray: TypeAlias = NDArray[np.float64]

BLOCK = 12  # slices whose residuals are added up
BLOCKS = 3  # how often, after a start
BEYOND = 4.0  # times the largest pattern that noise alone would make, squared
GAP = 4.0  # times the next pattern, squared
SHARE = 0.5  # of what the least component explains


@dataclass
class Misfit:
    """The watch over a new model.

    Attributes
    ----------
    total
        Sum of standardised residuals, one per cell; empty before the first slice of a block.
    weights
        Sum of the weights of the same slices (R,).
    energy
        Sum of the squared residuals (1,).
    count
        Slices in the sums, and blocks that are done (2,).
    """

    total: FloatArray = field(default_factory=lambda: np.zeros(0))
    weights: FloatArray = field(default_factory=lambda: np.zeros(0))
    energy: FloatArray = field(default_factory=lambda: np.zeros(1))
    count: NDArray[np.int64] = field(default_factory=lambda: np.zeros(2, np.int64))

    @property
    def watching(self) -> bool:
        """Whether the model is still new."""
        return bool(self.count[1] < BLOCKS)

    def watch(
        self, x: Slice, factors: Blocks, weights: FloatArray, loss: Loss
    ) -> tuple[Misfit, bool]:
        """Take in a slice that was learned, and say whether a pattern is missing.

        Parameters
        ----------
        x
            The slice; incomplete, long and one-way ones are not watched.
        factors, weights
            The model of it.
        loss
            Its loss.
        """
        if not self.watching or not measurable(x):
            return self, False
        views, data = factors.views(), cells(x)
        scores = residuals(data, full(weights, views), loss)
        fresh = self.total.size != scores.size or self.weights.size != weights.size
        now = Misfit(
            scores if fresh else self.total + scores,
            weights.copy() if fresh else self.weights + weights,
            np.array([scores @ scores]) + (0.0 if fresh else self.energy),
            np.array([1 if fresh else self.count[0] + 1, self.count[1]]),
        )
        if now.count[0] < BLOCK:
            return now, False
        missing = now._pattern(x.shape, len(weights)) > SHARE * now._smallest(views, data, loss)
        return Misfit(count=np.array([0, self.count[1] + 1])), missing

    def _pattern(self, shape: tuple[int, ...], rank: int) -> float:
        """Squared size of the least pattern in the sum; 0.0 where it is noise or has no gap."""
        sizes = squared_sizes(self.total, shape)
        edge = noise_edge(float(self.energy[0]), shape)
        count = int((sizes > BEYOND * edge).sum())
        if not 0 < count <= min(rank, len(sizes) - 1) or sizes[count - 1] < GAP * sizes[count]:
            return 0.0
        return float(sizes[count - 1])

    def _smallest(self, views: tuple[FloatArray, ...], data: FloatArray, loss: Loss) -> float:
        """Squared size of what the least component explains, in the units of the sum."""
        mean = full(self.weights / BLOCK, views)
        with np.errstate(all="ignore"):
            precision = np.nan_to_num(loss.fisher(data, mean))
        return float(component_sizes(self.weights, views, precision).min())

    def to_dict(self) -> dict[str, Any]:
        """The memory as arrays."""
        return {item.name: getattr(self, item.name).copy() for item in fields(self)}

    @staticmethod
    def from_dict(flat: dict[str, Any]) -> Misfit:
        """The watch that `to_dict` described."""
        return Misfit(**{item.name: np.array(flat[item.name]) for item in fields(Misfit)})
