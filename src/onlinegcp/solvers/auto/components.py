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
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.losses import Loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import forgetting, splits
from onlinegcp.solvers.auto.model import AutoState, Model, Step, Trials, mean_told, told_by

Array = NDArray[Any]

BURN_IN = 3  # slices a new pattern gets to settle before it is judged
TRIAL = 12  # slices that are judged
PAUSE = 15  # slices between trials, doubled with every failure
SPLIT_PAUSE = 60  # the same for splits, which pay less often: they cost as much as other trials
LONGEST_PAUSE = 960  # even trials that always failed are made anew
ALIKE = 0.5  # congruence above which two components are joined rather than one given up


def supervise(
    state: AutoState, x: Slice, loss: Loss, step: Step, rival: Step | None, seed: int
) -> Step:
    """Run the trial one slice further, or open one; return the step with what became of it.

    Parameters
    ----------
    state
        The solver's, its models already past the slice; on success the twin becomes the model.
    x, loss
        The slice and the loss.
    step
        What the model's own step gave.
    rival
        What the step of the twin gave, if there is one on trial.
    seed
        Seed of the draws of a trial that begins.
    """
    trials, now = state.trials, state.model.n_slices
    if trials.next == 0:
        trials.next = now + PAUSE
        trials.split_next = now + SPLIT_PAUSE
    if rival is not None:
        return _judge(state, step, step.prequential - rival.prequential)
    if state.factors.rank > 1:
        if now >= trials.next:
            _propose(state, x, loss, step.weights, seed)
        elif now >= trials.split_next and now + BURN_IN + TRIAL < trials.next:
            # Splits fill the pauses of the other trials and never delay one.
            _propose(state, x, loss, step.weights, seed, split=True)
    return step


def _judge(state: AutoState, step: Step, gain: float) -> Step:
    trials, now = state.trials, state.model.n_slices
    if now - trials.started <= BURN_IN:
        return step
    trials.gains += told_by(gain)
    count, (mean, error) = trials.gains[0], mean_told(trials.gains)
    # A clear verdict may come early: three standard errors either way after five slices.
    if count < TRIAL and not (count >= 5 and abs(mean) > 3.0 * error):
        return step
    if mean > error and mean > 0.0:
        assert trials.twin is not None
        state.model = trials.twin
        merged, failures = trials.merge >= 0, 0
        step = replace(step, births=1, deaths=int(not merged), merges=int(merged))
    else:
        failures = 1 + (trials.split_failures if trials.split else trials.failures)
    if trials.split:
        trials.split_failures, trials.split_next = failures, now + _wait(SPLIT_PAUSE, failures)
    else:
        trials.failures, trials.next = failures, now + _wait(PAUSE, failures)
    trials.end()
    return step


def _wait(pause: int, failures: int) -> int:
    return int(min(pause * 2.0**failures, LONGEST_PAUSE)) if failures else pause


def _propose(
    state: AutoState, x: Slice, loss: Loss, weights: Array, seed: int, *, split: bool = False
) -> None:
    """Make the twin: free a slot, and fill it with a new pattern or with half of another."""
    trials, now = state.trials, state.model.n_slices
    # Every other replacement gives up the weakest, so that one bad idea is not tried for ever.
    slot, partner = _least_needed(state.model, may_join=split or trials.failures % 2 == 0)
    twin = state.model.copy()
    weights = weights.copy()
    if partner >= 0:
        _merge(twin, partner, slot, weights)
    weights[slot] = 0.0
    fill = splits.split if split else _fill
    if not fill(twin, x, loss, weights, slot, seed):
        if split:
            trials.split_next = now + SPLIT_PAUSE
        else:
            trials.next = now + PAUSE
        return
    twin.past.tidy(twin)
    trials.twin, trials.slot, trials.merge, trials.split = twin, slot, partner, split
    trials.gains, trials.started = np.zeros(3), now


def _fill(twin: Model, x: Slice, loss: Loss, weights: Array, slot: int, seed: int) -> bool:
    """Put into a free slot what the others leave unexplained of the slice, if anything."""
    found = twin.past.seed(twin, x, loss, weights, seed)
    if found is None:
        return False
    put(twin, slot, *found)
    return True


def put(model: Model, slot: int, columns: Sequence[Array], weight: float) -> None:
    """Give a slot a pattern whose past is one slice with this weight."""
    for view, column in zip(model.factors.views(), columns, strict=True):
        view[:, slot] = column
    model.past.clear(slot, weight)
    model.mean_weights[slot] = weight
    model.usage[slot] = abs(weight)
    model.last_weights[slot] = weight
    forgetting.reset_component(model.memory, slot, model.unit)


def transplant(
    state: AutoState, slots: Sequence[int], factors: Sequence[Array], weights: Array
) -> AutoState:
    """A state in which some components are those of another model; the others keep their past.

    Parameters
    ----------
    state
        Left as it is.
    slots
        The components to replace.
    factors, weights
        The other model: one matrix (I_k, R) per mode, and usual weights (R,).
    """
    state = replace(state.copy(), trials=Trials())
    model = state.model
    for slot in slots:
        columns = [a[:, slot] for a in factors]
        sizes = [float(model.past.sizes(column[:, None])[0]) or 1.0 for column in columns]
        shares = [column / size for column, size in zip(columns, sizes, strict=True)]
        put(model, slot, shares, float(weights[slot]) * math.prod(sizes))
    model.past.tidy(model)
    return state


def _least_needed(model: Model, *, may_join: bool) -> tuple[int, int]:
    """The component to give up, and the one it is joined with (-1: none)."""
    rank = model.factors.rank
    weakest = int(np.argmin(model.usage[:rank]))
    alike = np.ones((rank, rank))
    for view in model.factors.views():
        length = np.sqrt((view**2).sum(axis=0))
        unit = view / np.where(length > 0.0, length, 1.0)
        alike *= unit.T @ unit
    np.fill_diagonal(alike, -1.0)
    first, second = np.unravel_index(int(np.argmax(alike)), alike.shape)
    if alike[first, second] > ALIKE and may_join:
        if model.usage[first] < model.usage[second]:
            first, second = second, first
        return int(second), int(first)
    return weakest, -1


def _merge(twin: Model, kept: int, given: int, weights: Array) -> None:
    """Join two components of the same pattern: weights and past add up."""
    for vector in (twin.mean_weights, twin.usage, twin.last_weights, weights):
        vector[kept] += vector[given]
    twin.past.merge(twin, kept, given)
