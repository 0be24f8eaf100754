"""RLST: a basis for whole slices by recursive least squares, then the nearest rank-one patterns."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import final

import numpy as np

from onlinegcp.checks import check_number, check_whole
from onlinegcp.kernels.tracking.columns import to_columns, to_factors
from onlinegcp.kernels.tracking.recursion import DRIFT, count, follow, weigh
from onlinegcp.slices import Slice
from onlinegcp.solvers.rank_one import khatri_rao, power_sweep
from onlinegcp.streaming.scoring import Account, Stopwatch
from onlinegcp.streaming.state import FloatArray, ModelState
from onlinegcp.streaming.tracker import Tracker
from onlinegcp.streaming.walking import Walk, walked
from onlinegcp.streaming.warm_start import WarmStart

FAINT = 1e-10  # share of the mean weight that such a repair adds
# Start weights with a condition beyond this say nothing about some components.
WORST_CONDITION = 1e10
# Normal equations give a pseudo-inverse, quickly, where they are as good as this.
EXACT = 1e-10


@final
@dataclass(eq=False, repr=False)
class RLST(Tracker):
    """Recursive least-squares tracking of complete slices (Nion and Sidiropoulos 2009).

    Fits sum_h forget^(t-h) ||x_h - H s_h||^2 with any H (cells, R), updating H and the pseudo-
    inverse of its normal equations by one rank-one step per slice, and then takes every column of
    H for a pattern of rank one by a single power iteration from the old factors. Fast and accurate
    where factors drift slowly. Needs complete slices, memory for 2 R numbers per cell, and a good
    start: H is never told that its columns should have rank one, so that what is mixed at the start
    stays mixed.

    More than two modes are our generalisation: the power iteration runs over all of them.

    Parameters
    ----------
    rank
        Number of components, at most as many as a slice has cells.
    forget
        Weight of the past, per slice, in (0, 1].
    window
        Slices after which the past is dropped altogether (these slices are kept); None never does.
    repeats
        How often a slice is added again, as an option of the authors' code does: it counts it
        several times.
    state_limit
        Most bytes the state may take, about 16 R per cell; up to three times as much while slices
        are learned.
    init, init_slices, init_starts, random_state, ndim, mode_names
        As for every `StreamingModel`.

    References
    ----------
    D. Nion, N. Sidiropoulos, Adaptive algorithms to track the PARAFAC decomposition of a
    third-order tensor, IEEE TSP 2009.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.random((6, 2)), rng.random((5, 2))
    >>> model = RLST(2, init_slices=4)
    >>> for _ in range(8):
    ...     _ = model.partial_fit(Slice.dense(a * rng.random(2) @ b.T))
    >>> model.n_slices_, model.last_.prequential < 1e-4 * model.last_.norm_squared
    (8, True)
    """

    takes_missing = False
    dense_only = True
    walks = True

    _: KW_ONLY
    forget: float = 0.9
    window: int | None = None
    repeats: int = 0
    state_limit: int = 2**30

    def _check_parameters(self) -> None:
        check_number("forget", self.forget, "(0, 1]", "Use 1 to never forget.")
        check_whole("repeats", self.repeats, 0)
        check_whole("state_limit", self.state_limit, 1)
        if self.window is not None:
            check_whole("window", self.window, 2)

    def _largest_state(self, shape: tuple[int, ...]) -> int:
        cells, window = math.prod(shape), self.window or 0
        numbers = 2 * cells * self.rank + window * (cells + self.rank)
        return 8 * (numbers + self.rank * (sum(shape) + 2 * self.rank + 2))

    def _begin(self, start: WarmStart, seed: int) -> ModelState:
        basis, slices, rows = khatri_rao(start.factors), start.slices, start.rows
        if self.window is not None:
            slices, rows = slices[-self.window :], rows[-self.window :]
        if start.slices:
            data = np.array([x.to_dense().reshape(-1) for x in slices])
        else:
            data = rows @ basis
        products, sums = rows.T @ data, rows.T @ rows
        if len(rows) == 0 or np.linalg.cond(sums) > WORST_CONDITION:
            # As if every component had once been seen alone, faintly.
            scale = float(np.trace(sums)) / self.rank
            faint = 0.01 * scale if scale > 0.0 else float(np.mean(start.mean**2)) or 1.0
            products, sums = products + faint * basis, sums + faint * np.eye(self.rank)
        arrays = {"sums": sums, "inverse_sums": np.linalg.inv(sums)}
        arrays["basis"] = arrays["inverse_sums"] @ products
        arrays["inverse"] = _pseudo_inverse(products)
        if self.window is not None:
            arrays["rows"] = rows
            if not start.slices:
                shape = tuple(len(a) for a in start.factors)
                slices = tuple(Slice.dense(x.reshape(shape)) for x in data)
        kept = slices if self.window is not None else ()
        return ModelState(start.factors, start.newest, start.mean, arrays, slices=tuple(kept))

    def _walk(self, state: ModelState, slices: Sequence[Slice], number: int, seed: int) -> Walk:
        watch, found = Stopwatch(), None
        if self.window is None and self.repeats == 0:
            # Rounding errors add up: if inverses fail, those of the state are computed anew first.
            found = _follow(state, slices, self.forget)
            found = found or _follow(_repaired(state), slices, self.forget)
        if found is None:
            return super()._walk(state, slices, number, seed)
        new, held, losses = found
        return walked(new, held, slices, number, losses, watch)

    def _move(
        self, state: ModelState, batch: Sequence[Slice], before: FloatArray, account: Account
    ) -> ModelState:
        (x,) = batch
        values = _values([x])[0]
        recursion = _Recursion(**{n: a for n, a in state.arrays.items() if n != "rows"})
        seen, s = recursion.weigh(values)
        slices, rows = state.slices, state.arrays.get("rows")
        for turn in range(self.repeats + 1):
            recursion.add(values, seen, s, 1.0, fade=self.forget if turn == 0 else 1.0)
            if turn == 0 and rows is not None and len(slices) == self.window:
                leaving = _values(slices[:1])[0]
                gone, _ = recursion.weigh(leaving)
                recursion.add(leaving, gone, rows[0], -(self.forget**self.window))
            seen, s = recursion.weigh(values)
        factors = power_sweep(recursion.basis, state.factors)
        arrays = vars(recursion)
        if rows is not None and self.window is not None:
            slices = (*slices, x)[-self.window :]
            arrays = {**arrays, "rows": np.vstack([rows, s])[-self.window :]}
        return state.moved(factors, s, dict(arrays), slices=slices)


@dataclass(eq=False)
class _Recursion:
    """The basis H and what its updates need, for data D = sum of forget^(t-h) x_h s_h' = H P.

    Attributes
    ----------
    basis
        H', (R, cells).
    inverse
        Pseudo-inverse of D, (R, cells).
    sums, inverse_sums
        P = sum of forget^(t-h) s_h s_h' and its inverse.
    """

    basis: FloatArray
    inverse: FloatArray
    sums: FloatArray
    inverse_sums: FloatArray

    def weigh(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """D+ x, and the least-squares weights of a slice under the basis: H+ x = P D+ x."""
        seen, s = np.empty(len(self.sums)), np.empty(len(self.sums))
        weigh(self.inverse, self.sums, x, seen, s)
        return seen, s

    def add(
        self, x: FloatArray, seen: FloatArray, s: FloatArray, share: float, *, fade: float = 1.0
    ) -> None:
        """Weigh the past down by `fade` and count slice x with weights s, `share` times.

        A negative share takes it out again. `seen` is D+ x.
        """
        old = self.basis, self.inverse, self.sums, self.inverse_sums
        new, spare = [np.empty_like(a) for a in old], [np.empty_like(x) for _ in range(3)]
        far = count(*old, x, seen.copy(), np.ascontiguousarray(s), share, fade, *new, *spare)
        made = _Recursion(*new) if far < DRIFT else self._direct(x, s, share, fade)
        self.__dict__.update(vars(made))

    def _direct(self, x: FloatArray, s: FloatArray, share: float, fade: float) -> _Recursion:
        """The same without recursion, where rounding or a silent component spoiled it."""
        faded = fade * self.sums
        sums = faded + share * np.outer(s, s)
        # What nothing is left of keeps its old pattern.
        faint = FAINT * float(np.trace(sums)) / len(s)
        faint = faint if faint > np.finfo(float).tiny else 1.0
        sums = sums + faint * np.eye(len(s))
        products = faded @ self.basis + share * np.outer(s, x) + faint * self.basis
        inverse_sums = _pseudo_inverse(sums)
        basis = inverse_sums @ products
        return _Recursion(basis, _pseudo_inverse(products), sums, inverse_sums)


def _follow(
    state: ModelState, slices: Sequence[Slice], forget: float
) -> tuple[ModelState, FloatArray, tuple[float, float]] | None:
    """The state after slices, what components held in them, and the losses of the last.

    Stops before a slice that needs `_Recursion._direct`, or that is not to be kept; None where
    that is the first.
    """
    columns, offsets = to_columns(state.factors)
    held, mean = np.empty((len(slices), len(columns))), state.mean_weights.copy()
    old = [state.arrays[name] for name in ("basis", "inverse", "sums", "inverse_sums")]
    new = [np.empty_like(a) for a in old[:2]]
    spare = new if len(slices) == 1 else [np.empty_like(a) for a in old[:2]]
    done, basis, inverse, sums, inverse_sums, weights, *losses = follow(
        _values(slices), *old, columns, offsets, mean, forget, *new, *spare, held
    )
    if done == 0:
        return None
    arrays = {"sums": sums, "inverse_sums": inverse_sums, "basis": basis, "inverse": inverse}
    after = ModelState(to_factors(columns, offsets), weights, mean, arrays)
    return after, held[:done], (losses[0], losses[1])


def _repaired(state: ModelState) -> ModelState:
    """The same with new inverses."""
    old = _Recursion(**state.arrays)
    new = old._direct(np.zeros(old.basis.shape[1]), np.zeros(len(old.sums)), 0.0, 1.0)
    return replace(state, arrays=vars(new))


def _values(slices: Sequence[Slice]) -> FloatArray:
    """Slices as rows of a matrix."""
    return np.array([x.array for x in slices]).reshape(len(slices), -1)


def _pseudo_inverse(products: FloatArray) -> FloatArray:
    """The transpose of the pseudo-inverse, (R, n) as the products."""
    with contextlib.suppress(np.linalg.LinAlgError):
        found = np.linalg.solve(products @ products.T, products)
        if np.abs(found @ products.T - np.eye(len(products))).max() < EXACT:
            return np.ascontiguousarray(found)
    # Laid out as a file gives it back: products of matrices in another order round differently.
    return np.ascontiguousarray(np.linalg.pinv(products).T, np.float64)
