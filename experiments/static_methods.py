"""The static methods the paper compares with on sparse data, with their settings in one place."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from experiments.experiment import Static
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import get_loss
from onlinegcp.sampling import Sampler
from onlinegcp.slices import Slice, stack
from onlinegcp.solvers.sgd import SgdSettings, solve_sgd
from onlinegcp.static.cp_apr import cp_apr
from onlinegcp.static.result import Progress, StaticFit
from onlinegcp.static.starts import best_of, random_start, start_norm

Report = Callable[[Progress], object]


def apr(
    slices: Sequence[Slice], rank: int, seed: int, *, starts: int = 1, max_iterations: int = 200
) -> Static:
    """CP-APR on all the slices given, stacked."""
    settings = {"max_iterations": max_iterations, "n_starts": starts, "seed": seed}
    return Static(
        "CP-APR",
        settings,
        lambda report: cp_apr(stack(slices), rank, progress=report, **settings),
    )


def sampled_gcp(
    slices: Sequence[Slice],
    rank: int,
    loss: str,
    seed: int,
    *,
    objective: int,
    gradient: int,
    rate: float = 1e-2,
    epochs: int = 100,
    iterations: int = 1000,
    starts: int = 1,
) -> Static:
    """GCP with as many samples among zeros as among nonzeros, on all the slices given, stacked.

    Adam as in Kolda and Hong (2020): 1,000 steps per epoch, a failed epoch divides the rate by ten
    and the third one ends the solve.
    """
    settings: dict[str, Any] = {
        "objective": objective,
        "gradient": gradient,
        "rate": rate,
        "epochs": epochs,
        "iterations": iterations,
        "starts": starts,
        "seed": seed,
    }
    options = SgdSettings(
        rate=rate,
        epochs=epochs,
        iterations=iterations,
        sampler=Sampler("stratified", gradient, gradient),
        objective_sampler=Sampler("stratified", objective, objective),
        max_fails=2,
        tolerance=1e-5,
    )

    def solve(report: Report) -> StaticFit:
        x = stack(slices)
        return best_of(starts, lambda rng: _one_start(x, rank, loss, options, rng, report), seed)

    return Static("GCP", settings, solve)


def _one_start(
    x: Slice, rank: int, loss: str, options: SgdSettings, rng: np.random.Generator, report: Report
) -> StaticFit:
    began = time.perf_counter()
    resolved = get_loss(loss)
    start = random_start(
        x.shape, rank, rng, nonnegative=resolved.lower >= 0, norm=start_norm(x, resolved)
    )

    def progress(epoch: int, objective: float, kept: bool) -> None:
        seconds = time.perf_counter() - began
        report(Progress(epoch, objective, seconds, "" if kept else "(taken back)"))

    seed = int(rng.integers(2**31))
    result = solve_sgd(
        x,
        start,
        np.ones(rank),
        resolved,
        options,
        update=("factors",),
        seed=seed,
        callback=progress,
    )
    done = result.failures > (options.max_fails or 0) or result.epochs < options.epochs
    return StaticFit(
        ktensor=KTensor(None, result.factors),
        objective=result.objective,
        trace=list(result.trace),
        iterations=result.iterations,
        converged=done,
        message=f"{result.epochs} epochs, {result.failures} taken back.",
        seconds=time.perf_counter() - began,
    )
