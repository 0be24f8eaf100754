"""The tuning-free solver: one state, one step per slice, whatever the loss.

`start` turns warm-start factors into a state, `step` scores a slice and then learns it, and
`solve_weights` gives the weights of a slice without learning. Three kinds of history serve all
losses: conjugate (Poisson, Bernoulli odds, large negative binomial), square (Gaussian with complete
slices) and rows (everything else). None holds past slices or past weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.errors import DataError
from onlinegcp.kernels.layout import Blocks, pad_vector, stack_factors
from onlinegcp.kernels.random import stream_key
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import (
    components,
    conjugate,
    fisher_rows,
    forgetting,
    newton,
    quadratic,
)
from onlinegcp.solvers.auto.cells import Cells, OddsForm, cells_of, odds_form
from onlinegcp.solvers.auto.loudness import first_volume, hear, tempered
from onlinegcp.solvers.auto.newton import Solution
from onlinegcp.solvers.auto.state import AutoState, empty_state
from onlinegcp.solvers.auto.zeros import PURPOSE, Zeros

__all__ = ["AutoState", "StepInfo", "grow", "solve", "solve_weights", "start", "step"]

Array = NDArray[Any]

MEAN_STEP = 0.1  # of the running mean of the weights, from which each solve starts
STREAM_TOLERANCE = 1e-3
STREAM_STEPS = 3


@dataclass(frozen=True)
class StepInfo:
    """What one slice did.

    Attributes
    ----------
    weights
        Weights of the slice for the updated factors (R,).
    prequential, local
        Loss over every observed cell before and after the slice was learned.
    newton_steps
        Newton steps of the solve before the update.
    forget
        Forgetting factor of every component in this step (R,).
    births, deaths, merges
        Components replaced, given up or joined in this step.
    """

    weights: Array
    prequential: float
    local: float
    newton_steps: int
    forget: Array
    births: int = 0
    deaths: int = 0
    merges: int = 0


def start(
    factors: Sequence[Array],
    weights_history: Array,
    slices: Iterable[Slice],
    loss: Loss,
    *,
    forget: float | str = "auto",
    reseed: bool = True,
    lower: float | None = None,
) -> AutoState:
    """Make the state from a model of the first slices.

    Parameters
    ----------
    factors
        Matrices (I_k, R) of the warm start.
    weights_history
        Weights of the warm-start slices, one row each.
    slices
        The warm-start slices themselves, in order; they are passed over once.
    loss
        The loss.
    forget
        "auto", 1.0 (nothing is forgotten) or a half-life in slices.
    reseed
        Whether components may be replaced or merged, each time on trial.
    lower
        0 keeps factors and weights nonnegative, whatever the loss; None takes the loss's own bound.
    """
    bounded = is_bounded(loss, lower)
    blocks = stack_factors([np.asarray(a, dtype=np.float64) for a in factors])
    rows = np.array(weights_history, dtype=np.float64).reshape(-1, blocks.rank)
    kind = _kind_of(loss, blocks)
    for view in blocks.views():
        size = view.sum(axis=0) if kind == "conjugate" else np.sqrt((view**2).sum(axis=0))
        size = np.where(size > 0.0, size, 1.0)
        view /= size
        rows *= size
    smallest = min(float(blocks.data.min(initial=0.0)), float(rows.min(initial=0.0)))
    if bounded and smallest < 0.0:
        raise DataError(
            "The warm start must not lie below the bound 0 on factors and weights, but has an "
            f"entry {smallest:.6g}. Pass a model fitted under this bound."
        )
    memory = forgetting.start(forget, blocks.width, 1.0)
    state = empty_state(kind, blocks, memory, reseed, bounded)
    _absorb_warm_start(state, rows, list(slices), loss)
    return state


def is_bounded(loss: Loss, lower: float | None) -> bool:
    """Whether factors and weights are kept nonnegative; refuses any other bound.

    Parameters
    ----------
    loss
        The loss; its own bound is -inf or 0.
    lower
        The bound asked for; None for the loss's own.
    """
    bound = loss.lower if lower is None else lower
    if bound != 0.0 and not (bound == -math.inf and math.isinf(loss.lower)):
        whose = f"loss {loss.name!r} has" if lower is None else "was given"
        possible = "0" if loss.lower > -math.inf else "0 or None (no bound)"
        raise DataError(
            f"solver='auto' takes lower = {possible} with loss {loss.name!r}, but lower={bound!r} "
            f"{whose}. Choose one of these, or solver='sgd', which takes any bound."
        )
    return bool(bound == 0.0)


def _kind_of(loss: Loss, factors: Blocks) -> str:
    if loss.code >= 0 and loss.name == "gaussian":
        return "square"
    if odds_form(loss) is None:
        return "rows"
    if loss.name == "negative_binomial":
        # Fisher scoring beat the conjugate form on every problem it fits (docs/solver.md).
        curvatures = factors.data.size * factors.width
        small = math.prod(factors.shape) <= fisher_rows.CELL_BUDGET
        return "rows" if small and curvatures <= fisher_rows.CURVATURE_BUDGET else "conjugate"
    return "conjugate"


def _absorb_warm_start(state: AutoState, rows: Array, slices: list[Slice], loss: Loss) -> None:
    """Build the history the warm-start slices would have left."""
    blocks = state.factors
    if len(slices) != len(rows):
        raise DataError(
            f"The warm start needs one row of weights per slice, but there are {len(rows)} rows "
            f"and {len(slices)} slices. Pass the slices the rows belong to."
        )
    if len(rows) == 0:
        raise DataError(
            "The warm start needs at least one slice with its weights, but there are none. "
            "Give the slices the factors were fitted to."
        )
    form = odds_form(loss)
    state.volume = first_volume(slices, loss)
    logs, count = 0.0, 0
    exposure = np.zeros_like(blocks.data)
    for x, row in zip(slices, rows, strict=True):
        state.n_slices += 1
        cap, weights = forgetting.schedule(state.n_slices), pad_vector(row)
        if state.kind == "conjugate":
            assert form is not None
            cells = cells_of(x)
            Zeros(blocks, cells, form).rates(weights, -1, exposure)
            state.conjugate.rate = cap * state.conjugate.rate + exposure
            state.conjugate.mass = cap * state.conjugate.mass + weights
            logs, count = logs + float(np.log(cells.value).sum()), count + cells.value.size
        elif state.kind == "square" and x.n_observed == x.size:
            share = tempered(state, x)
            state.square.products = cap * state.square.products + share * np.outer(row, row)
            residual = _square_loss(state, x, row) / x.size
            state.square.variance += (residual - state.square.variance) / state.n_slices
        else:
            if state.kind == "square":
                to_rows(state)
            seen = fisher_rows.weighted_cells(x, 0, state.n_slices)
            seen = replace(seen, weight=tempered(state, x) * seen.weight)
            fisher_rows.absorb_at(blocks, seen, loss, weights, state.rows, cap)
        state.last_weights = weights
    state.mean_weights = pad_vector(rows.mean(axis=0))
    state.usage = pad_vector(np.abs(rows).mean(axis=0))
    if state.kind == "rows":
        state.rows.mean = state.mean_weights.copy()
        state.rows.variance = pad_vector(rows.var(axis=0))
    if state.kind == "conjugate":
        state.unit = float(np.exp(logs / max(count, 1)))
        state.memory.bend *= state.unit
        state.memory.bends *= state.unit
        conjugate.apply_floor(blocks, state.conjugate.mass, state.unit)


def _square_loss(state: AutoState, x: Slice, row: Array) -> float:
    products = np.zeros_like(state.factors.data)
    quadratic.slice_products(x, state.factors, 0, products)
    first = state.factors.views()[0]
    inner = float((products[: len(first), : len(row)] * first).sum(axis=0) @ row)
    gram = np.prod(quadratic.grams(state.factors), axis=0)
    return x.norm_squared - 2.0 * inner + float(row @ gram @ row)


def to_rows(state: AutoState) -> None:
    """Turn the shared history of complete Gaussian slices into one matrix per row.

    Missing cells and new rows give every row a history of its own.
    """
    blocks, shared = state.factors, state.square
    history = fisher_rows.empty_history(blocks)
    gram = quadratic.grams(blocks)
    for k in range(blocks.ndim):
        others = [g for j, g in enumerate(gram) if j != k]
        matrix = 2.0 * shared.products * (np.prod(others, axis=0) if others else 1.0)
        rows = slice(blocks.offsets[k], blocks.offsets[k + 1])
        if history.curvature.shape[2] == 1:
            history.curvature[rows, : blocks.rank, 0] = np.diag(matrix)
        else:
            history.curvature[rows, : blocks.rank, : blocks.rank] = matrix
    history.sensitivity = shared.sensitivity
    if state.bounded:
        history.slope = 2.0 * shared.slope
    history.mean = state.mean_weights.copy()
    # Twice the variance is the dispersion of (x - m)^2.
    history.dispersion = 2.0 * max(shared.variance, 1e-300)
    state.kind, state.rows = "rows", history


def step(state: AutoState, x: Slice, loss: Loss, *, n_jobs: int = 1, seed: int = 0) -> StepInfo:
    """Score a slice with the model so far, then learn it.

    Parameters
    ----------
    state
        Updated in place.
    x
        The slice, of the state's shape.
    loss
        The loss the state was started with.
    n_jobs
        With 2 or more, a component's trial runs beside the model in a second thread; results do
        not depend on it.
    seed
        Seed of the draws, where cells are sampled.
    """
    _check_shape(state, x)
    twin = state.trial if state.reseed else None
    if twin is None:
        info, rival = _step_once(state, x, loss, seed), None
    elif n_jobs > 1:
        with ThreadPoolExecutor(1) as beside:
            waiting = beside.submit(_step_once, twin, x, loss, seed)
            info = _step_once(state, x, loss, seed)
            rival = waiting.result()
    else:
        info = _step_once(state, x, loss, seed)
        rival = _step_once(twin, x, loss, seed)
    counts = (0, 0, 0)
    if state.reseed and info.informative:
        counts = components.supervise(state, x, loss, info, rival)
    rank = state.factors.rank
    return StepInfo(
        info.weights[:rank].copy(), info.prequential, info.local, info.newton_steps,
        info.forget[:rank].copy(), *counts,
    )  # fmt: skip


def _step_once(state: AutoState, x: Slice, loss: Loss, seed: int) -> components.Outcome:
    """One step of one model, without its trial."""
    if state.kind == "square" and x.n_observed < x.size:
        to_rows(state)
    state.n_slices += 1
    cap = forgetting.schedule(state.n_slices)
    if state.kind == "square":
        outcome = _step_square(state, x, cap)
    elif state.kind == "conjugate":
        outcome = _step_conjugate(state, x, loss, cap, seed)
    else:
        outcome = _step_rows(state, x, loss, cap, seed)
    if outcome.informative:
        state.mean_weights += MEAN_STEP * (outcome.weights - state.mean_weights)
        state.usage += MEAN_STEP * (np.abs(outcome.weights) - state.usage)
        state.last_weights = outcome.weights
        hear(state, x, cap)
    else:
        # A slice that says nothing about the factors must not age what they were learned from.
        state.n_slices -= 1
    return outcome


def _step_conjugate(
    state: AutoState, x: Slice, loss: Loss, cap: float, seed: int
) -> components.Outcome:
    form = _form(loss)
    cells, factors, memory = cells_of(x), state.factors, state.memory
    zeros = Zeros(factors, cells, form, stream_key(seed, state.n_slices, PURPOSE))
    if cells.value.size == 0:
        nothing = np.zeros(factors.width)
        return components.Outcome(nothing, 0.0, 0.0, 0, nothing, informative=False)
    solution = _solve_conjugate(
        state, cells, form, zeros, tolerance=STREAM_TOLERANCE, max_steps=STREAM_STEPS, rough=True
    )
    before = solution.objective
    slopes = None
    if memory.learned:
        slopes = conjugate.learn_forgetting(
            factors, cells, form, zeros, solution.weights, state.conjugate, memory, cap
        )
        if math.isnan(before):
            before = zeros.value(solution.weights) - slopes.logs
    elif math.isnan(before):
        before = conjugate.evaluate(factors, cells, zeros, solution.weights)
    weights, local, lam = conjugate.update(
        factors, cells, form, zeros, solution.weights, state.conjugate, memory, cap, state.unit,
        slopes,
    )  # fmt: skip
    return components.Outcome(weights, before, local, solution.steps, lam)


def _step_square(state: AutoState, x: Slice, cap: float) -> components.Outcome:
    weights, before, after, lam = quadratic.step(
        state.factors, x, state.square, state.memory, cap, tempered(state, x), bounded=state.bounded
    )
    return components.Outcome(pad_vector(weights), before, after, 1, lam)


def _step_rows(state: AutoState, x: Slice, loss: Loss, cap: float, seed: int) -> components.Outcome:
    factors, history, memory = state.factors, state.rows, state.memory
    cells = fisher_rows.weighted_cells(x, seed, state.n_slices)
    if cells.value.size == 0:
        nothing = np.zeros(factors.width)
        return components.Outcome(nothing, 0.0, 0.0, 0, nothing, informative=False)
    bounded = state.bounded
    solution = fisher_rows.solve_weights(
        factors, cells, loss, _row_starts(state), history, bounded=bounded, tolerance=1e-8
    )
    share = tempered(state, x)
    if share < 1.0:
        cells = replace(cells, weight=share * cells.weight)
    if memory.learned:
        fisher_rows.learn_forgetting(factors, cells, loss, solution.weights, history, memory, cap)
    lam, _ = forgetting.factors(memory, cap)
    after = fisher_rows.update(
        factors, cells, loss, solution.weights, history, memory, cap, bounded=bounded
    )
    return components.Outcome(
        after.weights, solution.objective, after.objective / share, solution.steps, lam
    )


def _row_starts(state: AutoState) -> list[Array]:
    return fisher_rows.start_candidates(
        state.rows, state.last_weights, state.bounded, state.factors.rank
    )


def solve_weights(state: AutoState, x: Slice, loss: Loss, *, seed: int = 0) -> Array:
    """Return the weights (R,) that fit a slice best, without learning it."""
    return solve(state, x, loss, seed=seed).weights[: state.factors.rank].copy()


def solve(
    state: AutoState, x: Slice, loss: Loss, *, tolerance: float = 1e-6, seed: int = 0
) -> Solution:
    """Solve for the weights of a slice without learning it, to a small tolerance.

    Parameters
    ----------
    state, x, loss
        The model, the slice and the loss; nothing is changed.
    tolerance
        Largest violation of the optimality conditions, relative to the largest weight.
    seed
        Seed of the draws, where cells are sampled.
    """
    _check_shape(state, x)
    factors = state.factors
    if state.kind == "conjugate":
        form, cells = _form(loss), cells_of(x)
        zeros = Zeros(factors, cells, form, stream_key(seed, 0, PURPOSE))
        return _solve_conjugate(state, cells, form, zeros, tolerance=tolerance, max_steps=50)
    if state.kind == "square" and x.n_observed == x.size:
        products = np.zeros_like(factors.data)
        quadratic.slice_products(x, factors, 0, products)
        first = factors.views()[0]
        right = (products[: len(first), : factors.rank] * first).sum(axis=0)
        gram = np.prod(quadratic.grams(factors), axis=0)
        weights = quadratic.solve_weights(gram, right, bounded=state.bounded)
        loss_there = x.norm_squared - 2.0 * float(weights @ right) + float(weights @ gram @ weights)
        return Solution(pad_vector(weights), loss_there, 1, 0.0)
    cells_ = fisher_rows.weighted_cells(x, seed, 0)
    if state.kind == "square":
        return fisher_rows.solve_weights(
            factors, cells_, loss, [state.mean_weights], bounded=state.bounded
        )
    return fisher_rows.solve_weights(
        factors, cells_, loss, _row_starts(state), state.rows, bounded=state.bounded,
        tolerance=min(tolerance, 1e-10),
    )  # fmt: skip


def _solve_conjugate(
    state: AutoState,
    cells: Cells,
    form: OddsForm,
    zeros: Zeros,
    *,
    tolerance: float,
    max_steps: int,
    rough: bool = False,
) -> Solution:
    rank = state.factors.rank
    sums = zeros.column_sums() if form.linear else np.ones(state.factors.width)
    begin = newton.start_weights(state.mean_weights, cells.total, sums, rank)
    return newton.solve_odds_form(
        state.factors, cells, form, zeros, begin, tolerance=tolerance, max_steps=max_steps,
        rough=rough,
    )  # fmt: skip


def grow(state: AutoState, new_shape: Sequence[int]) -> None:
    """Make room for new rows at the end of the modes.

    Parameters
    ----------
    state
        Updated in place.
    new_shape
        Mode lengths, none smaller than before.
    """
    shape = tuple(int(n) for n in new_shape)
    old = state.factors.shape
    if len(shape) != len(old) or any(b < a for a, b in zip(old, shape, strict=True)):
        raise DataError(
            f"A mode can only grow, but the model has shape {old} and {shape} was asked for. "
            "Give a shape with every mode at least as long."
        )
    if shape == old:
        return
    if state.kind == "square":
        to_rows(state)
    components.drop_trial(state)
    state.extend_rows(shape)
    if state.kind == "conjugate":
        # New rows have no exposure yet; the floor lets them leave zero.
        conjugate.apply_floor(state.factors, state.conjugate.mass, state.unit)


def _form(loss: Loss) -> OddsForm:
    form = odds_form(loss)
    if form is None:
        raise DataError(
            f"The state was started with a Poisson or odds loss, but the loss is now "
            f"{loss.name!r}. Use the loss it was started with."
        )
    return form


def _check_shape(state: AutoState, x: Slice) -> None:
    if x.shape != state.factors.shape:
        raise DataError(
            f"The slice must have the model's shape {state.factors.shape}, but it has {x.shape}. "
            "Call grow first if a mode has new rows."
        )
