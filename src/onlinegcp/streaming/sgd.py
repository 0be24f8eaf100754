"""SGD: the settings of the paper's solver, as a value that `OnlineGCP` takes for its solver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

from sklearn.base import BaseEstimator

from onlinegcp.solvers.sgd.history import HistoryKind
from onlinegcp.solvers.sgd.steps import Step


@final
@dataclass(kw_only=True, repr=False)
class SGD(BaseEstimator):  # type: ignore[misc]
    """The paper's solver and its settings: ``OnlineGCP(rank, loss, solver=SGD(factor_rate=0.01))``.

    It only stores them, as scikit-learn wants it: in a grid search they are called
    ``solver__factor_rate`` and so on.

    Parameters
    ----------
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

    Examples
    --------
    >>> from onlinegcp import OnlineGCP
    >>> OnlineGCP(3, "poisson", solver=SGD(factor_rate=0.01)).get_params()["solver__factor_rate"]
    0.01
    """

    weight_solver: Literal["sgd", "least_squares"] = "sgd"
    history: HistoryKind = "reservoir"
    history_size: int = 50
    history_weight: float = 10.0
    history_decay: float = 1.0
    factor_penalty: float = 0.0
    weight_penalty: float = 0.0
    sampler: str = "stratified"
    objective_listed: int | None = None
    objective_zeros: int | None = None
    gradient_listed: int | None = None
    gradient_zeros: int | None = None
    weight_rate: float = 1.0
    weight_epochs: int = 5
    weight_iterations: int = 100
    weight_tolerance: float = 0.0
    factor_rate: float = 1e-3
    factor_epochs: int = 5
    factor_iterations: int = 100
    factor_tolerance: float = 0.0
    step: str | Step = "adam"
