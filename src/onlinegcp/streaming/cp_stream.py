"""CP-Stream: alternating least squares on each slice, the past held as one R x R matrix."""

from __future__ import annotations

from typing import final

import numpy as np

from onlinegcp.errors import DataError
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import Loss, get_loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.least_squares import gram, solve_normal, solve_weights, weighted_mttkrp
from onlinegcp.streaming.model import StreamingModel
from onlinegcp.streaming.options import check_number, check_whole
from onlinegcp.streaming.record import StepRecord
from onlinegcp.streaming.scoring import Stopwatch, running_mean, write_record
from onlinegcp.streaming.state import FloatArray, ModelState
from onlinegcp.streaming.warm_start import WarmStart


@final
class CPStream(StreamingModel):
    """Least-squares tracking with exponentially fading pseudo-slices (Smith et al. 2018).

    The weights of a slice come from one least-squares solve with the old factors. The factors then
    minimise ||X - M||^2 + sum_h forget^(t-h) ||Mbar_h - M_h||^2 by alternating least squares,
    where Mbar_h is what the old factors made of slice h. Old slices are not needed, only
    G = sum_h forget^(t-h) s_h s_h'.

    Parameters
    ----------
    rank
        Number of components.
    forget
        Weight of the past, per slice, in [0, 1].
    ridge
        Penalty on the weights: adds ridge |s|^2 to the squared error of a slice.
    max_passes, tolerance
        A slice's passes over the modes end when the factors move by less than `tolerance`,
        relative to their norm and summed over modes, or after `max_passes`.
    nonnegative
        Keep factors and weights >= 0 (by ADMM).
    init, init_slices, init_starts
        Start from this model, or from CP-ALS on the first `init_slices` slices, best of
        `init_starts`.
    random_state
        Seed of the warm start.

    References
    ----------
    S. Smith, K. Huang, N. Sidiropoulos, G. Karypis, Streaming tensor factorization for infinite
    data sources, SDM 2018.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.random((6, 2)), rng.random((5, 2))
    >>> model = CPStream(2, init_slices=4)
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
        forget: float = 0.95,
        ridge: float = 0.0,
        max_passes: int = 20,
        tolerance: float = 1e-3,
        nonnegative: bool = False,
        init: KTensor | None = None,
        init_slices: int = 10,
        init_starts: int = 3,
        random_state: int | None = 0,
    ) -> None:
        self.rank = rank
        self.forget = forget
        self.ridge = ridge
        self.max_passes = max_passes
        self.tolerance = tolerance
        self.nonnegative = nonnegative
        self.init = init
        self.init_slices = init_slices
        self.init_starts = init_starts
        self.random_state = random_state

    @property
    def loss_(self) -> Loss:
        """The loss the model minimises: gaussian."""
        return get_loss("gaussian")

    def _check_parameters(self) -> None:
        check_number("forget", self.forget, "[0, 1]", "Use 1 to never forget.")
        for name in ("ridge", "tolerance"):
            check_number(name, getattr(self, name), "[0, inf)", "Use 0 for none.")
        check_whole("max_passes", self.max_passes, 1)
        if not isinstance(self.nonnegative, bool | np.bool):
            raise DataError(
                f"nonnegative must be True or False, but got {self.nonnegative!r}. Choose one."
            )

    def _get_lower(self) -> float:
        return 0.0 if self.nonnegative else -np.inf

    def _may_grow(self) -> bool:
        return False

    def _begin(self, start: WarmStart, seed: int) -> ModelState:
        factors, rows = start.factors, start.rows
        past = np.zeros((self.rank, self.rank))
        for row in rows:
            past = self.forget * past + np.outer(row, row)
        weights = rows[-1] if len(rows) else start.mean
        return ModelState(factors, weights, start.mean, {"past": past})

    def _learn(
        self, state: ModelState, x: Slice, number: int, seed: int
    ) -> tuple[ModelState, StepRecord]:
        watch = Stopwatch()
        old = state.factors
        s = self._weigh(state, x, seed, None)
        watch.lap("weights")

        past = self.forget * state.arrays["past"]
        factors = [a.copy() for a in old]
        for _ in range(self.max_passes):
            change = 0.0
            for k in range(len(factors)):
                cross = past.copy()
                for j, (a, b) in enumerate(zip(factors, old, strict=True)):
                    if j != k:
                        cross *= b.T @ a
                right = weighted_mttkrp(x, factors, s, k) + old[k] @ cross
                matrix = gram(factors, skip=k) * (np.outer(s, s) + past)
                new = (
                    _admm(matrix, right, factors[k])
                    if self.nonnegative
                    else solve_normal(matrix, right)
                )
                change += float(np.linalg.norm(new - factors[k]) / (np.linalg.norm(new) + 1e-300))
                factors[k] = new
            if change < self.tolerance:
                break

        # Unit columns, the scale into the weights and into the stored past alike.
        scale = np.ones(self.rank)
        for k, a in enumerate(factors):
            norms = np.linalg.norm(a, axis=0)
            norms[norms == 0] = 1.0
            factors[k] = a / norms
            scale *= norms
        s_new = s * scale
        past = past * np.outer(scale, scale) + np.outer(s_new, s_new)
        watch.lap("factors")
        record = write_record(
            x,
            number,
            self.loss_,
            before=(old, s),
            after=(factors, s_new),
            watch=watch,
            seed=seed,
        )
        mean = running_mean(state.mean_weights, s_new)
        return ModelState(tuple(factors), s_new, mean, {"past": past}), record

    def _weigh(self, state: ModelState, x: Slice, seed: int, tolerance: float | None) -> FloatArray:
        # `solve_weights` halves its penalty, as the paper of OnlineGCP does; this one does not.
        penalty = 2.0 * self.ridge
        return solve_weights(x, state.factors, penalty=penalty, lower=self._get_lower())


def _admm(matrix: FloatArray, right: FloatArray, start: FloatArray) -> FloatArray:
    """Nonnegative rows a of min a'Ma/2 - b'a, warm from `start`."""
    step = max(float(np.trace(matrix)) / len(matrix), np.finfo(float).tiny)
    a, dual = np.maximum(start, 0.0), np.zeros_like(start)
    inverse = np.linalg.inv(matrix + step * np.eye(len(matrix)))  # condition at most 1 + R
    for _ in range(100):
        free = (right + step * (a + dual)) @ inverse
        new = np.maximum(free - dual, 0.0)
        dual += new - free
        gap = np.linalg.norm(new - free) + np.linalg.norm(new - a)
        a = new
        if gap <= 1e-6 * (np.linalg.norm(a) + 1e-300):
            break
    return a
