"""SamBaTen: small CP models of sampled rows, matched with the running model and merged into it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import final

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from onlinegcp.checks import check_number, check_whole
from onlinegcp.ktensor import KTensor
from onlinegcp.slices import Slice, stack, widen
from onlinegcp.solvers.least_squares import solve_weights
from onlinegcp.static.cp_als import cp_als
from onlinegcp.streaming.columns import lengths, unit_columns
from onlinegcp.streaming.scoring import Account
from onlinegcp.streaming.state import FloatArray, ModelState
from onlinegcp.streaming.tracker import Tracker
from onlinegcp.streaming.warm_start import WarmStart


@final
@dataclass(eq=False, repr=False)
class SamBaTen(Tracker):
    """Sampling-based batch updates for factors that hardly change (Gujral et al. 2018).

    A batch is learned from samples: rows of every mode drawn by their energy, in the batch's slices
    and in a sample of the past. Each sample's CP model is matched with the running one on the rows
    they share; its time rows, rescaled and averaged over the samples, are the batch's weights.

    Parameters
    ----------
    rank
        Number of components.
    batch
        Slices learned together.
    sampling
        One in how many rows of every mode is drawn; 1 takes all.
    repetitions
        Samples per batch.
    summary
        Past slices kept to sample from, drawn by their energy.
    adapt
        Share by which the sampled rows of the factors move towards each sample's. 0, as published,
        fills in only what is zero so far: factors of a stationary stream need no more.
    forget
        Factor per slice on the energies of the past, for rows and for the slices kept.
    max_passes, tolerance
        Of CP-ALS on a sample.
    init, init_slices, init_starts, ndim, mode_names
        As for every `StreamingModel`.
    random_state
        Seed of everything.

    Notes
    -----
    Cost per batch: `repetitions` CP-ALS solves of a tensor 1 / `sampling` as long in every mode but
    time. Memory: `summary` slices.

    What is interpretation: the paper samples from all data so far; here from at most `summary`
    slices, kept as a weighted reservoir, so that memory is bounded. The CP model of a sample starts
    from the sampled rows of the running model, not at random: from there it is found again where it
    is unique, and random starts too often end in other places. Components are still matched, by the
    product of their cosines over all modes but time. `adapt` and `forget` are additions.

    References
    ----------
    E. Gujral, R. Pasricha, E. Papalexakis, SamBaTen: sampling-based batch incremental tensor
    decomposition, SDM 2018.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.random((12, 2)), rng.random((10, 2))
    >>> model = SamBaTen(2, batch=4, init_slices=6)
    >>> for _ in range(14):
    ...     _ = model.partial_fit(Slice.dense(a * rng.random(2) @ b.T))
    >>> model.n_slices_, model.last_.local < 1e-3 * model.last_.norm_squared
    (14, True)
    """

    takes_missing = False
    gathers = "batch"
    bounded_by = "summary"

    _: KW_ONLY
    batch: int = 10
    sampling: float = 2.0
    repetitions: int = 4
    summary: int = 20
    adapt: float = 0.0
    forget: float = 1.0
    max_passes: int = 100
    tolerance: float = 1e-5

    def _check_parameters(self) -> None:
        check_number("sampling", self.sampling, "[1, inf)", "Use 1 to take all rows.")
        check_number("adapt", self.adapt, "[0, 1]")
        check_number("forget", self.forget, "(0, 1]", "Use 1 to never forget.")
        check_number("tolerance", self.tolerance, "[0, inf)")
        for name in ("repetitions", "summary", "max_passes"):
            check_whole(name, getattr(self, name), 1)

    def _may_grow(self) -> bool:
        return True

    def _largest_state(self, shape: tuple[int, ...]) -> int | None:
        rows = (self.rank + 1) * sum(shape) + 2 * self.rank
        return 8 * (rows + int(self.summary) * (math.prod(shape) + 1))

    def _begin(self, start: WarmStart, seed: int) -> ModelState:
        start = start.normalised()
        arrays = {f"energy{k}": np.zeros(len(a)) for k, a in enumerate(start.factors)}
        arrays["places"] = np.empty(0)
        state = ModelState(start.factors, start.newest, start.mean, arrays)
        return self._remember(state, start.slices, start.n_rows, seed)

    def _move(
        self, state: ModelState, batch: Sequence[Slice], before: FloatArray, account: Account
    ) -> ModelState:
        seed, number = self._seed, account.number
        new = self._remember(state, batch, number, seed)
        factors, found = [a.copy() for a in state.factors], []
        for repetition in range(self.repetitions):
            rng = np.random.default_rng([seed, number, repetition])
            found.append(self._sample(factors, state.slices, batch, new.arrays, rng))
        usable = [rows for rows in found if rows is not None]
        rows = np.mean(usable, axis=0) if usable else np.zeros((len(batch), self.rank))
        factors, norms = unit_columns(factors)
        for norm in norms:
            rows = rows * norm
        return state.moved(factors, rows, new.arrays, slices=new.slices)

    def _grown(self, state: ModelState, shape: tuple[int, ...]) -> ModelState:
        if state.shape == shape:
            return state
        longer = {f"energy{k}": n for k, n in enumerate(shape)}
        arrays = {name: _extended(a, longer.get(name, len(a))) for name, a in state.arrays.items()}
        slices = tuple(widen(x, shape) for x in state.slices)  # dense ones miss the new rows
        return replace(super()._grown(state, shape), arrays=arrays, slices=slices)

    def _sample(
        self,
        factors: list[FloatArray],
        past: Sequence[Slice],
        batch: Sequence[Slice],
        energies: dict[str, NDArray[np.float64]],
        rng: np.random.Generator,
    ) -> FloatArray | None:
        """Weights of the batch's slices by one sample; moves the factors towards it."""
        rows = [
            _drawn(energies[f"energy{k}"], math.ceil(len(a) / self.sampling), rng)
            for k, a in enumerate(factors)
        ]
        slices = [_restricted(part, rows) for part in (*past, *batch)]
        x = stack(slices)
        if not x.nnz:
            return None
        known = [a[at] for a, at in zip(factors, rows, strict=True)]
        guess = KTensor(None, [*known, np.array([solve_weights(part, known) for part in slices])])
        if self.rank > math.prod(x.shape) // max(x.shape):
            return np.array(guess.factors[-1][len(past) :])  # too small to have a CP model
        most, tolerance = self.max_passes, self.tolerance
        fit = cp_als(x, self.rank, init=guess, max_iterations=most, tolerance=tolerance)
        *parts, times = fit.ktensor.factors
        order, signs = _matched(known, parts)
        own = (times * fit.ktensor.weights)[len(past) :, order]
        for k, (a, at) in enumerate(zip(known, rows, strict=True)):
            part = parts[k][:, order] * signs[k]
            # The same norm as the running model's on the rows that both have.
            ratio = lengths(a) / lengths(part)
            part, own = part * ratio, own / ratio * signs[k]
            share = np.where(factors[k][at] == 0.0, 1.0, self.adapt)
            factors[k][at] += share * (part - factors[k][at])
        return np.asarray(own)

    def _remember(
        self, state: ModelState, slices: Sequence[Slice], number: int, seed: int
    ) -> ModelState:
        """The state with the slices' energies, and the past to sample from, brought up to date."""
        arrays, places = dict(state.arrays), list(state.arrays["places"])
        kept = list(state.slices)
        for t, x in enumerate(slices, number - len(slices) + 1):
            for k, n in enumerate(x.shape):
                energy = np.bincount(x.index[:, k], x.value**2, minlength=n)
                arrays[f"energy{k}"] = self.forget * arrays[f"energy{k}"] + energy
            # Smallest first: an exponential clock that runs faster for slices with more energy
            # and, with forgetting, for later ones.
            clock = math.log(-math.log(np.random.default_rng([seed, t]).random()))
            loud = math.log(max(x.norm_squared, float(np.finfo(float).tiny)))
            places.append(clock - loud + t * math.log(self.forget))
            kept.append(x)
        best = np.sort(np.argsort(places, kind="stable")[: self.summary])
        arrays["places"] = np.array(places)[best]
        return replace(state, arrays=arrays, slices=tuple(kept[i] for i in best))


def _drawn(energy: FloatArray, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """n different rows, drawn by their energy; those without any come last."""
    loud = np.log(np.maximum(energy, np.finfo(float).tiny))
    clocks = np.log(rng.exponential(size=len(energy))) - loud
    return np.sort(np.argsort(clocks, kind="stable")[:n])


def _restricted(x: Slice, rows: Sequence[NDArray[np.int64]]) -> Slice:
    """The slice with only some rows of every mode."""
    if x.array is not None:
        return Slice.dense(x.array[np.ix_(*rows)])
    keep, index = np.ones(x.n_listed, dtype=bool), np.empty_like(x.index)
    for k, at in enumerate(rows):
        place = np.full(x.shape[k], -1, dtype=x.index.dtype)
        place[at] = np.arange(len(at))
        index[:, k] = place[x.index[:, k]]
        keep &= index[:, k] >= 0
    shape = tuple(len(at) for at in rows)
    return Slice(index[keep], x.value[keep], shape, unlisted=x.unlisted)


def _matched(
    known: Sequence[FloatArray], parts: Sequence[FloatArray]
) -> tuple[NDArray[np.int64], list[FloatArray]]:
    """Which of the sample's components is which of the known ones, and the sign of each column."""
    cosines = [(a / lengths(a)).T @ (b / lengths(b)) for a, b in zip(known, parts, strict=True)]
    _, order = scipy.optimize.linear_sum_assignment(np.abs(np.prod(cosines, axis=0)), maximize=True)
    at = np.arange(len(order))
    signs = [np.where(c[at, order] < 0.0, -1.0, 1.0) for c in cosines]
    return order, signs


def _extended(energy: FloatArray, n: int) -> FloatArray:
    return np.append(energy, np.zeros(n - len(energy)))
