"""The protocol every streaming method follows, and all that the methods share.

A method is a final class with five hooks: which loss it minimises, how it starts from a warm start,
how it learns one slice, how it weighs a slice without learning it, and what it must remember. The
state is a value that a step replaces, so a step that fails leaves the model as it was.
"""

from __future__ import annotations

import abc
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from onlinegcp.errors import DataError, StateError
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.objective import slice_loss
from onlinegcp.streaming.inputs import read_slices
from onlinegcp.streaming.record import StepRecord
from onlinegcp.streaming.warm_start import WarmStart, given_start, static_start

FloatArray: TypeAlias = NDArray[np.float64]

# A dense reconstruction beyond this many cells is surely a mistake.
DENSE_CELLS = 200_000_000


@dataclass(frozen=True)
class ModelState:
    """All that influences a method's next step: arrays, scalars and, for some, a few slices.

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
    """

    factors: tuple[FloatArray, ...]
    weights: FloatArray
    mean_weights: FloatArray
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    scalars: dict[str, float | int] = field(default_factory=dict)
    slices: tuple[Slice, ...] = ()


class StreamingModel(TransformerMixin, BaseEstimator, abc.ABC):  # type: ignore[misc]
    """A CP model that is kept up to date while slices arrive.

    Subclasses define the parameters; `rank`, `init`, `init_slices`, `init_starts` and
    `random_state` are common to all.
    """

    # Set by the constructors of the methods.
    rank: int
    init: KTensor | None
    init_slices: int
    init_starts: int
    random_state: int | None

    n_slices_: int
    last_: StepRecord | None
    _seed: int
    _state: ModelState | None
    _buffer: list[Slice]
    _provisional: ModelState | None

    # ---- hooks of a method

    @abc.abstractmethod
    def _get_loss(self) -> Loss:
        """The loss the method minimises, from its parameters; checks them."""

    @abc.abstractmethod
    def _begin(self, start: WarmStart, seed: int) -> ModelState:
        """The state after the warm start."""

    @abc.abstractmethod
    def _learn(
        self, state: ModelState, x: Slice, number: int, seed: int
    ) -> tuple[ModelState, StepRecord]:
        """The state after slice `number`, and the account of it."""

    @abc.abstractmethod
    def _weigh(self, state: ModelState, x: Slice, seed: int) -> FloatArray:
        """Weights of a slice under the present factors; changes nothing."""

    # ---- learning

    def fit(self, stream: Any, y: Any = None) -> Self:
        """Forget everything and learn a whole stream.

        Parameters
        ----------
        stream
            Iterable of slices (or of anything `as_slice` takes), or a table whose rows are 1-way
            slices.
        y
            Ignored; part of scikit-learn's contract.
        """
        self._reset()
        if isinstance(stream, Iterable) and not hasattr(stream, "__len__"):
            for x in stream:
                self._absorb(read_slices(self, x, ndim=self._ndim)[0])
        else:
            self._absorb(read_slices(self, stream, reset=True)[0])
        if self.n_slices_ == 0:
            raise DataError("a stream of at least one slice was needed, but it was empty.")
        self._finish_warm_start()
        return self

    def partial_fit(self, x: Any, y: Any = None, *, time: Any = None) -> Self:
        """Learn the next slice, or several.

        Nothing is learned unless every slice passed in is sound.

        Parameters
        ----------
        x
            A slice, a list of slices, or a table whose rows are 1-way slices.
        y
            Ignored; part of scikit-learn's contract.
        time
            Time of the slice (one per slice where several come in); kept in the records.
        """
        if not hasattr(self, "n_slices_"):
            self._reset()
        self._absorb(read_slices(self, x, time, ndim=self._ndim)[0])
        return self

    # ---- using the model, without changing it

    def transform(self, x: Any) -> FloatArray:
        """Weights of slices under the present factors, each slice on its own.

        Returns
        -------
        weights
            (R,) for one slice, (n, R) for several.
        """
        slices, single = self._read(x)
        state, loss = self._ready(), self._get_loss()
        seed = self._fitted_seed()
        for k, part in enumerate(slices):
            self._check_slice(part, loss, k if len(slices) > 1 else None)
        weights = np.array([self._weigh(state, part, seed) for part in slices])
        return np.asarray(weights[0] if single else weights)

    def fit_transform(self, stream: Any, y: Any = None) -> FloatArray:
        """Learn a stream, then weigh every slice of it with the final factors."""
        if isinstance(stream, Iterable) and not hasattr(stream, "__len__"):
            stream = list(stream)
        return self.fit(stream).transform(stream)

    def inverse_transform(self, weights: ArrayLike) -> FloatArray:
        """Expected data, as a dense array, of slices with the given weights."""
        state = self._ready()
        rows = np.asarray(weights, dtype=np.float64)
        if rows.ndim not in (1, 2) or rows.shape[-1] != len(state.weights):
            raise DataError(
                f"weights of {len(state.weights)} components were needed, shape (R,) or (n, R), "
                f"but got shape {rows.shape}."
            )
        cells = int(np.prod([len(a) for a in state.factors], dtype=object))
        if cells * max(1, len(rows) if rows.ndim == 2 else 1) > DENSE_CELLS:
            raise DataError(
                f"a dense slice of {cells:,} cells is too large to build. Use predict(index) for "
                f"the cells you need."
            )
        mean = self._get_loss().mean
        if rows.ndim == 1:
            return np.asarray(mean(KTensor(rows, state.factors).full()))
        return np.array([mean(KTensor(row, state.factors).full()) for row in rows])

    def predict(self, x: Any) -> FloatArray:
        """Expected values: of single cells now, or of whole slices.

        Parameters
        ----------
        x
            Whole numbers (n, d): cells, predicted with the weights of the newest slice. Anything
            else: slices, which are weighed first; gives dense arrays.
        """
        state = self._ready()
        cells = x if isinstance(x, np.ndarray) else None
        ndim = len(state.factors)
        if cells is not None and cells.dtype.kind in "iu" and cells.shape[1:] == (ndim,):
            values = KTensor(state.weights, state.factors).values(cells)
            return np.asarray(self._get_loss().mean(values))
        return self.inverse_transform(self.transform(x))

    def score_samples(self, x: Any) -> Any:
        """Minus the mean loss per observed cell of each slice: higher is better."""
        slices, single = self._read(x)
        rows = np.atleast_2d(self.transform(x))
        state, loss, seed = self._ready(), self._get_loss(), self._fitted_seed()
        scores = np.array(
            [
                -slice_loss(part, state.factors, row, loss, seed=seed) / max(1, part.n_observed)
                for part, row in zip(slices, rows, strict=True)
            ]
        )
        return float(scores[0]) if single else scores

    def score(self, x: Any, y: Any = None) -> float:
        """Mean of `score_samples`."""
        return float(np.mean(self.score_samples(x)))

    # ---- what was learned

    @property
    def factors_(self) -> tuple[FloatArray, ...]:
        """One matrix (I_k, R) per mode."""
        return tuple(a.copy() for a in self._ready().factors)

    @property
    def weights_(self) -> FloatArray:
        """Weights of the newest slice."""
        return self._ready().weights.copy()

    def to_ktensor(self) -> KTensor:
        """The model of the newest slice."""
        state = self._ready()
        return KTensor(state.weights, state.factors)

    # ---- keeping it

    def save(self, path: str | os.PathLike[str]) -> None:
        """Store parameters and state in one file, all or nothing."""
        from onlinegcp.streaming.storage import save_model

        save_model(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The model stored by `save`; it goes on exactly where the saved one stood."""
        from onlinegcp.streaming.storage import load_model

        model = load_model(path)
        if not isinstance(model, cls):
            raise StateError(
                f"a saved {cls.__name__} was needed, but {path} holds a {type(model).__name__}. "
                f"Use {type(model).__name__}.load."
            )
        return model

    def get_state(self) -> dict[str, Any]:
        """Everything the next step depends on."""
        check_is_fitted(self)
        return {
            "n_slices": self.n_slices_,
            "seed": self._seed,
            "state": self._state,
            "buffer": tuple(self._buffer),
        }

    def set_state(self, saved: dict[str, Any]) -> Self:
        """Go on from what `get_state` returned, on a model with the same parameters."""
        self._reset()
        self.n_slices_ = int(saved["n_slices"])
        self._seed = int(saved["seed"])
        self._state = saved["state"]
        self._buffer = list(saved["buffer"])
        return self

    # ---- scikit-learn's contract

    def __sklearn_is_fitted__(self) -> bool:
        return getattr(self, "n_slices_", 0) > 0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags

    @property
    def _n_features_out(self) -> int:
        return int(self.rank)

    # ---- inner workings

    def _reset(self) -> None:
        if isinstance(self.rank, bool) or not isinstance(self.rank, int | np.integer):
            raise DataError(f"rank must be a whole number >= 1, but got {self.rank!r}.")
        if self.rank < 1:
            raise DataError(f"rank must be a whole number >= 1, but got {self.rank!r}.")
        self._get_loss()
        if self.random_state is None:
            self._seed = int(np.random.SeedSequence().generate_state(1)[0])
        elif isinstance(self.random_state, int | np.integer):
            self._seed = int(self.random_state)
        else:
            raise DataError(
                f"random_state must be a whole number or None, but got {self.random_state!r}."
            )
        self.n_slices_ = 0
        self.last_ = None
        self._state = None
        self._buffer = []
        self._provisional = None

    @property
    def _ndim(self) -> int | None:
        shape = self._shape()
        return None if shape is None else len(shape)

    def _shape(self) -> tuple[int, ...] | None:
        if self._state is not None:
            return tuple(len(a) for a in self._state.factors)
        return self._buffer[0].shape if self._buffer else None

    def _read(self, x: Any) -> tuple[list[Slice], bool]:
        check_is_fitted(self)
        return read_slices(self, x, ndim=self._ndim)

    def _fitted_seed(self) -> int:
        return self._seed

    def _check_slice(
        self, x: Slice, loss: Loss, place: int | None, shape: tuple[int, ...] | None = None
    ) -> None:
        where = "the slice" if place is None else f"slice {place} of those passed in"
        expected = self._shape() or shape
        if expected is not None and x.shape != expected:
            raise DataError(
                f"slices of shape {expected} were needed, as before, but {where} has shape "
                f"{x.shape}. The number of rows per mode must stay the same."
            )
        loss.check(x.value, index=x.index)
        if x.n_unlisted_zeros and not loss.unlisted_zeros_allowed:
            raise DataError(
                f"loss {loss.name!r} is not defined at 0, but {where} leaves "
                f"{x.n_unlisted_zeros:,} cells out as zeros. Pass unlisted='missing' to Slice."
            )

    def _absorb(self, slices: Sequence[Slice]) -> None:
        """Check all slices, then learn them one by one."""
        loss = self._get_loss()
        first = slices[0].shape if slices else None
        for k, x in enumerate(slices):
            self._check_slice(x, loss, k if len(slices) > 1 else None, first)
        for x in slices:
            if self._state is None and self.init is not None:
                start = given_start(self.init, x.shape, self.rank, loss)
                self._state = self._begin(start, self._seed)
                self.n_slices_ += start.n_rows
            if self._state is None:
                self._buffer.append(x)
                self.n_slices_ += 1
                self._provisional = None
                if len(self._buffer) >= max(1, int(self.init_slices)):
                    self._finish_warm_start()
                continue
            number = self.n_slices_ + 1
            self._state, self.last_ = self._learn(self._state, x, number, self._seed)
            self.n_slices_ = number

    def _finish_warm_start(self) -> None:
        if self._state is None and self._buffer:
            self._state = self._warm_state()
            self._buffer = []
            self._provisional = None

    def _warm_state(self) -> ModelState:
        start = static_start(
            self._buffer, self.rank, self._get_loss(), starts=self.init_starts, seed=self._seed
        )
        return self._begin(start, self._seed)

    def _ready(self) -> ModelState:
        """The state, or during the warm start what it would be if the stream ended here."""
        check_is_fitted(self)
        if self._state is not None:
            return self._state
        if self._provisional is None:
            self._provisional = self._warm_state()
        return self._provisional
