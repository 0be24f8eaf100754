"""Births, deaths and merges of components, each accepted only if it predicts better.

Now and then a twin of the model is made in which the least needed component (the weakest, or the
second of two alike) is replaced by a pattern fitted to what the current slice leaves unexplained,
or, less often, by half of the component that fits the slice worst.
Both models then see the same slices; the twin takes over if its prequential losses are lower by
more than their standard error, else it is dropped and the next trial waits twice as long. So no
threshold decides what is dead: only prediction does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.auto import fisher_sums
from onlinegcp.kernels.layout import Blocks, pad_vector, stack_factors
from onlinegcp.kernels.random import stream_key, uniform
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import conjugate, fisher_rows, forgetting, quadratic, splits
from onlinegcp.solvers.auto.cells import cells_of, odds_form
from onlinegcp.solvers.auto.state import AutoState

Array = NDArray[Any]

BURN_IN = 3  # slices a new pattern gets to settle before it is judged
TRIAL = 12  # slices that are judged
PAUSE = 15  # slices between trials, doubled with every failure
SPLIT_PAUSE = 60  # the same for splits, which pay less often: they cost as much as other trials
LONGEST_PAUSE = 960
ALIKE = 0.5  # congruence above which two components are joined rather than one given up
SEED_STEPS = 10
PURPOSE = 13


@dataclass(frozen=True)
class Outcome:
    """What one step of one model gave, with padded weights.

    Attributes
    ----------
    weights, prequential, local, newton_steps, forget
        As in `StepInfo`.
    informative
        False for a slice that says nothing about the factors.
    """

    weights: Array
    prequential: float
    local: float
    newton_steps: int
    forget: Array
    informative: bool = True


def supervise(
    state: AutoState,
    x: Slice,
    loss: Loss,
    outcome: Outcome,
    rival: Outcome | None,
) -> tuple[int, int, int]:
    """Run the trial one slice further, or open one; return births, deaths and merges.

    Parameters
    ----------
    state
        The model, already past the slice; replaced by its twin on success.
    x, loss
        The slice and the loss.
    outcome
        What the model's own step gave.
    rival
        What the step of the twin gave, if there is one on trial.
    """
    if state.trial_next == 0:
        state.trial_next = state.n_slices + PAUSE
        state.split_next = state.n_slices + SPLIT_PAUSE
    if rival is not None:
        return _judge(state, outcome.prequential - rival.prequential)
    if state.factors.rank > 1:
        now = state.n_slices
        if now >= state.trial_next:
            _propose(state, x, loss, outcome.weights)
        elif now >= state.split_next and now + BURN_IN + TRIAL < state.trial_next:
            # Splits fill the pauses of the other trials and never delay one.
            _propose(state, x, loss, outcome.weights, split=True)
    return 0, 0, 0


def drop_trial(state: AutoState) -> None:
    """Give up the trial that is running, if any."""
    state.trial, state.trial_slot, state.trial_merge, state.trial_split = None, -1, -1, False
    state.trial_gains = np.zeros(3)


def _judge(state: AutoState, gain: float) -> tuple[int, int, int]:
    assert state.trial is not None
    assert state.trial_gains is not None
    if state.n_slices - state.trial_started <= BURN_IN:
        return 0, 0, 0
    state.trial_gains += np.array([1.0, gain, gain * gain])
    count, total, squares = state.trial_gains
    mean = total / count
    error = math.sqrt(max(squares / count - mean * mean, 0.0) / max(count - 1.0, 1.0))
    done = count >= TRIAL
    # A clear verdict may come early: three standard errors either way after five slices.
    if count >= 5 and abs(mean) > 3.0 * error:
        done = True
    if not done:
        return 0, 0, 0
    if mean > error and mean > 0.0:
        merged = state.trial_merge >= 0
        _take_over(state)
        return 1, int(not merged), int(merged)
    if state.trial_split:
        state.split_failures += 1
        state.split_next = state.n_slices + _wait(SPLIT_PAUSE, state.split_failures)
    else:
        state.trial_failures += 1
        state.trial_next = state.n_slices + _wait(PAUSE, state.trial_failures)
    drop_trial(state)
    return 0, 0, 0


def _wait(pause: int, failures: int) -> int:
    return int(min(pause * 2.0**failures, LONGEST_PAUSE))


def _take_over(state: AutoState) -> None:
    twin = state.trial
    assert twin is not None
    for item in fields(AutoState):
        if item.name != "reseed" and not item.name.startswith(("trial", "split")):
            setattr(state, item.name, getattr(twin, item.name))
    if state.trial_split:
        state.split_failures, state.split_next = 0, state.n_slices + SPLIT_PAUSE
    else:
        state.trial_failures, state.trial_next = 0, state.n_slices + PAUSE
    drop_trial(state)


def _propose(
    state: AutoState, x: Slice, loss: Loss, weights: Array, *, split: bool = False
) -> None:
    """Make the twin: free a slot, and fill it with a new pattern or with half of another."""
    rank = state.factors.rank
    # Every other replacement gives up the weakest, so that one bad idea is not tried for ever.
    slot, partner = _least_needed(state, may_join=split or state.trial_failures % 2 == 0)
    twin = state.clone()
    twin.reseed = False
    weights = weights.copy()
    if partner >= 0:
        _merge(twin, partner, slot, weights)
    weights[slot] = 0.0
    fill = splits.split if split else _fill
    if not fill(twin, x, loss, weights, slot):
        if split:
            state.split_next = state.n_slices + SPLIT_PAUSE
        else:
            state.trial_next = state.n_slices + PAUSE
        return
    if twin.kind == "conjugate":
        conjugate.apply_floor(twin.factors, twin.conjugate.mass, twin.unit)
    state.trial, state.trial_slot, state.trial_merge = twin, slot, partner
    state.trial_split = split
    state.trial_gains, state.trial_started = np.zeros(3), state.n_slices
    assert slot < rank


def _fill(twin: AutoState, x: Slice, loss: Loss, weights: Array, slot: int) -> bool:
    """Put into a free slot what the others leave unexplained of the slice, if anything."""
    seed = _seed(twin, x, loss, weights, slot)
    if seed is None:
        return False
    columns, size = seed
    for view, column in zip(twin.factors.views(), columns, strict=True):
        view[:, slot] = column
    _forget_slot(twin, slot, size)
    twin.mean_weights[slot] = size
    twin.usage[slot] = abs(size)
    twin.last_weights[slot] = size
    forgetting.reset_component(twin.memory, slot, twin.unit)
    return True


def _least_needed(state: AutoState, *, may_join: bool) -> tuple[int, int]:
    """The component to give up, and the one it is joined with (-1: none)."""
    rank = state.factors.rank
    weakest = int(np.argmin(state.usage[:rank]))
    alike = np.ones((rank, rank))
    for view in state.factors.views():
        length = np.sqrt((view**2).sum(axis=0))
        unit = view / np.where(length > 0.0, length, 1.0)
        alike *= unit.T @ unit
    np.fill_diagonal(alike, -1.0)
    first, second = np.unravel_index(int(np.argmax(alike)), alike.shape)
    if alike[first, second] > ALIKE and may_join:
        if state.usage[first] < state.usage[second]:
            first, second = second, first
        return int(second), int(first)
    return weakest, -1


def _merge(twin: AutoState, kept: int, given: int, weights: Array) -> None:
    """Join two components of the same pattern: counts, exposure and weights add up."""
    for vector in (twin.mean_weights, twin.usage, twin.last_weights, weights):
        vector[kept] += vector[given]
    if twin.kind != "conjugate":
        _merge_signed(twin, kept, given)
        return
    data, history = twin.factors.data, twin.conjugate
    counts = history.rate[:, kept] * data[:, kept] + history.rate[:, given] * data[:, given]
    history.rate[:, kept] += history.rate[:, given]
    seen = history.rate[:, kept] > 0.0
    data[seen, kept] = counts[seen] / history.rate[seen, kept]
    for view in twin.factors.views():
        view[:, kept] /= max(float(view[:, kept].sum()), 1e-300)
    history.mass[kept] += history.mass[given]
    history.sensitivity[:, kept] = 0.0


def _merge_signed(twin: AutoState, kept: int, given: int) -> None:
    """Join the histories as if the past weights had been the sum of both.

    Two components alike may have grown large with opposite signs: only the sum is small then.
    """
    if twin.kind == "square":
        products = twin.square.products
        for matrix in (products, products.T):
            matrix[kept] += matrix[given]
        return
    history = twin.rows
    if history.curvature.shape[2] > 1:
        for side in (history.curvature, history.curvature.transpose(0, 2, 1)):
            side[:, kept] += side[:, given]
    history.slope[:, kept] += history.slope[:, given]
    history.mean[kept] += history.mean[given]


def _forget_slot(twin: AutoState, slot: int, size: float) -> None:
    """Replace a component's history by that of the one slice it was seeded from."""
    if twin.kind == "conjugate":
        twin.conjugate.rate[:, slot] = size
        twin.conjugate.mass[slot] = size
        twin.conjugate.sensitivity[:, slot] = 0.0
    elif twin.kind == "square":
        twin.square.products[slot, :] = 0.0
        twin.square.products[:, slot] = 0.0
        twin.square.products[slot, slot] = size * size
        twin.square.sensitivity[:, slot] = 0.0
        twin.square.slope[:, slot] = 0.0
    else:
        history = twin.rows
        history.curvature[:, slot, :] = 0.0
        if history.curvature.shape[2] > 1:
            history.curvature[:, :, slot] = 0.0
        history.slope[:, slot] = 0.0
        history.sensitivity[:, slot] = 0.0
        history.mean[slot] = size
        history.variance[slot] = size * size


def _seed(
    twin: AutoState, x: Slice, loss: Loss, weights: Array, slot: int
) -> tuple[list[Array], float] | None:
    """Fit one component to what the others leave of the slice: its columns and its weight."""
    if twin.kind == "conjugate":
        return _seed_counts(twin, x, loss, weights)
    if twin.kind == "square":
        return _seed_square(twin, x, weights, slot)
    return _seed_slopes(twin, x, loss, weights, slot)


def _seed_counts(
    twin: AutoState, x: Slice, loss: Loss, weights: Array
) -> tuple[list[Array], float] | None:
    """Rank-one EM on the nonzeros against the fixed rest, from the excess over the model."""
    cells, form, factors = cells_of(x), odds_form(loss), twin.factors
    assert form is not None
    m = np.empty(cells.value.size)
    fisher_sums.model_values(factors.data, factors.offsets, cells.index, weights, m)
    share = np.maximum(cells.value - m, 0.0) if form.linear else cells.value / (1.0 + m)
    columns: list[Array] = []
    for step in range(SEED_STEPS + 1):
        size = float(share.sum())
        if not size > 0.0:
            return None
        columns = [
            np.bincount(cells.index[:, k], weights=share, minlength=n) / size
            for k, n in enumerate(factors.shape)
        ]
        if step < SEED_STEPS:
            own = size * np.prod([c[cells.index[:, k]] for k, c in enumerate(columns)], axis=0)
            share = cells.value * own / (m + own + 1e-300)
    return columns, float(share.sum())


def _seed_square(
    twin: AutoState, x: Slice, weights: Array, slot: int
) -> tuple[list[Array], float] | None:
    """Leading rank-one term of the residual, by alternating products."""
    factors = twin.factors
    views, rank = factors.views(), factors.rank
    one = _random_columns(factors, twin.n_slices, slot)
    if twin.bounded:
        np.abs(one.data, out=one.data)
    size = 0.0
    products = np.zeros_like(one.data)
    for _ in range(SEED_STEPS):
        for k, column in enumerate(one.views()):
            quadratic.slice_products(x, one, k, products)
            rows = slice(one.offsets[k], one.offsets[k + 1])
            inner = np.ones(rank)
            for j, other in enumerate(one.views()):
                if j != k:
                    inner *= views[j].T @ other[:, 0]
            fresh = products[rows, 0] - views[k] @ (weights[:rank] * inner)
            if twin.bounded:
                np.maximum(fresh, 0.0, out=fresh)
            size = float(np.sqrt(fresh @ fresh))
            if not size > 0.0:
                return None
            column[:, 0] = fresh / size
    return [column[:, 0].copy() for column in one.views()], size


def _seed_slopes(
    twin: AutoState, x: Slice, loss: Loss, weights: Array, slot: int
) -> tuple[list[Array], float] | None:
    """Rank-one direction of steepest descent of the loss, with a Newton step for its size."""
    factors = twin.factors
    cells = fisher_rows.weighted_cells(x, slot, twin.n_slices)
    m = np.empty(cells.value.size)
    fisher_sums.model_values(factors.data, factors.offsets, cells.index, weights, m)
    pull = -cells.weight * loss.deriv(cells.value, m)
    bend = cells.weight * np.maximum(loss.fisher(cells.value, m), 0.0)
    one = _random_columns(factors, twin.n_slices, slot)
    if twin.bounded:
        np.abs(one.data, out=one.data)
    unit, slopes = pad_vector(np.ones(1)), np.zeros_like(one.data)
    for _ in range(SEED_STEPS):
        for k, column in enumerate(one.views()):
            fisher_sums.row_slopes(one.data, one.offsets, cells.index, unit, pull, slopes)
            fresh = slopes[one.offsets[k] : one.offsets[k + 1], 0].copy()
            if twin.bounded:
                np.maximum(fresh, 0.0, out=fresh)
            length = float(np.sqrt(fresh @ fresh))
            if not length > 0.0:
                return None
            column[:, 0] = fresh / length
    z = np.empty(cells.value.size)
    fisher_sums.model_values(one.data, one.offsets, cells.index, unit, z)
    below = float(bend @ z**2)
    size = float(pull @ z) / below if below > 0.0 else 0.0
    return ([column[:, 0].copy() for column in one.views()], size) if size > 0.0 else None


def _random_columns(factors: Blocks, number: int, slot: int) -> Blocks:
    draws = uniform(stream_key(slot, number, PURPOSE), int(factors.offsets[-1])) - 0.5
    columns = np.split(draws, factors.offsets[1:-1])
    return stack_factors([(c / max(float(np.sqrt(c @ c)), 1e-300))[:, None] for c in columns])
