"""The static methods the paper compares with on sparse data, with their settings in one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from experiments.experiment import Static
from onlinegcp.slices import Slice, stack
from onlinegcp.solvers.sgd.sampling import Sampler
from onlinegcp.static.cp_apr import cp_apr
from onlinegcp.static.gcp import gcp


def apr(slices: Sequence[Slice], rank: int, seed: int, **changed: Any) -> Static:
    """CP-APR on all the slices given, stacked.

    Parameters
    ----------
    slices, rank, seed
        The problem.
    changed
        Options of `cp_apr` other than ours.
    """
    settings = {"max_iterations": 200, "seed": seed, **changed}
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
    **changed: Any,
) -> Static:
    """GCP on all the slices given, stacked, with equal samples among zeros and nonzeros.

    Parameters
    ----------
    slices, rank, loss, seed
        The problem.
    objective, gradient
        Samples among the zeros, and as many among the nonzeros, per estimate.
    changed
        Options of `gcp` other than ours.
    """
    settings: dict[str, Any] = {
        "seed": seed,
        "sampler": Sampler("stratified", gradient, gradient),
        "objective_sampler": Sampler("stratified", objective, objective),
        "epochs": 100,
        "iterations": 1000,
        "max_fails": 2,
        **changed,
    }
    return Static(
        "GCP",
        settings,
        lambda report: gcp(stack(slices), rank, loss, method="sgd", progress=report, **settings),
    )
