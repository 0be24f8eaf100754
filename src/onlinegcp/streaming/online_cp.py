"""OnlineCP: one alternating least-squares update per slice from accumulated products."""

from __future__ import annotations

from typing import Literal, final

import numpy as np

from onlinegcp.ktensor import KTensor
from onlinegcp.losses import Loss, get_loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.least_squares import gram, solve_normal, solve_weights, weighted_mttkrp
from onlinegcp.streaming.model import StreamingModel
from onlinegcp.streaming.options import check_choice, check_number
from onlinegcp.streaming.record import StepRecord
from onlinegcp.streaming.scoring import Stopwatch, running_mean, write_record
from onlinegcp.streaming.state import FloatArray, ModelState
from onlinegcp.streaming.warm_start import WarmStart


@final
class OnlineCP(StreamingModel):
    """Incremental least squares for factors that hardly change (Zhou et al. 2016).

    Keeps P_k = sum_t X_t(k) Z_k diag(s_t) and Q_k = sum_t (s_t s_t') * (Z_k'Z_k), each term with
    the factors of its time, and sets A_k = P_k / Q_k once per slice.

    Parameters
    ----------
    rank
        Number of components.
    order
        "gauss_seidel": a mode's update sees the modes already updated for this slice, as in the
        authors' C++ code; "jacobi": it sees the factors from before the slice, as published.
    forget
        Factor on P and Q per slice; 1 never forgets.
    init, init_slices, init_starts
        Start from this model, or from CP-ALS on the first `init_slices` slices, best of
        `init_starts`.
    random_state
        Seed of the warm start.

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

    def __init__(
        self,
        rank: int = 10,
        *,
        order: Literal["gauss_seidel", "jacobi"] = "gauss_seidel",
        forget: float = 1.0,
        init: KTensor | None = None,
        init_slices: int = 10,
        init_starts: int = 3,
        random_state: int | None = 0,
    ) -> None:
        self.rank = rank
        self.order = order
        self.forget = forget
        self.init = init
        self.init_slices = init_slices
        self.init_starts = init_starts
        self.random_state = random_state

    @property
    def loss_(self) -> Loss:
        """The loss the model minimises: gaussian."""
        return get_loss("gaussian")

    def _check_parameters(self) -> None:
        check_choice("order", self.order, ("gauss_seidel", "jacobi"))
        check_number("forget", self.forget, "(0, 1]", "Use 1 to never forget.")

    def _get_lower(self) -> float:
        return -np.inf

    def _may_grow(self) -> bool:
        return False

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
        weights = rows[-1] if len(rows) else start.mean
        return ModelState(factors, weights, start.mean, arrays)

    def _learn(
        self, state: ModelState, x: Slice, number: int, seed: int
    ) -> tuple[ModelState, StepRecord]:
        watch = Stopwatch()
        s = self._weigh(state, x, seed, None)
        watch.lap("weights")
        factors, arrays = list(state.factors), {}
        for k in range(len(factors)):
            seen = factors if self.order == "gauss_seidel" else state.factors
            p = self.forget * state.arrays[f"p{k}"] + weighted_mttkrp(x, seen, s, k)
            q = self.forget * state.arrays[f"q{k}"] + gram(seen, skip=k) * np.outer(s, s)
            arrays[f"p{k}"], arrays[f"q{k}"] = p, q
            factors[k] = solve_normal(q, p)
        watch.lap("factors")
        record = write_record(
            x,
            number,
            self.loss_,
            before=(state.factors, s),
            after=(factors, s),
            watch=watch,
            seed=seed,
        )
        mean = running_mean(state.mean_weights, s)
        return ModelState(tuple(factors), s, mean, arrays), record

    def _weigh(self, state: ModelState, x: Slice, seed: int, tolerance: float | None) -> FloatArray:
        return solve_weights(x, state.factors)
