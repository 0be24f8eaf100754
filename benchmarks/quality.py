"""How good a model is, computed here from its factors so that every contestant is judged alike."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

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
