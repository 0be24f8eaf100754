"""The paper's solver behind the protocol: Algorithms 3 to 6 with the fixes of docs/errata.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

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
from onlinegcp.streaming.options import check_choice, check_number, check_whole
from onlinegcp.streaming.record import StepRecord
from onlinegcp.streaming.scoring import Stopwatch, running_mean, write_record
from onlinegcp.streaming.state import FloatArray, ModelState
from onlinegcp.streaming.warm_start import WarmStart

if TYPE_CHECKING:
    from onlinegcp.streaming.online_gcp import OnlineGCP

MOMENTS = ("u", "v", "largest")


def begin(model: OnlineGCP, start: WarmStart, lower: float, seed: int) -> ModelState:
    """The state after the warm start, whose rows fill the history."""
    history = empty_history(model)
    slices = start.slices or (None,) * start.n_rows
    if history.kind == "data" and not start.slices:
        slices = ()  # rows without their slices cannot be compared with data
    for number, (row, x) in enumerate(zip(start.rows, slices, strict=False), 1):
        history = history.offer(row, number, x, seed=seed)
    factors = tuple(np.maximum(a, lower) for a in start.factors)
    weights = start.rows[-1] if start.n_rows else start.mean
    moments = Moments.zeros(stack_factors(factors), get_step(model.step).kind, weights=False)
    return _state_of(factors, np.maximum(weights, lower), start.mean, history, moments)


def learn(
    model: OnlineGCP,
    state: ModelState,
    x: Slice,
    loss: Loss,
    lower: float,
    number: int,
    seed: int,
) -> tuple[ModelState, StepRecord]:
    """One pass of Algorithm 1's loop: weights, factors, history."""
    watch = Stopwatch()
    weights, temporal = weigh(model, state, x, loss, lower, number, seed)
    watch.lap("weights")
    history = _history_of(model, state)
    spatial = _solve_factors(model, state, history, x, weights, loss, number, seed)
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
    return _state_of(factors, weights, mean, history, spatial.moments), record


def weigh(
    model: OnlineGCP,
    state: ModelState,
    x: Slice,
    loss: Loss,
    lower: float,
    number: int,
    seed: int,
) -> tuple[FloatArray, SgdResult | None]:
    """Algorithm 3, or one least-squares solve."""
    if model.weight_solver == "least_squares":
        penalty = model.weight_penalty
        return solve_weights(x, state.factors, penalty=penalty, lower=lower), None
    result = solve_sgd(
        x,
        state.factors,
        starting_weights(state.mean_weights, state.factors, x, lower),
        loss,
        settings(model, "weight"),
        update=("weights",),
        seed=seed,
        slice_number=number,
        kernels=model.device,
        n_jobs=model.n_jobs,
    )
    return result.weights, result


def check_options(model: OnlineGCP, loss: Loss) -> None:
    """Refuse an option of this solver that is out of range, by the name the caller knows."""
    check_choice("weight_solver", model.weight_solver, ("sgd", "least_squares"))
    check_choice("history", model.history, KINDS)
    check_choice("sampler", model.sampler, SAMPLERS)
    if not isinstance(model.step, Step):
        check_choice("step", model.step, STEPS)
    check_whole("history_size", model.history_size, 0)
    check_number("history_weight", model.history_weight, "[0, inf)", "Use 0 for no history.")
    check_number("history_decay", model.history_decay, "(0, 1]", "Use 1 to never forget.")
    for name in ("factor_penalty", "weight_penalty", "weight_tolerance", "factor_tolerance"):
        check_number(name, getattr(model, name), "[0, inf)", "Use 0 for none.")
    for part in ("weight", "factor"):
        check_number(f"{part}_rate", getattr(model, f"{part}_rate"), "(0, inf)")
        check_whole(f"{part}_epochs", getattr(model, f"{part}_epochs"), 0)
        check_whole(f"{part}_iterations", getattr(model, f"{part}_iterations"), 1)
    for name in ("objective_listed", "objective_zeros", "gradient_listed", "gradient_zeros"):
        if getattr(model, name) is not None:
            check_whole(name, getattr(model, name), 1)
    if model.lower is not None:
        check_number("lower", model.lower, "[-inf, inf)", "Leave it out for the loss's own.")
        if model.lower < loss.lower:
            raise DataError(
                f"loss {loss.name!r} needs lower >= {loss.lower}, but got {model.lower!r}. Leave "
                f"it out for the loss's own."
            )
    for option, used in (
        ("weight_solver='least_squares'", model.weight_solver == "least_squares"),
        ("sampler='dense'", model.sampler == "dense"),
    ):
        if used and not loss.traits.quadratic:
            raise DataError(
                f"{option} needs loss='gaussian', but the loss is {loss.name!r}. Change either."
            )
    if model.sampler == "dense" and model.history == "data":
        raise DataError(
            "history='data' weighs its slices differently, which sampler='dense' cannot do, but "
            "both were given. Use sampler='all', or another history."
        )


def settings(model: OnlineGCP, part: Literal["weight", "factor"]) -> SgdSettings:
    """The model's parameters as the solver of one part takes them."""
    return SgdSettings(
        step=get_step(model.step, getattr(model, f"{part}_rate")),
        epochs=getattr(model, f"{part}_epochs"),
        iterations=getattr(model, f"{part}_iterations"),
        sampler=Sampler(model.sampler, model.gradient_listed, model.gradient_zeros),
        objective_sampler=Sampler(model.sampler, model.objective_listed, model.objective_zeros),
        ridge=model.factor_penalty,
        weight_ridge=model.weight_penalty,
        lower=model.lower,
        tolerance=getattr(model, f"{part}_tolerance"),
    )


def empty_history(model: OnlineGCP) -> History:
    """A history of the model's kind that has seen nothing."""
    return History.empty(
        model.history,
        model.rank,
        size=model.history_size,
        weight=model.history_weight,
        decay=model.history_decay,
    )


def _solve_factors(
    model: OnlineGCP,
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
        "kernels": model.device,
        "n_jobs": model.n_jobs,
    }
    how = settings(model, "factor")
    if history.kind == "data" and history.slices:
        return _solve_with_data(x, state.factors, weights, history, loss, how, options)
    folded = history.fold(number)
    anchors = None
    if history.kind == "factors" and history.weight > 0:
        # The paper's footnote has no 1/2 in front of this penalty.
        anchors = np.full(x.ndim, 2.0 * history.weight)
    tie = None
    if folded is not None or anchors is not None:
        tie = FoldedHistory(folded, stack_factors(state.factors), anchors)
    return solve_sgd(
        x, state.factors, weights, loss, how, update=("factors",), history=tie, **options
    )


def _history_of(model: OnlineGCP, state: ModelState) -> History:
    parts = {n[8:]: a for n, a in state.arrays.items() if n.startswith("history.")}
    return empty_history(model).from_state(
        parts, {"offered": state.scalars["offered"]}, state.slices
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
    how: SgdSettings,
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
        how,
        update=tuple(range(x.ndim)),
        row_weights=counts,
        moments=moments,
        **options,
    )
    kept = sum(len(a) for a in factors)
    for name in MOMENTS:
        setattr(result.moments, name, getattr(result.moments, name)[:kept])
    return result
