"""The unified stochastic gradient solver: weights, factors or both, one slice, any loss.

Algorithms 3 to 6 of the paper with the fixes of docs/errata.md: epochs of sampled gradient steps,
an objective estimated on one fixed sample per solve, and epochs that raise it are taken back. Told
to update the weights it is the temporal solve, told to update factors the factor solve, told both
it is static GCP.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from onlinegcp.errors import DataError
from onlinegcp.kernels import get_kernels, random
from onlinegcp.kernels.layout import Blocks, pad_vector, stack_factors
from onlinegcp.kernels.sgd.plan import FoldedHistory, Moments, Problem
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.devices import CUDA, kernels_for
from onlinegcp.solvers.sgd.sampling import Sampler, get_sampler
from onlinegcp.solvers.sgd.steps import Descent, Keeper, Step, get_step

Array = NDArray[Any]
# Called after every epoch with its number, the objective, and whether it was kept; True stops.
Callback = Callable[[int, float, bool], bool | None]


@dataclass(frozen=True)
class SgdSettings:
    """How to run the solver.

    Attributes
    ----------
    step
        A `Step`, or "sgd", "adam", "adagrad", "amsgrad".
    rate
        Learning rate; None for the step's own.
    epochs, iterations
        Most epochs (kappa), and steps per epoch (tau).
    sampler
        For gradients: a `Sampler`, a kind, or None for the default of the slice.
    objective_sampler
        For the objective; None for the same kind with its default sizes.
    ridge, weight_ridge
        Penalties lambda / 2 ||A_k||^2 and mu / 2 ||weights||^2.
    lower
        Bound of every updated number; None for the loss's own.
    tolerance
        Stop when an epoch lowers the objective by less than this share; 0 never stops
        (errata row 7).
    max_fails
        Stop after more than this many failed epochs; None never stops.
    take_back
        Undo epochs that raise the objective; False keeps all of them.
    dtype
        "float64" or "float32".
    """

    step: str | Step = "adam"
    rate: float | None = None
    epochs: int = 20
    iterations: int = 100
    sampler: str | Sampler | None = None
    objective_sampler: str | Sampler | None = None
    ridge: float = 0.0
    weight_ridge: float = 0.0
    lower: float | None = None
    tolerance: float = 0.0
    max_fails: int | None = None
    take_back: bool = True
    dtype: str = "float64"

    def __post_init__(self) -> None:
        for name, least in (("epochs", 0), ("iterations", 1), ("max_fails", 0)):
            number = getattr(self, name)
            if number is None and name == "max_fails":
                continue
            if isinstance(number, bool) or not hasattr(number, "__index__") or number < least:
                raise DataError(f"{name} must be a whole number >= {least}, got {number!r}.")
        for name in ("ridge", "weight_ridge", "tolerance"):
            number = getattr(self, name)
            if not isinstance(number, int | float | np.number) or not 0.0 <= number < math.inf:
                raise DataError(f"{name} must be a finite number >= 0, got {number!r}.")
        if self.dtype not in ("float64", "float32"):
            raise DataError(f"dtype must be 'float64' or 'float32', got {self.dtype!r}.")


@dataclass(frozen=True)
class SgdResult:
    """What a solve gave.

    Attributes
    ----------
    factors, weights
        The model, float64; blocks that were not updated come back unchanged.
    objective
        Estimated objective at the end.
    trace
        Objective before the first epoch and after each, failed ones showing what they went
        back to.
    epochs, failures, iterations
        Epochs run, how many of them failed, and gradient steps taken in all.
    moments
        State of the step method, to go on from in the next solve.
    """

    factors: list[NDArray[np.float64]]
    weights: NDArray[np.float64]
    objective: float
    trace: NDArray[np.float64]
    epochs: int
    failures: int
    moments: Moments
    iterations: int


class HistoryLike(Protocol):
    """What the solver reads from a history: the folded matrix and the old factors."""

    @property
    def S(self) -> Any: ...  # noqa: N802

    @property
    def old(self) -> Any: ...


@runtime_checkable
class Remote(Keeper, Protocol):
    """An engine that holds what moves elsewhere than in the problem's arrays."""

    def held(self) -> AbstractContextManager[None]:
        """While this lasts, nobody else uses what it holds them in."""


class Engine(Protocol):
    """What runs epochs and estimates objectives."""

    def epoch(
        self,
        moments: Moments,
        kind: int,
        rate: float,
        parameters: tuple[float, float, float],
        key: int,
        first_iteration: int,
        iterations: int,
    ) -> None: ...

    def objective(self, key: int) -> float: ...


def solve_sgd(
    x: Slice,
    factors: Sequence[Array],
    weights: Array,
    loss: Loss,
    settings: SgdSettings | None = None,
    *,
    update: Sequence[str | int] = ("weights", "factors"),
    history: HistoryLike | None = None,
    moments: Moments | None = None,
    row_weights: Array | None = None,
    seed: int = 0,
    slice_number: int = 0,
    kernels: str = "cpu",
    n_jobs: int = 1,
    callback: Callback | None = None,
) -> SgdResult:
    """Minimise a slice's loss plus penalties over some blocks, the others held fixed.

    Parameters
    ----------
    x
        The slice.
    factors, weights
        Where to start: matrices (I_k, R) and a vector (R,). Not changed. Weights of zero stall
        losses with logarithms (errata row 6).
    loss
        Built-in losses run compiled; a user's loss is called on arrays between kernels.
    settings
        Sizes, rates and penalties.
    update
        Blocks to update: "weights", "factors", or numbers of modes.
    history
        Object with `S` (R, R), `old` (factor matrices) and, if it has them, `anchors` (d,): adds
        1/2 sum_h w_h ||M(old, s_h) - M(new, s_h)||^2 and anchors_k / 2 ||A_k - old_k||^2.
    moments
        State of the step method from an earlier solve of the same blocks; copied.
    row_weights
        What cells count for by their last coordinate, (I_d,).
    seed, slice_number
        Name the random draws; a solve repeats exactly for the same pair.
    kernels
        "cpu", "reference", "cuda" (an NVIDIA card; a user's loss, the dense sampler and float32
        stay on the CPU) or "auto" (the card where there is one and the slice is large enough).
    n_jobs
        Threads; results do not depend on it.
    callback
        Called after every epoch with (epoch, objective, kept); a true answer stops.

    Examples
    --------
    >>> from onlinegcp.losses import get_loss
    >>> rng = np.random.default_rng(0)
    >>> factors = [rng.random((n, 2)) for n in (5, 4)]
    >>> x = Slice.dense(factors[0] @ factors[1].T)
    >>> settings = SgdSettings(rate=0.1, epochs=5, sampler="all")
    >>> result = solve_sgd(x, factors, np.full(2, 0.5), get_loss("gaussian"), settings,
    ...                    update=("weights",))
    >>> bool(np.allclose(result.weights, 1.0, atol=1e-3))
    True
    """
    settings = SgdSettings() if settings is None else settings
    if isinstance(n_jobs, bool) or not hasattr(n_jobs, "__index__") or n_jobs < 1:
        raise DataError(f"n_jobs must be a whole number >= 1, got {n_jobs!r}; pass 1 or more.")
    name = kernels_for(kernels, x, len(weights))
    problem = _problem(x, factors, weights, loss, settings, update, history, row_weights)
    engine = _engine(name, problem, x, loss, settings, n_jobs)
    own = None if moments is None else moments.copy()
    if not isinstance(engine, Remote):
        return _descend(engine, problem, settings, own, None, seed, slice_number, callback)
    with engine.held():
        return _descend(engine, problem, settings, own, engine, seed, slice_number, callback)


def _descend(
    engine: Engine,
    problem: Problem,
    settings: SgdSettings,
    moments: Moments | None,
    keeper: Keeper | None,
    seed: int,
    slice_number: int,
    callback: Callback | None,
) -> SgdResult:
    """Epochs until one of the reasons to stop."""
    method = get_step(settings.step, settings.rate)
    descent = Descent(method, problem, moments, keeper)
    purposes = (
        (random.GRADIENT_FACTORS, random.OBJECTIVE_FACTORS)
        if problem.modes
        else (random.GRADIENT_WEIGHTS, random.OBJECTIVE_WEIGHTS)
    )
    key, objective_key = (random.stream_key(seed, slice_number, purpose) for purpose in purposes)

    objective = engine.objective(objective_key)
    trace = [objective]
    failures = epoch = 0
    while epoch < settings.epochs:
        first = epoch * settings.iterations
        state = (descent.moments, method.kind, descent.rate, method.parameters)
        engine.epoch(*state, key, first, settings.iterations)
        epoch += 1
        candidate = engine.objective(objective_key)
        # Written so that NaN fails, too; a start that is itself NaN accepts any number.
        kept = candidate <= objective or (math.isnan(objective) and not math.isnan(candidate))
        kept = kept or not settings.take_back
        decrease = objective - candidate
        if kept:
            descent.accept()
            objective = candidate
        else:
            descent.reject()
            failures += 1
        trace.append(objective)
        if callback is not None and callback(epoch, objective, kept):
            break
        if settings.max_fails is not None and failures > settings.max_fails:
            break
        if kept and 0.0 <= decrease < settings.tolerance * max(abs(objective), 1e-300):
            break
    descent.finish()
    return SgdResult(
        [np.array(view, np.float64) for view in problem.blocks.views()],
        np.array(problem.weights[: problem.blocks.rank], np.float64),
        objective,
        np.array(trace),
        epochs=epoch,
        failures=failures,
        moments=descent.moments,
        iterations=epoch * settings.iterations,
    )


def _problem(
    x: Slice,
    factors: Sequence[Array],
    weights: Array,
    loss: Loss,
    settings: SgdSettings,
    update: Sequence[str | int],
    history: HistoryLike | None,
    row_weights: Array | None,
) -> Problem:
    """Check the options once and put everything into the kernels' layout."""
    shape = tuple(len(factor) for factor in factors)
    if shape != x.shape:
        raise DataError(
            f"Factors must have the slice's mode lengths {x.shape}, got {shape}; "
            "start from factors of that shape."
        )
    rank = len(weights)
    if any(factor.ndim != 2 or factor.shape[1] != rank for factor in factors):
        raise DataError(
            f"Every factor must have as many columns as there are weights ({rank}), got shapes "
            f"{[factor.shape for factor in factors]}; make them agree."
        )
    if x.n_unlisted_zeros and loss.zero_shape is None:
        raise DataError(
            f"The loss {loss.name!r} is not defined for zeros, but the slice has "
            f"{x.n_unlisted_zeros} unlisted zeros; build it with unlisted='missing' or choose "
            "another loss."
        )
    modes, update_weights = _updated(update, x.ndim)
    blocks = stack_factors(factors, settings.dtype)
    if row_weights is not None:
        row_weights = np.ascontiguousarray(row_weights, np.float64)
        if row_weights.shape != (x.shape[-1],):
            raise DataError(
                f"row_weights must have one number per row of the last mode, ({x.shape[-1]},), "
                f"got shape {row_weights.shape}; pass that many."
            )
    return Problem(
        blocks=blocks,
        weights=pad_vector(np.asarray(weights, np.float64), settings.dtype),
        modes=modes,
        update_weights=update_weights,
        code=loss.code,
        parameter=float(loss.parameter),
        lower=float(loss.lower if settings.lower is None else settings.lower),
        ridge=float(settings.ridge),
        weight_ridge=float(settings.weight_ridge),
        history=_folded(history, settings.dtype) if modes else None,
        row_weights=row_weights,
    )


def _updated(update: Sequence[str | int], ndim: int) -> tuple[tuple[int, ...], bool]:
    modes: set[int] = set()
    for block in (update,) if isinstance(update, str) else update:
        if block == "factors":
            modes |= set(range(ndim))
        elif block != "weights":
            if isinstance(block, str | bool) or not 0 <= int(block) < ndim:
                raise DataError(
                    f"update must name 'weights', 'factors' or modes 0 .. {ndim - 1}, "
                    f"got {block!r}; choose from those."
                )
            modes.add(int(block))
    weights = "weights" in update
    if not modes and not weights:
        raise DataError("update must name at least one block, got none; pass ('factors',).")
    return tuple(sorted(modes)), weights


def _folded(history: HistoryLike | None, dtype: str) -> FoldedHistory | None:
    if history is None:
        return None
    old = history.old
    if not isinstance(old, Blocks):
        old = stack_factors(old, dtype)
    elif old.dtype != np.dtype(dtype):
        old = stack_factors(old.views(), dtype)
    S = None if history.S is None else np.asarray(history.S, np.float64)
    return FoldedHistory(S, old, getattr(history, "anchors", None))


def _engine(
    name: str,
    problem: Problem,
    x: Slice,
    loss: Loss,
    settings: SgdSettings,
    n_jobs: int,
) -> Engine:
    """The compiled epochs where they can be used, else one of the two below."""
    sampler = get_sampler(settings.sampler, x)
    if name == CUDA and not (
        loss.code >= 0 and sampler.kind != "dense" and get_kernels(CUDA).takes(problem.blocks)
    ):
        name = "cpu"
    module = get_kernels(name)
    if sampler.kind == "dense":
        return _DenseEngine(module, problem, x, loss)
    other = settings.objective_sampler
    objective_sampler = get_sampler(sampler.kind if other is None else other, x).for_objective(x)
    plan = sampler.for_gradient(x, settings.epochs * settings.iterations).plan(x)
    objective_plan = objective_sampler.plan(x)
    cells = module.prepare_cells(x, plan)
    objective_cells = module.prepare_cells(x, objective_plan)
    if loss.code < 0:
        return _ArrayEngine(module, problem, loss, (cells, plan), (objective_cells, objective_plan))
    engine: Engine = module.SgdEngine(problem, cells, plan, objective_cells, objective_plan, n_jobs)
    return engine


@dataclass(frozen=True)
class _ArrayEngine:
    """Epochs for a user's loss: it is called on the arrays of a sample, never compiled."""

    module: ModuleType
    problem: Problem
    loss: Loss
    gradient_draws: tuple[Any, Any]
    objective_draws: tuple[Any, Any]

    def epoch(
        self,
        moments: Moments,
        kind: int,
        rate: float,
        parameters: tuple[float, float, float],
        key: int,
        first_iteration: int,
        iterations: int,
    ) -> None:
        module, problem = self.module, self.problem
        for iteration in range(first_iteration, first_iteration + iterations):
            own_key = random.iteration_key_int(key, iteration)
            sample = module.draw_sample(*self.gradient_draws, own_key, problem.row_weights)
            m = module.model_values(problem.blocks, problem.weights, sample.index)
            y = module.sample_slopes(sample, m, self.loss.deriv)
            gradient, weights_gradient = module.scatter_gradient(
                problem.blocks, problem.weights, sample.index, y, problem.modes
            )
            module.add_penalty_gradient(problem, gradient, weights_gradient)
            module.step_problem(
                problem, moments, gradient, weights_gradient, kind, rate, parameters
            )

    def objective(self, key: int) -> float:
        module, problem = self.module, self.problem
        sample = module.draw_sample(*self.objective_draws, key, problem.row_weights)
        m = module.model_values(problem.blocks, problem.weights, sample.index)
        loss: float = module.sample_loss(sample, m, self.loss.value)
        return loss + float(module.penalty_value(problem))


@dataclass
class _DenseEngine:
    """Exact gradients of the Gaussian loss from its structure (Section 5; errata row 16).

    dF/dA_k = 2 (A_k diag(s) Z_k'Z_k diag(s) - X_(k) Z_k diag(s)) needs the data only in X_(k) Z_k.
    """

    module: ModuleType
    problem: Problem
    x: Slice
    loss: Loss
    _ones: Array = field(init=False)

    def __post_init__(self) -> None:
        problem, x = self.problem, self.x
        if not self.loss.traits.quadratic:
            raise DataError(
                f"The dense sampler needs the gaussian loss, got {self.loss.name!r}; use the "
                "stratified, semi_stratified, uniform or all sampler."
            )
        if x.n_observed != x.size or problem.row_weights is not None:
            raise DataError(
                "The dense sampler needs every cell observed with equal weight, got "
                f"{x.size - x.n_observed} missing cells"
                f"{' and row weights' if problem.row_weights is not None else ''}; use the "
                "uniform or all sampler."
            )
        self._ones = pad_vector(np.ones(problem.blocks.rank), problem.blocks.dtype)

    def epoch(
        self,
        moments: Moments,
        kind: int,
        rate: float,
        parameters: tuple[float, float, float],
        key: int,
        first_iteration: int,
        iterations: int,
    ) -> None:
        problem = self.problem
        rank = problem.blocks.rank
        for _ in range(iterations):
            views, s = problem.blocks.views(), problem.weights[:rank]
            products = self._products(problem.modes or (0,))
            grams = [view.T @ view for view in views]
            gradient, weights_gradient = problem.blocks.zeros_like(), np.zeros_like(problem.weights)
            for k in problem.modes:
                others = np.prod([grams[j] for j in range(len(grams)) if j != k], axis=0)
                out = 2.0 * ((views[k] * s) @ (others * np.ones((rank, rank))) - products[k])
                gradient.views()[k][...] = out * s
            if problem.update_weights:
                k = (problem.modes or (0,))[0]
                inner = (products[k] * views[k]).sum(axis=0)
                weights_gradient[:rank] = 2.0 * (np.prod(grams, axis=0) @ s - inner)
            self.module.add_penalty_gradient(problem, gradient, weights_gradient)
            self.module.step_problem(
                problem, moments, gradient, weights_gradient, kind, rate, parameters
            )

    def objective(self, key: int) -> float:
        problem = self.problem
        views = problem.blocks.views()
        s = problem.weights[: problem.blocks.rank].astype(np.float64)
        inner = float((self._products((0,))[0] * views[0]).sum(axis=0) @ s)
        gram = np.prod([view.T.astype(np.float64) @ view for view in views], axis=0)
        loss = self.x.norm_squared - 2.0 * inner + float(s @ gram @ s)
        return loss + float(self.module.penalty_value(problem))

    def _products(self, modes: Sequence[int]) -> dict[int, Array]:
        """X_(k) Z_k for every wanted mode, from the array or from the listed cells."""
        x, views = self.x, self.problem.blocks.views()
        if x.array is None:
            blocks, _ = self.module.scatter_gradient(
                self.problem.blocks, self._ones, x.index, x.value, modes
            )
            return {k: blocks.views()[k] for k in modes}
        out = {}
        for k in modes:
            operands: list[Any] = [x.array, list(range(x.ndim))]
            for j in range(x.ndim):
                if j != k:
                    operands += [views[j], [j, x.ndim]]
            if x.ndim == 1:
                out[k] = np.repeat(x.array[:, None], views[k].shape[1], axis=1)
            else:
                out[k] = np.einsum(*operands, [k, x.ndim], optimize="greedy")
        return out
