"""Models with more or fewer components, made from a few slices: what a trial of ranks compares.

New components come from a fit to all of these slices, so that patterns are found that no single one
shows, and patterns that the model knows already keep their past. After some were taken away the
others learn the slices once more, to take their place.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onlinegcp.ktensor import KTensor
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice, stack
from onlinegcp.solvers.auto import solver as auto
from onlinegcp.solvers.auto.components import put
from onlinegcp.solvers.auto.model import AutoState, Model, Trials
from onlinegcp.solvers.auto.redundancy import most_redundant, without
from onlinegcp.solvers.auto.resizing import with_components
from onlinegcp.streaming.matching import places
from onlinegcp.streaming.rank_study import grown, study_path
from onlinegcp.streaming.warm_start import WarmStart, algebraic_model, most_components, short_fit

MOST_LISTED = 1 << 17  # cells of kept slices, if those of a warm start are not more


def larger(
    slices: Sequence[Slice],
    old: AutoState,
    count: int,
    loss: Loss,
    *,
    anew: bool,
    lower: float,
    seed: int,
) -> tuple[Model, list[int]] | None:
    """A rival of a model with more components; None where nothing is left to explain.

    Parameters
    ----------
    slices
        Slices the model has just learned.
    old
        The model; left as it is.
    count
        How many components more.
    anew
        Fit all components from another start: two patterns that were taken for one leave little to
        explain, but part in a fit that has room for both.
    loss, lower, seed
        The loss, the bound on factors and weights, and the seed of the draws.

    Returns
    -------
    model, order
        The rival, and for each of its components its place in the old model, -1 for a new one.
    """
    x = stack(slices)
    rank = min(old.factors.rank + count, most_components(x))
    if rank <= old.factors.rank:
        return None
    if anew:
        begin = algebraic_model(x, rank, loss, lower, seed)
        fit = short_fit(x, rank, loss, lower, init=begin, seed=seed)
        return graft(old, WarmStart.of(fit).normalised(), slices, loss, seed)
    begin = grown(x, _explained(slices, old, loss, seed), rank, loss, lower, seed)
    if begin is None:
        return None
    # A fit of all of them to few slices would tear patterns apart that were learned from many.
    known = list(range(old.factors.rank))
    added = range(len(known), begin.rank)
    return _with(old, known, WarmStart.of(begin).normalised(), added, slices, loss, seed)


def studied(
    slices: Sequence[Slice], old: AutoState, loss: Loss, *, lower: float, seed: int
) -> tuple[Model, list[int], int] | None:
    """The rival that a study of these slices asks for; None where it finds what is known already.

    With it comes how many of its components the study could not tell from none.

    It may have as many components as the model, or fewer, but others: what few slices mixed up
    many tell apart.

    Parameters
    ----------
    slices, old, loss, lower, seed
        As for `larger`; the more slices, the fainter the components that can be found.
    """
    assert old.ranks is not None
    known, most = _explained(slices, old, loss, seed), old.ranks.most
    path = study_path(slices, loss, lower=lower, most=most, seed=seed, known=known)
    best = path.best
    if best is None:
        return None
    start = WarmStart.of(best).normalised()
    order = places(old.factors.views(), start.factors)
    if len(order) == old.factors.rank and -1 not in order:
        return None
    return *graft(old, start, slices, loss, seed), best.rank - path.rank


def _explained(slices: Sequence[Slice], old: AutoState, loss: Loss, seed: int) -> KTensor:
    """A model of some slices: the factors there are, and the weights that fit best."""
    rows = np.array([auto.solve_weights(old, one, loss, seed=seed) for one in slices])
    return KTensor(None, [*(view.copy() for view in old.factors.views()), rows])


def smaller(
    slices: Sequence[Slice], old: AutoState, count: int, loss: Loss, *, seed: int
) -> tuple[Model, list[int]]:
    """A rival of a model without its least needed components.

    Parameters
    ----------
    slices, old, loss, seed
        As for `larger`.
    count
        How many components fewer, at least one of which must remain.
    """
    model, order = old.model, list(range(old.factors.rank))
    for _ in range(count):
        imitation = most_redundant(model)
        model = without(model, imitation)
        order.pop(imitation.given)
    return _learned(model, slices, loss, seed), order


def _learned(model: Model, slices: Sequence[Slice], loss: Loss, seed: int) -> Model:
    """A changed model after slices that were counted when the old one learned them."""
    model.past.tidy(model)
    count, state = model.n_slices, AutoState(model, Trials(), reseed=False)
    for one in slices:
        state, _ = auto.step(state, one, loss, seed=seed)
    state.model.n_slices = count
    return state.model


def graft(
    old: AutoState, start: WarmStart, slices: Sequence[Slice], loss: Loss, seed: int
) -> tuple[Model, list[int]]:
    """A model of some slices in which patterns that the old one knows keep their past.

    Parameters
    ----------
    old
        Left as it is.
    start
        A model of the slices, of any rank.
    slices
        They are learned once more, by what is new.
    loss, seed
        The loss, and the seed of the draws.
    """
    order = places(old.factors.views(), start.factors)
    # New ones last, so that the others keep their numbers.
    known = sorted(place for place in order if place >= 0)
    fresh = [at for at, place in enumerate(order) if place < 0]
    return _with(old, known, start, fresh, slices, loss, seed)


def _with(
    old: AutoState,
    known: list[int],
    start: WarmStart,
    fresh: Sequence[int],
    slices: Sequence[Slice],
    loss: Loss,
    seed: int,
) -> tuple[Model, list[int]]:
    """The known components of a model and then some of a start, after learning the slices."""
    order = known + [-1] * len(fresh)
    model = with_components(old.model, order)
    for slot, at in enumerate(fresh, len(known)):
        columns = [a[:, at] for a in start.factors]
        sizes = [float(model.past.sizes(column[:, None])[0]) or 1.0 for column in columns]
        weight = float(start.mean[at]) * float(np.prod(sizes))
        put(model, slot, [c / size for c, size in zip(columns, sizes, strict=True)], weight)
    return _learned(model, slices, loss, seed), order


def newest(slices: tuple[Slice, ...], most: int, least: int) -> tuple[Slice, ...]:
    """The newest slices, from which models shall be made.

    Parameters
    ----------
    slices
        All of them, newest last.
    most, least
        How many at most; fewer where they are long, but not below `least`.
    """
    first, listed = len(slices), 0
    while first > max(0, len(slices) - most):
        listed += slices[first - 1].n_listed
        if listed > MOST_LISTED and len(slices) - first >= least:
            break
        first -= 1
    return slices[first:]
