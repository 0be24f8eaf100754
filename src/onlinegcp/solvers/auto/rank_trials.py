"""Growing and shrinking along the stream: a twin with more or fewer components, on trial.

Now and then a few slices are kept, and a twin of the model is made from them with components added
or taken away. Both then see the same slices. What counts is how well either predicts part of a
slice from the rest, so that more components do not win by fitting more: the larger one must
be better by two standard errors, the smaller one as good. A change that worked is tried again soon
and twice as boldly; after one that failed the pause and the next trial are twice as long.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onlinegcp.solvers.auto.model import Model, Step, mean_told, told_by
from onlinegcp.solvers.auto.rank_state import PAUSE, WAYS, Direction, RankTrials

TRIAL = 12  # slices that are judged, doubled with every failure
LONGEST_TRIAL = 48  # and of models that are doubtful
EARLIEST = 5  # slices after which a clear verdict may come
CLEAR = 3.0  # standard errors that are clear
UNANIMOUS = 6  # slices that are clear if all of them agree
LIKELY = 2.0  # standard errors that a larger model must gain in the end
BETTER, AS_GOOD = 1.5, 0.0  # the same for a smaller one: after a few slices, and in the end
# Times the slices of a warm start, from which the rank is studied once more: half the noise. Then
# from twice as many, and so on, up to the most that are kept.
LOOK, MOST_LOOKED_AT = 4, 16
RECENT = 0.95  # what a slice counts after the next


def wanted(trials: RankTrials, model: Model, full: int) -> int:
    """How many of the newest slices are to be kept, to make a twin from them; mostly none."""
    if trials.shrinking.next == 0:
        soon = model.n_slices + full - 1
        trials.growing, trials.shrinking = Direction(soon), Direction(soon)
    size = trials.window or full
    # While a trial runs the next may follow at once.
    near = [kind for kind in _possible(trials, model) if model.n_slices > kind.next - size]
    return size if near or trials.twin is not None else 0


def looked_at(trials: RankTrials, model: Model, full: int) -> int:
    """How many of the newest slices are to be kept for the next look at the rank; often none."""
    if trials.gap == 0:
        trials.gap = LOOK * full
        trials.look = model.n_slices - 1 + trials.gap - full
    size = min(trials.gap, MOST_LOOKED_AT * full)
    return size if model.n_slices > trials.look - size else 0


def looks_now(trials: RankTrials, model: Model) -> bool:
    """Whether the rank is to be studied once more; the next time is then twice as far away."""
    if model.n_slices < trials.look:
        return False
    trials.look, trials.gap = model.n_slices + trials.gap, 2 * trials.gap
    return True


def due(trials: RankTrials, model: Model) -> Direction | None:
    """The kind of trial that may begin now, the one that has failed less often first."""
    if trials.twin is not None:
        return None
    ready = [kind for kind in _possible(trials, model) if model.n_slices >= kind.next]
    if trials.window:  # slices surprise: what is new comes first
        ready = [kind for kind in ready if kind is trials.growing]
    return min(ready, key=lambda kind: kind.failures, default=None)


def next_growth(trials: RankTrials) -> tuple[int, bool]:
    """How many components the next larger twin gets, and whether all are fitted anew.

    After a success twice as many, then one way after the other.
    """
    growing = trials.growing
    count, anew = WAYS[growing.failures % len(WAYS)]
    return (max(count, growing.count) if growing.failures == 0 else count), anew


def _possible(trials: RankTrials, model: Model) -> list[Direction]:
    rank = model.factors.rank
    growing = [trials.growing] if rank < trials.most else []
    return growing + ([trials.shrinking] if rank > 1 else [])


def supervise(
    trials: RankTrials, model: Model, done: Step, rival: Step, gain: float
) -> tuple[Model, Step]:
    """Run the trial one slice further.

    Parameters
    ----------
    trials
        Changed in place; its twin is past the slice.
    model
        Past the slice as well.
    done, rival
        What the steps of the model and of the twin gave.
    gain
        By how much the twin predicted cells not seen better.

    Returns
    -------
    The model to go on with, and its step.
    """
    larger = trials.larger_than(model.factors.rank)
    verdict = _verdict(trials, gain, larger=larger)
    if verdict == 0 or trials.twin is None:
        return model, done
    twin, order, spare = trials.twin, trials.order, trials.spare
    direction = trials.growing if larger else trials.shrinking
    trials.end()
    soon = model.n_slices + 1
    if verdict < 0:
        if larger:
            direction.fail(soon, len(WAYS))
        else:
            direction.retreat(soon)
        return model, done
    direction.succeed(soon)
    kept, more = int((order >= 0).sum()), len(order) - model.factors.rank
    if spare >= 0:
        # A study compared every rank: only these are in doubt, and fewer slices show no others.
        trials.shrinking = Direction(soon, count=max(1, spare))
        trials.growing = Direction(soon + PAUSE)
    elif more > 0:
        # Perhaps one of them was needed, and the others came with it.
        trials.shrinking = Direction(soon, count=max(1, more - 1))
    changed = replace(
        rival,
        prequential=done.prequential,
        births=len(order) - kept,
        deaths=model.factors.rank - kept,
        order=tuple(order.tolist()),
    )
    return twin, changed


def _verdict(trials: RankTrials, gain: float, *, larger: bool) -> int:
    """1 if the twin takes over, -1 if it is dropped, 0 if more slices must tell."""
    decay = np.array([RECENT, RECENT, RECENT, 1.0])
    told = told_by(gain)
    trials.gains = decay * trials.gains + np.append(told, np.sign(told[1]))
    trials.judged += 1
    signs, (mean, error) = trials.gains[3], mean_told(trials.gains)
    if larger:
        rounds, clear, enough = trials.growing.failures // len(WAYS), CLEAR, LIKELY
    else:
        rounds, clear, enough = trials.shrinking.failures, BETTER, AS_GOOD
    if trials.judged >= EARLIEST and not -CLEAR * error <= mean <= clear * error:
        return 1 if mean > 0.0 else -1
    # One loud slice may blur the mean, but not that all agree.
    if trials.judged >= UNANIMOUS and abs(signs) == trials.judged and abs(mean) > error:
        return 1 if mean > 0.0 else -1
    # A larger model that seems better may take its time to make sure.
    doubtful = larger and 0.0 < mean <= enough * error
    if trials.judged < (LONGEST_TRIAL if doubtful else min(TRIAL * 2.0**rounds, LONGEST_TRIAL)):
        return 0
    return 1 if mean > enough * error else -1
