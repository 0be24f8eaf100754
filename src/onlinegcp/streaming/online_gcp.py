"""OnlineGCP: the paper's streaming method, Algorithms 1 to 6 with the fixes of errata.md."""

from __future__ import annotations

from typing import Any, Literal, final

import numpy as np

from onlinegcp.errors import DataError
from onlinegcp.history import History, HistoryKind
from onlinegcp.kernels.layout import stack_factors
from onlinegcp.kernels.sgd_plan import FoldedHistory, Moments
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import Loss, get_loss
from onlinegcp.sampling import Sampler
from onlinegcp.slices import Slice, stack
from onlinegcp.solvers.least_squares import solve_weights
from onlinegcp.solvers.sgd import SgdResult, SgdSettings, solve_sgd
from onlinegcp.steps import get_step
from onlinegcp.streaming.model import FloatArray, ModelState, StreamingModel
from onlinegcp.streaming.record import StepRecord
from onlinegcp.streaming.scoring import Stopwatch, running_mean, write_record
from onlinegcp.streaming.warm_start import WarmStart


@final
class OnlineGCP(StreamingModel):
    """Streaming generalized CP decomposition by stochastic gradients.

    For each slice the weights s_t are solved with the factors held fixed (Algorithm 3), then the
    factors with the weights held fixed (Algorithm 4), under a history term that keeps the model of
    past slices where it was:

        sum_i f(x_i, m_i) + 1/2 sum_h w theta^(t-h) ||Mbar_h - M_h||^2
            + lambda/2 sum_k ||A_k||^2 + mu/2 |s|^2,   A_k, s >= lower

    Parameters
    ----------
    rank
        Number of components (R).
    loss
        Name of a loss, or a `Loss` (f).
    solver
        "sgd", the paper's method.
    weight_solver
        "sgd", or "least_squares": one exact solve, for the Gaussian loss only.
    history
        "reservoir" (uniform sample of past slices, the paper's choice), "last" (the newest),
        "exponential" (all, without a window), "data" (keeps the slices themselves), "factors"
        (penalises changes of the factors, no past weights), or "none".
    history_size
        Most slices in the window (H).
    history_weight, history_decay
        A slice h weighs ``history_weight * history_decay ** (t - h)`` (w and theta).
    factor_penalty, weight_penalty
        lambda and mu.
    lower
        Bound on factors and weights (l); None takes the loss's own.
    sampler
        "stratified", "uniform", "semi_stratified", "all", or "dense": the exact gradient from the
        special structure of the Gaussian loss.
    objective_listed, objective_zeros, gradient_listed, gradient_zeros
        Samples per estimate of the objective and of the gradient, among listed cells and among
        zeros (p', q', p, q); None takes a default from the size of the slice. A number at or
        above what there is takes every one of them exactly once.
    weight_rate, factor_rate
        Learning rates (alpha_w, alpha_f).
    weight_epochs, factor_epochs
        Most epochs per slice (kappa_w, kappa_f).
    weight_iterations, factor_iterations
        Steps per epoch (tau_w, tau_f).
    weight_tolerance, factor_tolerance
        Stop when an epoch lowers the objective by less than this, relatively; 0 never stops early.
    step
        "adam", "sgd", "adagrad" or "amsgrad".
    init
        Start from this model: d modes, or d + 1 with the weights of past slices as the last,
        which then fill the history. None: from a static fit.
    init_slices, init_starts
        The static fit: CP-ALS, CP-APR or GCP, as the loss asks, on the first `init_slices` slices
        (H_init), best of `init_starts`.
    random_state
        Seed; None draws one.
    n_jobs
        Threads; the result is the same for any number.
    device
        Where to compute: "cpu", or "reference" for plain NumPy.

    Attributes
    ----------
    factors_ : tuple of (I_k, R) arrays
        One matrix per mode.
    weights_ : (R,) array
        Weights of the newest slice.
    n_slices_ : int
        Slices seen, warm start included.
    last_ : StepRecord or None
        Account of the newest slice; None until the warm start is over.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.random((8, 2)), rng.random((7, 2))
    >>> model = OnlineGCP(2, loss="poisson", init_slices=5)
    >>> for _ in range(8):
    ...     _ = model.partial_fit(Slice.dense(rng.poisson(20 * a * rng.random(2) @ b.T)))
    >>> model.n_slices_, [factor.shape for factor in model.factors_]
    (8, [(8, 2), (7, 2)])
    """

    takes_missing = True

    def __init__(
        self,
        rank: int,
        loss: str | Loss = "gaussian",
        *,
        solver: Literal["sgd"] = "sgd",
        weight_solver: Literal["sgd", "least_squares"] = "sgd",
        history: HistoryKind = "reservoir",
        history_size: int = 50,
        history_weight: float = 10.0,
        history_decay: float = 1.0,
        factor_penalty: float = 0.0,
        weight_penalty: float = 0.0,
        lower: float | None = None,
        sampler: str = "stratified",
        objective_listed: int | None = None,
        objective_zeros: int | None = None,
        gradient_listed: int | None = None,
        gradient_zeros: int | None = None,
        weight_rate: float = 1.0,
        weight_epochs: int = 5,
        weight_iterations: int = 100,
        weight_tolerance: float = 0.0,
        factor_rate: float = 1e-3,
        factor_epochs: int = 5,
        factor_iterations: int = 100,
        factor_tolerance: float = 0.0,
        step: str = "adam",
        init: KTensor | None = None,
        init_slices: int = 10,
        init_starts: int = 3,
        random_state: int | None = 0,
        n_jobs: int = 1,
        device: str = "cpu",
    ) -> None:
        self.rank = rank
        self.loss = loss
        self.solver = solver
        self.weight_solver = weight_solver
        self.history = history
        self.history_size = history_size
        self.history_weight = history_weight
        self.history_decay = history_decay
        self.factor_penalty = factor_penalty
        self.weight_penalty = weight_penalty
        self.lower = lower
        self.sampler = sampler
        self.objective_listed = objective_listed
        self.objective_zeros = objective_zeros
        self.gradient_listed = gradient_listed
        self.gradient_zeros = gradient_zeros
        self.weight_rate = weight_rate
        self.weight_epochs = weight_epochs
        self.weight_iterations = weight_iterations
        self.weight_tolerance = weight_tolerance
        self.factor_rate = factor_rate
        self.factor_epochs = factor_epochs
        self.factor_iterations = factor_iterations
        self.factor_tolerance = factor_tolerance
        self.step = step
        self.init = init
        self.init_slices = init_slices
        self.init_starts = init_starts
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.device = device

    # ---- hooks of the protocol

    def _get_loss(self) -> Loss:
        loss = get_loss(self.loss)
        if self.solver != "sgd":
            raise DataError(f"solver must be 'sgd', but got {self.solver!r}.")
        if self.weight_solver not in ("sgd", "least_squares"):
            raise DataError(
                f"weight_solver must be 'sgd' or 'least_squares', but got {self.weight_solver!r}."
            )
        gaussian_only = [
            name
            for name, used in (
                ("weight_solver='least_squares'", self.weight_solver == "least_squares"),
                ("sampler='dense'", self.sampler == "dense"),
            )
            if used
        ]
        if gaussian_only and loss.name != "gaussian":
            raise DataError(
                f"{gaussian_only[0]} needs loss='gaussian', but the loss is {loss.name!r}."
            )
        if self.lower is not None and self.lower < loss.lower:
            raise DataError(
                f"loss {loss.name!r} needs lower >= {loss.lower}, but got {self.lower!r}."
            )
        self._empty_history()
        self._settings("weight")
        self._settings("factor")
        return loss

    def _get_lower(self) -> float:
        return float(get_loss(self.loss).lower if self.lower is None else self.lower)

    def _begin(self, start: WarmStart, seed: int) -> ModelState:
        history = self._empty_history()
        slices = start.slices or (None,) * start.n_rows
        if history.kind == "data" and not start.slices:
            slices = ()  # rows without their slices cannot be compared with data
        for number, (row, x) in enumerate(zip(start.rows, slices, strict=False), 1):
            history = history.offer(row, number, x, seed=seed)
        lower = self._get_lower()
        factors = tuple(np.maximum(a, lower) for a in start.factors)
        weights = start.rows[-1] if start.n_rows else start.mean
        moments = Moments.zeros(stack_factors(factors), get_step(self.step).kind, weights=False)
        return self._state_of(factors, np.maximum(weights, lower), start.mean, history, moments)

    def _learn(
        self, state: ModelState, x: Slice, number: int, seed: int
    ) -> tuple[ModelState, StepRecord]:
        loss, watch = self._get_loss(), Stopwatch()
        weights, temporal = self._solve_weights(state, x, loss, number, seed)
        watch.lap("weights")
        history = self._history_of(state)
        spatial = self._solve_factors(state, history, x, weights, loss, number, seed)
        watch.lap("factors")
        factors = tuple(spatial.factors[: x.ndim])
        history = history.offer(weights, number, x, seed=seed)
        watch.lap("history")
        record = write_record(
            x,
            number,
            loss,
            before=(state.factors, weights),
            after=(factors, weights),
            watch=watch,
            seed=seed,
            objective=spatial.objective,
            weight_epochs=temporal.epochs if temporal else 0,
            weight_failures=temporal.failures if temporal else 0,
            factor_epochs=spatial.epochs,
            factor_failures=spatial.failures,
        )
        mean = running_mean(state.mean_weights, weights)
        return self._state_of(factors, weights, mean, history, spatial.moments), record

    def _weigh(self, state: ModelState, x: Slice, seed: int) -> FloatArray:
        # Slice number 0 is never learned, so these draws belong to no step.
        return self._solve_weights(state, x, self._get_loss(), 0, seed)[0]

    # ---- the two solves

    def _solve_weights(
        self, state: ModelState, x: Slice, loss: Loss, number: int, seed: int
    ) -> tuple[FloatArray, SgdResult | None]:
        """Algorithm 3, or one least-squares solve."""
        lower = self._get_lower()
        if self.weight_solver == "least_squares":
            penalty = self.weight_penalty
            return solve_weights(x, state.factors, penalty=penalty, lower=lower), None
        result = solve_sgd(
            x,
            state.factors,
            starting_weights(state.mean_weights, state.factors, x, lower),
            loss,
            self._settings("weight"),
            update=("weights",),
            seed=seed,
            slice_number=number,
            kernels=self.device,
            n_jobs=self.n_jobs,
        )
        return result.weights, result

    def _solve_factors(
        self,
        state: ModelState,
        history: History,
        x: Slice,
        weights: FloatArray,
        loss: Loss,
        number: int,
        seed: int,
    ) -> SgdResult:
        """Algorithm 4 with the history term of the chosen kind."""
        options: dict[str, Any] = {
            "moments": _moments_of(state),
            "seed": seed,
            "slice_number": number,
            "kernels": self.device,
            "n_jobs": self.n_jobs,
        }
        settings = self._settings("factor")
        if history.kind == "data" and history.slices:
            return _solve_with_data(x, state.factors, weights, history, loss, settings, options)
        folded = history.fold(number)
        anchors = None
        if history.kind == "factors" and history.weight > 0:
            # The paper's footnote has no 1/2 in front of this penalty.
            anchors = np.full(x.ndim, 2.0 * history.weight)
        tie = None
        if folded is not None or anchors is not None:
            tie = FoldedHistory(folded, stack_factors(state.factors), anchors)
        return solve_sgd(
            x, state.factors, weights, loss, settings, update=("factors",), history=tie, **options
        )

    # ---- parameters and state in the forms the parts take

    def _settings(self, part: Literal["weight", "factor"]) -> SgdSettings:
        return SgdSettings(
            step=self.step,
            rate=getattr(self, f"{part}_rate"),
            epochs=getattr(self, f"{part}_epochs"),
            iterations=getattr(self, f"{part}_iterations"),
            sampler=Sampler(self.sampler, self.gradient_listed, self.gradient_zeros),
            objective_sampler=Sampler(self.sampler, self.objective_listed, self.objective_zeros),
            ridge=self.factor_penalty,
            weight_ridge=self.weight_penalty,
            lower=self.lower,
            tolerance=getattr(self, f"{part}_tolerance"),
        )

    def _empty_history(self) -> History:
        return History.empty(
            self.history,
            self.rank,
            size=self.history_size,
            weight=self.history_weight,
            decay=self.history_decay,
        )

    def _history_of(self, state: ModelState) -> History:
        parts = {n[8:]: a for n, a in state.arrays.items() if n.startswith("history.")}
        return self._empty_history().from_state(
            parts, {"offered": state.scalars["offered"]}, state.slices
        )

    @staticmethod
    def _state_of(
        factors: tuple[FloatArray, ...],
        weights: FloatArray,
        mean: FloatArray,
        history: History,
        moments: Moments,
    ) -> ModelState:
        parts, record = history.to_state()
        arrays = {f"history.{name}": array for name, array in parts.items()}
        arrays |= {name: getattr(moments, name) for name in MOMENTS}
        scalars = {"offered": record["offered"], "taken": moments.taken}
        return ModelState(factors, weights, mean, arrays, scalars, history.slices)


MOMENTS = ("u", "v", "largest")


def starting_weights(
    mean: FloatArray, factors: tuple[FloatArray, ...], x: Slice, lower: float
) -> FloatArray:
    """Where the weight solve starts: the mean of past weights, scaled to the slice's volume.

    Never zero for losses with logarithms: there the slope is -x / eps and Adam's second moment
    stays huge for thousands of steps (errata row 6).
    """
    if lower < 0:
        return mean
    largest = float(mean.max())
    start = np.maximum(mean, 1e-3 * largest) if largest > 0 else np.ones_like(mean)
    share = x.n_observed / x.size
    expected = share * float(start @ np.prod([a.sum(axis=0) for a in factors], axis=0))
    if expected > 0:
        start = start * max(x.total / expected, 1e-3)
    return np.maximum(start, lower)


def _moments_of(state: ModelState) -> Moments:
    u, v, largest = (state.arrays[name] for name in MOMENTS)
    none = np.zeros((0, u.shape[1]))
    return Moments(u, v, largest, none, none, none, int(state.scalars["taken"]))


def _solve_with_data(
    x: Slice,
    factors: tuple[FloatArray, ...],
    weights: FloatArray,
    history: History,
    loss: Loss,
    settings: SgdSettings,
    options: dict[str, Any],
) -> SgdResult:
    """The paper's first formulation (eq. 3): kept slices stacked with the new one.

    The weights of all slices are the rows of one more factor, held fixed; what a slice counts for
    multiplies its cells. The step method's moments are those of the other factors.
    """
    rows = np.vstack([history.rows, weights])
    counts = np.append(history.row_weights(options["slice_number"]), 1.0)
    moments: Moments = options.pop("moments")
    padding = np.zeros((len(rows), moments.u.shape[1]))
    for name in MOMENTS:
        array = getattr(moments, name)
        if len(array):
            setattr(moments, name, np.vstack([array, padding]))
    result = solve_sgd(
        stack([*history.slices, x]),
        [*factors, rows],
        np.ones(len(weights)),
        loss,
        settings,
        update=tuple(range(x.ndim)),
        row_weights=counts,
        moments=moments,
        **options,
    )
    kept = sum(len(a) for a in factors)
    for name in MOMENTS:
        setattr(result.moments, name, getattr(result.moments, name)[:kept])
    return result
