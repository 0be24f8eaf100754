"""OnlineGCP: streaming GCP with a tuning-free default solver and the paper's own beside it."""

from __future__ import annotations

import inspect
from typing import Literal, final

from onlinegcp.errors import BackendError, DataError
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import Loss, get_loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import forgetting
from onlinegcp.solvers.auto.solver import is_bounded
from onlinegcp.solvers.sgd.history import HistoryKind
from onlinegcp.solvers.sgd.steps import Step
from onlinegcp.streaming import auto_solver, paper_solver
from onlinegcp.streaming.model import StreamingModel
from onlinegcp.streaming.options import check_choice, check_whole
from onlinegcp.streaming.record import StepRecord
from onlinegcp.streaming.state import FloatArray, ModelState
from onlinegcp.streaming.warm_start import WarmStart


@final
class OnlineGCP(StreamingModel):
    """Streaming generalized CP decomposition.

    A slice is explained by weights s_t and factor matrices A_k through
    m_i = sum_r s_tr prod_k A_k[i_k, r]. When it arrives, the weights are solved with the factors
    held fixed, then the factors move a little, as far as the past allows.

    The default solver, "auto", needs a rank and a loss and nothing else: weights by Newton's
    method, factors by closed-form or Fisher-scoring updates whose history has the units of the
    loss, forgetting learned from how well each next slice is predicted (docs/solver.md). Modes may
    get new rows along the stream.

    "sgd" is the paper's method (Algorithms 1 to 6): stochastic gradients for the weights, then for
    the factors, under a history term that keeps the model of past slices where it was:

        sum_i f(x_i, m_i) + 1/2 sum_h w theta^(t-h) ||Mbar_h - M_h||^2
            + lambda/2 sum_k ||A_k||^2 + mu/2 |s|^2,   A_k, s >= lower

    Parameters
    ----------
    rank
        Number of components (R).
    loss
        Name of a loss, or a `Loss` (f).
    solver
        "auto", or "sgd", the paper's method. All parameters from `weight_solver` to `step`, but
        for `lower`, belong to "sgd" alone.
    forget
        For "auto": "auto" learns along the stream how much of the past to keep, 1.0 keeps all of
        it, a larger number is a half-life in slices.
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
        Bound on factors and weights (l); None takes the loss's own. "auto" takes 0, which makes
        any model nonnegative, with exact zeros.
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
        "adam", "sgd", "adagrad" or "amsgrad", or a `Step` with other constants than the usual
        ones (beta_1, beta_2, epsilon); its own rate does not count.
    init
        Start from this model: d modes, or d + 1 with the weights of past slices as the last,
        which then fill the history. None: from a static fit.
    init_slices, init_starts
        The static fit: CP-ALS, CP-APR or GCP, as the loss asks, on the first `init_slices` slices
        (H_init), best of `init_starts`.
    random_state
        Seed; None draws one.
    n_jobs
        Threads; the result is the same for any number. "auto" has work for two, and only while a
        change of its components is on trial.
    device
        Where to compute: "cpu", or, for "sgd" only, "reference": plain NumPy.

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
    >>> import numpy as np
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
        solver: Literal["auto", "sgd"] = "auto",
        forget: float | Literal["auto"] = "auto",
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
        step: str | Step = "adam",
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
        self.forget = forget
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
        check_choice("solver", self.solver, ("auto", "sgd"))
        if self.device not in ("cpu", "reference"):
            raise BackendError(
                f"device must be 'cpu' or 'reference', but got {self.device!r}. Choose one."
            )
        check_whole("n_jobs", self.n_jobs, 1)
        forgetting.parse(self.forget)
        if self.solver == "auto":
            self._refuse_unused()
            if self.device != "cpu":
                raise BackendError(
                    f"solver='auto' computes on device='cpu' only, but got {self.device!r}. Leave "
                    f"it out, or pass solver='sgd'."
                )
            is_bounded(loss, self.lower)
        else:
            if self.forget != "auto":
                raise DataError(
                    f"forget belongs to solver='auto', but solver='sgd' was chosen and "
                    f"forget={self.forget!r} given. Use history_decay, or leave it out."
                )
            paper_solver.check_options(self, loss)
        return loss

    def _refuse_unused(self) -> None:
        """An option that would be ignored silently is a trap for its user."""
        for name, default in SGD_ONLY.items():
            if getattr(self, name) != default:
                raise DataError(
                    f"{name} belongs to the paper's solver, but solver='auto' was chosen and "
                    f"{name}={getattr(self, name)!r} given. Leave it out, or pass solver='sgd'."
                )

    def _get_lower(self) -> float:
        return float(get_loss(self.loss).lower if self.lower is None else self.lower)

    def _may_grow(self) -> bool:
        return self.solver == "auto"

    def _begin(self, start: WarmStart, seed: int) -> ModelState:
        if self.solver == "auto":
            return auto_solver.begin(start, self._get_loss(), self.forget, self.lower)
        return paper_solver.begin(self, start, self._get_lower(), seed)

    def _learn(
        self, state: ModelState, x: Slice, number: int, seed: int
    ) -> tuple[ModelState, StepRecord]:
        loss = self._get_loss()
        if self.solver == "auto":
            return auto_solver.learn(state, x, loss, number, seed, self.n_jobs)
        return paper_solver.learn(self, state, x, loss, self._get_lower(), number, seed)

    def _weigh(self, state: ModelState, x: Slice, seed: int) -> FloatArray:
        loss = self._get_loss()
        if self.solver == "auto":
            return auto_solver.weigh(state, x, loss, seed)
        # Slice number 0 is never learned, so these draws belong to no step.
        return paper_solver.weigh(self, state, x, loss, self._get_lower(), 0, seed)[0]


# Parameters of the paper's solver, with their defaults.
SGD_ONLY = {
    name: parameter.default
    for name, parameter in inspect.signature(OnlineGCP).parameters.items()
    if name
    not in {
        "rank",
        "loss",
        "solver",
        "forget",
        "lower",
        "init",
        "init_slices",
        "init_starts",
        "random_state",
        "n_jobs",
        "device",
    }
}
