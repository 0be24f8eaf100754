"""OnlineSGD: OnlineGCP's special case with one gradient step per slice and no history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal, final

import numpy as np

from onlinegcp.checks import check_choice, check_number
from onlinegcp.slices import Slice
from onlinegcp.solvers.least_squares import gram, solve_weights
from onlinegcp.solvers.sgd import SgdSettings, solve_sgd
from onlinegcp.streaming.scoring import Account
from onlinegcp.streaming.state import FloatArray, ModelState
from onlinegcp.streaming.tracker import Tracker
from onlinegcp.streaming.warm_start import WarmStart


@final
@dataclass(eq=False, repr=False)
class OnlineSGD(Tracker):
    """Least-squares weights, then one gradient step on the factors (Mardani et al. 2015).

    Parameters
    ----------
    rank
        Number of components.
    rate
        Step length on the squared error sum (x - m)^2, the same for every slice, or "auto" for the
        adaptive rule: ``relative_rate`` over the largest curvature of the slice's problem, which
        makes the method indifferent to the units of the data.
    relative_rate
        Share of the largest stable step that "auto" takes.
    decay
        How fast either step shrinks with the slice number t, as 1 / (1 + decay t); 0 keeps it.
    ridge
        Penalty lambda / 2 |s|^2 on the weights.
    factor_penalty
        Penalty lambda_t / 2 ||A_k||^2 on the factors at slice t, with lambda_t = this / t.
    variant
        "paper", or "tecpsgd" for what the authors' code of that name does: the penalty on the
        factors stays the same, every step is kept even if it raises the loss of the slice, and
        the weights are fitted once more after it.
    init, init_slices, init_starts, random_state, ndim, mode_names
        As for every `StreamingModel`.

    Notes
    -----
    TeCPSGD takes lambda and a first step eta on half the squared error: the same as
    ``variant="tecpsgd"`` with ``rate=eta / 2``, ``decay=lambda * eta`` and
    ``ridge=factor_penalty=2 * lambda``.

    References
    ----------
    M. Mardani, G. Mateos, G. Giannakis, Subspace learning and imputation for streaming big data
    matrices and tensors, IEEE TSP 2015.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.random((6, 2)), rng.random((5, 2))
    >>> model = OnlineSGD(2, init_slices=4)
    >>> for _ in range(8):
    ...     _ = model.partial_fit(Slice.dense(a * rng.random(2) @ b.T))
    >>> model.n_slices_, model.last_.prequential < 1e-4 * model.last_.norm_squared
    (8, True)
    """

    takes_missing = True

    rank: int = 10
    _: KW_ONLY
    rate: float | Literal["auto"] = "auto"
    relative_rate: float = 0.1
    decay: float = 0.0
    ridge: float = 0.0
    factor_penalty: float = 0.0
    variant: Literal["paper", "tecpsgd"] = "paper"

    def _check_parameters(self) -> None:
        if not (isinstance(self.rate, str) and self.rate == "auto"):
            check_number("rate", self.rate, "(0, inf)", "Use 'auto' to have it chosen.")
        check_number("relative_rate", self.relative_rate, "(0, 1]")
        for name in ("decay", "ridge", "factor_penalty"):
            check_number(name, getattr(self, name), "[0, inf)", "Use 0 for none.")
        check_choice("variant", self.variant, ("paper", "tecpsgd"))

    def _begin(self, start: WarmStart, seed: int) -> ModelState:
        return ModelState(start.factors, start.newest, start.mean)

    def _move(
        self, state: ModelState, batch: Sequence[Slice], before: FloatArray, account: Account
    ) -> ModelState:
        (x,), number = batch, account.number
        settings = SgdSettings(
            step="sgd",
            rate=self._rate_at(state.factors, before, number),
            epochs=1,
            iterations=1,
            sampler="dense" if x.n_observed == x.size else "all",
            ridge=self.factor_penalty / (number if self.variant == "paper" else 1),
            take_back=self.variant == "paper",
        )
        moved = solve_sgd(
            x, state.factors, before, self.loss_, settings, update=("factors",), slice_number=number
        )
        account.lap("factors")
        account.details = {
            "objective": moved.objective,
            "factor_epochs": moved.epochs,
            "factor_failures": moved.failures,
        }
        if self.variant == "paper":
            return state.moved(moved.factors, before)
        weights = solve_weights(x, moved.factors, penalty=self.ridge)
        account.lap("weights")
        return state.moved(moved.factors, weights)

    def _weigh(self, state: ModelState, x: Slice, seed: int, tolerance: float | None) -> FloatArray:
        return solve_weights(x, state.factors, penalty=self.ridge)

    def _rate_at(self, factors: tuple[FloatArray, ...], weights: FloatArray, number: int) -> float:
        shrink = 1.0 / (1.0 + self.decay * number)
        if self.rate != "auto":
            return float(self.rate) * shrink
        # Gradient steps on block k are stable below 2 over its largest curvature,
        # 2 * eigenvalue of (s s') * (Z_k'Z_k); the modes move together, hence the sum.
        outer = np.outer(weights, weights)
        curvature = sum(
            2.0 * float(np.linalg.eigvalsh(gram(factors, skip=k) * outer)[-1])
            for k in range(len(factors))
        )
        return self.relative_rate * shrink / max(curvature, np.finfo(float).tiny)
