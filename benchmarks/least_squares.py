"""OnlineCP and CP-Stream against pygenten's least-squares streaming solvers: time per slice.

Same slices and warm start, one thread each, in turns. pygenten's `online-cp` keeps accumulated
products like OnlineCP; its `least-squares` solves the slice against a window of the past, as
CP-Stream does against an R x R matrix. All of `partial_fit` is timed, its scoring included. The
loss is the paper's global one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.peers.paper import Streamed, ask_pygenten
from benchmarks.peers.rival import Rival
from benchmarks.records import Row, measured
from benchmarks.streams import StreamProblem, gaussian, streamed
from benchmarks.timing import take_turns

# Ours, pygenten's.
PAIRS = {"OnlineCP": "online-cp", "CPStream": "least-squares"}


def run(*, quick: bool = False, only: str | None = None) -> Iterator[Row]:
    """Seconds per slice of both methods of a pair, their ratio, and the losses they end with."""
    from onlinegcp.evaluate import slice_losses

    problem, count = gaussian(), 10 if quick else 40
    stream = problem.stream[:count]
    for ours, theirs in PAIRS.items():
        if only not in (None, ours):
            continue
        found: dict[str, Streamed] = {}
        with Rival("pygenten") as rival:

            def us(ours: str = ours, found: dict[str, Streamed] = found) -> float:
                found["us"] = _stream(ours, problem, count)
                return found["us"].seconds

            def them(
                theirs: str = theirs, found: dict[str, Streamed] = found, rival: Any = rival
            ) -> float:
                found["them"] = ask_pygenten(rival, problem, count, theirs)
                return found["them"].seconds

            _stream(ours, problem, 2)
            times = take_turns({"us": us, "them": them}, 1 if quick else 3)
        loss = {
            who: float(slice_losses(stream, done.rows, done.factors, problem.loss).mean())
            for who, done in found.items()
        }
        case, words = (
            f"least_squares/{ours}",
            {who: f"global loss {x:.6g}" for who, x in loss.items()},
        )
        note = f"300 x 300, rank {problem.rank}, {count} slices"
        yield measured(case, ours, times["us"], "s per slice", objective=words["us"], note=note)
        ratio = times["them"].over(times["us"])
        facts = {"against": ours, "ratio": ratio, "target": ">= 3", "objective": words["them"]}
        yield measured(case, f"pygenten {theirs}", times["them"], "s per slice", **facts)


def _stream(method: str, problem: StreamProblem, count: int) -> Streamed:
    import onlinegcp
    from onlinegcp.ktensor import KTensor

    start = problem.start()
    model = getattr(onlinegcp, method)(problem.rank)
    model.start_from(KTensor(None, [*start.factors, start.rows]), list(start.slices))
    return streamed(model, problem, count)
