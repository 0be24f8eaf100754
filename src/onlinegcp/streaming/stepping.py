"""How slices become the state of a model, whatever the method.

A method is a final class with a few hooks: which loss it minimises, which parameters it refuses,
how it starts from a warm start, how it learns one slice and how it weighs one without learning it.
States are values that a step replaces, or can be taken back to where they were: a step that fails,
is interrupted or comes to numbers that are not finite leaves no trace.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from onlinegcp.kernels.blas import blas_threads
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice, widen
from onlinegcp.streaming.inputs import check_slices
from onlinegcp.streaming.keeping import is_finite, not_learned
from onlinegcp.streaming.options import check_whole
from onlinegcp.streaming.record import StepRecord
from onlinegcp.streaming.state import FloatArray, ModelState
from onlinegcp.streaming.undo import Undo
from onlinegcp.streaming.warm_start import WarmStart, given_start, static_start


class Stepping(abc.ABC):
    """The hooks of a method, and how they are driven."""

    # Whether the method is defined on slices with missing cells.
    takes_missing: ClassVar[bool]

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
    _buffer: tuple[Slice, ...]
    _provisional: ModelState | None
    _undo: Undo  # for states that a solver changes in place

    # ---- hooks of a method

    @property
    @abc.abstractmethod
    def loss_(self) -> Loss:
        """The loss the model minimises."""

    @abc.abstractmethod
    def _check_parameters(self) -> None:
        """Refuse parameters that are out of range."""

    @abc.abstractmethod
    def _get_lower(self) -> float:
        """The bound on factors and weights, -inf for none."""

    @abc.abstractmethod
    def _may_grow(self) -> bool:
        """Whether modes may get new rows along the stream."""

    @abc.abstractmethod
    def _begin(self, start: WarmStart, seed: int) -> ModelState:
        """The state after the warm start."""

    @abc.abstractmethod
    def _learn(
        self, state: ModelState, x: Slice, number: int, seed: int
    ) -> tuple[ModelState, StepRecord]:
        """The state after slice `number`, and the account of it."""

    @abc.abstractmethod
    def _weigh(self, state: ModelState, x: Slice, seed: int, tolerance: float | None) -> FloatArray:
        """Weights of a slice under the present factors; changes nothing.

        No closer than to `tolerance` if one is given and the method can stop early.
        """

    # ---- driving them

    def check_parameters(self) -> None:
        """Refuse parameters that no data could make right; the first slice does the same."""
        for name, most in (("rank", 10_000), ("init_slices", None), ("init_starts", None)):
            check_whole(name, getattr(self, name), 1, most)
        if self.random_state is not None:
            check_whole("random_state", self.random_state, 0)
        self._check_parameters()

    def _reset(self) -> None:
        self.check_parameters()
        if self.random_state is None:
            self._seed = int(np.random.SeedSequence().generate_state(1)[0])
        else:
            self._seed = int(self.random_state)
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
        self.n_slices_ = 0
        self.last_ = None
        self._state = None
        self._buffer = ()
        self._provisional = None
        self._undo = Undo()

    @property
    def _ndim(self) -> int | None:
        return len(self._shape() or ()) or None

    def _shape(self) -> tuple[int, ...] | None:
        if self._state is not None:
            return tuple(len(a) for a in self._state.factors)
        return self._buffer[0].shape if self._buffer else None

    def _check_slices(self, slices: Sequence[Slice], *, may_grow: bool) -> list[Slice]:
        """The slices in the model's shape, or what it will have grown to; refuses bad ones."""
        self._check_parameters()  # which may have been changed since the last slice
        shape = self._shape() or slices[0].shape
        return check_slices(self, slices, shape, may_grow=may_grow)

    def _absorb(self, slices: Sequence[Slice]) -> None:
        """Check all slices, then learn them one by one."""
        checked = self._check_slices(slices, may_grow=True)
        before = self._state and self._state.live
        if before is not None and not self._undo.knows(before):
            self._undo.note(before)
        try:
            self._undo.pending = before is not None
            for x in checked:
                self._take(x)
            live = self._state and self._state.live
            if live is not None and not self._undo.note(live):
                raise not_learned(checked)
        finally:
            if self._undo.pending:
                self._undo.undo()

    def _take(self, x: Slice) -> None:
        """Learn one slice, or collect it for the warm start."""
        if self._state is None and self.init is not None:
            start = given_start(self.init, x.shape, self.rank, self._get_lower())
            self._state = self._begin(start, self._seed)
            self.n_slices_ += start.n_rows
        if self._state is None:
            self._buffer = (*(widen(old, x.shape) for old in self._buffer), x)
            self.n_slices_ += 1
            self._provisional = None
            if len(self._buffer) >= self.init_slices:
                self._finish_warm_start()
            return
        number = self.n_slices_ + 1
        try:
            # What NumPy would only warn of is refused below.
            with blas_threads(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                self._state, self.last_ = self._learn(self._state, x, number, self._seed)
        except (ArithmeticError, np.linalg.LinAlgError) as error:
            raise not_learned([x], f"the solver failed ({error})") from error
        if self._state.live is None and not is_finite(self._state):
            raise not_learned([x])
        self.n_slices_ = number

    def _finish_warm_start(self) -> None:
        if self._state is None and self._buffer:
            self._state = self._ready()
            self._buffer = ()
            self._provisional = None

    def _ready(self) -> ModelState:
        """The state, or during the warm start what it would be if the stream ended here."""
        check_is_fitted(self)
        if self._undo.pending:  # Ctrl-C came twice
            self._undo.undo()
        if self._state is not None:
            return self._state
        if self._provisional is None:
            start = static_start(
                self._buffer,
                self.rank,
                self.loss_,
                lower=self._get_lower(),
                starts=self.init_starts,
                seed=self._seed,
            )
            found = self._begin(start, self._seed)
            if not is_finite(found):
                raise not_learned(self._buffer)
            self._provisional = found
        return self._provisional
