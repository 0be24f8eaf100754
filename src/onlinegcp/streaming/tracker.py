"""The frame of the rival methods: weigh what came under the old factors, then move the factors."""

from __future__ import annotations

import abc
from collections.abc import Sequence

from onlinegcp.slices import Slice
from onlinegcp.solvers.least_squares import solve_weights
from onlinegcp.streaming.model import StreamingModel
from onlinegcp.streaming.record import StepRecord
from onlinegcp.streaming.scoring import Account, write_record
from onlinegcp.streaming.state import FloatArray, ModelState


class Tracker(StreamingModel):
    """A method that learns in two stations, which are timed and scored here.

    It defines `_move`. Where weights are not those of plain least squares it defines `_weigh`, and
    where more than the factors has a number for every row of a mode, `_grown`.
    """

    @abc.abstractmethod
    def _move(
        self, state: ModelState, batch: Sequence[Slice], before: FloatArray, account: Account
    ) -> ModelState:
        """The state after a batch.

        Parameters
        ----------
        state
            The state before it, with rows for all that the batch has.
        batch
            One slice, or as many as the method gathers.
        before
            Weights of the newest of them under the old factors.
        account
            Says the number of the newest, and takes what else the record should tell.
        """

    def _weigh(self, state: ModelState, x: Slice, seed: int, tolerance: float | None) -> FloatArray:
        return solve_weights(x, state.factors)

    def _grown(self, state: ModelState, shape: tuple[int, ...]) -> ModelState:
        return state.grown(shape)

    def _learn(
        self, state: ModelState, x: Slice, number: int, seed: int
    ) -> tuple[ModelState, StepRecord]:
        return self._track(state, (x,), number, seed)

    def _learn_batch(
        self, state: ModelState, batch: Sequence[Slice], number: int, seed: int
    ) -> tuple[ModelState, StepRecord]:
        return self._track(state, batch, number, seed)

    def _track(
        self, state: ModelState, batch: Sequence[Slice], number: int, seed: int
    ) -> tuple[ModelState, StepRecord]:
        account, newest = Account(number), batch[-1]
        state = self._grown(state, newest.shape)
        before = self._weigh(state, newest, seed, None)
        account.lap("weights")
        found = self._move(state, batch, before, account)
        account.lap("factors")
        record = write_record(
            newest,
            number,
            self.loss_,
            before=(state.factors, before),
            after=(found.factors, found.weights),
            watch=account,
            seed=seed,
            **account.details,
        )
        return found, record
