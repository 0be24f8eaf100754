"""A sweep of sparse CP-ALS on the paper's Poisson tensor, against all three rivals.

A call of `SWEEPS` sweeps from a common start is timed as a user would make it, preparation
included, and divided by the number of sweeps.
"""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np

from benchmarks.peers.rival import Answer, Rival
from benchmarks.problems import StaticProblem, paper_tensor
from benchmarks.quality import fit
from benchmarks.records import Row, measured
from benchmarks.timing import clock, take_turns

SWEEPS = 5


def run(*, quick: bool = False) -> list[Row]:
    """Seconds per sweep and the fit after the last one."""
    problem = paper_tensor()
    found: dict[str, Answer] = {}
    names = ("pyttb", "pygenten", "tensorly")
    with ExitStack() as stack:
        rivals = {name: stack.enter_context(Rival(name)) for name in names}

        def ask(name: str) -> float:
            found[name] = rivals[name].solve("cp_als", problem.path, sweeps=SWEEPS)
            return found[name].seconds / SWEEPS

        def us() -> float:
            found["onlinegcp"] = _ours(problem)
            return found["onlinegcp"].seconds / SWEEPS

        begin = clock()
        us()
        compiled = clock() - begin
        contestants = {"onlinegcp": us} | {name: lambda name=name: ask(name) for name in rivals}
        times = take_turns(contestants, 1 if quick else 3)
    rows = []
    for name, answer in found.items():
        quality = fit(problem.index, problem.value, answer.weights, answer.factors)
        rest: dict[str, object] = {"objective": f"fit {quality:.6f}"}
        if name == "onlinegcp":
            rest["note"] = f"{SWEEPS} sweeps per call; first call {compiled:.1f} s"
        else:
            rest["against"] = "onlinegcp"
            rest["ratio"] = times[name].over(times["onlinegcp"])
            rest["target"] = ">= 20" if name == "pyttb" else ""
            rest["note"] = "densified" if name == "tensorly" else ""
        rows.append(measured("cp_als", name, times[name], "ms per sweep", 1e3, **rest))
    return rows


def _ours(problem: StaticProblem) -> Answer:
    from onlinegcp.ktensor import KTensor
    from onlinegcp.slices import Slice
    from onlinegcp.static.cp_als import cp_als

    x = Slice(problem.index, problem.value, problem.shape)
    start = KTensor(np.ones(problem.rank), problem.start)
    begin = clock()
    result = cp_als(x, problem.rank, init=start, max_iterations=SWEEPS, tolerance=0.0)
    seconds = clock() - begin
    return Answer(seconds, result.ktensor.weights, list(result.ktensor.factors), {})
