"""SDT: a sliding singular value decomposition of the last slices, turned into rank-one patterns."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import final

import numpy as np

from onlinegcp.checks import check_number, check_whole
from onlinegcp.errors import DataError, DivergenceWarning
from onlinegcp.slices import Slice
from onlinegcp.solvers.rank_one import khatri_rao, power_sweep
from onlinegcp.solvers.sliding_svd import Window, decomposed, rebuilt
from onlinegcp.streaming.record import StepRecord
from onlinegcp.streaming.scoring import Account
from onlinegcp.streaming.state import FloatArray, ModelState
from onlinegcp.streaming.tracker import Tracker
from onlinegcp.streaming.warm_start import WarmStart


@final
@dataclass(eq=False, repr=False)
class SDT(Tracker):
    """Simultaneous diagonalisation tracking of complete slices (Nion and Sidiropoulos 2009).

    Keeps a rank-R singular value decomposition U S V' of the last `window` slices, slice h weighed
    by forget^((t-h)/2), and the matrix W that turns U S into patterns H = U S W. Both follow a new
    slice by small updates; columns of H are taken for patterns of rank one by a single power
    iteration from the old factors.

    **It diverges where factors drift fast**: errors in W are never corrected by the data. In the
    authors' own demo the error is 0.4 % at a drift of 0.1 % per slice, 30 to 80 % at 1 %, and
    grows without bound at 10 %. Noise in a short window does the same, only more slowly. A
    `DivergenceWarning` says so once when a learned slice is explained worse than by zeros. `RLST`
    needs no window and stays bounded.

    More than two modes are our generalisation: the power iteration runs over all of them.

    Parameters
    ----------
    rank
        Number of components.
    forget
        Weight of the past inside the window, per slice, in (0, 1].
    window
        Slices of the sliding window, more than `rank`; None for twice the rank, at least 10.
    state_limit
        Most bytes the state may take, about 8 R per cell; four times as much while a slice is
        learned.
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
    >>> model = SDT(2, init_slices=10)
    >>> for _ in range(14):
    ...     _ = model.partial_fit(Slice.dense(a * rng.random(2) @ b.T))
    >>> model.n_slices_, model.last_.prequential < 1e-4 * model.last_.norm_squared
    (14, True)
    """

    takes_missing = False
    dense_only = True

    _: KW_ONLY
    forget: float = 0.9
    window: int | None = None
    state_limit: int = 2**30

    def _check_parameters(self) -> None:
        check_number("forget", self.forget, "(0, 1]", "Use 1 to never forget.")
        check_whole("state_limit", self.state_limit, 1)
        if self.window is not None and check_whole("window", self.window, 2) <= self.rank:
            raise DataError(
                f"window must be larger than rank, {self.rank}, but is {self.window}. Keep more "
                f"slices."
            )

    @property
    def _n_kept(self) -> int:
        return max(10, 2 * self.rank) if self.window is None else self.window

    def _largest_state(self, shape: tuple[int, ...]) -> int:
        rank = self.rank
        numbers = rank * (math.prod(shape) + sum(shape) + 2 * self._n_kept + 3 * rank + 2)
        return 8 * numbers

    def _begin(self, start: WarmStart, seed: int) -> ModelState:
        rows, basis = start.rows[-self._n_kept :], khatri_rao(start.factors).T
        window = None
        if len(rows) == self._n_kept:
            data = rows @ basis.T
            if start.slices:
                seen = start.slices[-self._n_kept :]
                data = np.array([x.to_dense().reshape(-1) for x in seen])
            fade = self.forget ** (np.arange(len(rows) - 1, -1, -1) / 2.0)
            window = decomposed(fade[:, None] * data, basis)
        if window is None:
            padded = np.zeros((self._n_kept, self.rank))
            padded[self._n_kept - len(rows) :] = rows
            window = rebuilt(basis, padded, start.mean)
        arrays = {} if window is None else vars(window)
        return ModelState(start.factors, start.newest, start.mean, arrays, {"warned": 0})

    def _move(
        self, state: ModelState, batch: Sequence[Slice], before: FloatArray, account: Account
    ) -> ModelState:
        (x,) = batch
        assert x.array is not None
        factors, s, arrays = state.factors, before, state.arrays
        if arrays:
            window = Window(**arrays).follow(x.array.reshape(-1), self.forget, before)
            factors = power_sweep(window.basis().T, state.factors)
            s, arrays = window.unturn @ window.right[-1], vars(window)
        return state.moved(factors, s, arrays, scalars=state.scalars)

    def _learn(
        self, state: ModelState, x: Slice, number: int, seed: int
    ) -> tuple[ModelState, StepRecord]:
        found, record = super()._learn(state, x, number, seed)
        if not state.scalars["warned"] and record.local > record.norm_squared > 0.0:
            found = replace(found, scalars={"warned": 1})
            warnings.warn(
                f"SDT explains slice {number} worse than zeros would (squared error "
                f"{record.local:.3g}, squared norm {record.norm_squared:.3g}): it diverges where "
                f"factors drift fast. Use RLST, or OnlineGCP.",
                DivergenceWarning,
                stacklevel=8,
            )
        return found, record
