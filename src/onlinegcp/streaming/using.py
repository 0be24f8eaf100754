"""What a model can be asked without changing it: weights, expected values, losses of slices."""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.metaestimators import available_if

from onlinegcp.errors import DataError
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice, as_slice
from onlinegcp.solvers.objective import least_loss, slice_loss
from onlinegcp.streaming.contract import Contract
from onlinegcp.streaming.inputs import is_stream
from onlinegcp.streaming.state import FloatArray, ModelState

# A dense reconstruction beyond this many cells is surely a mistake.
DENSE_CELLS = 200_000_000


def _predicts_cells(model: Any) -> bool:
    return not hasattr(model, "n_features_in_")


class Using(Contract, abc.ABC):
    """What a model answers, given what it must have.

    An estimator itself: scikit-learn gives `transform` its choice of output where it is defined.
    """

    _seed: int

    @property
    @abc.abstractmethod
    def loss_(self) -> Loss:
        """The loss the model minimises."""

    @abc.abstractmethod
    def fit(self, stream: Any, y: Any = None) -> Self:
        """Learn a whole stream."""

    @abc.abstractmethod
    def _ready(self) -> ModelState:
        """The state of the newest slice."""

    @abc.abstractmethod
    def _read(self, x: Any) -> tuple[list[Slice], bool]:
        """Slices in the model's shape, and whether exactly one was passed."""

    @abc.abstractmethod
    def _weigh_all(self, slices: Sequence[Slice], tolerance: float | None = None) -> FloatArray:
        """Weights (n, R) of slices under the present factors."""

    def transform(self, x: Any) -> FloatArray:
        """Weights of slices under the present factors, each slice on its own.

        Returns
        -------
        weights
            (R,) for one slice, (n, R) for several.
        """
        slices, single = self._read(x)
        weights = self._weigh_all(slices)
        return np.asarray(weights[0] if single else weights)

    def weigh(self, x: Any, *, tolerance: float | None = None) -> FloatArray:
        """Weights (R,) of one slice, as `transform` gives them, but no closer than needed.

        Parameters
        ----------
        x
            The slice.
        tolerance
            Largest violation of the optimality conditions, relative to the largest weight, at
            which the default solver stops; None is its own. Other methods solve at one stroke or
            in a fixed number of steps.
        """
        return np.asarray(self._weigh_all([self._one(x)], tolerance)[0])

    def least_loss(self, x: Any) -> float:
        """The least loss any model could have on a slice: each cell explained as well as can be.

        Losses of slices compare once this is taken off; half the deviance is what remains (all of
        it for the Gaussian loss). A loss of your own needs `minimum`.
        """
        return least_loss(as_slice(x), self.loss_)

    def fit_transform(self, stream: Any, y: Any = None) -> FloatArray:
        """Learn a stream, then weigh every slice of it with the final factors."""
        held = list(stream) if is_stream(stream) else stream
        return self.fit(held).transform(held)

    def inverse_transform(self, weights: ArrayLike) -> FloatArray:
        """Expected data, as a dense array, of slices with the given weights.

        Parameters
        ----------
        weights
            (R,) for one slice, (n, R) for several, which come back along the first axis.
        """
        state = self._ready()
        rows = np.asarray(weights, dtype=np.float64)
        if rows.ndim not in (1, 2) or rows.shape[-1] != len(state.weights):
            raise DataError(
                f"weights of {len(state.weights)} components were needed, shape (R,) or (n, R), "
                f"but got shape {rows.shape}. Pass what `transform` returns."
            )
        shape = state.shape
        if math.prod((*rows.shape[:-1], *shape)) > DENSE_CELLS:
            raise DataError(
                f"dense slices of at most {DENSE_CELLS:,} cells can be built, but {len(rows)} of "
                f"shape {shape} were asked for. Use predict(index) for the cells you need."
            )
        mean = self.loss_.mean
        if rows.ndim == 1:
            return np.asarray(mean(KTensor(rows, state.factors).full()))
        dense = np.empty((len(rows), *shape))
        for row, out in zip(rows, dense, strict=True):
            out[...] = mean(KTensor(row, state.factors).full())
        return dense

    @available_if(_predicts_cells)  # type: ignore[untyped-decorator]
    def predict(self, index: ArrayLike, weights: ArrayLike | None = None) -> FloatArray:
        """Expected values of single cells.

        Models of scikit-learn tables have no such method: there the name stands for one number
        per sample. Use `inverse_transform`.

        Parameters
        ----------
        index
            Whole numbers (n, d), one row per cell.
        weights
            Weights of the slice (R,), for example from `transform`; those of the newest slice by
            default.
        """
        state = self._ready()
        cells = np.asarray(index)
        if cells.dtype.kind not in "iu":
            raise DataError(
                f"an index of whole numbers (n, {len(state.factors)}) was needed, but got dtype "
                f"{cells.dtype}. For whole slices use inverse_transform(transform(x))."
            )
        row = state.weights if weights is None else np.asarray(weights, dtype=np.float64)
        return np.asarray(self.loss_.mean(KTensor(row, state.factors).values(cells)))

    def loss_of(self, x: Any, weights: ArrayLike | None = None) -> float:
        """Loss of one slice, summed over its observed cells.

        Parameters
        ----------
        x
            The slice.
        weights
            Its weights (R,); those that `transform` gives by default.
        """
        part = self._one(x)
        row = self._weigh_all([part])[0] if weights is None else np.asarray(weights)
        return self._lost(part, row)

    def recorded_loss(self, x: Slice, weights: ArrayLike) -> float:
        """Loss of one slice as records have it: with ``scale`` that of the scaled data."""
        part, factors = self._as_recorded(self._one(x))
        return slice_loss(part, factors, np.asarray(weights), self.loss_, seed=self._seed)

    def recorded_norm(self, x: Slice) -> float:
        """Squared norm of one slice as records have it."""
        return self._as_recorded(x)[0].norm_squared

    def _as_recorded(self, x: Slice) -> tuple[Slice, Sequence[FloatArray]]:
        """A slice and the factors in the units in which losses are recorded."""
        return x, self._ready().factors

    def surprise_of(self, x: Any, weights: ArrayLike) -> float:
        """Mean surprise of an event of a slice: -log of its share in a mixture of patterns.

        It does not depend on how many events there are, and nothing is fitted; NaN where there are
        none, or where the mixture is empty.

        Parameters
        ----------
        x
            The slice.
        weights
            The mixture (R,), of any size.
        """
        part, state, row = self._one(x), self._ready(), np.asarray(weights, dtype=np.float64)
        total, expected = part.total, float(row @ state.magnitudes)
        if not (total > 0.0 and expected > 0.0):
            return math.nan
        return math.log(expected) - state.log_sum(part, row, 1e-12 * expected) / total

    def score_samples(self, x: Any) -> Any:
        """Minus the mean loss per observed cell of each slice: higher is better."""
        slices, single = self._read(x)
        rows = self._weigh_all(slices)
        scores = np.array(
            [
                -self._lost(part, row) / max(1, part.n_observed)
                for part, row in zip(slices, rows, strict=True)
            ]
        )
        return float(scores[0]) if single else scores

    def score(self, x: Any, y: Any = None) -> float:
        """Mean of `score_samples`."""
        return float(np.mean(self.score_samples(x)))

    def _one(self, x: Any) -> Slice:
        slices, _ = self._read(x)
        if len(slices) != 1:
            raise DataError(f"one slice was needed, but {len(slices)} came in. Pass them singly.")
        return slices[0]

    def _lost(self, x: Slice, weights: FloatArray) -> float:
        return slice_loss(x, self._ready().factors, weights, self.loss_, seed=self._seed)
