"""CP-Stream: alternating least squares on each slice, the past held as one R x R matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import final

import numpy as np

from onlinegcp.checks import check_number, check_truth, check_whole
from onlinegcp.slices import Slice
from onlinegcp.solvers.least_squares import solve_normal, solve_weights, weighted_mttkrp
from onlinegcp.streaming.columns import unit_columns
from onlinegcp.streaming.row_sparse import Block, compress, expand
from onlinegcp.streaming.scoring import Account
from onlinegcp.streaming.state import FloatArray, ModelState
from onlinegcp.streaming.tracker import Tracker
from onlinegcp.streaming.warm_start import WarmStart


@final
@dataclass(eq=False, repr=False)
class CPStream(Tracker):
    """Least-squares tracking with exponentially fading pseudo-slices (Smith et al. 2018).

    The weights of a slice come from one least-squares solve with the old factors. The factors then
    minimise ||X - M||^2 + sum_h forget^(t-h) ||Mbar_h - M_h||^2 by alternating least squares,
    where Mbar_h is what the old factors made of slice h. Old slices are not needed, only
    G = sum_h forget^(t-h) s_h s_h'.

    Parameters
    ----------
    rank
        Number of components.
    forget
        Weight of the past, per slice, in [0, 1].
    ridge
        Penalty on the weights: adds ridge |s|^2 to the squared error of a slice.
    max_passes, tolerance
        A slice's passes over the modes end when the factors move by less than `tolerance`,
        relative to their norm and summed over modes, or after `max_passes`.
    nonnegative
        Keep factors and weights >= 0 (by ADMM).
    column_bound
        Keep the columns of every factor at a norm of at most 1 (by ADMM), as the paper does to
        settle their scale. Otherwise they are scaled to norm 1 after every slice, which needs no
        inner passes.
    inner_passes, inner_tolerance
        ADMM ends when the squared distance between its two copies, and the squared step, are
        below this share of the squared norms, or after so many passes.
    init, init_slices, init_starts, random_state, ndim, mode_names
        As for every `StreamingModel`.

    References
    ----------
    S. Smith, K. Huang, N. Sidiropoulos, G. Karypis, Streaming tensor factorization for infinite
    data sources, SDM 2018.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.random((6, 2)), rng.random((5, 2))
    >>> model = CPStream(2, init_slices=4)
    >>> for _ in range(8):
    ...     _ = model.partial_fit(Slice.dense(a * rng.random(2) @ b.T))
    >>> model.n_slices_, model.last_.prequential < 1e-4 * model.last_.norm_squared
    (8, True)
    """

    takes_missing = False

    rank: int = 10
    _: KW_ONLY
    forget: float = 0.95
    ridge: float = 0.0
    max_passes: int = 20
    tolerance: float = 1e-3
    nonnegative: bool = False
    column_bound: bool = False
    inner_passes: int = 100
    inner_tolerance: float = 1e-12

    def _check_parameters(self) -> None:
        check_number("forget", self.forget, "[0, 1]", "Use 1 to never forget.")
        for name in ("ridge", "tolerance", "inner_tolerance"):
            check_number(name, getattr(self, name), "[0, inf)", "Use 0 for none.")
        for name in ("max_passes", "inner_passes"):
            check_whole(name, getattr(self, name), 1)
        for name in ("nonnegative", "column_bound"):
            check_truth(name, getattr(self, name))

    def _get_lower(self) -> float:
        return 0.0 if self.nonnegative else -np.inf

    def _may_grow(self) -> bool:
        return True

    def _begin(self, start: WarmStart, seed: int) -> ModelState:
        past = {"past": start.past(self.forget)}
        return ModelState(start.factors, start.newest, start.mean, past)

    def _move(
        self, state: ModelState, batch: Sequence[Slice], before: FloatArray, account: Account
    ) -> ModelState:
        # A new row has been zero so far, which is what the pseudo-slices of the past say of it.
        (x,), old, s = batch, state.factors, before
        past = self.forget * state.arrays["past"]
        # Clipping at zero is not linear, so that rows without data must be kept one by one.
        few, blocks = (x, [Block(a) for a in old]) if self.nonnegative else compress(x, old)
        self._alternate(few, blocks, s, past)
        factors = expand(blocks, old)

        if not self.column_bound:
            # Unit columns, the scale into the weights and into the stored past alike.
            factors, norms = unit_columns(factors)
            scale = np.prod(norms, axis=0)
            s = s * scale
            past = past * np.outer(scale, scale)
        return state.moved(factors, s, {"past": past + np.outer(s, s)})

    def _weigh(self, state: ModelState, x: Slice, seed: int, tolerance: float | None) -> FloatArray:
        # `solve_weights` halves its penalty, as the paper of OnlineGCP does; this one does not.
        penalty = 2.0 * self.ridge
        return solve_weights(x, state.factors, penalty=penalty, lower=self._get_lower())

    def _alternate(self, x: Slice, blocks: list[Block], s: FloatArray, past: FloatArray) -> None:
        """Passes over the modes until the factors rest; moves the rows of the blocks."""
        grams = [b.counted.T @ b.counted for b in blocks]
        cross = [b.old[: b.n].T @ b.counted for b in blocks]
        now = np.outer(s, s) + past
        for _ in range(self.max_passes):
            change = 0.0
            for k, block in enumerate(blocks):
                matrix, pull = np.ones_like(now), past.copy()
                for j in range(len(blocks)):
                    if j != k:
                        matrix *= grams[j]
                        pull *= cross[j]
                matrix *= now
                right = block.old @ pull
                right[: block.n] += weighted_mttkrp(x, [b.counted for b in blocks], s, k)
                before = block.counted
                if self.nonnegative or self.column_bound:
                    block.rows = self._admm(matrix, right, block)
                else:
                    block.rows = solve_normal(matrix, right)
                moved = float(np.linalg.norm(block.counted - before))
                change += moved / (float(np.linalg.norm(block.counted)) + 1e-300)
                grams[k] = block.counted.T @ block.counted
                cross[k] = block.old[: block.n].T @ block.counted
            if change < self.tolerance:
                break

    def _admm(self, matrix: FloatArray, right: FloatArray, block: Block) -> FloatArray:
        """Rows a of min a'Ma/2 - b'a that keep the bounds, warm from the block's own."""
        step = max(float(np.trace(matrix)) / len(matrix), np.finfo(float).tiny)
        inverse = np.linalg.inv(matrix + step * np.eye(len(matrix)))  # condition at most 1 + R
        a, dual, n = self._bounded(block.rows, block.n), np.zeros_like(block.rows), block.n
        for _ in range(self.inner_passes):
            free = (right + step * (a + dual)) @ inverse
            new = self._bounded(free - dual, n)
            dual += new - free
            apart, moved = _square(new[:n] - free[:n]), _square(new[:n] - a[:n])
            a = new
            size = _square(a[:n])
            # Where no bound is active the dual is zero: steps of rounding size end it there.
            rest = self.inner_tolerance * _square(dual[:n]) + 1e-26 * size
            if apart <= self.inner_tolerance * size and moved <= rest:
                break
        return a

    def _bounded(self, rows: FloatArray, n: int) -> FloatArray:
        """The nearest rows within the bounds; only the first n count towards a column's norm."""
        if self.nonnegative:
            rows = np.maximum(rows, 0.0)
        if self.column_bound:
            rows = rows / np.maximum(np.linalg.norm(rows[:n], axis=0), 1.0)
        return rows


def _square(a: FloatArray) -> float:
    return float(np.sum(a * a))
