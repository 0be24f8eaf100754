"""Abrupt changes: a new model on trial, and the old one kept in case its time comes back.

A model that has learned for long moves too slowly when many patterns change at once. So when
slices surprise (`surprise`), the suspicious ones are kept, up to as many as a warm start takes,
and a challenger is made from them, early from a few and again from all. Both learn the same
slices from then on; the challenger takes over as soon as it predicts clearly better, and is dropped
if it does not. The model that was replaced rests: at the next alarm it is asked first.

All of it is a value: a step gives new regimes and leaves the old ones as they were.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum
from enum import auto as auto_number
from typing import Literal, Protocol, TypeAlias

import numpy as np

from onlinegcp.losses import Loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import rank_trials
from onlinegcp.solvers.auto import solver as auto
from onlinegcp.solvers.auto.model import AutoState, Model, Step, mean_told, told_by
from onlinegcp.streaming import short_memory
from onlinegcp.streaming.competitors import Regimes, grown
from onlinegcp.streaming.matching import n_replaced, places
from onlinegcp.streaming.misfit import Misfit
from onlinegcp.streaming.rank_growth import newest

Resized: TypeAlias = tuple[Model, list[int]]  # and which component went where
Regime: TypeAlias = Literal["", "changed", "returned"]

EARLY = 4  # slices the first challenger is made from
TRIAL = 12  # slices on which a challenger must prove itself
PATIENT_TRIAL = 24  # the same where nothing surprised: what is newest may be known for a while
PAUSE = 30  # slices until the next challenge after one that failed, doubled with every failure
LONGEST_PAUSE = 960  # even where challengers always failed
REST = 400  # slices a replaced model is kept
CLEAR = 3.0  # standard errors
MOSTLY = 0.5  # of what surprises must be explained by one that takes over in the midst of it


class Effort(Enum):
    """How much work the start of a challenger is worth."""

    BRIEF = auto_number()  # one start, a few passes
    ONE_START = auto_number()
    ALL_STARTS = auto_number()


class Begin(Protocol):
    """Makes a challenger."""

    def __call__(
        self, slices: tuple[Slice, ...], old: AutoState, effort: Effort, *, keep: bool
    ) -> AutoState:
        """A model of a few slices in which patterns it shares with `old` keep their places.

        If `keep` is said they keep their past, too.
        """


class Resize(Protocol):
    """Makes models with more or fewer components from a few slices; None where there is none."""

    def studied(
        self, slices: Sequence[Slice], old: AutoState
    ) -> tuple[Model, list[int], int] | None:
        """With as many as a study of the slices asks for, and how many of these it doubts."""

    def larger(
        self, slices: Sequence[Slice], old: AutoState, count: int, *, anew: bool
    ) -> Resized | None:
        """With so many more; all are fitted anew, or the others go on."""

    def smaller(self, slices: Sequence[Slice], old: AutoState, count: int) -> Resized | None:
        """With so many fewer."""


def learn(
    regimes: Regimes,
    x: Slice,
    loss: Loss,
    begin: Begin | None,
    *,
    full: int,
    seed: int,
    card: auto.Card | None = None,
    resize: Resize | None = None,
) -> tuple[Regimes, Step, Regime]:
    """Score a slice with the model in use, learn it, and decide who goes on.

    Parameters
    ----------
    regimes
        Left as they are.
    x, loss
        The slice, which may be longer than the model, and the loss.
    begin
        Makes a challenger; None where the model in use shall never be replaced.
    full
        Slices a whole warm start takes.
    seed, card
        As in the solver's `step`.
    resize
        Makes a model with more or fewer components, where the rank may change.
    """
    # A shallow copy: what follows puts new values in its place and changes no shared one.
    now = grown(replace(regimes, surprise=regimes.surprise.copy()), x.shape)
    start = now.current

    def step(model: AutoState, one: Slice) -> tuple[AutoState, Step]:
        judged = model.ranks is not None and now.challenger is not None
        return auto.step(model, one, loss, seed=seed, judged=judged, card=card)

    now.current, done = step(now.current, x)
    if resize is not None and done.informative:
        _keep_recent(now, x, resize, full)
    if begin is None or not done.informative:
        return now, done, ""
    now.age += 1
    few = min(full, short_memory.MOST)
    if now.age > now.rested_at + REST:
        now.rested = None
    usual = 0.0
    if now.challenger is not None or now.rested is not None:  # else nobody asks
        usual = now.surprise.usual_deviation * x.n_observed
    now.surprise.watch(done.prequential, done.local, x.n_observed)
    regime: Regime = ""
    met = now.gathering or now.challenger is not None
    unhurried = now.patient or now.look > 0
    again = met and now.surprise.alarmed and (now.changed or (unhurried and _may_alarm(now)))
    if again:
        # Changed again: what else was gathered for the first change may be of two regimes by now.
        _drop_rest(now)
    if now.challenger is not None:
        now.challenger, rival = step(now.challenger, x)
        gain = _gain(done, rival)
        verdict = _judge(now, gain, usual)
        if now.changed and now.surprise.suspects:
            # Of two models that both know nothing of a third regime one is better, too.
            surprising = done.prequential - now.surprise.usual_loss * x.n_observed
            verdict = verdict if gain > MOSTLY * surprising else 0
        if verdict > 0:
            done, regime = _take_over(now, start, done, rival)
        elif verdict < 0:
            _drop(now)
    if now.gathering:
        least = most = now.look or full
        if now.patient:
            least, most = few, few + PATIENT_TRIAL
        now.buffer = newest((*now.buffer, x), most, least)
        _build(now, begin, few if now.patient else full)
    elif now.challenger is None and _may_alarm(now):
        if now.surprise.suspects and now.current.ranks is not None:
            # Slices of the rise, if they were kept, need not be waited for.
            since = min(now.surprise.rising, len(now.recent))
            now.current.ranks.urge(now.current.model, since)
        _suspect(now, x, start, done.prequential, full)
        if again:
            now.surprised_at = now.age - now.surprise.rising + 1
        if now.surprise.alarmed:
            if _rested_knows(now, loss, seed, usual):
                return now, _come_back(now, start, done, step), "returned"
            _gather(now)
            _build(now, begin, full)
        elif not now.buffer and _misses(now, x, done, loss):
            _mend(now, patient=False)
    now.brief = now.brief.watch(done.forget, few)
    if now.brief.due(now.age) and _idle(now):
        _clear(now)
        _mend(now, patient=True)
    return now, done, regime


def _may_alarm(regimes: Regimes) -> bool:
    """A false alarm asks for a pause, but a change in the midst of it must not be lost."""
    return regimes.age >= regimes.next_alarm or regimes.surprise.outcry(2.0**regimes.failures)


def _idle(regimes: Regimes) -> bool:
    """Whether nothing is under way, or only a second look: its slices are of two kinds by now."""
    if regimes.challenger is not None:
        return False
    return regimes.look > 0 if regimes.gathering else not regimes.buffer


def _gather(regimes: Regimes) -> None:
    """Keep the slices from now on for a challenger."""
    regimes.gathering, regimes.look = True, 0
    regimes.changed = regimes.mending = regimes.patient = False


def _mend(regimes: Regimes, *, patient: bool) -> None:
    """Let the next slices make a challenger, though none of them surprises."""
    _gather(regimes)
    regimes.mending, regimes.patient = True, patient
    regimes.surprised_at = regimes.age


def _keep_recent(regimes: Regimes, x: Slice, resize: Resize, full: int) -> None:
    """Gather slices for a model with more or fewer components, and put it on trial."""
    state = regimes.current
    ranks = state.ranks
    assert ranks is not None
    size = rank_trials.wanted(ranks, state.model, full)
    kept = max(size, rank_trials.looked_at(ranks, state.model, full))
    regimes.recent = newest((*regimes.recent, x), kept, max(size, full))
    # No more slices than a warm start takes would tell nothing new.
    if rank_trials.looks_now(ranks, state.model) and len(regimes.recent) > full:
        asked = resize.studied(regimes.recent, state)
        if asked is not None:
            ranks.end()
            ranks.begin(*asked)
        return
    kind = rank_trials.due(ranks, state.model)
    if kind is None or not 0 < size <= len(regimes.recent):
        return
    rank, slices = state.factors.rank, regimes.recent[-size:]
    if kind is ranks.growing:
        count, anew = rank_trials.next_growth(ranks)
        found = resize.larger(slices, state, min(count, ranks.most - rank), anew=anew)
    else:
        found = resize.smaller(slices, state, min(kind.count, rank - 1))
    if found is None:
        ranks.window = 0
        kind.fail(state.model.n_slices + 1, 1)
    else:
        ranks.begin(*found)


def _gain(done: Step, rival: Step) -> float:
    """By how much a challenger predicts better: of cells not seen, where ranks may differ."""
    if done.held_out is not None and rival.held_out is not None:
        return done.held_out - rival.held_out
    return done.prequential - rival.prequential


def _misses(regimes: Regimes, x: Slice, done: Step, loss: Loss) -> bool:
    """Whether a new model leaves a pattern unexplained."""
    if not regimes.misfit.watching:
        return False
    weights = np.asarray(done.weights[: regimes.current.factors.rank])
    regimes.misfit, missing = regimes.misfit.watch(x, regimes.current.factors, weights, loss)
    return missing


def _suspect(regimes: Regimes, x: Slice, start: AutoState, prequential: float, full: int) -> None:
    """Keep the slices that surprise, while they do, and the model that has seen none of them."""
    if not regimes.surprise.suspects:
        if regimes.buffer:
            _clear(regimes)
        return
    if not regimes.buffer:
        regimes.before, regimes.surprised_at = start, regimes.age
    regimes.buffer = (*regimes.buffer, x)[-full:]
    regimes.losses = np.append(regimes.losses, prequential)[-full:]


def _judge(regimes: Regimes, gain: float, usual: float) -> int:
    """1 if the challenger takes over, -1 if it is dropped, 0 if more slices must tell."""
    regimes.gains = regimes.gains + told_by(gain)
    count, total, _ = regimes.gains
    mean, error = mean_told(regimes.gains)
    if regimes.patient and not regimes.changed:
        return _judge_patiently(count, mean, error)
    # A gain beyond what slices differ by anyway needs no second look.
    if 0.0 < CLEAR * usual * math.sqrt(count) < total:
        return 1
    if count >= 5 and abs(mean) > CLEAR * error:
        return 1 if mean > 0.0 else -1
    if count < TRIAL:
        return 0
    return 1 if mean > error and mean > 0.0 else -1


def _judge_patiently(count: float, mean: float, error: float) -> int:
    """The same for a challenger that met no surprise: it must be sure, but may give up early."""
    if count >= 5 and mean < -CLEAR * error:
        return -1
    if count >= 5 and mean > 2.0 * CLEAR * error:
        return 1
    if count >= TRIAL and mean < -error:
        return -1
    return 0 if count < PATIENT_TRIAL else 1 if mean > CLEAR * error else -1


def _take_over(regimes: Regimes, old: AutoState, done: Step, rival: Step) -> tuple[Step, Regime]:
    new = regimes.challenger
    assert new is not None
    regime: Regime = "" if regimes.changed or regimes.mending else "changed"
    if not regimes.changed:
        # The second challenger of an alarm replaces the first, not the old regime. Its slices
        # begin later: the first that surprised may have been an odd one of the old.
        if not regimes.mending:
            _rest(regimes)
        _watch_anew(regimes)
        regimes.buffer = regimes.buffer[1:]
    if regime:
        regimes.recent = ()  # of the old regime
    # What a patient one gained is worth a second start; after that nothing is left to wait for.
    brief = regimes.brief.succeeded(regimes.age) if regimes.patient else short_memory.ShortMemory()
    regimes.brief, regimes.patient = brief, regimes.patient and not regimes.changed
    regimes.current, regimes.challenger, regimes.changed = new, None, True
    regimes.misfit, regimes.look = Misfit(), 0
    regimes.surprise.forget()
    regimes.gains = np.zeros(3)
    return _account(done, rival, old, new), regime


def _rest(regimes: Regimes) -> None:
    """Lay the old model aside as it was before the change."""
    regimes.rested, regimes.before = regimes.before, None
    regimes.rested_at = regimes.age


def _watch_anew(regimes: Regimes) -> None:
    """Begin to know what is usual for another model."""
    regimes.next_alarm, regimes.failures = regimes.age, 0
    regimes.surprise.forget()


def _drop(regimes: Regimes) -> None:
    """Give the challenger up, and with it this alarm."""
    regimes.challenger, regimes.gains, regimes.gathering = None, np.zeros(3), False
    _clear(regimes)
    # Nothing had surprised before, so that the next surprise is none the less one.
    if regimes.patient and not regimes.changed:
        regimes.brief, regimes.patient = regimes.brief.failed(regimes.age), False
        return
    if not regimes.changed and not regimes.look:
        regimes.failures += 1
        pause = min(PAUSE * 2.0**regimes.failures, LONGEST_PAUSE)
        regimes.next_alarm = regimes.age + int(pause)
    regimes.look, regimes.patient = 0, False
    regimes.surprise.calm()


def _drop_rest(regimes: Regimes) -> None:
    """End an alarm that an early challenger has met."""
    regimes.challenger, regimes.gains = None, np.zeros(3)
    _gather(regimes)
    regimes.gathering = False
    _clear(regimes)


def _clear(regimes: Regimes) -> None:
    regimes.buffer, regimes.losses, regimes.before = (), np.zeros(0), None


def _build(regimes: Regimes, begin: Begin, full: int) -> None:
    """Make a challenger when the slices are enough for one."""
    count, wanted = len(regimes.buffer), regimes.look or full
    if regimes.patient:
        # From a warm start's slices, and from all of them as soon as that one has taken over.
        if not regimes.changed and (count < full or regimes.challenger is not None):
            return
    elif count < wanted and (regimes.look or count != EARLY):
        return
    elif regimes.challenger is not None and not regimes.changed:
        mean, error = mean_told(regimes.gains)
        if mean <= error:
            return  # a rough one that promises nothing needs no better start: its trial goes on
    # What still holds is kept from the model that has not been misled by the new slices.
    past = None if regimes.mending else regimes.before or regimes.rested
    # A model that misses a pattern has bent the others to make up for it: their past misleads.
    regimes.challenger = begin(
        regimes.buffer, past or regimes.current, _effort(regimes), keep=not regimes.mending
    )
    regimes.gains = np.zeros(3)
    if regimes.changed if regimes.patient else count >= wanted:
        regimes.gathering = False
        regimes.buffer, regimes.losses = (), np.zeros(0)


def _effort(regimes: Regimes) -> Effort:
    """The first challenger is a rough one: most alarms on real streams are false, and cost that."""
    if regimes.challenger is not None or regimes.changed or regimes.look:
        return Effort.ALL_STARTS
    return Effort.BRIEF if regimes.patient else Effort.ONE_START


def _come_back(
    regimes: Regimes,
    old: AutoState,
    done: Step,
    step: Callable[[AutoState, Slice], tuple[AutoState, Step]],
) -> Step:
    """Let the model that rests take over again, and learn what it has missed."""
    new = regimes.rested
    assert new is not None
    _rest(regimes)
    _watch_anew(regimes)
    last = done
    for one in regimes.buffer:
        new, last = step(new, one)
    regimes.current = new
    _clear(regimes)
    return _account(done, last, old, new)


def _rested_knows(regimes: Regimes, loss: Loss, seed: int, usual: float) -> bool:
    """Whether the model that was replaced explains the surprising slices clearly better."""
    if regimes.rested is None:
        return False
    gain, surprising = -CLEAR * usual * math.sqrt(len(regimes.buffer)), 0.0
    for before, x in zip(regimes.losses, regimes.buffer, strict=True):
        gain += before - auto.solve(regimes.rested, x, loss, seed=seed).objective
        surprising += before - regimes.surprise.usual_loss * x.n_observed
    return bool(gain > max(0.0, MOSTLY * surprising))


def _account(done: Step, after: Step, old: AutoState, new: AutoState) -> Step:
    """The step of a model that was replaced in it: its prediction, its successor's weights."""
    if new.ranks is not None:
        order = tuple(places(old.factors.views(), new.factors.views()))
        kept = len(order) - order.count(-1)
        return replace(
            after,
            prequential=done.prequential,
            births=len(order) - kept,
            deaths=old.factors.rank - kept,
            merges=0,
            order=order,
        )
    count = n_replaced(old.factors.views(), new.factors.views())
    return replace(after, prequential=done.prequential, births=count, deaths=count, merges=0)
