"""How many components the first slices need: one nested path of models, judged on cells not seen.

The model of the earlier slices grows component by component, each fitted to what the others leave
unexplained and then all of them for a few passes, so that every rank costs little once the one
below is known. Later slices judge: their weights come from some of the cells, their loss from
the rest. The path ends when more components stop predicting better, and the smallest rank is
chosen that one standard error cannot tell from the best.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.layout import pad_vector, stack_factors
from onlinegcp.kernels.random import LISTED_ZEROS, TRIAL_COLUMNS, stream_key
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice, stack
from onlinegcp.solvers.auto import seeds
from onlinegcp.solvers.auto import solver as auto
from onlinegcp.solvers.auto.cells import cells_of, weighted_cells
from onlinegcp.solvers.auto.checkerboard import Checkerboard, checkerboard
from onlinegcp.solvers.auto.fisher_sums import FisherSums
from onlinegcp.solvers.auto.held_out import boards_for
from onlinegcp.solvers.objective import slice_loss
from onlinegcp.streaming.warm_start import (
    WarmStart,
    algebraic_model,
    begin,
    most_components,
    short_fit,
)

FloatArray: TypeAlias = NDArray[np.float64]

TESTED = 0.3  # share of the slices that judge
WAYS = 2  # to divide each of them
NOISE = 2  # slices from which the noise is taken
STARTS = 2  # of a path that begins beside a known model,
BELOW = 2  # so many ranks below it, or an eighth
PATIENCE = 3  # ranks in a row that may fail to predict better before the path ends


@dataclass(frozen=True)
class RankPath:
    """What the study found.

    Attributes
    ----------
    rank
        The rank to use.
    ranks
        The ranks tried, ascending.
    losses
        (ranks, n) held-out losses of each, over slices and the ways to divide them.
    best
        The model of the earlier slices that predicted best, be it by chance; None where nothing
        could be judged.
    """

    rank: int
    ranks: tuple[int, ...]
    losses: FloatArray
    best: KTensor | None = None


def study_path(
    slices: Sequence[Slice],
    loss: Loss,
    *,
    lower: float,
    most: int,
    seed: int,
    known: KTensor | None = None,
) -> RankPath:
    """Choose a rank for the model of these slices.

    Parameters
    ----------
    slices
        In order of time; the last ones judge. Fewer than two cannot be judged: rank 1.
    loss, lower
        The loss, and the bound on factors and weights.
    most
        Largest rank.
    seed
        Seed of starts and of how cells are divided.
    known
        A model of the slices with their weights in the last mode: the path begins a little below
        its rank, or at half of that where this is as good as any; it goes on from this model where
        that explains the slices best. By default the path begins with one component.
    """
    tested = max(1, round(TESTED * len(slices)))
    learned, unseen = slices[: len(slices) - tested], slices[len(slices) - tested :]
    if not learned or not any(x.nnz for x in learned) or not any(x.nnz for x in unseen):
        return RankPath(1, (1,), np.zeros((1, 1)))
    # Of a few slices, whose noise the models have learned, halves are the stricter judge.
    boards = 1 if known is None else boards_for(loss)
    divided = [
        [checkerboard(x.shape, seed, WAYS * t + way, boards) for way in range(WAYS)]
        for t, x in enumerate(unseen)
    ]

    def judged(model: KTensor) -> FloatArray:
        return _judged(model, learned, unseen, divided, loss, lower, seed)

    x = stack(learned)
    most = max(1, min(most, most_components(x)))
    at = 1 if known is None else min(most, max(1, known.rank - max(BELOW, known.rank // 8)))
    ranks, models, table = _path(x, at, most, known, judged, loss, lower=lower, seed=seed)
    # Where the path began there were too many components already.
    while (rank := smallest_as_good(ranks, table)) == ranks[0] > 1:
        below = _path(x, rank // 2, rank - 1, known, judged, loss, lower=lower, seed=seed)
        ranks, models = below[0] + ranks, below[1] + models
        table = np.concatenate([below[2], table])
    best = models[int(np.argmin(np.nan_to_num(table.mean(axis=1), nan=np.inf)))]
    return RankPath(rank, tuple(ranks), table, best)


def _path(
    x: Slice,
    at: int,
    most: int,
    known: KTensor | None,
    judged: Callable[[KTensor], FloatArray],
    loss: Loss,
    *,
    lower: float,
    seed: int,
) -> tuple[list[int], list[KTensor], FloatArray]:
    """Models of stacked slices from one rank upwards, and what each of them lost."""
    init = begin(x, at, loss, lower=lower, starts=STARTS, seed=seed) if at > 1 else None
    model = short_fit(x, at, loss, lower, init=init, seed=seed)
    ranks, models, since = [model.rank], [model], 0
    losses = [judged(model)]
    while ranks[-1] < most and since < PATIENCE:
        rank = min(most, ranks[-1] + max(1, ranks[-1] // 8))
        if known is not None and ranks[-1] < known.rank < rank:
            rank = known.rank
        init = algebraic_model(x, rank, loss, lower, seed)
        if init is None:
            init = grown(x, model, rank, loss, lower, seed)
        if init is None:
            break
        model = short_fit(x, init.rank, loss, lower, init=init)
        if known is not None and model.rank == known.rank:
            model = _better(x, model, known, loss, lower)
        ranks.append(model.rank)
        models.append(model)
        losses.append(judged(model))
        means = np.mean(losses, axis=1)
        since = 0 if means[-1] <= means[:-1].min() else since + 1
    return ranks, models, np.array(losses)


def _better(x: Slice, model: KTensor, known: KTensor, loss: Loss, lower: float) -> KTensor:
    """Of two models with as many components the one that explains stacked slices better.

    What was learned from few slices can lie in a wrong optimum that more of them do not mend; a
    path that begins anew below it may find a better one.
    """
    *factors, rows = known.factors
    init = KTensor(known.weights, [*factors, rows[: x.shape[-1]]])
    there = short_fit(x, known.rank, loss, lower, init=init)
    lost, other = (slice_loss(x, fit.factors, fit.weights, loss) for fit in (there, model))
    return there if lost <= other else model


def most_told_apart(shape: Sequence[int], count: int) -> int:
    """The largest rank of which so many slices of a shape can tell all components apart.

    Kruskal's condition for generic factors: above it other components may explain the slices as
    well. Modes beyond three are taken together, for a tensor whose components are told apart when
    some of its modes are read as one has components that are told apart. Slices of one mode have
    no such rank; they carry at most as many as span them.

    Parameters
    ----------
    shape
        Of the slices.
    count
        How many there are.

    Examples
    --------
    >>> most_told_apart((24, 3), 10), most_told_apart((40, 30), 10), most_told_apart((8,), 10)
    (11, 38, 8)
    >>> most_told_apart((24, 8, 3), 10)  # as 24 x 24 x 10
    28
    """
    modes = [n for n in shape if n > 1]
    if len(modes) < 2:
        return max(1, min(max(shape), count))
    groups = [1, 1, 1]
    for n in sorted([*modes, count], reverse=True):
        groups[groups.index(min(groups))] *= n
    least, middle, largest = sorted(groups)
    # All groups that are not shorter than the rank R count R: least + middle + R >= 2 R + 2.
    most = least + middle - 2
    return max(1, most if most <= largest else (most + largest) // 2)


def smallest_as_good(ranks: Sequence[int], losses: FloatArray) -> int:
    """The smallest rank that is not worse than the best by more than one standard error.

    Paired, because slices differ much more from each other than ranks do on one slice. Those on
    which a loss is not finite compare nothing.
    """
    losses = losses[:, np.isfinite(losses).all(axis=0)]
    if not losses.size:
        return ranks[0]
    best = losses[int(np.argmin(losses.mean(axis=1)))]
    for rank, own in zip(ranks, losses, strict=True):
        behind = own - best
        error = behind.std(ddof=1) / math.sqrt(len(behind)) if len(behind) > 1 else 0.0
        if behind.mean() <= error:
            return rank
    raise AssertionError("the best is as good as itself")


def _judged(
    model: KTensor,
    learned: Sequence[Slice],
    unseen: Sequence[Slice],
    divided: Sequence[Sequence[Checkerboard]],
    loss: Loss,
    lower: float,
    seed: int,
) -> FloatArray:
    start = WarmStart.of(model).normalised()
    bound = None if lower == loss.lower else lower
    # The newest of the slices show how large the noise is; nothing else of the past is asked for.
    few = max(1, min(start.n_rows, NOISE))
    state = auto.start(start.factors, start.rows[-few:], learned[-few:], loss, lower=bound)
    # What weights are usual is known from all of them.
    lengths = np.prod([np.sqrt((v**2).sum(axis=0)) for v in state.factors.views()], axis=0)
    rows = start.rows / np.where(lengths > 0.0, lengths, 1.0)
    state.model.mean_weights = pad_vector(rows.mean(axis=0))
    state.model.usage = pad_vector(np.abs(rows).mean(axis=0))
    return np.array(
        [
            state.model.past.predict_parts(state.model, x, loss, board, seed).loss
            for x, boards in zip(unseen, divided, strict=True)
            for board in boards
        ]
    )


def grown(
    x: Slice, model: KTensor, rank: int, loss: Loss, lower: float, seed: int
) -> KTensor | None:
    """The model with components fitted one after the other to what is left; None if nothing is."""
    found = model
    while found.rank < rank:
        factors, weights = stack_factors(found.factors), pad_vector(found.weights)
        key = stream_key(seed, found.rank, TRIAL_COLUMNS)
        form, bounded = loss.traits.odds_form, lower > -np.inf
        if form is not None:
            born = seeds.seed_counts(factors, cells_of(x), form, weights)
        elif loss.traits.quadratic and x.n_observed == x.size:
            born = seeds.seed_residual(factors, x, weights, key, bounded=bounded)
        else:
            cells = weighted_cells(x, stream_key(seed, 0, LISTED_ZEROS))
            sums = FisherSums(factors, cells, loss)
            born = seeds.seed_slopes(sums, weights, key, bounded=bounded)
        if born is None:
            break
        columns, weight = born
        found = KTensor(
            np.append(found.weights, weight),
            [np.column_stack(pair) for pair in zip(found.factors, columns, strict=True)],
        )
    return None if found is model else found
