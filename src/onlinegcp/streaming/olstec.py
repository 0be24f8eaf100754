"""OLSTEC: recursive least squares, one small system for every row of every mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal, final

import numpy as np

from onlinegcp.checks import check_choice, check_number, check_whole
from onlinegcp.slices import Slice
from onlinegcp.solvers.least_squares import (
    gram,
    row_systems,
    solve_normal,
    solve_rows,
    solve_weights,
    weighted_mttkrp,
)
from onlinegcp.streaming.scoring import Account
from onlinegcp.streaming.state import FloatArray, ModelState
from onlinegcp.streaming.tracker import Tracker
from onlinegcp.streaming.warm_start import WarmStart


@final
@dataclass(eq=False, repr=False)
class OLSTEC(Tracker):
    """Row-wise recursive least squares with forgetting, for slices with gaps (Kasai 2019).

    Minimises sum_h forget^(t-h) ||x_h - m_h||^2 over the observed cells, plus ridge ||A_k||^2, row
    by row: every row a of every mode keeps the matrix P of its normal equations. With n the
    weighted product of the other modes' rows at a cell,

        P <- forget P + sum n n' + ridge (1 - forget) I
        a <- a + P^-1 (sum n (x - n'a) - ridge (1 - forget) a)

    over the row's observed cells, mode after mode. The weights are solved before and after.

    A memory of 1 / (1 - forget) slices is short by default: on streams that do not change, raise
    it. Rows without any observed cell shrink to zero within a few such memories.

    Parameters
    ----------
    rank
        Number of components.
    forget
        Weight of the past, per slice, in (0, 1].
    ridge
        Penalty on the factors (mu of the paper).
    weight_ridge
        Penalty on the weights: adds weight_ridge |s|^2 to the squared error of a slice. The
        author's code takes `forget` for it.
    start_precision
        P is this times the identity before the first slice.
    form
        "full", or "simplified": only the diagonals of P are kept, which costs R instead of R^3
        per row and converges more slowly.
    state_limit
        Most bytes the matrices P may take, 8 R^2 for every row of every mode.
    init, init_slices, init_starts, random_state, ndim, mode_names
        As for every `StreamingModel`.

    References
    ----------
    H. Kasai, Fast online low-rank tensor subspace tracking by CP decomposition using recursive
    least squares from incomplete observations, Neurocomputing 2019.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.random((6, 2)), rng.random((5, 2))
    >>> model = OLSTEC(2, init_slices=4)
    >>> for _ in range(8):
    ...     x = a * rng.random(2) @ b.T
    ...     x[rng.random(x.shape) < 0.2] = np.nan
    ...     _ = model.partial_fit(Slice.dense(x))
    >>> model.n_slices_, model.last_.prequential < 1e-2 * model.last_.norm_squared
    (8, True)
    """

    takes_missing = True

    _: KW_ONLY
    forget: float = 0.7
    ridge: float = 0.1
    weight_ridge: float = 1e-6
    start_precision: float = 0.01
    form: Literal["full", "simplified"] = "full"
    state_limit: int = 2**30

    def _check_parameters(self) -> None:
        check_number("forget", self.forget, "(0, 1]", "Use 1 to never forget.")
        for name in ("ridge", "weight_ridge"):
            check_number(name, getattr(self, name), "[0, inf)", "Use 0 for none.")
        check_number("start_precision", self.start_precision, "(0, inf)")
        check_choice("form", self.form, ("full", "simplified"))
        check_whole("state_limit", self.state_limit, 1)

    def _largest_state(self, shape: tuple[int, ...]) -> int:
        matrix = self.rank**2 if self.form == "full" else self.rank
        return 8 * (sum(shape) * (matrix + self.rank) + 2 * self.rank)

    def _begin(self, start: WarmStart, seed: int) -> ModelState:
        prior = self.start_precision * np.eye(self.rank)
        past = {f"past{k}": self._kept(prior)[None] for k in range(len(start.factors))}
        for t, row in enumerate(start.rows):
            for k in range(len(start.factors)):
                if start.slices and start.slices[t].n_observed < start.slices[t].size:
                    diagonal = self.form == "simplified"
                    x = start.slices[t]
                    seen, _ = row_systems(x, start.factors, row, k, diagonal=diagonal)
                else:
                    matrix = gram(start.factors, skip=k) * np.outer(row, row)
                    seen = self._kept(matrix)[None]
                past[f"past{k}"] = self.forget * past[f"past{k}"] + seen
        return ModelState(start.factors, start.newest, start.mean, past)

    def _move(
        self, state: ModelState, batch: Sequence[Slice], before: FloatArray, account: Account
    ) -> ModelState:
        (x,), factors, arrays = batch, list(state.factors), {}
        for k in range(len(factors)):
            factors[k], arrays[f"past{k}"] = self._update(
                state.arrays[f"past{k}"], x, factors, before, k
            )
        account.lap("factors")
        weights = solve_weights(x, factors, penalty=2.0 * self.weight_ridge)
        account.lap("weights")
        return state.moved(factors, weights, arrays)

    def _weigh(self, state: ModelState, x: Slice, seed: int, tolerance: float | None) -> FloatArray:
        # `solve_weights` halves its penalty, as the paper of OnlineGCP does; this one does not.
        return solve_weights(x, state.factors, penalty=2.0 * self.weight_ridge)

    def _update(
        self, past: FloatArray, x: Slice, factors: list[FloatArray], s: FloatArray, mode: int
    ) -> tuple[FloatArray, FloatArray]:
        """New rows of a mode and their matrices."""
        old, pull = factors[mode], self.ridge * (1.0 - self.forget)
        if x.n_observed == x.size:
            # All rows see the same cells of the other modes and share one matrix, until a slice
            # with gaps comes.
            matrix = gram(factors, skip=mode) * np.outer(s, s)
            slope = weighted_mttkrp(x, factors, s, mode) - old @ matrix
            seen = self._kept(matrix)[None]
        else:
            seen, slope = row_systems(x, factors, s, mode, diagonal=self.form == "simplified")
        new = self.forget * past + seen + pull * self._kept(np.eye(self.rank))
        # In the order in which a file gives it back: sums in another order round differently.
        return np.ascontiguousarray(old + self._solve(new, slope - pull * old)), new

    def _kept(self, matrix: FloatArray) -> FloatArray:
        return matrix if self.form == "full" else np.diagonal(matrix)

    def _solve(self, matrices: FloatArray, right: FloatArray) -> FloatArray:
        if self.form == "simplified":
            # A row without any cell for thousands of slices has nothing left to divide by.
            return right / np.maximum(matrices, np.finfo(float).tiny)
        if len(matrices) == 1:
            return solve_normal(matrices[0], right)
        return solve_rows(matrices, right)
