"""What a streaming method remembers between slices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.layout import Blocks
from onlinegcp.slices import Slice
from onlinegcp.solvers.objective import log_sum
from onlinegcp.streaming.scoring import running_mean

FloatArray: TypeAlias = NDArray[np.float64]


class Views(Sequence[FloatArray]):
    """The factors of a solver's own state, which may lie on another device until looked at."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows of every factor."""
        return self._blocks.shape

    @property
    def magnitudes(self) -> FloatArray | None:
        """See `ModelState`; None where only the factors themselves can tell."""
        return getattr(self._blocks, "magnitudes", None)

    def log_sum(self, x: Slice, weights: FloatArray, floor: float) -> float | None:
        """See `ModelState`; None where there is no shorter way than the factors themselves."""
        there = getattr(self._blocks, "log_sum", None)
        return None if there is None else there(x, weights, floor)

    def __len__(self) -> int:
        return self._blocks.ndim

    def __iter__(self) -> Iterator[FloatArray]:
        return iter(self._blocks.views())  # once, not for every one of them

    @overload
    def __getitem__(self, k: int) -> FloatArray: ...

    @overload
    def __getitem__(self, k: slice) -> tuple[FloatArray, ...]: ...

    def __getitem__(self, k: int | slice) -> FloatArray | tuple[FloatArray, ...]:
        return self._blocks.views()[k]


@dataclass(frozen=True)
class ModelState:
    """All that influences a method's next step: arrays, scalars and, for some, a few slices.

    A value: steps make new arrays and a new state, and leave this one alone.

    Attributes
    ----------
    factors
        One matrix (I_k, R) per mode, or `Views` of them.
    weights
        Weights of the newest slice (R,).
    mean_weights
        Running mean of the weights, where the next weight solve starts.
    arrays, scalars, slices
        What the method itself remembers.
    live
        A solver's own state, a value too; it must offer `to_dict`, with copies or, where
        not `own`, without.
    """

    factors: tuple[FloatArray, ...]
    weights: FloatArray
    mean_weights: FloatArray
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    scalars: dict[str, float | int] = field(default_factory=dict)
    slices: tuple[Slice, ...] = ()
    live: Any = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows of every factor, whose numbers are not looked at."""
        known: tuple[int, ...] | None = getattr(self.factors, "shape", None)
        return tuple(len(a) for a in self.factors) if known is None else known

    @property
    def magnitudes(self) -> FloatArray:
        """What a component of weight one adds up to over all cells, signs aside (R,)."""
        known: FloatArray | None = getattr(self.factors, "magnitudes", None)
        if known is not None:
            return known
        return reduce(np.multiply, [np.abs(a).sum(axis=0) for a in self.factors])

    def log_sum(self, x: Slice, weights: FloatArray, floor: float) -> float:
        """Sum of x log max(m, floor) over the listed cells of a slice."""
        there = getattr(self.factors, "log_sum", None)
        known: float | None = None if there is None else there(x, weights, floor)
        return log_sum(x, self.factors, weights, floor) if known is None else known

    def grown(self, shape: tuple[int, ...]) -> ModelState:
        """The same with rows of zeros where modes of this shape are longer."""
        if self.shape == shape:
            return self
        padded = (with_zeros(a, n) for a, n in zip(self.factors, shape, strict=True))
        return replace(self, factors=tuple(padded))

    def moved(
        self,
        factors: Sequence[FloatArray],
        rows: FloatArray,
        arrays: dict[str, NDArray[Any]] | None = None,
        **rest: Any,
    ) -> ModelState:
        """The state after one more slice with these weights, or several with a row of them each.

        Parameters
        ----------
        factors
            The new ones.
        rows
            Weights (R,), or (n, R).
        arrays, rest
            What the method remembers now, see `ModelState`; nothing of the old is taken over.
        """
        mean = self.mean_weights
        for row in np.atleast_2d(rows):
            mean = running_mean(mean, row)
        newest = np.atleast_2d(rows)[-1].copy()
        return ModelState(tuple(factors), newest, mean, arrays or {}, **rest)

    @property
    def nbytes(self) -> int:
        """Memory of all arrays."""
        own = [*self.factors, self.weights, self.mean_weights, *self.arrays.values()]
        if self.live is not None:
            own = [a for a in self.live_arrays().values() if isinstance(a, np.ndarray)]
        return sum(a.nbytes for a in own) + sum(x.value.nbytes for x in self.slices)

    def live_arrays(self) -> dict[str, Any]:
        """A solver's own state by name, to be read only."""
        found: dict[str, Any] = self.live.to_dict(own=False)  # it may fill half of the memory
        return found


def with_zeros(rows: FloatArray, n: int) -> FloatArray:
    """Rows of a mode, and zeros for those that are new among n."""
    return np.vstack([rows, np.zeros((n - len(rows), rows.shape[1]))]) if len(rows) < n else rows
