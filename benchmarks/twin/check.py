"""The twin's gradient against NumPy: nobody should be proud of beating wrong numbers."""

from __future__ import annotations

import numpy as np

from benchmarks.problems import Case
from benchmarks.twin import Twin

EPSILON = 1e-10
SLOPES = {
    "gaussian": lambda x, m: 2.0 * (m - x),
    "poisson": lambda x, m: 1.0 - x / (m + EPSILON),
    "bernoulli_odds": lambda x, m: 1.0 / (1.0 + m) - x / (m + EPSILON),
}


def gradient_error(case: Case, twin: Twin) -> float:
    """Largest difference between the twin's gradient at the start and NumPy's from its samples.

    Relative to the largest entry of each mode's gradient.
    """
    rows, x, weight, found = twin.gradient()
    modes = range(len(case.shape))
    parts = [case.factors[k][rows[:, k]] for k in modes]
    m = np.prod(parts, axis=0) @ case.weights
    y = (weight * SLOPES[case.loss](x, m))[:, None] * case.weights
    worst = 0.0
    for k in modes:
        others = [j for j in modes if j != k]
        new = np.prod([case.factors[j].T @ case.factors[j] for j in others], axis=0)
        old = np.prod([case.old_factors[j].T @ case.factors[j] for j in others], axis=0)
        gradient = case.factors[k] @ (new * case.history)
        gradient -= case.old_factors[k] @ (old * case.history)
        np.add.at(gradient, rows[:, k], y * np.prod([parts[j] for j in others], axis=0))
        worst = max(worst, float(np.abs(gradient - found[k]).max() / np.abs(gradient).max()))
    return worst
