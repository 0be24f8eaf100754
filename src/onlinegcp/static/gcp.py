"""Static GCP: fit a low-rank model to one whole tensor under any loss.

Two solvers for one problem: L-BFGS-B with the exact gradient where every cell can be afforded,
and the sampled gradient steps of `onlinegcp.solvers.sgd` where it cannot.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import numpy.typing as npt

from onlinegcp.checks import check_choice, check_number, check_whole
from onlinegcp.errors import DataError
from onlinegcp.kernels.blas import one_blas_thread
from onlinegcp.kernels.exact import exact_gradient
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import Loss, get_loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.objective import slice_loss
from onlinegcp.solvers.sgd import SgdSettings, solve_sgd
from onlinegcp.solvers.sgd.sampling import Sampler
from onlinegcp.solvers.sgd.steps import Step
from onlinegcp.static.inputs import check_options, read_start, read_tensor
from onlinegcp.static.result import Progress, ProgressCallable, StaticFit
from onlinegcp.static.starts import (
    best_of,
    check_rank,
    has_link,
    random_start,
    start_generator,
    start_norm,
)
from onlinegcp.sums.local import engine, jobs

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

FloatArray = npt.NDArray[np.float64]
Method = Literal["auto", "lbfgsb", "sgd"]

# Learning rate and smallest entry of sampled solves, in units of the start's typical entry. The
# rate is the middle of a range over which results hardly change. The floor keeps a row from
# reaching zero where a count lies: one such cell has a slope of 1e10, which Adam's second moment
# remembers for thousands of steps while the row stands still. Measured on Poisson, odds and
# negative binomial problems: without it 0.1 to 17 percent of the possible descent is lost.
RELATIVE_RATE = 0.03
RELATIVE_FLOOR = 1e-4

# Cells an exact gradient may visit before method="auto" samples instead: about 0.2 s at rank 20.
AFFORDABLE_CELLS = 5_000_000


def gcp(
    x: object,
    rank: int,
    loss: str | Loss = "gaussian",
    *,
    method: Method = "auto",
    init: KTensor | None = None,
    n_starts: int = 1,
    seed: int = 0,
    lower: float | None = None,
    ridge: float = 0.0,
    max_iterations: int = 1000,
    tolerance: float = 1e-9,
    memory: int = 10,
    step: str | Step = "adam",
    rate: float | None = None,
    epochs: int = 100,
    iterations: int = 100,
    sampler: str | Sampler | None = None,
    objective_sampler: str | Sampler | None = None,
    max_fails: int = 3,
    kernels: str = "cpu",
    n_jobs: int | None = None,
    device: str = "cpu",
    progress: ProgressCallable | None = None,
) -> StaticFit:
    """Fit a low-rank model to a tensor under any loss.

    Minimises the sum of f(x, m) over the observed cells plus ridge / 2 times the sum of the
    squared factor entries, over factors not below `lower`. The factors carry the weights while
    solving; the returned model has columns of norm one (1-norm where factors are nonnegative,
    else 2-norm), largest weight first.

    Parameters
    ----------
    x
        Anything `as_slice` takes, or a list of Slices, which are stacked with time last.
    rank
        Number of components.
    loss
        Name of a loss, or a loss.
    method
        "lbfgsb" for the exact gradient, "sgd" for sampled ones, "auto" for the exact one where
        it visits at most 5 million cells.
    init
        Model to start from, never changed; random if left out.
    n_starts
        Number of random starts, of which the best is returned; 1 where `init` is given.
    seed
        Seed of starts and samples, >= 0.
    lower
        Smallest factor entry allowed; the loss' own bound if left out.
    ridge
        Weight of the penalty on the squared factor entries.
    max_iterations
        "lbfgsb": most iterations.
    tolerance
        "lbfgsb": stop when an iteration lowers the objective by less than this part of it.
    memory
        "lbfgsb": number of past steps remembered.
    step
        "sgd": "adam", "adagrad", "amsgrad", "sgd" or a `Step`.
    rate
        "sgd": learning rate; 0.03 times the root mean square entry of the start if left out,
        which Adam-like steps need 33 steps to cross.
    epochs, iterations
        "sgd": most epochs, and steps per epoch.
    sampler, objective_sampler
        "sgd": cells drawn for gradients and for the objective, see `solvers.sgd.sampling`.
    max_fails
        "sgd": stop after more than this many epochs that raised the objective; each is taken
        back and lowers the rate tenfold.
    kernels
        "sgd": "cpu" or "reference".
    n_jobs
        Threads, None for every core; results do not depend on it.
    device
        "sgd": "cpu"; "cuda", an NVIDIA card, in place of `kernels`; "auto", the card where there is
        one and the tensor is large enough to gain. "lbfgsb" stays on the CPU.
    progress
        Called with a `Progress` after every iteration or epoch.

    Examples
    --------
    >>> counts = np.random.default_rng(0).poisson(np.outer([1.0, 5.0, 2.0], [4.0, 1.0]))
    >>> result = gcp(counts, 1, "poisson")
    >>> result.converged, int(counts.sum()), result.ktensor.weights.round(2)
    (True, 33, array([33.]))
    """
    problem = _problem(x, rank, loss, lower, ridge)
    check_options(max_iterations, tolerance, n_jobs, device)
    check_choice("method", method, get_args(Method))
    lbfgsb = _Lbfgsb(max_iterations, tolerance, check_whole("memory", memory, 1))
    sgd = SgdSettings(
        step=step,
        rate=rate,
        epochs=check_whole("epochs", epochs, 1),
        iterations=check_whole("iterations", iterations, 1),
        sampler=sampler,
        objective_sampler=objective_sampler,
        ridge=problem.ridge,
        lower=problem.lower,
        max_fails=max_fails,
    )
    exact = _solver(method, problem.x, problem.loss) == "lbfgsb"

    def solve(start: list[FloatArray], rng: np.random.Generator) -> StaticFit:
        with jobs(n_jobs):
            if exact:
                return _solve_lbfgsb(problem, start, lbfgsb, progress)
            # The seed of the samples comes after the start's draws: starts differ in both.
            own = int(rng.integers(2**31))
            where = kernels if device == "cpu" else device
            return _solve_sgd(problem, start, sgd, own, where, progress)

    if init is None:
        return best_of(n_starts, lambda rng: solve(_random(problem, rng), rng), seed)
    start = read_start(init, problem.x.shape, problem.rank, problem.lower)
    return solve(start, start_generator(seed, 0))


@dataclass(frozen=True)
class _Problem:
    """What is minimised, checked."""

    x: Slice
    rank: int
    loss: Loss
    lower: float
    ridge: float


@dataclass(frozen=True)
class _Lbfgsb:
    """How to run L-BFGS-B, checked."""

    max_iterations: int
    tolerance: float
    memory: int


def _problem(
    x: object, rank: object, loss: str | Loss, lower: float | None, ridge: float
) -> _Problem:
    tensor = read_tensor(x)
    resolved = get_loss(loss)
    if tensor.n_observed == 0:
        raise DataError(
            f"gcp needs at least one observed cell, but all {tensor.size} cells of the tensor of "
            f"shape {tensor.shape} are missing. Pass data, or unlisted='zero' if it is zeros."
        )
    index = None if tensor.array is not None else tensor.index
    values = tensor.value if tensor.array is None else tensor.array
    resolved.check(values, index, unlisted_zeros=tensor.n_unlisted_zeros)
    bound = resolved.lower if lower is None else check_number("lower", lower, "[-inf, inf)")
    if bound < resolved.lower:
        raise DataError(
            f"lower must not be below {resolved.lower}, the bound of the loss {resolved.name!r}, "
            f"but is {bound}. Raise it, or use a loss without a bound."
        )
    penalty = check_number("ridge", ridge, "[0, inf)", "Use 0 for none.")
    return _Problem(tensor, check_rank(rank, tensor.shape), resolved, bound, penalty)


def _solver(method: Method, x: Slice, loss: Loss) -> Method:
    if method != "auto":
        return method
    return "lbfgsb" if _cells_visited(x, loss) <= AFFORDABLE_CELLS else "sgd"


def _cells_visited(x: Slice, loss: Loss) -> int:
    """Number of cells an exact gradient has to look at one by one."""
    closed_form = loss.zero_shape in ("linear", "quadratic")
    return x.n_listed if closed_form else x.n_observed


def _random(problem: _Problem, rng: np.random.Generator) -> list[FloatArray]:
    # Signed factors for data without a sign would only have to be turned first.
    unsigned = problem.x.n_listed == 0 or float(problem.x.value.min()) >= 0.0
    start = random_start(
        problem.x.shape,
        problem.rank,
        rng,
        nonnegative=problem.lower >= 0.0 or (unsigned and not has_link(problem.loss)),
        norm=start_norm(problem.x, problem.loss),
    )
    return [np.maximum(a, problem.lower) for a in start]


# L-BFGS-B ----------------------------------------------------------------------------------


def _solve_lbfgsb(
    problem: _Problem,
    start: Sequence[FloatArray],
    options: _Lbfgsb,
    progress: ProgressCallable | None,
) -> StaticFit:
    import scipy.optimize

    began = time.perf_counter()
    shapes = [a.shape for a in start]
    vector = np.concatenate([a.ravel() for a in start])
    trace: list[float] = []
    newest = vector

    def report(intermediate_result: OptimizeResult) -> None:
        nonlocal newest
        if np.isfinite(intermediate_result.x).all():
            newest = np.array(intermediate_result.x)
        trace.append(float(intermediate_result.fun) / scale)
        if progress is not None:
            progress(Progress(len(trace), trace[-1], time.perf_counter() - began))

    value, slope = _objective(vector, problem, shapes)
    scale = _scale(problem, value)
    # Entries are measured in units of the start's typical entry: the first step L-BFGS-B tries
    # has length 1 in whatever units it is given.
    unit = float(np.sqrt((vector**2).mean())) or 1.0
    newest = vector / unit
    bounds = None
    if problem.lower > -np.inf:
        bounds = scipy.optimize.Bounds(np.full(vector.size, problem.lower / unit), np.inf)
    # Sums that BLAS splits among threads would depend on their number.
    with one_blas_thread():
        found = scipy.optimize.minimize(
            _objective,
            vector / unit,
            args=(problem, shapes, scale, unit),
            method="L-BFGS-B",
            jac=True,
            bounds=bounds,
            callback=report,
            options={
                "maxiter": options.max_iterations,
                # Only iterations are limited; a line search takes at most 20 evaluations.
                "maxfun": 21 * options.max_iterations + 1,
                "maxcor": options.memory,
                "ftol": options.tolerance,
                # Relative to the start, as every tolerance here: results do not depend on units.
                "gtol": 1e-10
                * _projected(vector / unit, slope * (scale * unit), problem.lower / unit),
            },
        )
    if not np.isfinite(found.x).all():
        # Where the slope vanishes to the last digit, it divides zero by zero to find a direction.
        found.x = newest
        found.fun, found.jac = _objective(newest, problem, shapes, scale, unit)
    vector, slope = unit * found.x, found.jac / (scale * unit)
    factors = _unpack(np.maximum(vector, problem.lower), shapes)
    return StaticFit(
        ktensor=_finished(factors, problem.lower),
        objective=float(found.fun) / scale,
        trace=trace,
        iterations=int(found.nit),
        converged=bool(found.success),
        message=_reason(int(found.status), str(found.message), options),
        seconds=time.perf_counter() - began,
        fit=_gaussian_fit(problem, factors),
        kkt=_projected(vector, slope, problem.lower),
    )


def _scale(problem: _Problem, value: float) -> float:
    """Factor that brings the objective to about one per cell.

    SciPy's test of the decrease turns absolute below an objective of 1, which would stop
    squared errors of data around 1e-6 at once.
    """
    reference = problem.x.norm_squared if problem.loss.traits.quadratic else abs(value)
    usable = 0.0 < reference < np.finfo(np.float64).max
    return problem.x.n_observed / reference if usable else 1.0


def _reason(status: int, message: str, options: _Lbfgsb) -> str:
    if status == 0:
        return f"L-BFGS-B converged to the tolerance {options.tolerance:g}."
    if status == 1:
        return (
            f"L-BFGS-B stopped after max_iterations = {options.max_iterations} before the "
            f"tolerance {options.tolerance:g} was met."
        )
    return f"L-BFGS-B found no lower value along its last direction ({message.lower()})."


def _objective(
    vector: FloatArray,
    problem: _Problem,
    shapes: Sequence[tuple[int, ...]],
    scale: float = 1.0,
    unit: float = 1.0,
) -> tuple[float, FloatArray]:
    """Objective times `scale` and its gradient, at factors that are `vector` times `unit`."""
    entries = unit * vector
    # A long trial step may overflow; the line search only has to see that it was too long.
    with np.errstate(over="ignore", invalid="ignore"):
        exact = exact_gradient(
            problem.x,
            _unpack(entries, shapes),
            np.ones(problem.rank),
            problem.loss,
            with_weights=False,
        )
        value = exact.value
        slope = np.concatenate([g.ravel() for g in exact.factors if g is not None])
        if problem.ridge:
            value += 0.5 * problem.ridge * float(entries @ entries)
            slope += problem.ridge * entries
        value, slope = value * scale, slope * (scale * unit)
    if not np.isfinite(value):
        return np.finfo(np.float64).max, np.nan_to_num(slope)
    return value, slope


def _unpack(vector: FloatArray, shapes: Sequence[tuple[int, ...]]) -> list[FloatArray]:
    ends = np.cumsum([n * rank for n, rank in shapes])
    return [part.reshape(s) for part, s in zip(np.split(vector, ends[:-1]), shapes, strict=True)]


def _projected(vector: FloatArray, slope: FloatArray, lower: float) -> float:
    """Largest entry of the step a unit gradient step makes within the bound: 0 at an optimum."""
    return float(np.abs(vector - np.maximum(vector - slope, lower)).max())


# Sampled gradients ---------------------------------------------------------------------------


def _solve_sgd(
    problem: _Problem,
    start: Sequence[FloatArray],
    settings: SgdSettings,
    seed: int,
    kernels: str,
    progress: ProgressCallable | None,
) -> StaticFit:
    began = time.perf_counter()
    unit = float(np.sqrt(np.mean(np.concatenate([a.ravel() for a in start]) ** 2))) or 1.0
    if settings.rate is None and not isinstance(settings.step, Step):
        settings = replace(settings, rate=RELATIVE_RATE * unit)
    if problem.lower == 0.0 == problem.loss.lower:
        settings = replace(settings, lower=RELATIVE_FLOOR * unit)
        start = [np.maximum(a, RELATIVE_FLOOR * unit) for a in start]

    def report(epoch: int, objective: float, kept: bool) -> None:
        if progress is not None:
            message = "" if kept else "epoch taken back, learning rate lowered"
            progress(Progress(epoch, objective, time.perf_counter() - began, message))

    found = solve_sgd(
        problem.x,
        start,
        np.ones(problem.rank),
        problem.loss,
        settings,
        update=("factors",),
        seed=seed,
        kernels=kernels,
        n_jobs=engine().jobs,
        callback=report,
    )
    penalty = 0.5 * problem.ridge * sum(float((a**2).sum()) for a in found.factors)
    loss = slice_loss(problem.x, found.factors, found.weights, problem.loss, seed=seed)
    settled = settings.max_fails is not None and found.failures > settings.max_fails
    return StaticFit(
        ktensor=_finished(found.factors, problem.lower),
        objective=loss + penalty,
        trace=found.trace[1:].tolist(),
        iterations=found.epochs,
        converged=settled,
        message=(
            f"SGD converged: {found.failures} epochs raised the objective."
            if settled
            else f"SGD stopped after epochs = {settings.epochs}."
        ),
        seconds=time.perf_counter() - began,
        fit=_gaussian_fit(problem, found.factors),
    )


# What every road ends with -------------------------------------------------------------------


def _finished(factors: Sequence[FloatArray], lower: float) -> KTensor:
    return KTensor(None, factors).normalize(norm=1 if lower >= 0.0 else 2)


def _gaussian_fit(problem: _Problem, factors: Sequence[FloatArray]) -> float | None:
    """Share of the data explained, which only squared errors measure."""
    if not problem.loss.traits.quadratic or problem.x.norm_squared == 0.0:
        return None
    ones = np.ones(problem.rank)
    exact = exact_gradient(problem.x, factors, ones, problem.loss, modes=(), with_weights=False)
    return 1.0 - float(np.sqrt(max(exact.value, 0.0) / problem.x.norm_squared))
