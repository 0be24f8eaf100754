"""Where static solvers begin: checked ranks, initial factors, and the best of several starts.

Seeds are nested: start number i of seed s is the same whatever the number of starts, so asking
for more starts never makes the answer worse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from onlinegcp.checks import LARGEST_RANK, check_whole
from onlinegcp.errors import DataError

if TYPE_CHECKING:
    from onlinegcp.ktensor import KTensor
    from onlinegcp.losses import Loss
    from onlinegcp.slices import Slice

FloatArray = npt.NDArray[np.float64]


class HasObjective(Protocol):
    """Anything with the value a solver reached."""

    @property
    def objective(self) -> float:
        """Value of the minimised function."""


Fit = TypeVar("Fit", bound=HasObjective)


def best_of(n_starts: int, fit: Callable[[np.random.Generator], Fit], seed: int = 0) -> Fit:
    """Run a solver from several random starts and keep the lowest objective.

    Parameters
    ----------
    n_starts
        Number of starts, at least 1.
    fit
        Called with one random generator per start.
    seed
        Start i uses the generator of (seed, i).

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> found = best_of(5, lambda rng: SimpleNamespace(objective=rng.random()), seed=1)
    >>> round(found.objective, 3)
    0.014
    """
    count = check_whole("n_starts", n_starts, 1)
    best = fit(start_generator(seed, 0))
    for i in range(1, count):
        candidate = fit(start_generator(seed, i))
        # A start that ended in NaN loses to anything, and never replaces anything.
        if candidate.objective < best.objective or math.isnan(best.objective):
            best = candidate
    return best


def start_generator(seed: int, number: int) -> np.random.Generator:
    """Return the random generator of one start."""
    return np.random.default_rng([check_whole("seed", seed, 0), number])


def check_rank(rank: object, shape: Sequence[int]) -> int:
    """Return the rank as an int, or say why it cannot be one for a tensor of this shape.

    Every tensor is the sum of as many components as the product of all its lengths but one, so
    a rank above the smallest such product asks for components that can only be redundant.
    """
    value = check_whole("rank", rank, 1, LARGEST_RANK)
    longest = max(shape, default=1)
    enough = max(1, math.prod(shape) // max(1, longest))
    if value > enough:
        raise DataError(
            f"rank must be at most {enough} for a tensor of shape {tuple(shape)}, which that many "
            f"components fit exactly, but is {value}. Use a smaller rank."
        )
    return value


def random_start(
    shape: Sequence[int],
    rank: int,
    rng: np.random.Generator,
    *,
    nonnegative: bool = True,
    norm: float | None = None,
) -> list[FloatArray]:
    """Return random factors whose model has a given 2-norm, the scale shared by all modes.

    Parameters
    ----------
    shape
        Lengths of the modes.
    rank
        Number of components.
    rng
        Source of the random numbers.
    nonnegative
        Entries uniform in (0, 1] (never exactly zero: a zero row under a logarithm has a slope
        of 1e10 and stays frozen), otherwise standard normal.
    norm
        2-norm of the model; unscaled when None.
    """
    if nonnegative:
        factors = [1.0 - rng.random((n, rank)) for n in shape]
    else:
        factors = [rng.standard_normal((n, rank)) for n in shape]
    return factors if norm is None else scale_to_norm(factors, norm)


def scale_to_norm(factors: Sequence[FloatArray], norm: float) -> list[FloatArray]:
    """Return the factors times one common number, so that their model has the given 2-norm."""
    grams = [a.T @ a for a in factors]
    current = math.sqrt(max(0.0, float(np.prod(grams, axis=0).sum())))
    if current == 0.0:
        return [a.copy() for a in factors]
    scale = (norm / current) ** (1.0 / len(factors))
    return [a * scale for a in factors]


def start_norm(x: Slice, loss: Loss | None = None) -> float:
    """Return the 2-norm a starting model should have for this slice and loss.

    That of the data, as if the missing cells looked like the observed ones. Where the model
    lives on another scale than the data (the logarithm or the log odds of the mean), counts of
    1000 would start at exp(1000), so there the root mean square model value is at most 1.
    """
    if x.n_observed == 0 or x.norm_squared == 0.0:
        return math.sqrt(x.size)
    mean_square = x.norm_squared / x.n_observed
    if loss is not None and has_link(loss):
        mean_square = min(mean_square, 1.0)
    return math.sqrt(mean_square) * math.sqrt(x.size)


def has_link(loss: Loss) -> bool:
    """Whether the mean of the data is a nonlinear function of an unbounded model value."""
    if loss.lower > -np.inf:
        return False
    m = np.array([-1.0, 0.0, 1.0, 2.0])
    return not np.allclose(loss.mean(m), m)


def start_from(init: KTensor, shape: Sequence[int], rank: int, lower: float) -> list[FloatArray]:
    """Return a given model as factors without weights, ready to be improved.

    Parameters
    ----------
    init
        The model to start from; it is not changed.
    shape, rank
        What the model must look like.
    lower
        Smallest value an entry may have; entries below it are raised to it, except that a
        negative entry under a nonnegative loss is refused.
    """
    found = tuple(a.shape[0] for a in init.factors)
    if found != tuple(shape) or init.weights.shape[0] != rank:
        raise DataError(
            f"init must have shape {tuple(shape)} and rank {rank}, but has shape {found} and rank "
            f"{init.weights.shape[0]}. Pass a KTensor of the data's shape, or leave init out."
        )
    if not all(np.isfinite(a).all() for a in (init.weights, *init.factors)):
        raise DataError("init must be finite, but holds NaN or infinity. Pass a finite KTensor.")
    factors = balance(init.weights, init.factors)
    smallest = min((float(a.min()) for a in factors if a.size), default=0.0)
    if smallest < 0.0 <= lower:
        raise DataError(
            f"init must not be negative under a loss bounded below by {lower}, but has the entry "
            f"{smallest}. Pass a nonnegative KTensor, or leave init out."
        )
    return [np.maximum(a, lower) for a in factors]


def balance(weights: FloatArray, factors: Sequence[FloatArray]) -> list[FloatArray]:
    """Return factors of the same model without weights, each component equally long in all modes.

    Equal lengths are the best conditioned of all scalings that describe one model. A negative
    weight turns the sign of the first mode.
    """
    norms = np.array([np.linalg.norm(a, axis=0) for a in factors])
    total = np.abs(weights) * np.prod(norms, axis=0)
    length = total ** (1.0 / len(factors))
    scales = np.divide(length, norms, out=np.zeros_like(norms), where=norms > 0.0)
    balanced = [a * scale for a, scale in zip(factors, scales, strict=True)]
    balanced[0] *= np.where(weights < 0.0, -1.0, 1.0)
    return balanced
