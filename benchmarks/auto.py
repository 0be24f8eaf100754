"""The default solver against pygenten at the paper's settings: time per slice and loss.

All of `partial_fit` is timed, with the scoring and bookkeeping around the solver. `next20` is the
loss of 20 slices nobody has learned: final factors, best weights by one solver for everybody, every
cell counted, over the squared norm, mean over slices. Beside it stand the frozen warm start and the
paper's method with its own settings. On the synthetic streams pygenten takes minutes per ten
slices, so a few slices are streamed and the loss of exactly those, weights refitted, is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.peers.paper import Streamed, ask_pygenten
from benchmarks.peers.rival import Rival
from benchmarks.quality import refitted_loss
from benchmarks.records import Row, measured
from benchmarks.streams import (
    StreamProblem,
    default_model,
    gaussian,
    paper_model,
    poisson,
    real,
)
from benchmarks.timing import Times, clock


@dataclass(frozen=True)
class Aim:
    """What was promised for one stream: how much faster, and the next20 loss to reach."""

    make: Callable[[], StreamProblem]
    faster: float | None
    next20: float | None = None
    few: int | None = None  # slices streamed, where the whole stream would take an hour


AIMS = {
    "gaussian": Aim(gaussian, 500, few=8),
    "poisson": Aim(poisson, 500, few=6),
    "chi_p20": Aim(lambda: real("chi_p20"), 200, 2.708),
    "fl13_20": Aim(lambda: real("fl13_20"), 200, 1.340),
    "chi_b50": Aim(lambda: real("chi_b50"), 50, 3.445),
    "taxi50": Aim(lambda: real("taxi50"), 25, -0.05229),
    "chi_p50": Aim(lambda: real("chi_p50"), None, 2.484),
}


def run(*, quick: bool = False, only: str | None = None) -> Iterator[Row]:
    """Milliseconds per slice and losses of everybody."""
    for name, aim in AIMS.items():
        if only in (None, name):
            yield from _compare(name, aim, quick)


def _compare(name: str, aim: Aim, quick: bool) -> list[Row]:
    problem = aim.make()
    count = min(4, problem.streamed) if quick else aim.few or problem.streamed
    judged = problem.stream[:count] if aim.few or quick else problem.unseen
    _ours(problem, 2)  # compiles
    rounds = 1 if quick else 3
    ours: list[Streamed] = [_ours(problem, count)]
    with Rival("pygenten") as rival:
        peer = ask_pygenten(rival, problem, count)
        ours += [_ours(problem, count) for _ in range(rounds - 1)]
        squares = None
        if problem.loss == "gaussian":
            squares = ask_pygenten(rival, problem, count, "least-squares")
    times = Times(tuple(done.seconds for done in ours))
    paper = _streamed(paper_model(problem), problem, count)
    loss = {
        "default": _judge(problem, judged, ours[0].factors),
        "pygenten": _judge(problem, judged, peer.factors),
        "paper": _judge(problem, judged, paper.factors),
        "frozen": _judge(problem, judged, problem.start().factors),
    }
    what = "refitted loss" if aim.few or quick else "next20"
    case, unit = f"auto/{name}", "ms per slice"
    facts = f"{problem.loss}, rank {problem.rank}, {count} slices"
    rows = [measured(case, "default", times, unit, 1e3, objective=_words(what, loss["default"]))]
    others = [("pygenten", peer), ("paper's settings, onlinegcp", paper)]
    if squares is not None:
        others.append(("pygenten, least squares", squares))
        loss["pygenten, least squares"] = _judge(problem, judged, squares.factors)
    for who, done in others:
        target = ""
        if who == "pygenten" and aim.faster is not None:
            target = f">= {aim.faster}"
        elif who == "pygenten, least squares":
            target = ">= 5"
        rows.append(
            measured(
                case,
                who,
                Times((done.seconds,)),
                unit,
                1e3,
                objective=_words(what, loss["paper" if "paper" in who else who]),
                against="default",
                ratio=done.seconds / times.median,
                target=target,
                note=facts if who == "pygenten" else "",
            )
        )
    rows += _loss_rows(case, what, aim, loss)
    return rows


def _loss_rows(case: str, what: str, aim: Aim, loss: dict[str, float]) -> list[Row]:
    """The losses as promises: at or below the number set, and below everybody else."""
    mine = loss["default"]
    rows = []
    if aim.next20 is not None and what == "next20":
        rows.append(Row(case, what, mine, mine, mine, "", target=f"<= {aim.next20}"))
    least = min(value for who, value in loss.items() if who != "default")
    best = min((who for who in loss if who != "default"), key=lambda who: loss[who])
    behind = 100 * (mine - least) / abs(least)
    note = f"best of the others: {best}; frozen {loss['frozen']:.6g}"
    unit = f"% more {what} than the best other"
    rows.append(
        Row(case, f"{what}, excess", behind, behind, behind, unit, target="<= 0", note=note)
    )
    return rows


def _words(what: str, value: float) -> str:
    return f"{what} {value:.6g}"


def _ours(problem: StreamProblem, count: int) -> Streamed:
    return _streamed(default_model(problem), problem, count)


def _streamed(model: object, problem: StreamProblem, count: int) -> Streamed:
    from onlinegcp.streaming import OnlineGCP

    assert isinstance(model, OnlineGCP)
    rows, seconds = [], 0.0
    for x in problem.stream[:count]:
        begin = clock()
        model.partial_fit(x)
        seconds += clock() - begin
        rows.append(model.weights_)
    return Streamed(seconds / count, model.factors_, np.array(rows))


def _judge(problem: StreamProblem, judged: Sequence, factors: Sequence[np.ndarray]) -> float:
    return float(np.mean([refitted_loss(x, factors, problem.loss) for x in judged]))
