"""pyttb 1.8.6: CP-ALS, CP-APR and stratified GCP of the Tensor Toolbox for Python."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pyttb
from pyttb.gcp.handles import Objectives
from pyttb.gcp.optimizers import Adam
from pyttb.gcp.samplers import GCPSampler, Samplers, StratifiedCount

from benchmarks.timing import clock

warnings.simplefilter("ignore")

Outcome = tuple[float, np.ndarray, list[np.ndarray], dict[str, float]]


def cp_als(problem: dict[str, Any], sweeps: int) -> Outcome:
    """Sweeps from the given start, without a stopping rule."""
    x, start = _tensor(problem), _start(problem)
    begin = clock()
    model, _, information = pyttb.cp_als(
        x, start.ncomponents, init=start, maxiters=sweeps, stoptol=0.0, printitn=0
    )
    seconds = clock() - begin
    return _outcome(seconds, model, fit=float(information["fit"]))


def gcp_stratified(
    problem: dict[str, Any], iterations: int, listed: int, zeros: int, rate: float
) -> Outcome:
    """One epoch of Adam on the Poisson loss."""
    x, start = _tensor(problem), _start(problem)
    sampler = GCPSampler(
        x,
        function_samples=StratifiedCount(1_000, 1_000),
        gradient_sampler=Samplers.STRATIFIED,
        gradient_samples=StratifiedCount(listed, zeros),
    )
    optimizer = Adam(rate=rate, epoch_iters=iterations, max_iters=1, printitn=0)
    np.random.seed(0)  # noqa: NPY002 - pyttb draws from the global generator
    begin = clock()
    model, _, _ = pyttb.gcp_opt(
        x, start.ncomponents, Objectives.POISSON, optimizer, init=start, sampler=sampler, printitn=0
    )
    return _outcome(clock() - begin, model)


def cp_apr(problem: dict[str, Any], algorithm: str, tolerance: float, most: int) -> Outcome:
    """Row subproblems until the largest KKT violation is below the tolerance."""
    x, start = _tensor(problem), _start(problem)
    begin = clock()
    model, _, information = pyttb.cp_apr(
        x,
        start.ncomponents,
        algorithm=algorithm,
        init=start,
        stoptol=tolerance,
        maxiters=most,
        printitn=0,
    )
    seconds = clock() - begin
    violations = information["kktViolations"]
    return _outcome(seconds, model, violation=float(violations[-1]), outer=len(violations))


def _tensor(problem: dict[str, Any]) -> pyttb.sptensor:
    return pyttb.sptensor(
        problem["index"].astype(np.int64),
        problem["value"][:, None],
        tuple(problem["shape"].tolist()),
    )


def _start(problem: dict[str, Any]) -> pyttb.ktensor:
    # Fresh copies: gcp_opt changes the start it is given.
    factors = [problem[f"start{k}"].copy() for k in range(len(problem["shape"]))]
    return pyttb.ktensor(factors, np.ones(factors[0].shape[1]))


def _outcome(seconds: float, model: pyttb.ktensor, **note: float) -> Outcome:
    return seconds, model.weights, model.factor_matrices, note
