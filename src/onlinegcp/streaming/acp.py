"""ACP: one shared recursive least-squares system per mode; ROLCP is its variant without memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal, final

import numpy as np

from onlinegcp.checks import check_choice, check_number, check_whole
from onlinegcp.kernels.random import WEIGHT_SUBSET, stream_key, word
from onlinegcp.kernels.tracking.adaptive import adapt
from onlinegcp.kernels.tracking.cells import listed_cells
from onlinegcp.kernels.tracking.columns import to_columns, to_factors
from onlinegcp.ktensor import KTensor
from onlinegcp.slices import Slice
from onlinegcp.solvers.least_squares import error_slopes, gram, solve_normal, solve_weights
from onlinegcp.streaming.model import StreamingModel
from onlinegcp.streaming.record import StepRecord
from onlinegcp.streaming.scoring import Stopwatch, write_record
from onlinegcp.streaming.state import FloatArray, ModelState
from onlinegcp.streaming.walking import Walk, walked
from onlinegcp.streaming.warm_start import WarmStart

# Weight of the identity that both variants add to their systems, as in the authors' codes.
DAMPING = {"acp": 100.0, "rolcp": 10.0}
# Cells times components of a dense slice from which matrix products are faster than one call.
LARGE = 1 << 17


@final
@dataclass(eq=False, repr=False)
class ACP(StreamingModel):
    """Adaptive CP: the slice's error divided by a fading sum of its regressors (Thanh et al. 2023).

    With E the error of the slice on its observed cells and W_k the weighted products of all modes
    but k, every mode moves by

        S_k <- forget S_k + W_k W_k',    A_k <- A_k + E_(k) W_k' S_k^-1

    all modes from the same E ("acp"), or one after the other with S_k = W_k W_k' + damping I and
    nothing kept ("rolcp"). Little is remembered, so that an abrupt change is forgotten within a
    few slices; on streams that do not change, raise `forget`. OLSTEC is the same with one matrix
    per row.

    Parameters
    ----------
    rank
        Number of components.
    forget
        Weight of the past, per slice, in (0, 1]; not used by "rolcp".
    variant
        "acp" or "rolcp" (Thanh et al. 2021).
    damping
        S_k is this times the identity before the first slice ("acp"), or on every slice
        ("rolcp"); None for 100 and 10, as in the authors' codes.
    regressors
        "model": W_k as in the paper, of the weights and the other factors; where cells are
        missing, W_k W_k' counts for the share that is there. "data": the pseudo-
        inverse of A_k times the slice with zeros for missing cells, as in the authors' code of
        ACP; for comparison with it.
    samples
        Observed cells from which the weights of a slice with gaps are solved; None for all. The
        paper takes 10 R log(cells).
    state_limit
        Most bytes the state, and for regressors="data" the arrays of a step, may take.
    init, init_slices, init_starts, ndim, mode_names
        As for every `StreamingModel`.
    random_state
        Seed of the warm start and of the samples.

    References
    ----------
    L. T. Thanh, K. Abed-Meraim, N. L. Trung, A. Hafiane, Robust tensor tracking with missing data
    and outliers, 2023; the same and R. Boyer, Adaptive algorithms for tracking tensor-train and
    CP decompositions (ROLCP), 2021.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.random((6, 2)), rng.random((5, 2))
    >>> model = ACP(2, init_slices=4)
    >>> for _ in range(8):
    ...     _ = model.partial_fit(Slice.dense(a * rng.random(2) @ b.T))
    >>> model.n_slices_, model.last_.prequential < 1e-4 * model.last_.norm_squared
    (8, True)
    """

    takes_missing = True
    walks = True

    _: KW_ONLY
    forget: float = 0.5
    variant: Literal["acp", "rolcp"] = "acp"
    damping: float | None = None
    regressors: Literal["model", "data"] = "model"
    samples: int | None = None
    state_limit: int = 2**30

    def _check_parameters(self) -> None:
        check_number("forget", self.forget, "(0, 1]", "Use 1 to never forget.")
        check_choice("variant", self.variant, ("acp", "rolcp"))
        check_choice("regressors", self.regressors, ("model", "data"))
        check_whole("state_limit", self.state_limit, 1)
        if self.damping is not None:
            check_number("damping", self.damping, "(0, inf)", "Use None for the authors' value.")
        if self.samples is not None:
            check_whole("samples", self.samples, 1)

    def _largest_state(self, shape: tuple[int, ...]) -> int:
        numbers = self.rank * (sum(shape) + len(shape) * self.rank + 2)
        workspace = 3 * math.prod(shape) if self.regressors == "data" else 0
        return 8 * (numbers + workspace)

    def _begin(self, start: WarmStart, seed: int) -> ModelState:
        factors, arrays = start.factors, {}
        if self.variant == "acp":
            for k in range(len(factors)):
                past = self._damping() * np.eye(self.rank)
                for row in start.rows:
                    past = self.forget * past + gram(factors, skip=k) * np.outer(row, row)
                arrays[f"past{k}"] = past
        return ModelState(factors, start.newest, start.mean, arrays)

    def _walk(self, state: ModelState, slices: Sequence[Slice], number: int, seed: int) -> Walk:
        if not self._is_compiled(slices[0]):
            return super()._walk(state, slices, number, seed)
        watch = Stopwatch()
        given = np.empty((0, self.rank))
        if self._is_sampled(slices[0]):
            given, slices = self._solve_weights(state, slices[0], number, seed)[None, :], slices[:1]
        others = (k for k, x in enumerate(slices) if not self._is_like(x, slices[0]))
        slices = slices[: next(others, len(slices))]
        columns, offsets = to_columns(state.factors)
        held, mean = np.empty((len(slices), self.rank)), state.mean_weights.copy()
        forget = self.forget if self.variant == "acp" else 0.0
        past = np.zeros((len(state.factors), self.rank, self.rank))
        for k in range(len(past) if forget else 0):
            past[k] = state.arrays[f"past{k}"]
        done, columns, past, weights, *losses = adapt(
            *listed_cells(slices), given, columns, offsets, past, mean,
            forget, self._damping(), held,
        )  # fmt: skip
        arrays = {f"past{k}": one.copy() for k, one in enumerate(past)} if forget else {}
        found = ModelState(to_factors(columns, offsets), weights, mean, arrays)
        return walked(found, held[:done], slices, number, losses, watch)

    def _learn(
        self, state: ModelState, x: Slice, number: int, seed: int
    ) -> tuple[ModelState, StepRecord]:
        """One step in NumPy."""
        watch = Stopwatch()
        s = self._solve_weights(state, x, number, seed)
        watch.lap("weights")
        factors, arrays, fading = list(state.factors), {}, self.variant == "acp"
        for k in range(x.ndim):
            seen = state.factors if fading else factors
            system, slope = self._regress(x, seen, s, k)
            if fading:
                system = self.forget * state.arrays[f"past{k}"] + system
                arrays[f"past{k}"] = system
            else:
                system = system + self._damping() * np.eye(self.rank)
            # In the order in which a file gives them back: sums in another order round differently.
            factors[k] = np.ascontiguousarray(seen[k] + solve_normal(system, slope))
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
        return state.moved(factors, s, arrays), record

    def _weigh(self, state: ModelState, x: Slice, seed: int, tolerance: float | None) -> FloatArray:
        return self._solve_weights(state, x, 0, seed)  # slice 0 is never learned

    def _is_compiled(self, x: Slice) -> bool:
        """Whether compiled code learns a slice; large dense ones are for matrix products."""
        dense = x.array is not None and x.size * self.rank > LARGE
        return self.regressors == "model" and not dense

    def _is_sampled(self, x: Slice) -> bool:
        few = self.samples is not None and x.n_listed > self.samples
        return few and x.n_observed < x.size

    def _is_like(self, x: Slice, first: Slice) -> bool:
        """Whether a slice may be learned in one call with the first."""
        return x is first or (self._is_compiled(x) and not self._is_sampled(x))

    def _solve_weights(self, state: ModelState, x: Slice, number: int, seed: int) -> FloatArray:
        if self.samples is None or not self._is_sampled(x):
            return solve_weights(x, state.factors)
        # Every cell has its number; the smallest are a sample without replacement.
        key = np.uint64(stream_key(seed, number, WEIGHT_SUBSET))
        numbers = word(key, np.arange(x.n_listed, dtype=np.uint64), np.uint64(0))
        chosen = np.sort(np.argpartition(numbers, self.samples)[: self.samples])
        part = Slice(x.index[chosen], x.value[chosen], x.shape, unlisted="missing")
        return solve_weights(part, state.factors)

    def _regress(
        self, x: Slice, factors: Sequence[FloatArray], s: FloatArray, mode: int
    ) -> tuple[FloatArray, FloatArray]:
        """W W' and E W' of a mode."""
        if self.regressors == "data":
            return _regress_on_data(x, factors, s, mode)
        # A row sees this share of the cells that the products over whole modes count.
        seen = x.n_observed / x.size * np.outer(s, s)
        return gram(factors, skip=mode) * seen, error_slopes(x, factors, s, [mode])[0]

    def _damping(self) -> float:
        return DAMPING[self.variant] if self.damping is None else self.damping


def _regress_on_data(
    x: Slice, factors: Sequence[FloatArray], s: FloatArray, mode: int
) -> tuple[FloatArray, FloatArray]:
    data = x.to_dense()
    error = np.nan_to_num(data - KTensor(s, factors).full())
    regressors = np.linalg.pinv(factors[mode]) @ _unfold(np.nan_to_num(data), mode)
    return regressors @ regressors.T, _unfold(error, mode) @ regressors.T


def _unfold(array: FloatArray, mode: int) -> FloatArray:
    return np.moveaxis(array, mode, 0).reshape(array.shape[mode], -1)
