"""Our end of pygenten's streaming method: the paper's settings in its words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from benchmarks.peers.rival import Rival
    from benchmarks.streams import StreamProblem


@dataclass(frozen=True)
class Streamed:
    """What a streaming method did: seconds per slice, final factors, a row of weights per slice."""

    seconds: float
    factors: Sequence[np.ndarray]
    rows: np.ndarray


def ask_pygenten(rival: Rival, problem: StreamProblem, count: int, solver: str = "sgd") -> Streamed:
    """Let pygenten stream the first `count` slices at the paper's settings.

    Its history weight is twice the paper's, so it is given half. It draws all nonzeros where the
    paper takes all. Sampling is stratified, the only kind its streaming solver takes on sparse
    slices; `hash` and `fuse`, which its authors' notebooks use, were its fastest options.
    """
    answer = rival.solve(
        "online_gcp",
        problem.rival_file(count),
        loss={"bernoulli_odds": "bernoulli"}.get(problem.loss, problem.loss),
        temporal=_solve_options(problem, "weight", count),
        spatial=_solve_options(problem, "factor", count),
        window={
            "window-method": "reservoir",
            "history-method": "ktensor-fro",
            "window-size": problem.settings.history_size,
            "window-weight": problem.settings.history_decay,
            "window-penalty": problem.settings.history_weight / 2,
        },
        solver=solver,
    )
    *factors, rows = answer.factors
    return Streamed(answer.seconds / count, factors, rows * answer.weights)


def _solve_options(problem: StreamProblem, part: str, count: int) -> dict[str, Any]:
    settings = problem.settings
    options = {
        "maxiters": getattr(settings, f"{part}_epochs"),
        "epochiters": getattr(settings, f"{part}_iterations"),
        "rate": getattr(settings, f"{part}_rate"),
        "fuse": True,
    }
    stream = problem.stream[:count]
    if stream[0].array is not None:
        samples = {"fnzs": settings.objective_listed, "gnzs": settings.gradient_listed}
        return options | {"sampling": "uniform"} | samples
    # One number serves all slices: the mean of their counts, where the paper takes all nonzeros.
    every = round(float(np.mean([x.n_listed for x in stream])))
    return options | {
        "sampling": "stratified",
        "hash": True,
        "fnzs": min(settings.objective_listed, every),
        "gnzs": min(settings.gradient_listed, every),
        "fzs": settings.objective_zeros,
        "gzs": settings.gradient_zeros,
    }
