"""Ensign: what the components so far leave unexplained is searched for emerging ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import final

import numpy as np

from onlinegcp.checks import check_number, check_truth, check_whole
from onlinegcp.slices import Slice
from onlinegcp.solvers.least_squares import (
    cross_products,
    gram,
    solve_normal,
    solve_weights,
    weighted_mttkrp,
)
from onlinegcp.streaming.columns import lengths, unit_columns
from onlinegcp.streaming.scoring import Account
from onlinegcp.streaming.state import FloatArray, ModelState
from onlinegcp.streaming.tracker import Tracker
from onlinegcp.streaming.warm_start import WarmStart

# Random starts of the search, and passes of each.
STARTS, PASSES = 2, 30


@final
@dataclass(eq=False, repr=False)
class Ensign(Tracker):
    """Batch updates that find components as they emerge (after Letourneau et al. 2018).

    A batch is first explained by the components there are. What is left is searched for one more,
    which is added if it carries enough energy and looks like none of the known ones; then for the
    next. Then all factors are refined, the past standing for itself by what the old factors made
    of it.

    Parameters
    ----------
    rank
        Components of the warm start; the rank changes from there.
    batch
        Slices learned together.
    search_rank
        Most components that may emerge in one batch; 0 never searches.
    min_energy
        Share of the batch's sum of squares that a new component must explain.
    max_congruence
        Product of cosines with a known component from which a find is no news.
    max_rank
        Most components kept; beyond, those with the least energy are given up.
    refine_passes
        Passes over the factors per batch; 0 keeps old columns as they are.
    forget
        Weight of the past, per batch.
    nonnegative
        Keep factors and weights >= 0.
    init, init_slices, init_starts
        Start from this model, or from the static model of the first `init_slices` slices, best of
        `init_starts`.
    random_state
        Seed of the warm start and of the searches.
    ndim, mode_names
        How many modes slices have, or what these are called: with two, a bare matrix is a slice.
        Without either the first slice must say it.

    Notes
    -----
    Cost per batch: that of some 60 passes of CP-ALS with one component, once more for each that is
    found, over listed cells only where slices are sparse; and of `refine_passes` with all.

    What is interpretation: everything but the idea. The method is closed, and only an abstract says
    what it does: it updates a model of large sparse tensors cheaply, along one or several modes,
    and names emerging components. The search in the residual, both thresholds, the refinement by
    pseudo-data of the past and the bound on the rank are ours; its count version (CP-APR) is not
    here.

    References
    ----------
    P.-D. Letourneau, M. Baskaran, T. Henretty, J. Ezick, R. Lethin, Computationally efficient CP
    tensor decomposition update framework for emerging component discovery in streaming data,
    HPEC 2018.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> a, b = np.eye(9)[:, :3] + 0.1, np.eye(8)[:, 3:6] + 0.1
    >>> model = Ensign(2, batch=5, init_slices=5)
    >>> for t in range(15):
    ...     s = (1 + rng.random(3)) * [1, 1, t >= 10]
    ...     _ = model.partial_fit(Slice.dense(a * s @ b.T))
    >>> model.last_.births, len(model.weights_)
    (1, 3)
    """

    takes_missing = False
    gathers = "batch"
    changes_rank = True
    bounded_by = "max_rank"

    _: KW_ONLY
    batch: int = 10
    search_rank: int = 2
    min_energy: float = 0.05
    max_congruence: float = 0.6
    max_rank: int = 50
    refine_passes: int = 2
    forget: float = 1.0
    nonnegative: bool = False

    def _check_parameters(self) -> None:
        for name in ("search_rank", "refine_passes"):
            check_whole(name, getattr(self, name), 0)
        check_whole("max_rank", self.max_rank, 1)
        for name in ("min_energy", "max_congruence"):
            check_number(name, getattr(self, name), "(0, 1]")
        check_number("forget", self.forget, "[0, 1]", "Use 1 to never forget.")
        check_truth("nonnegative", self.nonnegative)

    def _get_lower(self) -> float:
        return 0.0 if self.nonnegative else -np.inf

    def _may_grow(self) -> bool:
        return True

    def _largest_state(self, shape: tuple[int, ...]) -> int | None:
        most = max(self.max_rank, self.rank)
        return 8 * most * (sum(shape) + most + 2)

    def _begin(self, start: WarmStart, seed: int) -> ModelState:
        start = start.normalised()
        past = start.rows.T @ start.rows
        return ModelState(start.factors, start.newest, start.mean, {"past": past})

    def _move(
        self, state: ModelState, batch: Sequence[Slice], before: FloatArray, account: Account
    ) -> ModelState:
        rows = np.vstack([*self._rows(batch[:-1], state.factors), before])
        factors, past = list(state.factors), self.forget * state.arrays["past"]
        rng = np.random.default_rng([self._seed, account.number])
        born = 0
        while born < self.search_rank:
            found = self._emerging(batch, factors, rows, rng)
            if found is None:
                break
            factors = [np.column_stack([a, b]) for a, b in zip(factors, found, strict=True)]
            rows = self._rows(batch, factors)
            born += 1
        past = np.pad(past, (0, born))
        mean = np.append(state.mean_weights, np.zeros(born))
        factors, rows = self._refine(batch, factors, rows, past)

        factors, norms = unit_columns(factors)
        scale = np.prod(norms, axis=0)
        rows, past = rows * scale, past * np.outer(scale, scale)
        past = past + rows.T @ rows
        energy = np.diag(past)
        keep = np.sort(np.argsort(-energy, kind="stable")[: max(self.max_rank, self.rank)])
        factors = [np.ascontiguousarray(a[:, keep]) for a in factors]
        account.details = {"births": born, "deaths": len(scale) - len(keep)}
        left = replace(state, mean_weights=mean[keep])
        return left.moved(factors, rows[:, keep], {"past": past[np.ix_(keep, keep)]})

    def _weigh(self, state: ModelState, x: Slice, seed: int, tolerance: float | None) -> FloatArray:
        return solve_weights(x, state.factors, lower=self._get_lower())

    def _rows(self, batch: Sequence[Slice], factors: Sequence[FloatArray]) -> FloatArray:
        lower = self._get_lower()
        return np.array([solve_weights(x, factors, lower=lower) for x in batch])

    def _emerging(
        self,
        batch: Sequence[Slice],
        factors: Sequence[FloatArray],
        rows: FloatArray,
        rng: np.random.Generator,
    ) -> list[FloatArray] | None:
        """Unit columns of a component that the batch has and the model has not, if there is one."""
        total = sum(x.norm_squared for x in batch)
        if total == 0.0:
            return None
        searches = [self._search(batch, factors, rows, rng) for _ in range(STARTS)]
        found, energy = max(searches, key=lambda search: search[1])
        likeness = np.ones(rows.shape[1])
        for a, b in zip(factors, found, strict=True):
            likeness *= np.abs((a / lengths(a)).T @ b)[:, 0]
        is_news = energy >= self.min_energy * total and likeness.max() < self.max_congruence
        return found if is_news else None

    def _search(
        self,
        batch: Sequence[Slice],
        factors: Sequence[FloatArray],
        rows: FloatArray,
        rng: np.random.Generator,
    ) -> tuple[list[FloatArray], float]:
        """The strongest component of the residual, which is never built: unit columns, energy."""
        found = [np.abs(rng.standard_normal((n, 1))) for n in batch[0].shape]
        found = [b / np.linalg.norm(b) for b in found]
        times = np.zeros((len(batch), 1))
        for _ in range(PASSES):
            likeness = [a.T @ b for a, b in zip(factors, found, strict=True)]
            times = np.array([cross_products(x, found) for x in batch])
            times = self._bounded(times - rows @ np.prod(likeness, axis=0))
            for k in range(len(found)):
                shared = rows.T @ times
                for j, cosines in enumerate(likeness):
                    if j != k:
                        shared = shared * cosines
                right = -factors[k] @ shared
                for x, s in zip(batch, times, strict=True):
                    right = right + weighted_mttkrp(x, found, s, k)
                right = self._bounded(right)
                found[k] = right / max(float(np.linalg.norm(right)), np.finfo(float).tiny)
                likeness[k] = factors[k].T @ found[k]
        return found, float(np.sum(times**2))

    def _bounded(self, a: FloatArray) -> FloatArray:
        return np.maximum(a, 0.0) if self.nonnegative else a

    def _refine(
        self,
        batch: Sequence[Slice],
        factors: list[FloatArray],
        rows: FloatArray,
        past: FloatArray,
    ) -> tuple[list[FloatArray], FloatArray]:
        """Least squares on the batch and on what the factors so far made of the past."""
        old, factors = factors, list(factors)
        for _ in range(self.refine_passes):
            for k in range(len(factors)):
                pull = past.copy()
                for j, (a, b) in enumerate(zip(factors, old, strict=True)):
                    if j != k:
                        pull = pull * (b.T @ a)
                right = old[k] @ pull
                for x, s in zip(batch, rows, strict=True):
                    right = right + weighted_mttkrp(x, factors, s, k)
                matrix = gram(factors, skip=k) * (rows.T @ rows + past)
                factors[k] = self._solve(matrix, right, factors[k])
            rows = self._rows(batch, factors)
        return factors, rows

    def _solve(self, matrix: FloatArray, right: FloatArray, start: FloatArray) -> FloatArray:
        """Rows a of min a'Ma/2 - b'a, under the bound."""
        if not self.nonnegative:
            return solve_normal(matrix, right)
        new = np.maximum(start, 0.0)
        for _ in range(5):  # column by column, each exactly
            for r in range(len(matrix)):
                if matrix[r, r] > 0.0:
                    gap = right[:, r] - new @ matrix[:, r]
                    new[:, r] = np.maximum(new[:, r] + gap / matrix[r, r], 0.0)
        return new
