"""The weights of one slice under any loss, factors held fixed: damped Fisher scoring.

Losses without a finite optimum get a weak Gaussian prior from the weights of the past.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.layout import Blocks
from onlinegcp.losses import Loss
from onlinegcp.solvers.auto.cells import Weighted
from onlinegcp.solvers.auto.fisher_sums import FisherSums
from onlinegcp.solvers.auto.model import Model
from onlinegcp.solvers.auto.newton import Move, Solution, away_from_zero, damped_step

Array = NDArray[Any]

MOST_RESTRAINT = 1e-4  # by which share of themselves weights may become smaller
CANCELLING = 4.0  # times the squared norm of a slice
OPPOSED = 16.0  # the same for slices of several modes, whose patterns may well overlap
PARTING = 1e-3  # the penalty that drives patterns apart: ten times the most restraint
MOST_BEYOND = 1e6  # times the largest value of a slice that a component may say somewhere


@dataclass(frozen=True)
class Prior:
    """Independent Gaussians for the weights: centre and precision (width,)."""

    center: Array
    precision: Array


def restraint(model: Model, variance: float) -> float:
    """Penalty per squared weight that keeps signed patterns from growing against each other.

    Slices of one mode are fitted equally well by any mixture of their patterns, two huge ones that
    cancel included. There a weight as large as a slice costs as much as the misfit of a slice, and
    weights become smaller by less than one part in ten thousand. Slices of more modes tell patterns
    apart, and are left alone. Once the squared weights exceed what slices hold many times over,
    patterns do cancel, and the penalty drives them apart whatever the number of modes.

    Parameters
    ----------
    model
        Its usual weights and the usual size of its slices are compared.
    variance
        Squared error per cell.
    """
    if model.bounded or not model.volume > 0.0:
        return 0.0
    alone = model.factors.ndim == 1
    held = float(model.usage @ model.usage)
    limit = CANCELLING if alone else OPPOSED
    if held > limit * model.volume * math.prod(model.factors.shape):
        return PARTING
    return min(variance / model.volume, MOST_RESTRAINT) if alone else 0.0


def weight_prior(
    loss: Loss, mean: Array, variance: Array, dispersion: float, rank: int
) -> Prior | None:
    """The prior that weights of this mean and variance (width,) make; None for none."""
    strength = loss.traits.prior_strength
    if strength == 0.0 or not variance.any():
        return None
    least = 0.01 * mean**2 + 1e-4 * float(np.mean(mean[:rank] ** 2)) + 1e-300
    precision = np.zeros_like(mean)
    precision[:rank] = (strength * dispersion / np.maximum(variance, least))[:rank]
    return Prior(mean, precision)


def ceiling(factors: Blocks, cells: Weighted) -> Array | None:
    """Largest weights (width,) that a model of nonnegative parts can need; None for no limit.

    A loss that cannot bear values below its data (gamma: x / m) would raise a weight without end
    for a row that is close to zero. Where a pattern is largest it then says far more than any
    value there is, and its rows, not its weight, are what must move.
    """
    largest = float(cells.value.max(initial=0.0))
    if largest <= 0.0:
        return None
    peaks = np.prod([view.max(axis=0) for view in factors.views()], axis=0)
    found = np.zeros(factors.width)
    found[: factors.rank] = MOST_BEYOND * largest / np.maximum(peaks, 1e-300)
    return found


def start_candidates(last: Array, mean: Array, bounded: bool, rank: int) -> list[Array]:
    """Starts for the weights: the last ones, their mean, and zero where zero is safe."""
    if not bounded:
        return [last, mean, np.zeros_like(last)]
    return [away_from_zero(start, rank) for start in (last, mean)]


def solve_weights(
    sums: FisherSums,
    starts: list[Array],
    prior: Prior | None = None,
    *,
    bounded: bool,
    most: Array | None = None,
    tolerance: float = 1e-10,
    max_steps: int = 50,
) -> Solution:
    """Minimise the loss of a slice over the weights by damped Fisher scoring.

    Parameters
    ----------
    sums
        The slice and the loss, with the factors.
    starts
        Candidates (width,); the best one is the start.
    prior
        The prior on the weights; None for none.
    bounded
        Keep the weights at or above zero.
    most
        What each weight may be at most (width,), where they are bounded.
    tolerance
        Newton decrement at which to stop, relative to 1 + |objective|.
    max_steps
        Steps at most.
    """
    width, rank = sums.factors.width, sums.factors.rank
    if prior is None:
        prior = Prior(np.zeros(width), np.zeros(width))
    center, precision = prior.center, prior.precision

    def objective(at: Array) -> tuple[float, float]:
        data = sums.value(at)
        return data + 0.5 * float(precision @ (at - center) ** 2), data

    if most is not None:
        starts = [np.minimum(start, most) for start in starts]
    tried = [(*objective(candidate), k) for k, candidate in enumerate(starts)]
    total, data, best = min(tried, key=lambda t: t[0] if math.isfinite(t[0]) else math.inf)
    weights = starts[best].copy()
    steps, decrement = 0, math.inf
    while steps < max_steps:
        slope, hessian = sums.weight_sums(weights)
        slope += precision * (weights - center)
        hessian.flat[:: width + 1] += precision
        free = np.zeros(width, dtype=np.bool_)
        free[:rank] = True
        if bounded:
            free[:rank] &= ~((weights[:rank] <= 1e-8 * weights.max()) & (slope[:rank] > 0.0))
        move = Move(weights, slope, hessian, free, bounded=bounded, most=most)
        decrement = 0.5 * float(slope[free] @ move.step[free])
        if decrement <= tolerance * (1.0 + abs(total)):
            break
        found = damped_step(move, np.diag(hessian), total, objective)
        if found is None:
            break
        steps += 1
        weights, (total, data) = found
    return Solution(weights, data, steps, decrement)
