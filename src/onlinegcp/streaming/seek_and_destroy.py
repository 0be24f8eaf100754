"""SeekAndDestroy: components that come, go and come back along the stream, batch by batch."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Literal, final

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from onlinegcp.checks import check_choice, check_number, check_whole
from onlinegcp.ktensor import KTensor
from onlinegcp.slices import Slice, stack
from onlinegcp.solvers.least_squares import solve_weights
from onlinegcp.static.auto_ten import auto_ten
from onlinegcp.static.cp_als import cp_als
from onlinegcp.streaming.columns import unit_columns
from onlinegcp.streaming.scoring import Account
from onlinegcp.streaming.state import FloatArray, ModelState
from onlinegcp.streaming.tracker import Tracker
from onlinegcp.streaming.warm_start import WarmStart

Match = Literal["all", "first"]


@final
@dataclass(frozen=True)
class Labels:
    """How a batch's components relate to those seen before; numbers count from 0.

    Attributes
    ----------
    new
        Components of the batch that were never seen.
    overlap_new, overlap_old
        Components of the batch seen before, and which ones they are.
    missing
        Components seen before that the batch does not have.
    signs
        For every overlap, the sign its weights get so that both point the same way.
    """

    new: tuple[int, ...]
    overlap_new: tuple[int, ...]
    overlap_old: tuple[int, ...]
    missing: tuple[int, ...]
    signs: tuple[float, ...]


def label_components(
    old: Sequence[NDArray[np.float64]],
    batch: Sequence[NDArray[np.float64]],
    *,
    threshold: float = 0.6,
    match: Match = "all",
) -> Labels:
    """Match a batch's components with stored ones: overlap, new or missing.

    Parameters
    ----------
    old, batch
        Factor matrices of the modes other than time, any scale.
    threshold
        Cosine from which two columns are the same concept.
    match
        "first": by the cosine of the first mode's columns, sign included, as the authors' code
        does. "all": by the product of the cosines of all modes, whose size must reach the
        threshold to the power of the number of modes; signs may differ.
    """
    (known, _), (found, _) = unit_columns(old), unit_columns(batch)
    cosines = np.array([a.T @ b for a, b in zip(known, found, strict=True)])
    score = cosines[0] if match == "first" else np.abs(np.prod(cosines, axis=0))
    least = threshold if match == "first" else threshold ** len(cosines)
    rows, columns = scipy.optimize.linear_sum_assignment(score, maximize=True)
    pairs = [(o, n) for o, n in zip(rows, columns, strict=True) if score[o, n] >= least]
    # In the order of the smaller side, as the authors list them.
    pairs.sort(key=lambda pair: pair[0 if score.shape[0] <= score.shape[1] else 1])
    taken_old, taken_new = {o for o, _ in pairs}, {n for _, n in pairs}
    signs = [float(np.sign(np.prod(cosines[:, o, n]))) for o, n in pairs]
    return Labels(
        tuple(n for n in range(score.shape[1]) if n not in taken_new),
        tuple(int(n) for _, n in pairs),
        tuple(int(o) for o, _ in pairs),
        tuple(o for o in range(score.shape[0]) if o not in taken_old),
        tuple(signs) if match == "all" else tuple(1.0 for _ in pairs),
    )


@final
@dataclass(eq=False, repr=False)
class SeekAndDestroy(Tracker):
    """Tracks which components are new, still there, or missing (Pasricha et al. 2018).

    Every batch of slices gets a CP model of its own, of a rank estimated by AutoTen. Its components
    are matched with those seen before: the known ones tell the weights of the batch's slices, new
    ones are added, missing ones get no weight. Stored columns are never refined.

    Parameters
    ----------
    rank
        Components of the warm start; the rank changes from there.
    batch
        Slices per batch.
    batch_rank
        Components of every batch, or "auto" to have AutoTen estimate them from 2 to twice the
        running rank.
    estimates
        Runs of AutoTen per batch, of which the most frequent answer counts; the authors make 10.
    max_rank
        Most components kept; beyond, those longest missing are given up. The bound is an addition
        to the paper, whose model grows without end.
    threshold, match
        When two columns are the same: see `label_components`.
    min_fit
        A batch whose CP fit, 1 - ||x - m|| / ||x||, is not above this is only weighed. The
        authors use 0.95, which noisy data never reach.
    init, init_slices, init_starts, ndim, mode_names
        As for every `StreamingModel`.
    random_state
        Seed of the warm start and of the batches' fits.

    Attributes
    ----------
    labels_
        The `Labels` of the newest batch; None before the first one and where it was only weighed.

    References
    ----------
    R. Pasricha, E. Gujral, E. Papalexakis, Identifying and alleviating concept drift in streaming
    tensor decomposition, ECML PKDD 2018.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> a, b = np.eye(9)[:, :3] + 0.1, np.eye(8)[:, 3:6] + 0.1
    >>> model = SeekAndDestroy(2, batch=5, init_slices=5)
    >>> for t in range(15):
    ...     s = rng.random(3) * [1, 1, t >= 10]
    ...     _ = model.partial_fit(Slice.dense(a * s @ b.T))
    >>> model.labels_.new != (), len(model.weights_)
    (True, 3)
    """

    takes_missing = False
    gathers = "batch"
    changes_rank = True
    bounded_by = "max_rank"

    _: KW_ONLY
    batch: int = 10
    batch_rank: int | Literal["auto"] = "auto"
    estimates: int = 1
    max_rank: int = 50
    threshold: float = 0.6
    match: Match = "all"
    min_fit: float = 0.0

    @property
    def labels_(self) -> Labels | None:
        arrays = self._ready().arrays
        if "new" not in arrays:
            return None
        names = ("new", "overlap_new", "overlap_old", "missing", "signs")
        return Labels(*(tuple(arrays[name].tolist()) for name in names))

    @property
    def batch_weights_(self) -> FloatArray:
        """Weights of the newest batch's slices, one row each."""
        return self._ready().arrays["rows"].copy()

    def _check_parameters(self) -> None:
        if self.batch_rank != "auto":
            check_whole("batch_rank", self.batch_rank, 1)
        for name in ("estimates", "max_rank"):
            check_whole(name, getattr(self, name), 1)
        check_number("threshold", self.threshold, "(0, 1]")
        check_number("min_fit", self.min_fit, "[0, 1)")
        check_choice("match", self.match, ("all", "first"))

    def _largest_state(self, shape: tuple[int, ...]) -> int | None:
        most = max(self.max_rank, self.rank)
        # Factors, the batch's rows, two rows of weights, counters and labels.
        return 8 * most * (sum(shape) + max(self.batch, self.init_slices) + 12)

    def _begin(self, start: WarmStart, seed: int) -> ModelState:
        start = start.normalised()
        arrays = {"absent": np.zeros(len(start.mean)), "rows": start.rows}
        return ModelState(start.factors, start.newest, start.mean, arrays)

    def _move(
        self, state: ModelState, batch: Sequence[Slice], before: FloatArray, account: Account
    ) -> ModelState:
        x, seed = stack(batch), self._seed + account.number
        fit = None
        if x.nnz:
            rank = self._batch_rank(x, len(state.weights), seed)
            fit = cp_als(x, rank, n_starts=4, tolerance=1e-7, max_iterations=1000, seed=seed)
        if fit is None or (fit.fit or 0.0) <= self.min_fit:
            rows = np.array([solve_weights(part, state.factors) for part in batch])
            arrays = {"absent": state.arrays["absent"], "rows": rows}
            return state.moved(state.factors, rows, arrays)
        return self._merge(state, fit.ktensor, account)

    def _batch_rank(self, x: Slice, running: int, seed: int) -> int:
        enough = max(1, math.prod(x.shape) // max(x.shape))  # so many fit any tensor exactly
        if self.batch_rank != "auto":
            return min(int(self.batch_rank), enough)
        most = min(max(2, min(2 * running, self.max_rank)), enough)
        answers = [auto_ten(x, most, seed=seed + k).rank for k in range(self.estimates)]
        return Counter(answers).most_common(1)[0][0]

    def _merge(self, state: ModelState, model: KTensor, account: Account) -> ModelState:
        """The running model with the batch's components sorted into it."""
        *factors, times = model.factors
        labels = label_components(
            state.factors, factors, threshold=self.threshold, match=self.match
        )
        # All scale into the rows: unit columns are what is kept and compared.
        rho = model.weights.copy()
        for a in factors:
            rho = rho * np.linalg.norm(a, axis=0)
        own = times * rho
        known, new = list(labels.overlap_old), list(labels.new)
        rows = np.zeros((len(own), len(state.weights) + len(new)))
        rows[:, known] = own[:, list(labels.overlap_new)] * labels.signs
        rows[:, len(state.weights) :] = own[:, new]
        born, _ = unit_columns([b[:, new] for b in factors])
        joined = [np.hstack([a, b]) for a, b in zip(state.factors, born, strict=True)]
        absent = np.append(state.arrays["absent"] + 1.0, np.zeros(len(new)))
        absent[known] = 0.0
        mean = np.append(state.mean_weights, np.zeros(len(new)))
        most = max(self.max_rank, self.rank)
        # The longest missing go first; ties go by age.
        keep = np.sort(np.argsort(absent, kind="stable")[:most])
        arrays: dict[str, NDArray[np.float64]] = {
            "absent": absent[keep],
            "rows": rows[:, keep],
            "new": np.array(labels.new, dtype=np.int64),
            "overlap_new": np.array(labels.overlap_new, dtype=np.int64),
            "overlap_old": np.array(labels.overlap_old, dtype=np.int64),
            "missing": np.array(labels.missing, dtype=np.int64),
            "signs": np.array(labels.signs),
        }
        account.details = {"births": len(new), "deaths": len(absent) - len(keep)}
        kept = [np.ascontiguousarray(a[:, keep]) for a in joined]
        return replace(state, mean_weights=mean[keep]).moved(kept, arrays["rows"], arrays)
