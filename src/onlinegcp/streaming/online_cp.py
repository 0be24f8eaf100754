"""OnlineCP: one alternating least-squares update per batch from accumulated products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal, final

import numpy as np

from onlinegcp.checks import check_choice, check_number
from onlinegcp.slices import Slice
from onlinegcp.solvers.least_squares import gram, solve_normal, solve_weights, weighted_mttkrp
from onlinegcp.streaming.model import StreamingModel
from onlinegcp.streaming.record import StepRecord
from onlinegcp.streaming.scoring import Stopwatch, write_record
from onlinegcp.streaming.state import FloatArray, ModelState
from onlinegcp.streaming.warm_start import WarmStart


@final
@dataclass(eq=False, repr=False)
class OnlineCP(StreamingModel):
    """Incremental least squares for factors that hardly change (Zhou et al. 2016).

    Keeps P_k = sum_t X_t(k) Z_k diag(s_t) and Q_k = sum_t (s_t s_t') * (Z_k'Z_k), each term with
    the factors of its time, and sets A_k = P_k / Q_k once per slice, or once per batch of slices.

    Parameters
    ----------
    rank
        Number of components.
    order
        "gauss_seidel": a mode's update sees the modes already updated for this slice, as in the
        authors' C++ code; "jacobi": it sees the factors from before the slice, as published.
    forget
        Factor on P and Q per slice; 1 never forgets.
    batch
        Slices learned together, all weighed with the factors from before the batch.
    init, init_slices, init_starts
        Start from this model, or from CP-ALS on the first `init_slices` slices, best of
        `init_starts`. A model given as `init` stands in for the data it was fitted to; with
        `start_from` P and Q are made from the data, as the authors' code makes them.
    random_state
        Seed of the warm start.
    ndim, mode_names
        How many modes slices have, or what these are called: with two, a bare matrix is a slice.
        Without either the first slice must say it.

    References
    ----------
    S. Zhou, N. X. Vinh, J. Bailey, Y. Jia, I. Davidson, Accelerating online CP decompositions for
    higher order tensors, KDD 2016.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.random((6, 2)), rng.random((5, 2))
    >>> model = OnlineCP(2, init_slices=4)
    >>> for _ in range(8):
    ...     _ = model.partial_fit(Slice.dense(a * rng.random(2) @ b.T))
    >>> model.n_slices_, model.last_.prequential < 1e-4 * model.last_.norm_squared
    (8, True)
    """

    takes_missing = False
    gathers = "batch"

    rank: int = 10
    _: KW_ONLY
    order: Literal["gauss_seidel", "jacobi"] = "gauss_seidel"
    forget: float = 1.0
    batch: int = 1

    def _check_parameters(self) -> None:
        check_choice("order", self.order, ("gauss_seidel", "jacobi"))
        check_number("forget", self.forget, "(0, 1]", "Use 1 to never forget.")

    def _begin(self, start: WarmStart, seed: int) -> ModelState:
        factors, rows = start.factors, start.rows
        arrays = {}
        for k, a in enumerate(factors):
            q = gram(factors, skip=k) * (rows.T @ rows)
            if start.slices:
                terms = zip(start.slices, rows, strict=True)
                p = np.sum([weighted_mttkrp(x, factors, s, k) for x, s in terms], axis=0)
            else:
                p = a @ q
            arrays[f"p{k}"], arrays[f"q{k}"] = p, q
        return ModelState(factors, start.newest, start.mean, arrays)

    def _learn(
        self, state: ModelState, x: Slice, number: int, seed: int
    ) -> tuple[ModelState, StepRecord]:
        return self._learn_batch(state, (x,), number, seed)

    def _learn_batch(
        self, state: ModelState, batch: Sequence[Slice], number: int, seed: int
    ) -> tuple[ModelState, StepRecord]:
        watch = Stopwatch()
        # The first mode's product serves the weights and, in either order, that mode's update.
        firsts = [weighted_mttkrp(x, state.factors, np.ones(self.rank), 0) for x in batch]
        cross = np.array([np.sum(first * state.factors[0], axis=0) for first in firsts])
        rows = solve_normal(gram(state.factors), cross)
        watch.lap("weights")
        factors, arrays = list(state.factors), {}
        # Slices of one batch have not aged against each other.
        kept, outer = self.forget ** len(batch), rows.T @ rows
        for k in range(len(factors)):
            seen = factors if self.order == "gauss_seidel" else state.factors
            p = kept * state.arrays[f"p{k}"]
            for x, s, first in zip(batch, rows, firsts, strict=True):
                p = p + (first * s if k == 0 else weighted_mttkrp(x, seen, s, k))
            q = kept * state.arrays[f"q{k}"] + gram(seen, skip=k) * outer
            arrays[f"p{k}"], arrays[f"q{k}"] = p, q
            factors[k] = solve_normal(q, p)
        watch.lap("factors")
        record = write_record(
            batch[-1],
            number,
            self.loss_,
            before=(state.factors, rows[-1]),
            after=(factors, rows[-1]),
            watch=watch,
            seed=seed,
        )
        return state.moved(factors, rows, arrays), record

    def _weigh(self, state: ModelState, x: Slice, seed: int, tolerance: float | None) -> FloatArray:
        return solve_weights(x, state.factors)
