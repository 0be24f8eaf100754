"""AutoTen: the number of components by core consistency, for squared error and for counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
import numpy.typing as npt

from onlinegcp.errors import DataError
from onlinegcp.ktensor import KTensor
from onlinegcp.slices import Slice
from onlinegcp.static.cp_als import cp_als
from onlinegcp.static.cp_apr import cp_apr
from onlinegcp.static.inputs import read_tensor

FloatArray = npt.NDArray[np.float64]

# Consistencies below this say that the components do not stand for themselves.
CREDIBLE = 20.0
# Steps that the core of a count model gets, as in the authors' code.
CORE_STEPS = 30
# Cells that the count model's core may be fitted to; above, squared error alone decides.
DENSE_CELLS = 5_000_000
# Cells multiplied at a time.
BLOCK = 1024


@final
@dataclass(frozen=True)
class RankEstimate:
    """What `auto_ten` found.

    Attributes
    ----------
    rank
        The estimate.
    ranks
        Ranks tried.
    gaussian, poisson
        Core consistency of each, 100 at best; those below 20 count as 0. `poisson` is all zeros
        where the data cannot be counts.
    loss
        Which of the two decided.
    """

    rank: int
    ranks: tuple[int, ...]
    gaussian: FloatArray
    poisson: FloatArray
    loss: Literal["gaussian", "poisson"]


def core_consistency(
    x: Any, model: KTensor, *, loss: Literal["gaussian", "poisson"] = "gaussian"
) -> float:
    """How nearly the best core for a model's factors is the one of a CP model; 100 at best.

    A CP model is a Tucker model whose core has ones on the diagonal and zeros elsewhere. Fitting
    the core freely, with the factors held, shows whether the components need each other: 100 minus
    the squared distance of that core from the CP core, in percent of the rank (CORCONDIA).

    Parameters
    ----------
    x
        The tensor, complete: anything `as_slice` takes, or a list of slices.
    model
        Its CP model.
    loss
        What the core minimises: squared error in one solve, or the Poisson loss by 30
        multiplicative steps from equal numbers.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth = KTensor(None, [rng.random((n, 2)) for n in (6, 5, 4)])
    >>> round(core_consistency(truth.full(), truth), 6)
    100.0
    """
    tensor = read_tensor(x)
    if tensor.shape != model.shape or tensor.n_observed < tensor.size:
        raise DataError(
            f"core_consistency needs a complete tensor of the model's shape {model.shape}, but got "
            f"{tensor.shape} with {tensor.size - tensor.n_observed:,} missing cells. Fit the model "
            f"to this tensor, and fill in what is missing."
        )
    first, *others = model.factors
    factors = [first * model.weights, *others]
    core = (
        _contracted(tensor, [np.linalg.pinv(a) for a in factors])
        if loss == "gaussian"
        else _count_core(tensor.to_dense(), factors)
    )
    ideal = np.zeros_like(core)
    ideal[tuple([np.arange(model.rank)] * core.ndim)] = 1.0
    return float(100.0 * (1.0 - np.sum((core - ideal) ** 2) / model.rank))


def auto_ten(x: Any, max_rank: int, *, seed: int = 0) -> RankEstimate:
    """Estimate the number of components of a tensor from 2 to `max_rank`.

    Every rank is fitted by squared error (CP-ALS) and, where the data may be counts, by the Poisson
    loss (CP-APR). Two clusters of core consistencies, credible ones and others, are told apart for
    each loss; the largest rank of the credible cluster wins. Of the two losses the one with more
    consistency in all decides. Where no rank is credible at all the estimate is 1.

    Parameters
    ----------
    x
        The tensor, complete: anything `as_slice` takes, or a list of slices.
    max_rank
        Largest rank tried.
    seed
        Seed of the fits' random starts.

    References
    ----------
    E. Papalexakis, Automatic unsupervised tensor mining with quality assessment, SDM 2016.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth = KTensor(None, [rng.normal(size=(n, 2)) for n in (7, 6, 5)])
    >>> auto_ten(truth.full(), 4).rank
    2
    """
    tensor = read_tensor(x)
    ranks = tuple(range(2, max_rank + 1))
    counts = tensor.size <= DENSE_CELLS and float(tensor.value.min(initial=0.0)) >= 0.0
    found: dict[str, list[float]] = {"gaussian": [], "poisson": []}
    for rank in ranks:
        fit = cp_als(tensor, rank, seed=seed, tolerance=1e-6, max_iterations=100)
        found["gaussian"].append(_credible(core_consistency(tensor, fit.ktensor)))
        if counts:
            fit = cp_apr(tensor, rank, seed=seed, method="mu", max_iterations=100)
            found["poisson"].append(
                _credible(core_consistency(tensor, fit.ktensor, loss="poisson"))
            )
        else:
            found["poisson"].append(0.0)
    scores = {name: np.array(values) for name, values in found.items()}
    loss: Literal["gaussian", "poisson"] = (
        "poisson" if scores["poisson"].sum() > scores["gaussian"].sum() else "gaussian"
    )
    return RankEstimate(
        _largest_of_upper_cluster(ranks, scores[loss]),
        ranks,
        scores["gaussian"],
        scores["poisson"],
        loss,
    )


def _credible(consistency: float) -> float:
    return consistency if consistency >= CREDIBLE else 0.0


def _largest_of_upper_cluster(ranks: Sequence[int], consistency: FloatArray) -> int:
    """Two-means (by absolute distance) of the consistencies; the best split is found by trying."""
    if not len(ranks) or consistency.max() == 0.0:
        return 1
    ordered = np.sort(consistency)
    if ordered[0] == ordered[-1]:
        return max(ranks)
    costs = [_spread(ordered[:k]) + _spread(ordered[k:]) for k in range(1, len(ordered))]
    threshold = ordered[1 + int(np.argmin(costs))]
    return max(rank for rank, c in zip(ranks, consistency, strict=True) if c >= threshold)


def _spread(values: FloatArray) -> float:
    return float(np.sum(np.abs(values - np.median(values))))


def _contracted(x: Slice, matrices: Sequence[FloatArray]) -> FloatArray:
    """The tensor times one matrix (R, I_k) per mode."""
    if x.array is not None:
        core = x.array
        for matrix in matrices:  # the first axis goes, the new one comes last: a full turn
            core = np.tensordot(core, matrix, axes=(0, 1))
        return np.asarray(core)
    rank = len(matrices[0])
    total = np.zeros(rank ** len(matrices))
    for start in range(0, x.n_listed, BLOCK):
        cells = x.index[start : start + BLOCK]
        product = x.value[start : start + BLOCK, None]
        for k, matrix in enumerate(matrices):
            columns = matrix.T[cells[:, k]]
            product = (product[:, :, None] * columns[:, None, :]).reshape(len(cells), -1)
        total += product.sum(axis=0)
    return total.reshape([rank] * len(matrices))


def _count_core(x: FloatArray, factors: Sequence[FloatArray]) -> FloatArray:
    """Nonnegative core under the Poisson loss; each step lowers it (majorisation)."""
    rank = factors[0].shape[1]
    sums = np.ones(())
    for a in factors:
        sums = np.multiply.outer(sums, a.sum(axis=0))
    sums = np.maximum(sums, np.finfo(float).tiny)
    core = np.full([rank] * len(factors), float(x.sum()) / max(float(sums.sum()), 1e-300))
    for _ in range(CORE_STEPS):
        model = core
        for a in factors:
            model = np.tensordot(model, a, axes=(0, 1))
        ratio = np.divide(x, model, out=np.zeros_like(x), where=model > 0.0)
        for a in factors:
            ratio = np.tensordot(ratio, a, axes=(0, 0))
        core = core * ratio / sums
    return core
