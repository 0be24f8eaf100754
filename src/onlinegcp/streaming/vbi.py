"""VBI: robust Bayesian tracking over a window, components and outliers found by relevance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, final

import numpy as np
from scipy.special import digamma, gammaln

from onlinegcp.checks import check_choice, check_number, check_truth, check_whole
from onlinegcp.kernels.static.mttkrp import dense_mttkrp
from onlinegcp.ktensor import KTensor
from onlinegcp.slices import Slice
from onlinegcp.streaming.scoring import Account
from onlinegcp.streaming.state import FloatArray, ModelState
from onlinegcp.streaming.tracker import Tracker
from onlinegcp.streaming.warm_start import WarmStart

# Shape and rate of the Gamma priors of all precisions: next to no prior knowledge.
PRIOR = 1e-6
# Below this share of a slice's energy the components have been absorbed by the outliers.
ABSORBED = 1e-3
# What the bound counts for the variance of an outlier in a missing cell; a constant.
NO_OUTLIER = 1e-200


@final
@dataclass(eq=False, repr=False)
class VBI(Tracker):
    """Low rank plus sparse outliers plus noise by variational Bayes (Zhang and Hawkins 2018).

    x = [[s; A]] + e + noise, where e is zero but for a few outliers. Components and outliers have
    precisions of their own, which grow without limit where the data do not speak for them
    (automatic relevance): `rank` is only the most components there can be. Every slice is solved
    together with the `window` - 1 slices before it, from which the outliers found at their time
    are taken away, and which count less the older they are.

    Parameters
    ----------
    rank
        Most components.
    forget
        Weight of a slice of the window relative to the next one.
    window
        Slices solved together, the newest included.
    max_passes, tolerance
        A slice's passes end when the variational bound changes by less than this share.
    clean_first
        Look for outliers in the first slice, too, which has no past to stand out from. False takes
        it as it is.
    fill
        What missing cells hold while the factors are started: "mean" is the mean of the observed
        cells; "authors" repeats what the authors' code does, which writes that mean to other cells
        by mistake, to compare with its numbers.
    init
        Where to start; used only to weigh slices until the first one is learned, because every
        slice is solved afresh.
    init_slices, init_starts
        Slices that are gathered before the first is learned; the starts are not used.
    random_state
        Not used: nothing is drawn at random.
    ndim, mode_names
        How many modes slices have, or what these are called: with two, a bare matrix is a slice.
        Without either the first slice must say it.

    Notes
    -----
    For dense slices: memory 2 `window` slices, cost per pass that of products of R^2 columns with
    all of them where cells are missing, of R columns where none are; tens of passes per slice.

    The precisions start at 1, so scale the data to a variance near 1. On small slices with many
    outliers the sparse part can absorb the whole slice, and components shrink away; the factors
    then stay as they were. The authors start the outliers at random; here they start at sin(1),
    sin(2), and so on. The bound need not rise in every pass.

    References
    ----------
    Z. Zhang, C. Hawkins, Variational Bayesian inference for robust streaming tensor factorization
    and completion, ICDM 2018.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.normal(size=(40, 2)), rng.normal(size=(30, 2))
    >>> model = VBI(3, window=5)
    >>> for t in range(6):
    ...     x = a * rng.normal(size=2) @ b.T + 0.1 * rng.normal(size=(40, 30))
    ...     x[3 + t, 4] += 20.0
    ...     _ = model.partial_fit(Slice.dense(x))
    >>> bool(abs(model.outliers_[8, 4] - 20.0) < 1.0), model.n_relevant_
    (True, 2)
    """

    takes_missing = True
    dense_only = True
    bounded_by = "window"

    _: KW_ONLY
    forget: float = 0.9
    window: int = 10
    max_passes: int = 500
    tolerance: float = 1e-4
    clean_first: bool = True
    fill: Literal["mean", "authors"] = "mean"
    init_slices: int = 1
    init_starts: int = 1

    @property
    def outliers_(self) -> FloatArray:
        """Outliers of the newest slice, zero in missing cells."""
        outliers = self._ready().arrays["outliers"]
        return np.array(outliers[..., -1])

    @property
    def n_relevant_(self) -> int:
        """Components that carry more than a thousandth of the strongest one's power."""
        state = self._ready()
        power = np.abs(state.weights)
        for a in state.factors:
            power = power * np.linalg.norm(a, axis=0)
        return int(np.sum(power > 1e-3 * np.max(power, initial=0.0)))

    # ---- hooks

    def _check_parameters(self) -> None:
        check_number("forget", self.forget, "(0, 1]", "Use 1 to weigh the whole window alike.")
        check_number("tolerance", self.tolerance, "[0, inf)")
        for name in ("window", "max_passes"):
            check_whole(name, getattr(self, name), 1)
        check_truth("clean_first", self.clean_first)
        check_choice("fill", self.fill, ("mean", "authors"))

    def _largest_state(self, shape: tuple[int, ...]) -> int | None:
        window = 2 * int(self.window) * math.prod(shape)
        return 8 * (window + (self.rank**2 + self.rank) * (sum(shape) + 3))

    def _begin(self, start: WarmStart, seed: int) -> ModelState:
        shape = tuple(len(a) for a in start.factors)
        arrays = {"outliers": np.zeros((*shape, 0)), "relevance": np.ones(self.rank)}
        for k, a in enumerate(start.factors):
            arrays[f"cov{k}"] = np.zeros((len(a), self.rank, self.rank))
        noise: dict[str, float | int] = {"precision": 1.0}
        state = ModelState(start.factors, start.newest, start.mean, arrays, noise)
        for x in start.slices:
            state = self._update(state, x)
        return state

    def _move(
        self, state: ModelState, batch: Sequence[Slice], before: FloatArray, account: Account
    ) -> ModelState:
        return self._update(state, batch[-1])

    def _weigh(self, state: ModelState, x: Slice, seed: int, tolerance: float | None) -> FloatArray:
        return self._explain(state, x)[0]

    # ---- the update

    def _update(self, state: ModelState, x: Slice) -> ModelState:
        """The model after one more slice."""
        slices = (*state.slices, x)[-self.window :]
        past = state.arrays["outliers"]
        past = past[..., past.shape[-1] - len(slices) + 1 :]
        arrays = dict(state.arrays)
        first = not state.slices
        problem = _Window(slices, past, self.rank, self.forget)
        problem.begin(authors_fill=self.fill == "authors")
        problem.ascend(self.max_passes, self.tolerance)
        outliers = problem.outliers
        if first and not self.clean_first:
            outliers = np.zeros_like(outliers)
        arrays["outliers"] = np.concatenate([past, outliers[..., None]], axis=-1)
        scalars: dict[str, float | int] = {"precision": problem.tau}
        if problem.absorbed:
            # Nothing was learned about the components; the slice stays in the window as it came.
            arrays["outliers"][..., -1] = 0.0
            weights, scalars = self._explain(state, x)[0], state.scalars
            factors = state.factors
        else:
            weights, factors = problem.means[-1][-1].copy(), tuple(problem.means[:-1])
            arrays["relevance"] = problem.relevance
            for k, cov in enumerate(problem.covs[:-1]):
                arrays[f"cov{k}"] = cov
        return state.moved(factors, weights, arrays, scalars=scalars, slices=slices)

    def _explain(self, state: ModelState, x: Slice) -> tuple[FloatArray, FloatArray]:
        """Weights and outliers of a slice under the factors as they are."""
        values, mask = _dense(x)
        seconds = [
            (state.arrays[f"cov{k}"] + _outer(a)).reshape(len(a), -1)
            for k, a in enumerate(state.factors)
        ]
        tau, ridge = state.scalars["precision"], np.diag(state.arrays["relevance"])
        matrix = _contract(mask, seconds).reshape(self.rank, self.rank)
        inverse = np.linalg.pinv(tau * matrix + ridge, hermitian=True)
        outliers, gamma = np.zeros(x.shape), np.ones(x.shape)
        s = tau * inverse @ _contract(values, state.factors)
        for _ in range(self.max_passes):
            variance = mask / (gamma + tau)
            gap = (values - KTensor(s, state.factors).full()) * mask
            outliers = tau * variance * gap
            gamma = (PRIOR + 0.5 * mask) / (PRIOR + 0.5 * (outliers**2 + variance))
            new = tau * inverse @ _contract(values - outliers, state.factors)
            moved = float(np.linalg.norm(new - s))
            s = new
            if moved <= self.tolerance * float(np.linalg.norm(s)):
                break
        return s, outliers


@dataclass
class _Window:
    """The variational problem of a window of slices, time being the last mode."""

    slices: tuple[Slice, ...]
    past: FloatArray  # outliers of all slices but the newest
    rank: int
    forget: float

    def begin(self, *, authors_fill: bool) -> None:
        """Means from singular vectors, everything else from its prior."""
        parts = [_dense(x) for x in self.slices]
        values = np.stack([v for v, _ in parts], axis=-1)
        self.masks = np.stack([m for _, m in parts], axis=-1)
        self.y, self.mask = values[..., -1].copy(), self.masks[..., -1]
        self.complete = all(x.n_observed == x.size for x in self.slices)
        self.n_observed = float(self.mask.sum())
        self.shape = self.mask.shape
        n = len(self.slices)
        self.decay = self.forget ** np.arange(n - 1, -1, -1.0)
        self.means, self.covs = [], []
        filled = self._filled(values, authors_fill)
        for k in range(filled.ndim):
            unfolded = np.moveaxis(filled, k, 0).reshape(filled.shape[k], -1, order="F")
            left, size, _ = np.linalg.svd(unfolded, full_matrices=False)
            mean = left[:, : self.rank] * np.sqrt(size[: self.rank])
            extra = _sines((len(mean), self.rank - mean.shape[1]))
            self.means.append(np.hstack([mean, extra]))
            self.covs.append(np.tile(np.eye(self.rank), (len(mean), 1, 1)))
        self.seconds = [self._second(k) for k in range(filled.ndim)]
        self.cleaned = values
        self.cleaned[..., :-1] -= self.past * self.masks[..., :-1]
        self.relevance, self.tau = np.ones(self.rank), 1.0
        self.gamma = np.ones(self.shape)
        self.outliers, self.variance = _sines(self.shape), np.ones(self.shape)

    def _filled(self, values: FloatArray, authors: bool) -> FloatArray:
        if self.complete or not self.n_observed:
            return values
        if not authors:
            return np.where(self.masks > 0, values, values.sum() / self.masks.sum())
        flat = values.ravel(order="F")
        if self.n_observed < self.mask.size:
            # Row and column numbers of the newest slice's missing cells, taken for places in the
            # window.
            flat[np.unique(np.argwhere(self.mask == 0))] = values.sum() / self.n_observed
        return flat.reshape(values.shape, order="F")

    def _second(self, k: int) -> FloatArray:
        """E[a a'] of every row of a mode, flat."""
        return (self.covs[k] + _outer(self.means[k])).reshape(len(self.means[k]), -1)

    def ascend(self, max_passes: int, tolerance: float) -> None:
        """Coordinate ascent until the bound rests."""
        bounds: list[float] = []
        for _ in range(max_passes):
            self.cleaned[..., -1] = (self.y - self.outliers) * self.mask
            for k in range(len(self.means)):
                self._move(k)
            self._judge()
            bounds.append(self._bound())
            if len(bounds) > 5 and abs(bounds[-1] - bounds[-2]) < tolerance * abs(bounds[1]):
                break

    def _move(self, k: int) -> None:
        """New belief about the rows of one mode; the last mode is time."""
        time = len(self.means) - 1
        means, seconds = list(self.means), list(self.seconds)
        if k != time:
            means[time] = means[time] * self.decay[:, None]
            seconds[time] = seconds[time] * self.decay[:, None]
        if self.complete:
            product = np.ones(self.rank**2)
            for j, second in enumerate(seconds):
                if j != k:
                    product = product * second.sum(axis=0)
            sums = np.broadcast_to(product, (len(means[k]), self.rank**2))
        else:
            sums = dense_mttkrp(self.masks, seconds, k)
        pull = dense_mttkrp(self.cleaned, means, k)
        if k == time:
            sums, pull = sums * self.decay[:, None], pull * self.decay[:, None]
        precision = self.tau * sums.reshape(-1, self.rank, self.rank) + np.diag(self.relevance)
        try:
            self.covs[k] = np.asarray(np.linalg.inv(precision), dtype=np.float64)
        except np.linalg.LinAlgError:  # a slice of enormous values went before
            self.covs[k] = np.asarray(np.linalg.pinv(precision, hermitian=True), dtype=np.float64)
        self.means[k] = self.tau * np.einsum("irs,is->ir", self.covs[k], pull)
        self.seconds[k] = self._second(k)

    def _judge(self) -> None:
        """Precisions of components and noise, then the outliers of the newest slice."""
        power = sum(
            np.sum(mean**2, axis=0) + np.einsum("irr->r", cov)
            for mean, cov in zip(self.means, self.covs, strict=True)
        )
        self.shape_lambda = PRIOR + 1.0 + 0.5 * sum(self.shape)
        self.rate_lambda = PRIOR + 0.5 * power
        self.relevance = self.shape_lambda / self.rate_lambda
        model = KTensor(self.means[-1][-1], self.means[:-1]).full()
        square = self._sums() @ self.seconds[-1][-1]
        self.gap = float(
            np.sum(self.y * (self.y - 2.0 * model - 2.0 * self.outliers))
            + 2.0 * np.sum(model * self.outliers)
            + square
            + np.sum((self.outliers**2 + self.variance) * self.mask)
        )
        self.shape_tau = PRIOR + 0.5 * self.n_observed
        self.rate_tau = PRIOR + 0.5 * self.gap
        self.tau = self.shape_tau / self.rate_tau
        self.variance = self.mask / (self.gamma + self.tau)
        self.outliers = self.tau * self.variance * (self.y - model) * self.mask
        self.shape_gamma = PRIOR + 0.5 * self.mask
        self.rate_gamma = PRIOR + 0.5 * (self.outliers**2 + self.variance)
        self.gamma = self.shape_gamma / self.rate_gamma
        self.absorbed = float(np.sum(model**2 * self.mask)) < ABSORBED * float(np.sum(self.y**2))

    def _sums(self) -> FloatArray:
        """Sum of E[z z'] over the newest slice's observed cells, flat."""
        if self.n_observed < self.mask.size:
            return _contract(self.mask, self.seconds[:-1])
        product = np.ones(self.rank**2)
        for second in self.seconds[:-1]:
            product = product * second.sum(axis=0)
        return product

    def _bound(self) -> float:
        """The variational bound, of the newest slice and its row of the time mode."""
        n, log_tau = self.n_observed, digamma(self.shape_tau) - float(np.log(self.rate_tau))
        log_lambda = digamma(self.shape_lambda) - np.log(self.rate_lambda)
        log_gamma = digamma(self.shape_gamma) - np.log(self.rate_gamma)
        two_pi, rows = math.log(2 * math.pi), sum(self.shape)
        total = 0.5 * n * (log_tau - two_pi) - 0.5 * self.tau * self.gap
        # Expected log prior of the rows, and their entropy.
        means = [*self.means[:-1], self.means[-1][-1:]]
        covs = [*self.covs[:-1], self.covs[-1][-1:]]
        for mean, cov in zip(means, covs, strict=True):
            power = np.sum(mean**2, axis=0) + np.einsum("irr->r", cov)
            total += 0.5 * len(mean) * float(np.sum(log_lambda - two_pi))
            total -= 0.5 * float(self.relevance @ power)
            total += 0.5 * float(np.sum(np.linalg.slogdet(cov)[1]))
        total += 0.5 * self.rank * rows * (1.0 + two_pi)
        total += float(np.sum(_gamma_terms(self.shape_lambda, self.rate_lambda, log_lambda)))
        total += float(_gamma_terms(self.shape_tau, self.rate_tau, log_tau))
        # Outliers and their precisions, observed cells only.
        total += 0.5 * (float(np.sum(log_gamma * self.mask)) - n * two_pi)
        total -= 0.5 * float(np.sum((self.outliers**2 + self.variance) * self.gamma))
        terms = _gamma_terms(self.shape_gamma, self.rate_gamma, log_gamma)
        total += float(np.sum(terms * self.mask))
        spread = np.where(self.mask > 0, self.variance, NO_OUTLIER)
        return total + 0.5 * (float(np.sum(np.log(spread))) + n * (1.0 + two_pi))


def _gamma_terms(shape: Any, rate: Any, log_mean: Any) -> FloatArray:
    """Expected log prior plus entropy of precisions with Gamma beliefs, up to no constant."""
    prior = PRIOR * math.log(PRIOR) - gammaln(PRIOR)
    prior = prior + (PRIOR - 1.0) * log_mean - PRIOR * shape / rate
    entropy = gammaln(shape) - (shape - 1.0) * digamma(shape) - np.log(rate) + shape
    return np.asarray(prior + entropy)


def _dense(x: Slice) -> tuple[FloatArray, FloatArray]:
    """Values of all cells, 0 where missing, and 1 where they are observed."""
    values = x.to_dense()
    missing = np.isnan(values)
    values[missing] = 0.0
    return values, np.where(missing, 0.0, 1.0)


def _contract(array: FloatArray, factors: Sequence[FloatArray]) -> FloatArray:
    """One number per column: the array times the factors, summed over all cells."""
    return np.asarray(np.sum(dense_mttkrp(array, factors, 0) * factors[0], axis=0))


def _outer(rows: FloatArray) -> FloatArray:
    return rows[:, :, None] * rows[:, None, :]


def _sines(shape: tuple[int, ...]) -> FloatArray:
    """sin(1), sin(2), ...: numbers without a pattern, first mode fastest."""
    flat = np.sin(np.arange(1.0, math.prod(shape) + 1.0))
    return np.asarray(flat.reshape(shape, order="F"))
