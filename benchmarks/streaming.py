"""The paper's method, ours against pygenten's: seconds per slice and the loss both end with.

Same slices, same warm start, same epochs, iterations, samples and rates (Table 2 of the paper), one
thread each. Contestants stream the same few slices in turns. The global loss is the paper's: final
factors, the weights each slice was given as it passed, every cell counted by our exact sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.peers.paper import Streamed, ask_pygenten
from benchmarks.peers.rival import Rival
from benchmarks.records import Row, measured
from benchmarks.streams import StreamProblem, gaussian, paper_model, poisson, real, streamed
from benchmarks.timing import take_turns

# Slices streamed: as many as pygenten gets through in about a minute.
PROBLEMS: dict[str, tuple[Callable[[], StreamProblem], int]] = {
    "gaussian": (gaussian, 10),
    "poisson": (poisson, 8),
    "taxi": (lambda: real("taxi50"), 12),
    "chicago": (lambda: real("chi_b50"), 30),
}


def run(*, quick: bool = False, only: str | None = None) -> Iterator[Row]:
    """Seconds per slice of both, their ratio, and how much higher our loss is."""
    for name, (make, count) in PROBLEMS.items():
        if only in (None, name):
            yield from _compare(name, make(), 3 if quick else count, 1 if quick else 2)


def _compare(name: str, problem: StreamProblem, count: int, rounds: int) -> list[Row]:
    from onlinegcp.evaluate import slice_losses

    found: dict[str, Streamed] = {}
    with Rival("pygenten") as rival:

        def us() -> float:
            found["onlinegcp"] = _ours(problem, count)
            return found["onlinegcp"].seconds

        def them() -> float:
            found["pygenten"] = ask_pygenten(rival, problem, count)
            return found["pygenten"].seconds

        first = _ours(problem, 1).seconds
        times = take_turns({"onlinegcp": us, "pygenten": them}, rounds)
    stream = problem.stream[:count]
    loss = {
        who: float(slice_losses(stream, done.rows, done.factors, problem.loss).mean())
        for who, done in found.items()
    }
    before = problem.start().factors
    moved = {
        who: max(float(np.abs(a - b).max()) for a, b in zip(done.factors, before, strict=True))
        for who, done in found.items()
    }
    excess = 100 * (loss["onlinegcp"] - loss["pygenten"]) / abs(loss["pygenten"])
    case = f"streaming/{name}"
    ratio = times["pygenten"].over(times["onlinegcp"])
    rival_facts = {"against": "onlinegcp", "ratio": ratio, "target": ">= 5"}
    size = " x ".join(map(str, stream[0].shape))
    note = f"{problem.loss} {size}, rank {problem.rank}, {count} slices; first slice {first:.1f} s"
    rows = []
    for who, facts in (("onlinegcp", {"note": note}), ("pygenten", rival_facts)):
        quality = f"global loss {loss[who]:.6g}, largest move of a factor entry {moved[who]:.2g}"
        rows.append(measured(case, who, times[who], "s per slice", objective=quality, **facts))
    unit = "% more loss than pygenten"
    rows.append(Row(case, "onlinegcp, excess", excess, excess, excess, unit, target="<= 1"))
    return rows


def _ours(problem: StreamProblem, count: int) -> Streamed:
    model = paper_model(problem)
    return streamed(model, problem, count)
