"""Where a streaming model starts: a static model of the first slices, or one the caller gives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onlinegcp.errors import DataError
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice, stack
from onlinegcp.solvers.auto.whole import sweep_odds
from onlinegcp.static.algebraic import algebraic_start
from onlinegcp.static.cp_als import cp_als
from onlinegcp.static.cp_apr import cp_apr
from onlinegcp.static.gcp import gcp
from onlinegcp.static.result import StaticFit
from onlinegcp.static.starts import random_start, start_generator
from onlinegcp.streaming.columns import unit_columns

FloatArray: TypeAlias = NDArray[np.float64]

# Passes of every start, and of the best one after that. Streaming soon corrects what the static
# fit leaves open: solving every start to the end costs ten times as much and predicts no better.
SHORT = {"als": 20, "apr": 10, "lbfgsb": 20, "epochs": 10}
ROUGH = {"als": 40, "apr": 30, "lbfgsb": 50, "epochs": 25}
LONG = {"als": 200, "apr": 100, "lbfgsb": 150, "epochs": 100}
# Passes of every rank of a study, which starts from the rank below.
STUDY = {"als": 20, "apr": 10, "lbfgsb": 20, "epochs": 10}
# Passes of every start whose rates are a guess of odds: five are too few to tell which is best.
GUESSED = 15
ODDS_SWEEPS = 30
# Cells up to which data are written out to find a start for losses that are not least squares.
LINEAR_CELLS = 5_000_000
# Nonzeros times R^2 up to which rows of counts get Newton steps; above, multiplicative ones.
NEWTON_WORK = 3e7


@dataclass(frozen=True)
class WarmStart:
    """A model of the first slices: unit 2-norm columns where we made it, or the caller's own.

    Attributes
    ----------
    factors
        One matrix (I_k, R) per mode.
    rows
        Weights of the slices the start was made from (n, R); may be empty.
    mean
        Where to look for the next slice's weights (R,).
    slices
        Those slices; empty when the caller gave the start.
    look
        In how many slices the patterns should be looked for again, these included; 0 in none.
    begun
        Patterns that the static fit began from, where these were not drawn at random.
    """

    factors: tuple[FloatArray, ...]
    rows: FloatArray
    mean: FloatArray
    slices: tuple[Slice, ...] = ()
    look: int = 0
    begun: tuple[FloatArray, ...] = ()

    @classmethod
    def of(cls, model: KTensor, slices: Sequence[Slice] = ()) -> WarmStart:
        """The start that a model with a last mode of time is."""
        *factors, rows = model.factors
        rows = rows * model.weights
        return cls(tuple(factors), rows, rows.mean(axis=0), tuple(slices))

    @property
    def n_rows(self) -> int:
        """Slices the start stands for."""
        return len(self.rows)

    @property
    def newest(self) -> FloatArray:
        """Weights of the newest slice, or what to expect of one where there is none."""
        return self.rows[-1] if len(self.rows) else self.mean

    def past(self, forget: float) -> FloatArray:
        """Sum of forget^(n - h) s_h s_h' over the rows: what the slices leave behind (R, R)."""
        held = np.zeros((self.rows.shape[1],) * 2)
        for row in self.rows:
            held = forget * held + np.outer(row, row)
        return held

    def normalised(self) -> WarmStart:
        """The same with unit 2-norm columns, all scale in the rows (errata row 20)."""
        (factors, norms), rows, mean = unit_columns(self.factors), self.rows, self.mean
        for norm in norms:
            rows, mean = rows * norm, mean * norm
        mean = rows.mean(axis=0) if len(rows) else mean
        return replace(self, factors=tuple(factors), rows=rows, mean=mean)


def static_start(
    slices: Sequence[Slice],
    rank: int,
    loss: Loss,
    *,
    lower: float,
    starts: int,
    seed: int,
    passes: dict[str, int] = LONG,
) -> WarmStart:
    """Solve the first slices by the static method that matches the loss, best of several starts.

    Gaussian without bound: CP-ALS. Poisson: CP-APR. Everything else: GCP. All starts run a few
    passes, the best goes on. Components that so little data cannot determine start with random
    columns and no weight. One of fewer passes ends early: a model on trial learns on anyway.
    """
    x = stack(slices)
    # Squares of values below 1e-162 are zero: nothing that a static fit could see.
    determined = 0 if x.norm_squared == 0.0 else min(rank, most_components(x))
    parts, begun = [], None
    if determined:
        begun = begin(x, determined, loss, lower=lower, starts=starts, seed=seed)
        how: dict[str, Any] = {"seed": seed} if begun is None else {"init": begun}
        if begun is not None and passes is SHORT:
            parts.append(begun)  # it had as many passes already
        else:
            parts.append(_static(x, determined, loss, lower, passes, **how).ktensor)
    if determined < rank:
        # Different columns: equal components have equal gradients and would stay equal for ever.
        left = rank - determined
        random = random_start(x.shape, left, start_generator(seed, starts), nonnegative=True)
        parts.append(KTensor(np.zeros(left), random))
    weights = np.concatenate([part.weights for part in parts])
    factors = [np.hstack(blocks) for blocks in zip(*(p.factors for p in parts), strict=True)]
    *factors, rows = factors
    rows = rows * weights
    patterns = () if begun is None else begun.factors[:-1]
    start = WarmStart(tuple(factors), rows, rows.mean(axis=0), tuple(slices), begun=patterns)
    return start.normalised()


def begin(
    x: Slice, rank: int, loss: Loss, *, lower: float, starts: int, seed: int
) -> KTensor | None:
    """Where the fit of stacked slices begins: the best of several starts after a few passes.

    None where there is but one, and that a random one.

    Parameters
    ----------
    x
        Stacked slices.
    rank, loss, lower, starts, seed
        As for `static_start`; the rank is one that so much data can determine.
    """
    guesses, random = _guesses(x, rank, loss, lower, starts, seed)
    if len(guesses) + random == 1:
        return guesses[0] if guesses else None
    begins: list[dict[str, Any]] = [{"init": guess} for guess in guesses]
    if random:
        begins.append({"n_starts": random, "seed": seed})
    fits = [_static(x, rank, loss, lower, SHORT, **how) for how in begins]
    return min(fits, key=lambda fit: fit.objective).ktensor


def _guesses(
    x: Slice, rank: int, loss: Loss, lower: float, starts: int, seed: int
) -> tuple[list[KTensor], int]:
    """Models that seldom miss a pattern, where the loss has such, and how many random ones to try.

    An informed start takes the place of two random ones.
    """
    form = loss.traits.odds_form
    guesses = []
    if form is not None and not form.linear:
        # Where cells are seldom certain, odds are rates, and counts have a cheaper method. Random
        # starts of L-BFGS-B beside it won nothing at any share of ones, and cost a fifth more.
        rates = _counts(x, rank, GUESSED, n_starts=starts + 1, seed=seed, max_inner=2).ktensor
        return [KTensor(rates.weights / form.base, rates.factors)], 0
    if lower == -np.inf and loss.traits.quadratic:
        guesses = _algebraic(x, rank, starts, seed)
    elif lower == -np.inf:
        data = _linearised(x, loss)
        if data is not None:
            fits = [
                cp_als(data, rank, max_iterations=SHORT["als"], tolerance=1e-6, init=guess)
                for guess in _algebraic(data, rank, starts, seed)
            ]
            guesses = [fit.ktensor for fit in sorted(fits, key=lambda fit: fit.objective)[:1]]
    return guesses, max(1, starts - 2 * len(guesses))


def _algebraic(x: Slice, rank: int, starts: int, seed: int) -> list[KTensor]:
    """Algebraic starts of complete data, for half of the starts."""
    found = []
    for number in range((starts + 1) // 2 if x.n_observed == x.size else 0):
        begin = algebraic_start(x, rank, start_generator(seed, number))
        if begin is not None and all(np.isfinite(a).all() for a in begin):
            found.append(KTensor(np.ones(rank), begin))
    return found


def _linearised(x: Slice, loss: Loss) -> Slice | None:
    """The data that least squares would have to explain: one Fisher step from the zero model."""
    if x.size > LINEAR_CELLS:
        return None
    data = np.nan_to_num(x.to_dense())
    nothing = np.zeros_like(data)
    with np.errstate(all="ignore"):
        steps = -loss.deriv(data, nothing) / loss.fisher(data, nothing)
    if x.n_observed < x.size:
        steps[np.isnan(x.to_dense())] = 0.0
    if not np.isfinite(steps).all():
        return None
    found = Slice.dense(steps)
    return found if found.norm_squared > 0.0 else None


def _static(
    x: Slice, rank: int, loss: Loss, lower: float, passes: dict[str, int], **start: Any
) -> StaticFit:
    if loss.traits.quadratic and lower == -np.inf:
        return cp_als(x, rank, max_iterations=passes["als"], tolerance=1e-6, **start)
    if loss.traits.poisson:
        return _counts(x, rank, passes["apr"], **start)
    most: dict[str, Any] = {"max_iterations": passes["lbfgsb"], "epochs": passes["epochs"]}
    return gcp(x, rank, loss, lower=lower, **most, **start)


def most_components(x: Slice) -> int:
    """How many components a tensor can determine: so many fit it exactly."""
    return math.prod(x.shape) // max(x.shape)


def short_fit(
    x: Slice, rank: int, loss: Loss, lower: float, *, init: KTensor | None = None, seed: int = 0
) -> KTensor:
    """A few passes of the method that matches the loss, for a study of ranks.

    Parameters
    ----------
    x
        Stacked slices.
    rank, loss, lower
        As for `static_start`.
    init
        Where to start; by default at an algebraic start where the loss has one, else at random.
    seed
        Seed of the start.
    """
    form = loss.traits.odds_form
    if form is not None and not form.linear:
        begin = random_model(x, rank, seed) if init is None else init
        return sweep_odds(x, begin, form, ODDS_SWEEPS)
    start: dict[str, Any] = {"seed": seed} if init is None else {"init": init}
    return _static(x, rank, loss, lower, STUDY, **start).ktensor


def algebraic_model(x: Slice, rank: int, loss: Loss, lower: float, seed: int) -> KTensor | None:
    """A model from eigenvectors, for least squares on complete data; None where there is none."""
    if not loss.traits.quadratic or lower > -np.inf:
        return None
    return next(iter(_algebraic(x, rank, 1, seed)), None)


def random_model(x: Slice, rank: int, seed: int) -> KTensor:
    """Nonnegative random columns that share the total of the data evenly."""
    columns = random_start(x.shape, rank, start_generator(seed, 0), nonnegative=True)
    return KTensor(np.full(rank, x.total / rank), [a / a.sum(axis=0) for a in columns])


def _counts(x: Slice, rank: int, passes: int, **how: Any) -> StaticFit:
    if x.nnz * rank**2 > NEWTON_WORK:
        how |= {"method": "mu", "max_inner": 2}
    return cp_apr(x, rank, max_iterations=passes, **how)


def given_start(
    init: KTensor,
    shape: tuple[int, ...],
    rank: int | None,
    lower: float,
    slices: Sequence[Slice] = (),
) -> WarmStart:
    """Use the caller's model exactly as it is.

    Parameters
    ----------
    init
        A model with d modes, or d + 1 with the rows of past slices in the last.
    shape
        Shape of the slices.
    rank
        What its rank must be; None for any.
    lower
        Bound on factors and weights.
    slices
        The past slices, one per row, where they are still there.
    """
    if not isinstance(init, KTensor):
        raise DataError(
            f"init must be a KTensor or None, but got {type(init).__name__}. Build one with "
            f"KTensor(weights, factors)."
        )
    if init.shape[: len(shape)] != shape or init.ndim not in (len(shape), len(shape) + 1):
        raise DataError(
            f"init must have shape {shape}, or {shape} and one time mode, but has {init.shape}. "
            f"Fit it to slices of this stream."
        )
    if rank is not None and init.rank != rank:
        raise DataError(
            f"init must have rank {rank}, but has rank {init.rank}. Change either of them."
        )
    smallest = min(float(a.min()) for a in (init.weights, *init.factors))
    # A bound above 0 is reached by clipping; signs have no such remedy.
    if smallest < min(lower, 0.0):
        raise DataError(
            f"init must not lie below the bound {lower} on factors and weights, but has "
            f"{smallest}. Pass a model fitted under this bound."
        )
    rows = np.empty((0, init.rank))
    if init.ndim == len(shape) + 1:
        rows = init.factors[-1] * init.weights
    if slices and len(rows) != len(slices):
        raise DataError(
            f"init must have one row of weights per slice in a last mode, {len(slices)}, but has "
            f"{len(rows)}. Pass the slices it was fitted to."
        )
    # Without past slices the caller's weights say where to look for those of the first.
    mean = rows.mean(axis=0) if len(rows) else init.weights
    return WarmStart(init.factors[: len(shape)], rows, mean, tuple(slices))
