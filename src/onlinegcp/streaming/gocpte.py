"""GOCPTE: alternating least squares on each slice, the whole past held as one R x R matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import final

import numpy as np

from onlinegcp.checks import check_number, check_whole
from onlinegcp.slices import Slice
from onlinegcp.solvers.least_squares import (
    gram,
    row_systems,
    solve_normal,
    solve_rows,
    solve_weights,
    weighted_mttkrp,
)
from onlinegcp.streaming.scoring import Account
from onlinegcp.streaming.state import FloatArray, ModelState
from onlinegcp.streaming.tracker import Tracker
from onlinegcp.streaming.warm_start import WarmStart


@final
@dataclass(eq=False, repr=False)
class GOCPTE(Tracker):
    """Least squares against the new slice and what the old model made of all old ones (Yang 2022).

    Every pass solves the weights s of the slice, then mode by mode the factors of

        ||X - M||^2 + past_weight sum_h ||Mbar_h - M_h||^2 + ridge (|s|^2 + sum_k ||A_k||^2)

    with Mbar_h what the factors from before the pass made of slice h. After a pass over a complete
    slice the weights of all old slices follow the new factors. They enter only through
    G = sum_h s_h s_h', and G <- M'GM does the same, so that no old weight is kept; the authors'
    package keeps them all.

    In a slice with gaps every row has its own system, and old weights are left as they are, as in
    the authors' package.

    Parameters
    ----------
    rank
        Number of components.
    passes
        Passes over a slice.
    past_weight
        Weight of all old slices against the new one (alpha of the paper).
    forget
        Share of G that is kept per slice, in (0, 1]; the paper forgets nothing.
    ridge
        Penalty on weights and factors.
    state_limit
        Most bytes that the systems of a slice with gaps may take, 8 R^2 for every row of the
        longest mode.
    init, init_slices, init_starts, random_state, ndim, mode_names
        As for every `StreamingModel`.

    References
    ----------
    C. Yang, C. Qian, J. Sun, GOCPT: generalized online canonical polyadic tensor factorization
    and completion, IJCAI 2022.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.random((6, 2)), rng.random((5, 2))
    >>> model = GOCPTE(2, init_slices=4)
    >>> for _ in range(8):
    ...     _ = model.partial_fit(Slice.dense(a * rng.random(2) @ b.T))
    >>> model.n_slices_, model.last_.prequential < 1e-4 * model.last_.norm_squared
    (8, True)
    """

    takes_missing = True

    _: KW_ONLY
    passes: int = 3
    past_weight: float = 1.0
    forget: float = 1.0
    ridge: float = 1e-6
    state_limit: int = 2**30

    def _check_parameters(self) -> None:
        check_whole("passes", self.passes, 1)
        check_whole("state_limit", self.state_limit, 1)
        check_number("forget", self.forget, "(0, 1]", "Use 1 to never forget.")
        check_number("past_weight", self.past_weight, "(0, inf)", "Use 1 to count slices alike.")
        check_number("ridge", self.ridge, "[0, inf)", "Use 0 for none.")

    def _largest_state(self, shape: tuple[int, ...]) -> int:
        held = self.rank * (sum(shape) + self.rank + 2)
        return 8 * (held + max(shape) * self.rank**2)

    def _begin(self, start: WarmStart, seed: int) -> ModelState:
        past = {"past": start.past(self.forget)}
        return ModelState(start.factors, start.newest, start.mean, past)

    def _move(
        self, state: ModelState, batch: Sequence[Slice], before: FloatArray, account: Account
    ) -> ModelState:
        (x,), s = batch, before
        factors, past = list(state.factors), self.forget * state.arrays["past"]
        eye = self.ridge * np.eye(self.rank)
        for turn in range(self.passes):
            old = tuple(factors)
            if turn > 0:
                s = solve_weights(x, factors, penalty=2.0 * self.ridge)
            for k in range(len(factors)):
                factors[k] = self._update(x, factors, old, s, past, k)
            if x.n_observed == x.size:
                follow = solve_normal(gram(factors) + eye, _cross(old, factors))
                past = follow.T @ past @ follow
        past = past + np.outer(s, s)
        # In the order in which a file gives them back: sums in another order round differently.
        kept = [np.ascontiguousarray(a) for a in factors]
        return state.moved(kept, s, {"past": past})

    def _weigh(self, state: ModelState, x: Slice, seed: int, tolerance: float | None) -> FloatArray:
        # `solve_weights` halves its penalty, as the paper of OnlineGCP does; this one does not.
        return solve_weights(x, state.factors, penalty=2.0 * self.ridge)

    def _update(
        self,
        x: Slice,
        factors: list[FloatArray],
        old: tuple[FloatArray, ...],
        s: FloatArray,
        past: FloatArray,
        mode: int,
    ) -> FloatArray:
        """The rows of one mode, all other modes held fixed."""
        others, eye = gram(factors, skip=mode), self.ridge * np.eye(self.rank)
        kept = self.past_weight * (others * past) + eye
        right = self.past_weight * (old[mode] @ (_cross(old, factors, skip=mode) * past))
        if x.n_observed == x.size:
            right = right + weighted_mttkrp(x, factors, s, mode)
            return solve_normal(others * np.outer(s, s) + kept, right)
        systems, slopes = row_systems(x, factors, s, mode)
        # The step from the present rows, because the sums are over their errors.
        slopes = slopes + right - factors[mode] @ kept
        return factors[mode] + solve_rows(systems + kept, slopes)


def _cross(
    old: tuple[FloatArray, ...], new: list[FloatArray], *, skip: int | None = None
) -> FloatArray:
    """Products of old with new components, over all modes but one."""
    product = np.ones((new[0].shape[1],) * 2)
    for k, (before, after) in enumerate(zip(old, new, strict=True)):
        if k != skip:
            product *= before.T @ after
    return product
