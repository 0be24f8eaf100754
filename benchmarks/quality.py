"""How good a model is, computed here from its factors so that every contestant is judged alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from onlinegcp.slices import Slice

EPSILON = 1e-10


def model_values(
    index: np.ndarray, weights: np.ndarray, factors: Sequence[np.ndarray]
) -> np.ndarray:
    """Model at the listed cells."""
    product = np.array(np.broadcast_to(weights, (len(index), len(weights))))
    for k, factor in enumerate(factors):
        product *= factor[index[:, k]]
    return product.sum(axis=1)


def poisson_loss(
    index: np.ndarray, value: np.ndarray, weights: np.ndarray, factors: Sequence[np.ndarray]
) -> float:
    """Exact sum of m - x log(m + eps) over all cells; the zeros come from column sums."""
    total = (weights * np.prod([a.sum(axis=0) for a in factors], axis=0)).sum()
    m = model_values(index, weights, factors)
    return float(total - value @ np.log(m + EPSILON))


def fit(
    index: np.ndarray, value: np.ndarray, weights: np.ndarray, factors: Sequence[np.ndarray]
) -> float:
    """1 - ||X - M|| / ||X|| by Gram matrices."""
    gram = np.prod([a.T @ a for a in factors], axis=0)
    square = value @ value
    inner = value @ model_values(index, weights, factors)
    residual = square - 2.0 * inner + weights @ gram @ weights
    return float(1.0 - np.sqrt(max(residual, 0.0) / square))


def kkt_violation(
    index: np.ndarray, value: np.ndarray, weights: np.ndarray, factors: Sequence[np.ndarray]
) -> float:
    """Largest |min(B, 1 - Phi)| over modes, B = A_k diag(weights), other columns summing to one.

    This is the stopping rule of CP-APR (Chi and Kolda 2012, equation 4.8).
    """
    sums = [a.sum(axis=0) for a in factors]
    columns = [a / s for a, s in zip(factors, sums, strict=True)]
    scale = weights * np.prod(sums, axis=0)
    ratio = value / np.maximum(model_values(index, scale, columns), EPSILON)
    worst = 0.0
    for k, column in enumerate(columns):
        others = np.prod([a[index[:, j]] for j, a in enumerate(columns) if j != k], axis=0)
        phi = np.zeros_like(column)
        np.add.at(phi, index[:, k], ratio[:, None] * others)
        worst = max(worst, float(np.abs(np.minimum(column * scale, 1.0 - phi)).max()))
    return worst


def refitted_loss(x: Slice, factors: Sequence[np.ndarray], loss: str) -> float:
    """Loss of a slice over its squared norm, with the best weights for the given factors.

    Columns are scaled to sum to one before the weights are solved, which changes nothing but
    units: every contestant's factors are judged by the same solver and the same exact sum.
    """
    from onlinegcp.evaluate import local_loss
    from onlinegcp.losses import get_loss
    from onlinegcp.solvers.least_squares import solve_weights

    resolved = get_loss(loss)
    if resolved.name == "gaussian":
        return local_loss(x, solve_weights(x, factors), factors, loss)
    from onlinegcp.kernels.layout import stack_factors
    from onlinegcp.solvers.auto.cells import cells_of
    from onlinegcp.solvers.auto.newton import solve_odds_form, start_weights
    from onlinegcp.solvers.auto.odds_sums import OddsSums

    sums = [a.sum(axis=0) for a in factors]
    columns = [a / np.where(s > 0, s, 1.0) for a, s in zip(factors, sums, strict=True)]
    blocks, form = stack_factors(columns), resolved.traits.odds_form
    assert form is not None
    cells = OddsSums(blocks, cells_of(x), form)
    total = cells.column_sums() if form.linear else np.ones(blocks.width)
    begin = start_weights(np.zeros(blocks.width), x.total, total, blocks.rank)
    found = solve_odds_form(cells, begin, tolerance=1e-7, max_steps=200)
    return local_loss(x, found.weights[: blocks.rank], columns, loss)
