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


def online_gcp(
    problem: dict[str, Any],
    loss: str,
    temporal: dict[str, Any],
    spatial: dict[str, Any],
    window: dict[str, Any],
    solver: str = "sgd",
) -> Outcome:
    """The streaming method on all slices of the file, from the given warm start.

    Its time mode is the last one, of length one in every slice. Seconds are those of the one call
    there is, which takes all slices; the last factor of the result holds the slices' weights.
    """
    slices, first = _slices(problem, "stream"), _slices(problem, "warm", joined=True)
    factors = [np.ascontiguousarray(problem[f"start{k}"]) for k in range(len(problem["shape"]) + 1)]
    start = pygenten.Ktensor(np.ones(factors[0].shape[1]), factors, copy=True)
    temporal, spatial = ({"streaming-solver": solver} | p for p in (temporal, spatial))
    begin = clock()
    model, _, _ = pygenten.online_gcp(
        slices,
        first[0],
        start,
        temporal,
        spatial,
        **{"type": loss, "rank": factors[0].shape[1], "streaming-solver": solver, "printitn": 0},
        **window,
    )
    return _outcome(clock() - begin, model)


def _slices(problem: dict[str, Any], name: str, *, joined: bool = False) -> list[Any]:
    """Slices with a time mode of length one, or one tensor of all of them."""
    shape = tuple(problem["shape"].tolist())
    if name in problem:
        dense = problem[name]
        parts = [np.moveaxis(dense, 0, -1)] if joined else [x[..., None] for x in dense]
        return [pygenten.Tensor(np.asfortranarray(x), copy=True) for x in parts]
    index, value = problem[f"{name}_index"], problem[f"{name}_value"]
    counts = problem[f"{name}_counts"]
    if joined:
        times = np.repeat(np.arange(len(counts)), counts)
        parts = [(np.column_stack([index, times]), value, (*shape, len(counts)))]
    else:
        ends = np.cumsum(counts)
        parts = [
            (np.column_stack([index[a:b], np.zeros(b - a, int)]), value[a:b], (*shape, 1))
            for a, b in zip(ends - counts, ends, strict=True)
        ]
    return [
        pygenten.Sptensor(size, np.ascontiguousarray(cells, np.uint64), v[:, None], copy=True)
        for cells, v, size in parts
    ]
