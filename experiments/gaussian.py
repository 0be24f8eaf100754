"""Synthetic Gaussian experiment: OnlineGCP, OnlineSGD, OnlineCP and CPStream against CP-ALS."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from experiments.claims import Claim, comparable_loss, comparable_score, our_checks
from experiments.console import Options, read_options
from experiments.experiment import Plan, Static, Streaming, conduct, shortened
from experiments.protocol import Problem, Run
from experiments.settings import TABLES
from onlinegcp.problems import gaussian_stream
from onlinegcp.static.cp_als import cp_als
from onlinegcp.streaming import CPStream, OnlineCP, OnlineGCP, OnlineSGD

SIZES = {"paper": ((300, 300), 200), "small": ((40, 40), 60)}


def plan(options: Options) -> Plan:
    """The experiment of section 6.1, noise of standard deviation 0.2 as in the text (errata 23)."""
    settings = TABLES[options.scale]["gaussian"]
    rank, warm, seed = settings.rank, settings.init_slices, options.seed
    shape, most = SIZES[options.scale]
    count = shortened(options.slices, most, warm)
    stream = gaussian_stream(shape, count, rank=rank, noise=0.2, seed=seed)
    slices = stream.slices
    problem = Problem("gaussian", slices, "gaussian", rank, warm, stream.truth)
    als: dict[str, Any] = {"max_iterations": 500, "tolerance": 1e-7, "n_starts": 3, "seed": seed}
    plain = {"rank": rank, "random_state": seed}
    common = {"loss": "gaussian", "random_state": seed}
    return Plan(
        problem,
        warm_start=Static(
            "CP-ALS",
            als,
            lambda progress: cp_als(slices[:warm], rank, progress=progress, **als),
        ),
        static=[
            Static("CP-ALS", als, lambda progress: cp_als(slices, rank, progress=progress, **als))
        ],
        streaming=[
            Streaming("OnlineGCP", OnlineGCP, {**settings.parameters(), **common}),
            Streaming("auto", OnlineGCP, {"rank": rank, **common}),
            Streaming("OnlineSGD", OnlineSGD, plain),
            Streaming("OnlineCP", OnlineCP, plain),
            Streaming("CPStream", CPStream, plain),
        ],
        claims=lambda runs: claims(problem, runs),
        title="Synthetic Gaussian, " + " x ".join(map(str, (*shape, count))) + f", R = {rank}",
    )


def claims(problem: Problem, runs: dict[str, Run]) -> list[Claim]:
    """Local loss, global loss and score of every streaming method, against CP-ALS."""
    static = runs.get("CP-ALS")
    found = []
    for method in ("OnlineGCP", "OnlineSGD", "OnlineCP", "CPStream"):
        if static is None or method not in runs:
            continue
        named = method != "CPStream"  # which is not in the paper's comparison
        judged = {"required": named, "by_paper": named}
        found += [
            comparable_loss(problem, runs[method], static, "local", **judged),
            comparable_loss(problem, runs[method], static, "overall", **judged),
            comparable_score(runs[method], static, **judged),
        ]
    return found + our_checks(problem, runs, "CP-ALS")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the experiment from the command line."""
    return conduct("gaussian", read_options("gaussian", plan.__doc__ or "", arguments), plan)


if __name__ == "__main__":
    sys.exit(main())
