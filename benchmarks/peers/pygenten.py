"""pygenten 0.1.5: the C++ code of the paper's authors, with its own fastest settings.

Of its options, `fuse` (sample and add the gradient in one kernel) with the sorted membership test
was the fastest on one thread; `hash` and `fuse_sa` were slower.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pygenten

from benchmarks.timing import clock

Outcome = tuple[float, np.ndarray, list[np.ndarray], dict[str, float]]


def cp_als(problem: dict[str, Any], sweeps: int) -> Outcome:
    """Sweeps from the given start, without a stopping rule."""
    x, start = _tensor(problem), _start(problem)
    begin = clock()
    model, _, _ = pygenten.cp_als(
        x, init=start, rank=_rank(problem), maxiters=sweeps, tol=1e-300, printitn=0
    )
    return _outcome(clock() - begin, model)


def gcp_stratified(
    problem: dict[str, Any], iterations: int, listed: int, zeros: int, rate: float
) -> Outcome:
    """One epoch of Adam on the Poisson loss."""
    x, start = _tensor(problem), _start(problem)
    begin = clock()
    model, _, _ = pygenten.gcp_sgd(
        x,
        init=start,
        rank=_rank(problem),
        loss_function_type="poisson",
        sampling_type=pygenten.Stratified,
        num_samples_nonzeros_grad=listed,
        num_samples_zeros_grad=zeros,
        num_samples_nonzeros_value=1_000,
        num_samples_zeros_value=1_000,
        maxiters=1,
        epoch_iters=iterations,
        rate=rate,
        fuse=True,
        printitn=0,
    )
    return _outcome(clock() - begin, model)


def _tensor(problem: dict[str, Any]) -> pygenten.Sptensor:
    return pygenten.Sptensor(
        tuple(problem["shape"].tolist()),
        np.ascontiguousarray(problem["index"], np.uint64),
        problem["value"][:, None],
        copy=True,
    )


def _start(problem: dict[str, Any]) -> pygenten.Ktensor:
    factors = [np.ascontiguousarray(problem[f"start{k}"]) for k in range(len(problem["shape"]))]
    return pygenten.Ktensor(np.ones(_rank(problem)), factors, copy=True)


def _rank(problem: dict[str, Any]) -> int:
    return int(problem["start0"].shape[1])


def _outcome(seconds: float, model: pygenten.Ktensor) -> Outcome:
    factors = [np.array(factor) for factor in model.factor_matrices]
    return seconds, np.array(model.weights), factors, {}
