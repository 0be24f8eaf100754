"""What a streaming method remembers between slices."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onlinegcp.slices import Slice

FloatArray: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class ModelState:
    """All that influences a method's next step: arrays, scalars and, for some, a few slices.

    A value: steps make new arrays and a new state, and leave this one alone.

    Attributes
    ----------
    factors
        One matrix (I_k, R) per mode.
    weights
        Weights of the newest slice (R,).
    mean_weights
        Running mean of the weights, where the next weight solve starts.
    arrays, scalars, slices
        What the method itself remembers.
    live
        A solver's own state, a value too; it must offer `to_dict`.
    """

    factors: tuple[FloatArray, ...]
    weights: FloatArray
    mean_weights: FloatArray
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    scalars: dict[str, float | int] = field(default_factory=dict)
    slices: tuple[Slice, ...] = ()
    live: Any = None

    @property
    def nbytes(self) -> int:
        """Memory of all arrays."""
        own = [*self.factors, self.weights, self.mean_weights, *self.arrays.values()]
        if self.live is not None:
            own = [a for a in self.live.to_dict().values() if isinstance(a, np.ndarray)]
        return sum(a.nbytes for a in own) + sum(x.value.nbytes for x in self.slices)
