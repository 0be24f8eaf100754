"""The paper's solver behind the protocol: Algorithms 3 to 6 with the fixes of docs/errata.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from onlinegcp.checks import check_choice, check_number, check_whole
from onlinegcp.errors import DataError
from onlinegcp.kernels.layout import stack_factors
from onlinegcp.kernels.sgd.plan import FoldedHistory, Moments
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice, stack
from onlinegcp.solvers.least_squares import solve_weights
from onlinegcp.solvers.sgd import SgdResult, SgdSettings, solve_sgd
from onlinegcp.solvers.sgd.history import KINDS, History
from onlinegcp.solvers.sgd.sampling import KINDS as SAMPLERS
from onlinegcp.solvers.sgd.sampling import Sampler
from onlinegcp.solvers.sgd.steps import KINDS as STEPS
from onlinegcp.solvers.sgd.steps import Step, get_step
from onlinegcp.storage.archive import under
from onlinegcp.streaming.record import StepRecord
from onlinegcp.streaming.scoring import Stopwatch, running_mean, write_record
from onlinegcp.streaming.sgd import SGD
from onlinegcp.streaming.state import FloatArray, ModelState
from onlinegcp.streaming.warm_start import WarmStart

MOMENTS = ("u", "v", "largest")


@dataclass(frozen=True)
class Surroundings:
    """What a solve depends on besides its settings: bound, draws and machine.

    Attributes
    ----------
    lower
        Bound on factors and weights, -inf for none.
    number, seed
        The slice's number and the seed, of which the draws are a hash.
    device, n_jobs
        As in `OnlineGCP`.
    """

    lower: float
    number: int
    seed: int
    device: str
    n_jobs: int

    def options(self) -> dict[str, Any]:
        """As `solve_sgd` takes them."""
        return {
            "seed": self.seed,
            "slice_number": self.number,
            "kernels": self.device,
            "n_jobs": self.n_jobs,
        }


def begin(how: SGD, start: WarmStart, lower: float, seed: int) -> ModelState:
    """The state after the warm start, whose rows fill the history."""
    history = empty_history(how, start.factors[0].shape[1])
    slices = start.slices or (None,) * start.n_rows
    if history.kind == "data" and not start.slices:
        slices = ()  # rows without their slices cannot be compared with data
    for number, (row, x) in enumerate(zip(start.rows, slices, strict=False), 1):
        history = history.offer(row, number, x, seed=seed)
    factors = tuple(np.maximum(a, lower) for a in start.factors)
    weights = start.newest
    moments = Moments.zeros(stack_factors(factors), get_step(how.step).kind, weights=False)
    return _state_of(factors, np.maximum(weights, lower), start.mean, history, moments)


def learn(
    how: SGD, around: Surroundings, state: ModelState, x: Slice, loss: Loss
) -> tuple[ModelState, StepRecord]:
    """One pass of Algorithm 1's loop: weights, factors, history."""
    watch = Stopwatch()
    weights, temporal = weigh(how, around, state, x, loss)
    watch.lap("weights")
    history = _history_of(how, state)
    spatial = _solve_factors(how, around, state, history, x, weights, loss)
    watch.lap("factors")
    factors = tuple(spatial.factors[: x.ndim])
    history = history.offer(weights, around.number, x, seed=around.seed)
    watch.lap("history")
    record = write_record(
        x,
        around.number,
        loss,
        before=(state.factors, weights),
        after=(factors, weights),
        watch=watch,
        seed=around.seed,
        objective=spatial.objective,
        weight_epochs=temporal.epochs if temporal else 0,
        weight_failures=temporal.failures if temporal else 0,
        factor_epochs=spatial.epochs,
        factor_failures=spatial.failures,
    )
    mean = running_mean(state.mean_weights, weights)
    return _state_of(factors, weights, mean, history, spatial.moments), record


def weigh(
    how: SGD, around: Surroundings, state: ModelState, x: Slice, loss: Loss
) -> tuple[FloatArray, SgdResult | None]:
    """Algorithm 3, or one least-squares solve."""
    if how.weight_solver == "least_squares":
        penalty = how.weight_penalty
        return solve_weights(x, state.factors, penalty=penalty, lower=around.lower), None
    result = solve_sgd(
        x,
        state.factors,
        starting_weights(state.mean_weights, state.factors, x, around.lower),
        loss,
        settings(how, around, "weight"),
        update=("weights",),
        **around.options(),
    )
    return result.weights, result


def check_options(how: SGD, loss: Loss, lower: float | None) -> None:
    """Refuse an option of this solver that is out of range, by the name the caller knows."""
    check_choice("weight_solver", how.weight_solver, ("sgd", "least_squares"))
    check_choice("history", how.history, KINDS)
    check_choice("sampler", how.sampler, SAMPLERS)
    if not isinstance(how.step, Step):
        check_choice("step", how.step, STEPS)
    check_whole("history_size", how.history_size, 0)
    check_number("history_weight", how.history_weight, "[0, inf)", "Use 0 for no history.")
    check_number("history_decay", how.history_decay, "(0, 1]", "Use 1 to never forget.")
    for name in ("factor_penalty", "weight_penalty", "weight_tolerance", "factor_tolerance"):
        check_number(name, getattr(how, name), "[0, inf)", "Use 0 for none.")
    for part in ("weight", "factor"):
        check_number(f"{part}_rate", getattr(how, f"{part}_rate"), "(0, inf)")
        check_whole(f"{part}_epochs", getattr(how, f"{part}_epochs"), 0)
        check_whole(f"{part}_iterations", getattr(how, f"{part}_iterations"), 1)
    for name in ("objective_listed", "objective_zeros", "gradient_listed", "gradient_zeros"):
        if getattr(how, name) is not None:
            check_whole(name, getattr(how, name), 1)
    if lower is not None:
        check_number("lower", lower, "[-inf, inf)", "Leave it out for the loss's own.")
        if lower < loss.lower:
            raise DataError(
                f"loss {loss.name!r} needs lower >= {loss.lower}, but got {lower!r}. Leave "
                f"it out for the loss's own."
            )
    for option, used in (
        ("weight_solver='least_squares'", how.weight_solver == "least_squares"),
        ("sampler='dense'", how.sampler == "dense"),
    ):
        if used and not loss.traits.quadratic:
            raise DataError(
                f"{option} needs loss='gaussian', but the loss is {loss.name!r}. Change either."
            )
    if how.sampler == "dense" and how.history == "data":
        raise DataError(
            "history='data' weighs its slices differently, which sampler='dense' cannot do, but "
            "both were given. Use sampler='all', or another history."
        )


def settings(how: SGD, around: Surroundings, part: Literal["weight", "factor"]) -> SgdSettings:
    """The settings as the solver of one part takes them."""
    return SgdSettings(
        step=get_step(how.step, getattr(how, f"{part}_rate")),
        epochs=getattr(how, f"{part}_epochs"),
        iterations=getattr(how, f"{part}_iterations"),
        sampler=Sampler(how.sampler, how.gradient_listed, how.gradient_zeros),
        objective_sampler=Sampler(how.sampler, how.objective_listed, how.objective_zeros),
        ridge=how.factor_penalty,
        weight_ridge=how.weight_penalty,
        lower=around.lower,
        tolerance=getattr(how, f"{part}_tolerance"),
    )


def empty_history(how: SGD, rank: int) -> History:
    """A history of the chosen kind that has seen nothing."""
    return History.empty(
        how.history,
        rank,
        size=how.history_size,
        weight=how.history_weight,
        decay=how.history_decay,
    )


def _solve_factors(
    how: SGD,
    around: Surroundings,
    state: ModelState,
    history: History,
    x: Slice,
    weights: FloatArray,
    loss: Loss,
) -> SgdResult:
    """Algorithm 4 with the history term of the chosen kind."""
    options = around.options() | {"moments": _moments_of(state)}
    steps = settings(how, around, "factor")
    if history.kind == "data" and history.slices:
        return _solve_with_data(x, state.factors, weights, history, loss, steps, options)
    folded = history.fold(around.number)
    anchors = None
    if history.kind == "factors" and history.weight > 0:
        # The paper's footnote has no 1/2 in front of this penalty.
        anchors = np.full(x.ndim, 2.0 * history.weight)
    tie = None
    if folded is not None or anchors is not None:
        tie = FoldedHistory(folded, stack_factors(state.factors), anchors)
    return solve_sgd(
        x, state.factors, weights, loss, steps, update=("factors",), history=tie, **options
    )


def _history_of(how: SGD, state: ModelState) -> History:
    return empty_history(how, len(state.weights)).from_state(
        under(state.arrays, "history."), {"offered": state.scalars["offered"]}, state.slices
    )


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


def starting_weights(
    mean: FloatArray, factors: tuple[FloatArray, ...], x: Slice, lower: float
) -> FloatArray:
    """Where the weight solve starts: the mean of past weights, scaled to the slice's volume.

    Never zero for losses with logarithms: there the slope is -x / eps and Adam's second moment
    stays huge for thousands of steps (errata row 6).
    """
    if lower < 0:
        return np.maximum(mean, lower)
    largest = float(mean.max())
    scale, shares = 1.0, np.ones_like(mean)
    if largest > 0:
        scale, shares = largest, np.maximum(mean / largest, 1e-3)
    # What the observed cells would add up to with weights of these shares.
    volume = (
        x.n_observed / x.size * float(shares @ np.prod([a.sum(axis=0) for a in factors], axis=0))
    )
    if volume > 0:
        scale = max(x.total / volume, 1e-3 * scale)
    return np.maximum(scale * shares, lower)


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
    steps: SgdSettings,
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
        steps,
        update=tuple(range(x.ndim)),
        row_weights=counts,
        moments=moments,
        **options,
    )
    kept = sum(len(a) for a in factors)
    for name in MOMENTS:
        setattr(result.moments, name, getattr(result.moments, name)[:kept])
    return result
