"""POST: a Gaussian belief about every row of every factor, updated batch by batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from typing import Any, Literal, final

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtr

from onlinegcp.checks import check_choice, check_number, check_truth, check_whole
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import Loss, get_loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.least_squares import weighted_mttkrp
from onlinegcp.streaming.scoring import Account
from onlinegcp.streaming.state import FloatArray, ModelState
from onlinegcp.streaming.tracker import Tracker
from onlinegcp.streaming.warm_start import WarmStart

# Cells whose R x R products are held at a time.
BLOCK = 4096


@final
@dataclass(eq=False, repr=False)
class POST(Tracker):
    """Streaming variational Bayes for single cells in any order (Du et al. 2018).

    Every factor row has a Gaussian belief with mean and covariance. A batch of cells, one slice or
    several, turns the beliefs about the rows it touches into new ones, which are the prior of the
    next batch. Real data have Gaussian noise of unknown precision, yes-or-no data a probit link.

    Parameters
    ----------
    rank
        Number of components.
    data
        "continuous", or "binary" for values 0 and 1.
    time_row
        Give every slice weights of its own, as a row of a time mode that no later slice shares.
        False is the authors' setting, in which time, if there is one, is a mode of the slice and
        slices are batches of cells of one tensor: the weights are 1 then.
    variance
        Prior variance of every entry, and of the weights of a slice around their running mean.
    noise_shape, noise_rate
        Gamma prior of the noise precision of continuous data.
    forget
        Share of a belief's precision that is left when the next batch touches its row; 1, as
        published, never forgets, so that early mistakes stay.
    batch
        Slices learned together; a cell may come once in each.
    max_passes, tolerance
        Passes over the modes per batch end when the means move by less than `tolerance`, summed
        over all entries touched.
    init, init_slices, init_starts
        Means to start from, or the static model of the first `init_slices` slices, which are then
        learned like any other.
    random_state
        Seed of the warm start.
    ndim, mode_names
        How many modes slices have, or what these are called: with two, a bare matrix is a slice.
        Without either the first slice must say it.

    Notes
    -----
    Cost per slice and pass: n d R^2 for n observed cells and R^3 per touched row; complete
    continuous slices need one product with the factors per mode instead. Memory: R^2 per row.

    Forgetting and the weights per slice are additions to the paper. Predictive variances follow
    the paper; the authors' code leaves the means out of them.

    References
    ----------
    Y. Du, Y. Zheng, K. Lee, S. Zhe, Probabilistic streaming tensor decomposition, ICDM 2018.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.random((6, 2)), rng.random((5, 2))
    >>> model = POST(2, init_slices=4)
    >>> for _ in range(8):
    ...     _ = model.partial_fit(Slice.dense(a * rng.random(2) @ b.T))
    >>> model.n_slices_, model.last_.prequential < 1e-2 * model.last_.norm_squared
    (8, True)
    >>> bool(model.predict_variance([[0, 0]])[0] > 0)
    True
    """

    takes_missing = True
    gathers = "batch"

    _: KW_ONLY
    data: Literal["continuous", "binary"] = "continuous"
    time_row: bool = True
    variance: float = 1.0
    noise_shape: float = 1e-3
    noise_rate: float = 1e-3
    forget: float = 1.0
    batch: int = 1
    max_passes: int = 100
    tolerance: float = 1e-3

    # ---- what it believes

    @property
    def covariances_(self) -> tuple[FloatArray, ...]:
        """Covariance of every row, one array (I_k, R, R) per mode."""
        arrays = self._ready().arrays
        return tuple(arrays[f"cov{k}"].copy() for k in range(len(arrays) - 1))

    @property
    def noise_variance_(self) -> float:
        """Expected variance of the noise; 1 for binary data, where it settles the scale."""
        state = self._ready()
        return state.scalars["rate"] / state.scalars["shape"] if self.data == "continuous" else 1.0

    def predict_variance(self, index: ArrayLike, weights: ArrayLike | None = None) -> FloatArray:
        """Variance of the model value of single cells, noise not included.

        Parameters
        ----------
        index
            Whole numbers (n, d), one row per cell.
        weights
            Weights of the slice (R,), taken as certain; the belief about those of the newest slice
            by default.
        """
        state = self._ready()
        cells = np.asarray(index)
        row = state.weights if weights is None else np.asarray(weights, dtype=np.float64)
        # Through the same door as `predict`, which refuses what is no index of cells.
        mean = KTensor(row, state.factors).values(cells)
        second = np.broadcast_to(np.outer(row, row), (len(cells), self.rank, self.rank))
        if weights is None:
            second = second + state.arrays["time_cov"]
        for k, a in enumerate(state.factors):
            rows = a[cells[:, k]]
            second = second * (state.arrays[f"cov{k}"][cells[:, k]] + _outer(rows))
        return np.asarray(np.maximum(second.sum(axis=(1, 2)) - mean * mean, 0.0))

    def predict_probability(self, index: ArrayLike, weights: ArrayLike | None = None) -> FloatArray:
        """Probability of a 1 in single cells of binary data, the uncertainty averaged over."""
        state = self._ready()
        row = state.weights if weights is None else np.asarray(weights, dtype=np.float64)
        mean = KTensor(row, state.factors).values(np.asarray(index))
        return np.asarray(ndtr(mean / np.sqrt(1.0 + self.predict_variance(index, weights))))

    # ---- hooks

    @property
    def loss_(self) -> Loss:
        """The loss the model minimises: gaussian, or bernoulli_probit for binary data."""
        return get_loss("gaussian") if self.data == "continuous" else _probit()

    def _check_parameters(self) -> None:
        check_choice("data", self.data, ("continuous", "binary"))
        check_truth("time_row", self.time_row)
        for name in ("variance", "noise_shape", "noise_rate"):
            check_number(name, getattr(self, name), "(0, inf)")
        check_number("forget", self.forget, "(0, 1]", "Use 1 to never forget.")
        check_number("tolerance", self.tolerance, "[0, inf)")
        check_whole("max_passes", self.max_passes, 1)

    def _largest_state(self, shape: tuple[int, ...]) -> int | None:
        beliefs = 8 * (self.rank**2 + self.rank) * (sum(shape) + 3)
        # A latent value for every yes-or-no cell, and its place, while a batch is solved.
        latent = 8 * (len(shape) + 2) * math.prod(shape) if self.data == "binary" else 0
        return beliefs + latent * int(self.batch)

    def _begin(self, start: WarmStart, seed: int) -> ModelState:
        means, weights = [a.copy() for a in start.factors], start.mean
        if start.slices:
            # A static model has all scale in the weights; one prior for all modes wants it shared.
            size = np.sqrt(np.mean(start.rows**2, axis=0))
            size = np.where(size > 0, size, 1.0) ** (1.0 / (len(means) + self.time_row))
            means = [a * size for a in means]
            weights = weights / size ** len(means)
        if not self.time_row:
            means[0] = means[0] * weights
            weights = np.ones(self.rank)
        spread = self.variance * np.eye(self.rank)
        arrays = {f"cov{k}": np.tile(spread, (len(a), 1, 1)) for k, a in enumerate(means)}
        arrays["time_cov"] = spread if self.time_row else np.zeros_like(spread)
        noise: dict[str, float | int] = {"shape": self.noise_shape, "rate": self.noise_rate}
        state = ModelState(tuple(means), weights, weights, arrays, noise)
        for x in start.slices:
            state = self._update(state, [x])
        return state

    def _move(
        self, state: ModelState, batch: Sequence[Slice], before: FloatArray, account: Account
    ) -> ModelState:
        return self._update(state, batch)

    def _weigh(self, state: ModelState, x: Slice, seed: int, tolerance: float | None) -> FloatArray:
        if not self.time_row:
            return np.ones(self.rank)
        beliefs, cells = self._beliefs(state, 1), self._cells([x])
        tau = state.scalars["shape"] / state.scalars["rate"] if self._continuous else 1.0
        self._iterate(beliefs, cells, tau, modes=[len(beliefs) - 1])
        return np.array(beliefs[-1].mean[0])

    # ---- the update

    @property
    def _continuous(self) -> bool:
        return self.data == "continuous"

    def _cells(self, slices: Sequence[Slice]) -> _Cells:
        if self._continuous and all(x.n_observed == x.size for x in slices):
            return _Cells(tuple(slices), None, np.empty(0))
        # Every zero is a datum of its own here, listed or not.
        listed = [Slice.dense(x.to_dense()) if x.n_unlisted_zeros else x for x in slices]
        parts = [x.index for x in listed]
        if self.time_row:
            parts = [
                np.column_stack([index, np.full(len(index), b, dtype=index.dtype)])
                for b, index in enumerate(parts)
            ]
        values = np.concatenate([x.value for x in listed])
        return _Cells(tuple(slices), np.concatenate(parts), values)

    def _beliefs(self, state: ModelState, n_slices: int) -> list[_Belief]:
        beliefs = [
            _Belief(a.copy(), state.arrays[f"cov{k}"].copy()) for k, a in enumerate(state.factors)
        ]
        if self.time_row:
            spread = self.variance * np.eye(self.rank)
            rows = np.tile(state.mean_weights, (n_slices, 1))
            beliefs.append(_Belief(rows, np.tile(spread, (n_slices, 1, 1))))
        return beliefs

    def _update(self, state: ModelState, slices: Sequence[Slice]) -> ModelState:
        """The beliefs after one more batch."""
        beliefs, cells = self._beliefs(state, len(slices)), self._cells(slices)
        d = len(state.factors)
        shape, rate = (self.forget * state.scalars[name] for name in ("shape", "rate"))
        # The time row first: its prior knows nothing of this slice.
        modes = [*range(d, len(beliefs)), *range(d)]
        noise = self._iterate(beliefs, cells, shape / rate, modes, (shape, rate))
        arrays = {f"cov{k}": b.cov for k, b in enumerate(beliefs[:d])}
        arrays["time_cov"] = beliefs[d].cov[-1] if self.time_row else state.arrays["time_cov"]
        rows = beliefs[d].mean if self.time_row else state.weights[None]
        scalars = {"shape": noise[0], "rate": noise[1]} if self._continuous else state.scalars
        return state.moved([b.mean for b in beliefs[:d]], rows, arrays, scalars=scalars)

    def _iterate(
        self,
        beliefs: list[_Belief],
        cells: _Cells,
        tau: float,
        modes: Sequence[int],
        noise: tuple[float, float] | None = None,
    ) -> tuple[float, float]:
        """Passes over some modes until their means rest; changes the beliefs.

        With a noise prior, the precision is learned along; otherwise it stays at `tau`.
        """
        if not self._continuous:
            tau = 1.0
        d = cells.slices[0].ndim
        priors = {k: self._prior(beliefs[k], cells, k, fade=k < d) for k in modes}
        latent = cells.value if self._continuous else 2.0 * cells.value - 1.0
        found = noise or (0.0, 0.0)
        for _ in range(self.max_passes):
            moved = 0.0
            for k in modes:
                belief, (rows, precision, pull) = beliefs[k], priors[k]
                second, first = cells.sums(beliefs, k, latent)
                cov = np.linalg.inv(
                    precision + tau * (second if second.ndim == 2 else second[rows])
                )
                mean = np.einsum("irs,is->ir", cov, pull + tau * first[rows])
                moved += float(np.sum(np.abs(mean - belief.mean[rows])))
                belief.mean[rows], belief.cov[rows] = mean, cov
                if not self._continuous:
                    latent = _latent(cells.value, cells.values(beliefs))
                elif noise is not None:
                    gap = cells.expected_gap(beliefs)
                    found = noise[0] + 0.5 * cells.n_observed, noise[1] + 0.5 * gap
                    tau = found[0] / found[1]
            if moved < self.tolerance:
                break
        return found

    def _prior(
        self, belief: _Belief, cells: _Cells, k: int, *, fade: bool
    ) -> tuple[NDArray[Any], FloatArray, FloatArray]:
        """Rows the cells touch, their prior precision, and precision times mean."""
        index = cells.index
        rows = np.arange(len(belief.mean)) if index is None else np.unique(index[:, k])
        inverse: FloatArray = np.asarray(np.linalg.inv(belief.cov[rows]), dtype=np.float64)
        precision = inverse * (self.forget if fade else 1.0)
        return rows, precision, np.einsum("irs,is->ir", precision, belief.mean[rows])


@dataclass
class _Belief:
    """Means (I, R) and covariances (I, R, R) of the rows of one mode."""

    mean: FloatArray
    cov: FloatArray

    def second(self, rows: Any = slice(None)) -> FloatArray:
        """E[a a'] of some rows."""
        return np.asarray(self.cov[rows] + _outer(self.mean[rows]))


@dataclass(frozen=True)
class _Cells:
    """The observed cells of a batch of slices; without an index, all there are.

    The last column of the index is the place in the batch, where that is a mode.
    """

    slices: tuple[Slice, ...]
    index: NDArray[np.int32] | None
    value: FloatArray

    @property
    def n_observed(self) -> int:
        """Number of cells."""
        return sum(x.n_observed for x in self.slices)

    def sums(
        self, beliefs: Sequence[_Belief], mode: int, latent: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Sums over each row's cells: of E[t t'] (the same matrix for all rows of a complete
        slice) and of y t, with t the product of the other modes' rows."""
        others = [j for j in range(len(beliefs)) if j != mode]
        rank = beliefs[0].mean.shape[1]
        if self.index is None:
            # Without a time mode the same cells come once per slice.
            second = np.full((rank, rank), float(self._repeats(beliefs)))
            for j in others:
                second = second * beliefs[j].second().sum(axis=0)
            return second, self._products(beliefs, mode)
        n_rows = len(beliefs[mode].mean)
        second, first = np.zeros((n_rows, rank * rank)), np.zeros((n_rows, rank))
        for start in range(0, len(self.index), BLOCK):
            cells = self.index[start : start + BLOCK]
            t, tt = np.ones((len(cells), rank)), np.ones((len(cells), rank, rank))
            for j in others:
                t *= beliefs[j].mean[cells[:, j]]
                tt *= beliefs[j].second(cells[:, j])
            places = cells[:, mode], np.arange(len(cells))
            gather = scipy.sparse.csr_array(
                (np.ones(len(cells)), places), shape=(n_rows, len(cells))
            )
            second += np.asarray(gather @ tt.reshape(len(cells), -1))
            first += np.asarray(gather @ (latent[start : start + BLOCK, None] * t))
        return second.reshape(n_rows, rank, rank), first

    def _products(self, beliefs: Sequence[_Belief], mode: int) -> FloatArray:
        d = self.slices[0].ndim
        means = [b.mean for b in beliefs[:d]]
        rank = means[0].shape[1]
        if mode == d:
            firsts = [weighted_mttkrp(x, means, np.ones(rank), 0) for x in self.slices]
            return np.array([np.sum(first * means[0], axis=0) for first in firsts])
        rows = beliefs[d].mean if len(beliefs) > d else np.ones((len(self.slices), rank))
        terms = zip(self.slices, rows, strict=True)
        return np.asarray(sum(weighted_mttkrp(x, means, row, mode) for x, row in terms))

    def _repeats(self, beliefs: Sequence[_Belief]) -> int:
        return len(self.slices) if len(beliefs) == self.slices[0].ndim else 1

    def values(self, beliefs: Sequence[_Belief]) -> FloatArray:
        """Mean model value of every cell."""
        assert self.index is not None
        product = beliefs[0].mean[self.index[:, 0]]
        for j in range(1, len(beliefs)):
            product = product * beliefs[j].mean[self.index[:, j]]
        return np.asarray(product.sum(axis=1))

    def expected_gap(self, beliefs: Sequence[_Belief]) -> float:
        """E sum (y - m)^2 over the cells."""
        square = sum(x.norm_squared for x in self.slices)
        if self.index is None:
            second = np.full_like(beliefs[0].cov[0], float(self._repeats(beliefs)))
            for belief in beliefs:
                second = second * belief.second().sum(axis=0)
            fitted = float(np.sum(self._products(beliefs, 0) * beliefs[0].mean))
            return square - 2.0 * fitted + float(second.sum())
        total = 0.0
        for start in range(0, len(self.index), BLOCK):
            cells = self.index[start : start + BLOCK]
            second = np.ones((len(cells), *beliefs[0].cov.shape[1:]))
            for j, belief in enumerate(beliefs):
                second *= belief.second(cells[:, j])
            total += float(second.sum())
        fitted = float(np.sum(self.value * self.values(beliefs)))
        return square - 2.0 * fitted + total


def _outer(rows: FloatArray) -> FloatArray:
    return rows[:, :, None] * rows[:, None, :]


def _latent(y: FloatArray, m: FloatArray) -> FloatArray:
    """Expected latent value behind each answer: a normal around m, cut to the answer's side."""
    side = 2.0 * y - 1.0
    # The ratio of density and tail from its logarithm: far out both are zero in floating point.
    return np.asarray(
        m + side * np.exp(-0.5 * m * m - 0.5 * np.log(2 * np.pi) - log_ndtr(side * m))
    )


@lru_cache(maxsize=1)
def _probit() -> Loss:
    """Minus the log-likelihood of yes-or-no data whose probability is that of a normal tail."""
    return Loss(
        "bernoulli_probit",
        value=lambda x, m: -(x * log_ndtr(m) + (1.0 - x) * log_ndtr(-m)),
        deriv=lambda x, m: m - _latent(x, m),
        mean=ndtr,
        domain="binary",
        zero_shape="convex",
    )
