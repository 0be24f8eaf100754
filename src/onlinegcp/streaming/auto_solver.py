"""OnlineGCP's default solver: the steps of `solvers.auto` behind the protocol's hooks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

import numpy as np

from onlinegcp.kernels.layout import padded_width
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import solver as auto
from onlinegcp.solvers.auto.checkerboard import checkerboard
from onlinegcp.solvers.auto.components import transplant
from onlinegcp.solvers.auto.fisher_rows import CURVATURE_BUDGET
from onlinegcp.solvers.auto.held_out import Parts
from onlinegcp.solvers.auto.model import AutoState, Model, Trials
from onlinegcp.solvers.auto.rank_state import RankTrials
from onlinegcp.solvers.objective import is_affordable
from onlinegcp.streaming import regimes
from onlinegcp.streaming.competitors import Regimes
from onlinegcp.streaming.matching import SAME, match, places
from onlinegcp.streaming.rank_growth import graft, larger, smaller, studied
from onlinegcp.streaming.record import StepRecord
from onlinegcp.streaming.regimes import Effort, Resized
from onlinegcp.streaming.scaling import in_data_units, in_units, units
from onlinegcp.streaming.scoring import Stopwatch
from onlinegcp.streaming.state import FloatArray, ModelState, Views
from onlinegcp.streaming.warm_start import ROUGH, SHORT, WarmStart, static_start

Scale: TypeAlias = tuple[int, FloatArray]  # a mode, and the unit of each of its rows

# A given model without its slices is turned into dense pseudo-slices up to this many cells.
PSEUDO_CELLS = 20_000_000


def begin(
    start: WarmStart,
    loss: Loss,
    forget: float | Literal["auto"],
    lower: float | None,
    seed: int,
    scale: Scale | None = None,
    most: int | None = None,
    *,
    full: int,
) -> ModelState:
    """The state after the warm start, whose slices are in the units of `scale`.

    The rank may change up to `most`, where that is given; `full` slices make a warm start.
    """
    rows = start.rows if start.n_rows else start.mean[None, :]
    slices = start.slices or _pseudo_slices(start.factors, rows, loss)
    live = auto.start(
        start.factors, rows, slices, loss, forget=forget, most=most, lower=lower, seed=seed
    )
    # Columns have the solver's size now, and so must the weights.
    weights = live.model.last_weights[: live.factors.rank]
    # A model that was given without its past has nothing to show for itself: let it prove itself.
    look = start.look if start.n_rows else full
    if forget != "auto":
        look = 0
    return _wrap(Regimes.begun(live, look, start.slices), weights, scale)


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
    card: auto.Card | None = None,
    most: int | None = None,
) -> tuple[ModelState, StepRecord]:
    """The state after one slice, and the account of it."""
    watch = Stopwatch()
    live, scale = _live(state), _scale_of(state, x)
    told, x = x, x if scale is None else in_units(x, *scale)

    def challenger(
        slices: tuple[Slice, ...], old: AutoState, effort: Effort, *, keep: bool
    ) -> AutoState:
        return _challenger(
            slices,
            old,
            loss,
            keep=keep,
            lower=lower,
            starts=init_starts if effort is Effort.ALL_STARTS else 1,
            passes=SHORT if effort is Effort.BRIEF else ROUGH,
            seed=seed + number,
            card=card,
        )

    bound = loss.lower if lower is None else lower
    # Whoever fixes the forgetting wants that much of the past, changed or not.
    live, step, regime = regimes.learn(
        live,
        x,
        loss,
        challenger if forget == "auto" else None,
        full=init_slices,
        seed=seed,
        card=card,
        resize=None if most is None else _Resizing(loss, bound, seed, number),
    )
    ranks = live.current.ranks
    if ranks is not None and most is not None:
        ranks.most = max(ranks.most, most)  # longer slices carry more
    watch.lap("solver")
    record = StepRecord(
        number=number,
        time=x.time,
        nnz=told.nnz,
        n_observed=told.n_observed,
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
    return _wrap(live, step.weights, scale), record


@dataclass(frozen=True)
class _Resizing:
    """Models with more or fewer components, for `Regimes`."""

    loss: Loss
    lower: float
    seed: int
    number: int

    def studied(
        self, slices: Sequence[Slice], old: AutoState
    ) -> tuple[Model, list[int], int] | None:
        return studied(slices, old, self.loss, lower=self.lower, seed=self.seed + self.number)

    def larger(
        self, slices: Sequence[Slice], old: AutoState, count: int, *, anew: bool
    ) -> Resized | None:
        seed = self.seed + self.number
        return larger(slices, old, count, self.loss, anew=anew, lower=self.lower, seed=seed)

    def smaller(self, slices: Sequence[Slice], old: AutoState, count: int) -> Resized | None:
        return smaller(slices, old, count, self.loss, seed=self.seed)


def _challenger(
    slices: tuple[Slice, ...],
    old: AutoState,
    loss: Loss,
    *,
    keep: bool,
    lower: float | None,
    starts: int,
    passes: dict[str, int],
    seed: int,
    card: auto.Card | None,
) -> AutoState:
    """A model of these slices; patterns it shares with the old one keep their places and past.

    Only the places, if `keep` is not said.
    """
    bound = loss.lower if lower is None else lower
    rank = old.factors.rank
    if old.ranks is not None:
        # Room for one that came besides those that changed.
        rank = min(rank + 1, max(rank, old.ranks.most))
        start = static_start(
            slices, rank, loss, lower=bound, starts=starts, seed=seed, passes=passes
        )
        known = [place for place in places(old.factors.views(), start.factors) if place >= 0]
        if keep and known:
            model, _ = graft(old, start, slices, loss, seed)
            return AutoState(model, Trials(), False, RankTrials(old.ranks.most))
        return auto.start(
            start.factors, start.rows, slices, loss, most=old.ranks.most, lower=lower, seed=seed
        )
    start = static_start(slices, rank, loss, lower=bound, starts=starts, seed=seed, passes=passes)
    order, alike = match(old.factors.views(), start.factors)
    factors, rows = [a[:, order] for a in start.factors], start.rows[:, order]
    fresh = np.flatnonzero(alike < SAME)
    if not (keep and 0 < len(fresh) < rank):
        return auto.start(factors, rows, slices, loss, lower=lower, seed=seed)
    state = transplant(old, fresh.tolist(), factors, rows.mean(axis=0))
    for x in slices:
        state, _ = auto.step(state, x, loss, seed=seed, card=card)
    return state


def weigh(
    state: ModelState, x: Slice, loss: Loss, seed: int, tolerance: float | None
) -> FloatArray:
    """Weights of a slice under the present factors; changes nothing."""
    live, scale = _live(state).current, _scale_of(state, x)
    if scale is not None:
        x = in_units(x, *scale)
    if tolerance is None:
        return np.asarray(auto.solve_weights(live, x, loss, seed=seed))
    solution = auto.solve(live, x, loss, tolerance=tolerance, seed=seed)
    return np.array(solution.weights[: live.factors.rank])


def as_recorded(state: ModelState, x: Slice) -> tuple[Slice, Sequence[FloatArray]]:
    """A slice and the factors in the units of the rows."""
    scale = _scale_of(state, x)
    if scale is None:
        return x, state.factors
    mode, sizes = scale
    rows = len(state.factors[mode])  # a slice from before the newest labels has fewer
    factors = in_data_units(state.factors, mode, 1.0 / sizes[:rows])
    return in_units(x, mode, sizes[: x.shape[mode]]), factors


def predict_halves(state: ModelState, x: Slice, loss: Loss, seed: int, number: int) -> Parts:
    """Either half of the cells of a slice from the other; changes nothing."""
    model, scale = _live(state).current.model, _scale_of(state, x)
    if scale is not None:
        x = in_units(x, *scale)
    board = checkerboard(x.shape, seed, number)
    return model.past.predict_parts(model, x, loss, board, seed)


def largest_model(shape: tuple[int, ...], rank: int) -> int:
    """Bytes that a model of this rank may take, whatever its past."""
    rows, width = sum(shape), padded_width(rank)
    depth = width if rows * width * width <= CURVATURE_BUDGET else 1
    return 8 * (rows * width * (depth + 4) + width * (width + 16)) + 1024


def unpack(state: ModelState, flat: dict[str, Any]) -> ModelState:
    """A state that goes on from what `pack` gave."""
    live = Regimes.from_dict(flat, state.slices)
    scale = None
    if "scale" in state.arrays:
        scale = int(state.scalars["scaled_mode"]), state.arrays["scale"]
    return _wrap(live, state.weights, scale)


def _live(state: ModelState) -> Regimes:
    live = state.live
    assert isinstance(live, Regimes)
    return live


def _scale_of(state: ModelState, x: Slice) -> Scale | None:
    """The scaled mode and the units of its rows, new ones of the slice included."""
    if "scale" not in state.arrays:
        return None
    mode, sizes = int(state.scalars["scaled_mode"]), state.arrays["scale"]
    if x.shape[mode] > len(sizes):
        sizes = units([x], mode, sizes)
    return mode, sizes


def _wrap(live: Regimes, weights: FloatArray, scale: Scale | None = None) -> ModelState:
    model = live.current.model
    factors, arrays = cast(tuple[FloatArray, ...], Views(model.factors)), {}
    scalars: dict[str, float | int] = {}
    if scale is not None:
        factors = in_data_units(model.factors.views(), *scale)
        arrays, scalars = {"scale": scale[1]}, {"scaled_mode": scale[0]}
    return ModelState(
        factors,
        np.array(weights, dtype=np.float64),
        np.array(model.mean_weights[: model.factors.rank]),
        arrays,
        scalars,
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
