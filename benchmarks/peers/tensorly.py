"""TensorLy 0.10.0: CP-ALS of the dense array, its only fast way; it has no GCP and no CP-APR."""

from __future__ import annotations

from typing import Any

import numpy as np
from tensorly.cp_tensor import CPTensor
from tensorly.decomposition import parafac

from benchmarks.timing import clock

Outcome = tuple[float, np.ndarray, list[np.ndarray], dict[str, float]]


def cp_als(problem: dict[str, Any], sweeps: int) -> Outcome:
    """Sweeps over the densified tensor from the given start, without a stopping rule."""
    shape = tuple(problem["shape"].tolist())
    array = np.zeros(shape)
    array[tuple(problem["index"].T)] = problem["value"]
    factors = [problem[f"start{k}"].copy() for k in range(len(shape))]
    start = CPTensor((np.ones(factors[0].shape[1]), factors))
    begin = clock()
    model = parafac(array, factors[0].shape[1], init=start, n_iter_max=sweeps, tol=None)
    seconds = clock() - begin
    return seconds, model.weights, model.factors, {}
