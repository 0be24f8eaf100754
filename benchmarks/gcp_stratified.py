"""An iteration of stratified GCP-Adam on the paper's Poisson tensor, against pyttb and pygenten.

An iteration is what a longer epoch takes more than a shorter one, divided by the iterations it has
more: preparation, which all iterations share, drops out. The exact loss after `STEPS` iterations
stands beside the time: all take the same number of steps at the same rate from the same start.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.peers.rival import Answer, Rival
from benchmarks.problems import StaticProblem, paper_tensor
from benchmarks.quality import poisson_loss
from benchmarks.records import Row, measured
from benchmarks.timing import clock, take_turns

LISTED, ZEROS, RATE, STEPS = 10_000, 10_000, 1e-3, 30
TARGETS = {"pyttb": ">= 50", "pygenten": ">= 5"}
# Iterations of the shorter and the longer epoch: a tenth of a second and more between them.
EPOCHS = {"onlinegcp": (STEPS, 230), "pygenten": (STEPS, 80), "pyttb": (5, STEPS)}


def run(*, quick: bool = False) -> list[Row]:
    """Milliseconds per iteration and the loss after a fixed number of them."""
    problem = paper_tensor()
    found: dict[str, Answer] = {}
    with Rival("pyttb") as pyttb, Rival("pygenten") as pygenten:
        solvers: dict[str, Callable[[int], Answer]] = {
            "onlinegcp": lambda iterations: _ours(problem, iterations),
            "pygenten": lambda iterations: _theirs(pygenten, problem, iterations),
            "pyttb": lambda iterations: _theirs(pyttb, problem, iterations),
        }

        def iteration(name: str) -> float:
            answers = {length: solvers[name](length) for length in EPOCHS[name]}
            short, long = EPOCHS[name]
            found[name] = answers[STEPS]
            return (answers[long].seconds - answers[short].seconds) / (long - short)

        begin = clock()
        solvers["onlinegcp"](1)
        compiled = clock() - begin
        contestants = {name: lambda name=name: iteration(name) for name in solvers}
        times = take_turns(contestants, 1 if quick else 3)
    ones = np.ones(problem.rank)
    before = poisson_loss(problem.index, problem.value, ones, problem.start)
    rows = []
    for name, answer in found.items():
        after = poisson_loss(problem.index, problem.value, answer.weights, answer.factors)
        rest: dict[str, object] = {"objective": f"loss {after:.5e} after {STEPS} steps"}
        if name == "onlinegcp":
            rest["note"] = (
                f"{LISTED} + {ZEROS} samples, Adam {RATE:g}, loss {before:.5e} at the start;"
                f" first call {compiled:.1f} s"
            )
        else:
            rest["against"] = "onlinegcp"
            rest["ratio"] = times[name].over(times["onlinegcp"])
            rest["target"] = TARGETS[name]
        if name == "pyttb":
            rest["note"] = "its Adam counts an epoch per step, so its steps are longer"
        rows.append(measured("gcp_stratified", name, times[name], "ms per iteration", 1e3, **rest))
    return rows


def _theirs(rival: Rival, problem: StaticProblem, iterations: int) -> Answer:
    options = {"listed": LISTED, "zeros": ZEROS, "rate": RATE}
    return rival.solve("gcp_stratified", problem.path, iterations=iterations, **options)


def _ours(problem: StaticProblem, iterations: int) -> Answer:
    from onlinegcp.ktensor import KTensor
    from onlinegcp.slices import Slice
    from onlinegcp.solvers.sgd.sampling import Sampler
    from onlinegcp.static.gcp import gcp

    x = Slice(problem.index, problem.value, problem.shape)
    start = KTensor(np.ones(problem.rank), problem.start)
    begin = clock()
    result = gcp(
        x,
        problem.rank,
        "poisson",
        method="sgd",
        init=start,
        rate=RATE,
        epochs=1,
        iterations=iterations,
        sampler=Sampler("stratified", n_listed=LISTED, n_zeros=ZEROS),
        objective_sampler=Sampler("stratified", n_listed=1_000, n_zeros=1_000),
    )
    seconds = clock() - begin
    return Answer(seconds, result.ktensor.weights, list(result.ktensor.factors), {})
