"""OnlineGCP's default solver: the steps of `solvers.auto` behind the protocol's hooks."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from onlinegcp.kernels.layout import padded_width
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import held_out
from onlinegcp.solvers.auto import solver as auto
from onlinegcp.solvers.auto.components import transplant
from onlinegcp.solvers.auto.fisher_rows import CURVATURE_BUDGET
from onlinegcp.solvers.auto.held_out import Halves
from onlinegcp.solvers.auto.model import Model
from onlinegcp.solvers.auto.rank_state import RankTrials
from onlinegcp.solvers.auto.state import AutoState, Trials
from onlinegcp.solvers.objective import is_affordable
from onlinegcp.streaming import regimes
from onlinegcp.streaming.matching import SAME, match, places
from onlinegcp.streaming.rank_growth import graft, larger, smaller
from onlinegcp.streaming.record import StepRecord
from onlinegcp.streaming.regimes import Regimes
from onlinegcp.streaming.scoring import Stopwatch
from onlinegcp.streaming.state import FloatArray, ModelState
from onlinegcp.streaming.warm_start import WarmStart, static_start

# A given model without its slices is turned into dense pseudo-slices up to this many cells.
PSEUDO_CELLS = 20_000_000


def begin(
    start: WarmStart,
    loss: Loss,
    forget: float | Literal["auto"],
    lower: float | None,
    seed: int,
    most: int | None = None,
) -> ModelState:
    """The state after the warm start; the rank may change up to `most`, where that is given."""
    rows = start.rows if start.n_rows else start.mean[None, :]
    slices = start.slices or _pseudo_slices(start.factors, rows, loss)
    live = auto.start(
        start.factors, rows, slices, loss, forget=forget, most=most, lower=lower, seed=seed
    )
    # Columns have the solver's size now, and so must the weights.
    return _wrap(Regimes(live), live.model.last_weights[: live.factors.rank])


def learn(
    state: ModelState,
    x: Slice,
    loss: Loss,
    number: int,
    seed: int,
    *,
    forget: float | Literal["auto"],
    lower: float | None,
    init_slices: int,
    init_starts: int,
    n_jobs: int,
    most: int | None = None,
) -> tuple[ModelState, StepRecord]:
    """The state after one slice, and the account of it."""
    watch = Stopwatch()
    live = _live(state)

    def challenger(slices: tuple[Slice, ...], old: AutoState) -> AutoState:
        starts = init_starts if len(slices) >= init_slices else 1
        return _challenger(
            slices, old, loss, lower=lower, starts=starts, n_jobs=n_jobs, seed=seed + number
        )

    bound = loss.lower if lower is None else lower

    def resize(
        slices: tuple[Slice, ...], old: AutoState, count: int, anew: bool
    ) -> tuple[Model, list[int]] | None:
        if count < 0:
            return smaller(slices, old, -count, loss, seed=seed)
        return larger(slices, old, count, loss, anew=anew, lower=bound, seed=seed + number)

    # Whoever fixes the forgetting wants that much of the past, changed or not.
    live, step, regime = regimes.learn(
        live,
        x,
        loss,
        challenger if forget == "auto" else None,
        full=init_slices,
        n_jobs=n_jobs,
        seed=seed,
        resize=None if most is None else resize,
    )
    watch.lap("solver")
    record = StepRecord(
        number=number,
        time=x.time,
        nnz=x.nnz,
        n_observed=x.n_observed,
        norm_squared=x.norm_squared,
        prequential=step.prequential,
        local=step.local,
        exact=is_affordable(x, loss),
        newton_steps=step.newton_steps,
        forget=float(np.mean(step.forget)),
        births=step.births,
        deaths=step.deaths,
        merges=step.merges,
        rank=live.current.factors.rank,
        order=step.order,
        regime=regime,
        regime_since=number - (live.age - live.surprised_at) if regime else None,
        seconds=watch.seconds,
    )
    return _wrap(live, step.weights), record


def _challenger(
    slices: tuple[Slice, ...],
    old: AutoState,
    loss: Loss,
    *,
    lower: float | None,
    starts: int,
    n_jobs: int,
    seed: int,
) -> AutoState:
    """A model of these slices; patterns it shares with the old one keep their places and past."""
    bound = loss.lower if lower is None else lower
    rank = old.factors.rank
    if old.ranks is not None:
        # Room for one that came besides those that changed.
        rank = min(rank + 1, max(rank, old.ranks.most))
        start = static_start(slices, rank, loss, lower=bound, starts=starts, seed=seed)
        known = [place for place in places(old.factors.views(), start.factors) if place >= 0]
        if known:
            model, _ = graft(old, start, slices, loss, seed)
            return AutoState(model, Trials(), False, RankTrials(old.ranks.most))
        return auto.start(
            start.factors, start.rows, slices, loss, most=old.ranks.most, lower=lower, seed=seed
        )
    start = static_start(slices, rank, loss, lower=bound, starts=starts, seed=seed)
    order, alike = match(old.factors.views(), start.factors)
    factors, rows = [a[:, order] for a in start.factors], start.rows[:, order]
    fresh = np.flatnonzero(alike < SAME)
    if not 0 < len(fresh) < rank:
        return auto.start(factors, rows, slices, loss, lower=lower, seed=seed)
    state = transplant(old, fresh.tolist(), factors, rows.mean(axis=0))
    for x in slices:
        state, _ = auto.step(state, x, loss, n_jobs=n_jobs, seed=seed)
    return state


def weigh(
    state: ModelState, x: Slice, loss: Loss, seed: int, tolerance: float | None
) -> FloatArray:
    """Weights of a slice under the present factors; changes nothing."""
    live = _live(state).current
    if tolerance is None:
        return np.asarray(auto.solve_weights(live, x, loss, seed=seed))
    solution = auto.solve(live, x, loss, tolerance=tolerance, seed=seed)
    return np.array(solution.weights[: live.factors.rank])


def predict_halves(state: ModelState, x: Slice, loss: Loss, seed: int, number: int) -> Halves:
    """Either half of the cells of a slice from the other; changes nothing."""
    model = _live(state).current.model
    return held_out.predict_halves(model, x, loss, seed=seed, number=number)


def largest_model(shape: tuple[int, ...], rank: int) -> int:
    """Bytes that a model of this rank may take, whatever its past."""
    rows, width = sum(shape), padded_width(rank)
    depth = width if rows * width * width <= CURVATURE_BUDGET else 1
    return 8 * (rows * width * (depth + 4) + width * (width + 16)) + 1024


def unpack(state: ModelState, flat: dict[str, Any]) -> ModelState:
    """A state that goes on from what `pack` gave."""
    return _wrap(Regimes.from_dict(flat, state.slices), state.weights)


def _live(state: ModelState) -> Regimes:
    live = state.live
    assert isinstance(live, Regimes)
    return live


def _wrap(live: Regimes, weights: FloatArray) -> ModelState:
    model = live.current.model
    return ModelState(
        model.factors.views(),
        np.array(weights, dtype=np.float64),
        np.array(model.mean_weights[: model.factors.rank]),
        slices=live.slices,
        live=live,
    )


def _pseudo_slices(factors: tuple[FloatArray, ...], rows: FloatArray, loss: Loss) -> list[Slice]:
    """What the model itself expects, standing in for the slices it was fitted to."""
    shape = tuple(len(a) for a in factors)
    cells = int(np.prod(shape, dtype=object))
    if cells * len(rows) > PSEUDO_CELLS:
        # Only the exposure of the rows is taken from these, which does not depend on the data.
        nothing = np.empty((0, len(shape)), dtype=np.int64)
        return [Slice(nothing, np.empty(0), shape) for _ in rows]
    return [Slice.dense(loss.mean(KTensor(row, factors).full())) for row in rows]
