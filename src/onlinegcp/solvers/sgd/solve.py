"""The unified stochastic gradient solver: weights, factors or both, one slice, any loss.

Algorithms 3 to 6 of the paper with the fixes of docs/errata.md: epochs of sampled gradient steps,
an objective estimated on one fixed sample per solve, and epochs that raise it are taken back. Told
to update the weights it is the temporal solve, told to update factors the factor solve, told both
it is static GCP.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.checks import check_number, check_whole
from onlinegcp.errors import DataError
from onlinegcp.kernels import random
from onlinegcp.kernels.layout import pad_vector, stack_factors
from onlinegcp.kernels.sgd.plan import FoldedHistory, Moments, Problem
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.devices import kernels_for
from onlinegcp.solvers.sgd.engines import Engine, Remote, engine_of
from onlinegcp.solvers.sgd.sampling import Sampler
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

    def __post_init__(self) -> None:
        check_whole("epochs", self.epochs, 0)
        check_whole("iterations", self.iterations, 1)
        if self.max_fails is not None:
            check_whole("max_fails", self.max_fails, 0)
        for name in ("ridge", "weight_ridge", "tolerance"):
            check_number(name, getattr(self, name), "[0, inf)")


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


def solve_sgd(
    x: Slice,
    factors: Sequence[Array],
    weights: Array,
    loss: Loss,
    settings: SgdSettings | None = None,
    *,
    update: Sequence[str | int] = ("weights", "factors"),
    history: FoldedHistory | None = None,
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
        What ties the factors to their old values.
    moments
        State of the step method from an earlier solve of the same blocks; copied.
    row_weights
        What cells count for by their last coordinate, (I_d,).
    seed, slice_number
        Name the random draws; a solve repeats exactly for the same pair.
    kernels
        "cpu", "reference", "cuda" (an NVIDIA card; a user's loss and the dense sampler stay on
        the CPU) or "auto" (the card where there is one and the slice is large enough).
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
    check_whole("n_jobs", n_jobs, 1)
    name = kernels_for(kernels, x, len(weights))
    problem = _problem(x, factors, weights, loss, settings, update, history, row_weights)
    engine = engine_of(name, problem, x, loss, settings, n_jobs)
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
    history: FoldedHistory | None,
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
    blocks = stack_factors(factors)
    if row_weights is not None:
        row_weights = np.ascontiguousarray(row_weights, np.float64)
        if row_weights.shape != (x.shape[-1],):
            raise DataError(
                f"row_weights must have one number per row of the last mode, ({x.shape[-1]},), "
                f"got shape {row_weights.shape}; pass that many."
            )
    return Problem(
        blocks=blocks,
        weights=pad_vector(weights),
        modes=modes,
        update_weights=update_weights,
        code=loss.code,
        parameter=float(loss.parameter),
        lower=float(loss.lower if settings.lower is None else settings.lower),
        ridge=float(settings.ridge),
        weight_ridge=float(settings.weight_ridge),
        history=history if modes else None,
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
