"""The tuning-free solver: one state, one step per slice, whatever the loss.

`start` turns warm-start factors into a state, `step` scores a slice, learns it and gives the next
state, `solve` gives the weights of a slice without learning, and `grow` makes room for new rows.
A state is a value: none of these changes the one it was given, so that a step that fails (Ctrl-C,
an error in a user's loss) leaves nothing behind.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from onlinegcp.errors import DataError
from onlinegcp.kernels.layout import Blocks, aligned_zeros, pad_vector, stack_factors
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import cells, components, fisher_rows, forgetting, rank_trials
from onlinegcp.solvers.auto.checkerboard import checkerboard
from onlinegcp.solvers.auto.conjugate import Conjugate
from onlinegcp.solvers.auto.fisher_rows import FisherRows
from onlinegcp.solvers.auto.held_out import boards_for
from onlinegcp.solvers.auto.loudness import first_volume
from onlinegcp.solvers.auto.model import AutoState, Model, Past, Step, Trials, altered
from onlinegcp.solvers.auto.newton import Solution
from onlinegcp.solvers.auto.quadratic import Square
from onlinegcp.solvers.auto.rank_state import RankTrials
from onlinegcp.sums.local import engine

__all__ = [
    "AutoState",
    "Card",
    "Step",
    "grow",
    "is_bounded",
    "solve",
    "solve_weights",
    "start",
    "step",
]

Array = NDArray[Any]

MEAN_STEP = 0.1  # of the running mean of the weights, from which each solve starts
LEAST_BESIDE = 1 << 21  # listed cells times components from which two models learn side by side


def start(
    factors: Sequence[Array],
    weights_history: Array,
    slices: Iterable[Slice],
    loss: Loss,
    *,
    forget: float | str = "auto",
    reseed: bool = True,
    most: int | None = None,
    lower: float | None = None,
    seed: int = 0,
) -> AutoState:
    """Make the state from a model of the first slices.

    Parameters
    ----------
    factors
        Matrices (I_k, R) of the warm start.
    weights_history
        Weights of the warm-start slices, one row each.
    slices
        The warm-start slices themselves, in order.
    loss
        The loss.
    forget
        "auto", 1.0 (nothing is forgotten) or a half-life in slices.
    reseed
        Whether components may be replaced or merged, each time on trial.
    most
        Let the rank change, up to this one, each time on trial; None keeps it.
    lower
        0 keeps factors and weights nonnegative, whatever the loss; None takes the loss's own bound.
    seed
        Seed of the draws, where cells are sampled.
    """
    bounded = is_bounded(loss, lower)
    blocks = stack_factors([np.asarray(a, dtype=np.float64) for a in factors])
    rows = np.array(weights_history, dtype=np.float64).reshape(-1, blocks.rank)
    past = _past_for(loss, blocks).start(blocks, bounded=bounded)
    for view in blocks.views():
        size = past.sizes(view)
        size = np.where(size > 0.0, size, 1.0)
        view /= size
        rows *= size
    smallest = min(float(blocks.data.min(initial=0.0)), float(rows.min(initial=0.0)))
    if bounded and smallest < 0.0:
        raise DataError(
            "The warm start must not lie below the bound 0 on factors and weights, but has an "
            f"entry {smallest:.6g}. Pass a model fitted under this bound."
        )
    none = np.zeros(blocks.width)
    memory = forgetting.start(forget, blocks.width, 1.0)
    model = Model(blocks, memory, past, none, none, none, bounded)
    _absorb_warm_start(model, rows, list(slices), loss, seed)
    if most is None:
        return AutoState(model, Trials(), reseed)
    # Adding and taking away does what replacing does.
    return AutoState(model, Trials(), False, RankTrials(max(most, blocks.rank)))


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


def _past_for(loss: Loss, factors: Blocks) -> type[Past]:
    if loss.traits.quadratic:
        return Square
    if loss.traits.odds_form is None:
        return FisherRows
    if loss.traits.rows_first:
        curvatures = factors.data.size * factors.width
        small = math.prod(factors.shape) <= cells.CELL_BUDGET
        fits = small and curvatures <= fisher_rows.CURVATURE_BUDGET
        return FisherRows if fits else Conjugate
    return Conjugate


def _absorb_warm_start(
    model: Model, rows: Array, slices: list[Slice], loss: Loss, seed: int
) -> None:
    """Build the past the warm-start slices would have left."""
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
    model.volume = first_volume(slices, loss)
    for x, row in zip(slices, rows, strict=True):
        model.n_slices += 1
        model.past = model.past.suited(model, x)
        model.last_weights = pad_vector(row)
        cap = forgetting.schedule(model.n_slices)
        model.past.absorb(model, x, loss, model.last_weights, cap, seed)
    model.mean_weights = pad_vector(rows.mean(axis=0))
    model.usage = pad_vector(np.abs(rows).mean(axis=0))
    model.past.settle(model, rows, slices)


class Card(Protocol):
    """Another place than the CPU where steps can be made."""

    def take(self, state: AutoState, x: Slice, loss: Loss) -> AutoState:
        """A state that a step may change, its models where this slice is best learned."""


def step(
    state: AutoState,
    x: Slice,
    loss: Loss,
    *,
    seed: int = 0,
    judged: bool = False,
    card: Card | None = None,
) -> tuple[AutoState, Step]:
    """Score a slice with the model so far, then learn it: the next state, and the account.

    Parameters
    ----------
    state
        Left as it is.
    x
        The slice, of the state's shape.
    loss
        The loss the state was started with.
    seed
        Seed of the draws, where cells are sampled and where a component's trial begins.
    judged
        Whether to tell how well the parts of the slice are predicted from each other.
    card
        Where the step is made; None: on the CPU.
    """
    _check_shape(state, x)
    state = state.copy() if card is None else card.take(state, x, loss)
    ranks, held, gain = state.ranks, None, None
    twin = state.trials.twin if state.reseed else None
    if ranks is not None:
        twin = ranks.twin
        held = held_out(state.model, x, loss, seed) if judged or twin is not None else None
        if twin is not None and held is not None:
            gain = held - held_out(twin, x, loss, seed, state.model.n_slices)
    models = [state.model] if twin is None else [state.model, twin]
    calls = [partial(_learn, model, x, loss, seed) for model in models]
    # A card has one queue; and short steps are calls of Python more than sums, which wait in turn.
    if card is not None or len(x.value) * state.factors.rank < LEAST_BESIDE:
        done, *rest = (call() for call in calls)
    else:
        done, *rest = engine().beside(calls)
    rival = rest[0] if rest else None
    if held is not None:
        done = replace(done, held_out=held)
    if ranks is not None and rival is not None and gain is not None and done.informative:
        state.model, done = rank_trials.supervise(ranks, state.model, done, rival, gain)
        done = replace(done, held_out=held)
    elif state.reseed and done.informative:
        done = components.supervise(state, x, loss, done, rival, seed)
    rank = state.factors.rank
    return state, altered(done, weights=done.weights[:rank], forget=done.forget[:rank])


def _learn(model: Model, x: Slice, loss: Loss, seed: int) -> Step:
    """One step of one model, which is changed in place."""
    model.past = model.past.suited(model, x)
    model.n_slices += 1
    done = model.past.step(model, x, loss, forgetting.schedule(model.n_slices), seed)
    if done.informative:
        model.mean_weights += MEAN_STEP * (done.weights - model.mean_weights)
        model.usage += MEAN_STEP * (np.abs(done.weights) - model.usage)
        model.last_weights = done.weights
    else:
        # A slice that says nothing about the factors must not age what they were learned from.
        model.n_slices -= 1
    return done


def held_out(model: Model, x: Slice, loss: Loss, seed: int = 0, number: int | None = None) -> float:
    """Loss of a slice, every part of its cells predicted with weights from the others.

    `number` says how it is divided; by default the number of slices the model has learned.
    """
    turn = model.n_slices if number is None else number
    board = checkerboard(x.shape, seed, turn, boards_for(loss))
    return model.past.predict_parts(model, x, loss, board, seed).loss


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
    return state.model.past.solve(state.model, x, loss, tolerance=tolerance, seed=seed)


def grow(state: AutoState, new_shape: Sequence[int]) -> AutoState:
    """Make room for new rows at the end of the modes.

    Parameters
    ----------
    state
        Left as it is.
    new_shape
        Mode lengths, none smaller than before.
    """
    shape = tuple(int(n) for n in new_shape)
    old = state.factors
    if len(shape) != old.ndim or any(b < a for a, b in zip(old.shape, shape, strict=True)):
        raise DataError(
            f"A mode can only grow, but the model has shape {old.shape} and {shape} was asked for. "
            "Give a shape with every mode at least as long."
        )
    if shape == old.shape:
        return state
    offsets = np.concatenate([[0], np.cumsum(shape)]).astype(np.int64)
    kept = np.concatenate([np.arange(n) + offsets[k] for k, n in enumerate(old.shape)])

    def longer(stacked: Array) -> Array:
        grown = aligned_zeros((int(offsets[-1]), *stacked.shape[1:]))
        grown[kept] = stacked
        return grown

    state = state.copy()
    state.trials.end()
    if state.ranks is not None:
        state.ranks.end()
    model = state.model
    model.past = model.past.grow(model, longer)
    model.factors = Blocks(longer(old.data), offsets, old.rank)
    model.past.tidy(model)
    return state


def _check_shape(state: AutoState, x: Slice) -> None:
    if x.shape != state.factors.shape:
        raise DataError(
            f"The slice must have the model's shape {state.factors.shape}, but it has {x.shape}. "
            "Call grow first if a mode has new rows."
        )
