"""One iteration of the streaming factor solve, cases A to E, against the C++ twin."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.problems import Case, sgd_case
from benchmarks.records import Row, measured
from benchmarks.timing import clock, take_turns
from benchmarks.twin import Twin
from benchmarks.twin.check import gradient_error

RATE = 1e-4  # small enough that thousands of timed iterations stay near the start
MICROSECONDS = 1e6


def run(*, quick: bool = False) -> Iterator[Row]:
    """Times per iteration, ours and the twin's with and without BLAS."""
    for name in "ABCE" if quick else "ABCDE":
        yield from _case(sgd_case(name), rounds=5 if quick else 25)


def _case(case: Case, rounds: int) -> list[Row]:
    iterations = case.iterations
    begin = clock()
    ours, factors = _ours(case)
    ours(1)
    compiled = clock() - begin
    twins = {"twin": Twin(case, rate=RATE), "twin+blas": Twin(case, rate=RATE, blas=True)}
    for name, twin in twins.items():
        if (error := gradient_error(case, twin)) > 1e-10:
            raise RuntimeError(f"case {case.name}: {name}'s gradient is wrong by {error:.1e}")
    _same_work(case, ours, factors, twins)

    def per_iteration(epoch: Callable[[int], None]) -> Callable[[], float]:
        def seconds() -> float:
            start = clock()
            epoch(iterations)
            return (clock() - start) / iterations

        return seconds

    contestants = {"onlinegcp": per_iteration(ours)}
    contestants |= {name: per_iteration(twin.run) for name, twin in twins.items()}
    times = take_turns(contestants, min(rounds, 9) if case.name == "D" else rounds)
    best = min(twins, key=lambda name: times[name].median)
    where = f"sgd_iteration/{case.name}"
    rows = [
        measured(
            where,
            "onlinegcp",
            times["onlinegcp"],
            "us",
            MICROSECONDS,
            against=best,
            ratio=times["onlinegcp"].over(times[best]),
            target=f"<= {case.target:g}",
            note=f"{case.loss} {'x'.join(map(str, case.shape))}, {case.draws} + {case.zeros}"
            f" samples, rank {case.rank}; set-up and first call {compiled:.1f} s",
        )
    ]
    return rows + [measured(where, name, times[name], "us", MICROSECONDS) for name in twins]


def _ours(case: Case) -> tuple[Callable[[int], None], Callable[[], list[np.ndarray]]]:
    """Our solver's engine on the case: a function that runs iterations, one that reads factors."""
    from onlinegcp.kernels import get_kernels
    from onlinegcp.kernels.layout import pad_vector, stack_factors
    from onlinegcp.kernels.sgd.plan import ADAM, FoldedHistory, Moments, Problem
    from onlinegcp.losses import get_loss
    from onlinegcp.slices import Slice
    from onlinegcp.solvers.sgd.sampling import Sampler

    kernels = get_kernels("cpu")
    if case.index is None:
        x, sampler = Slice.dense(case.value), Sampler("uniform", n_listed=case.draws)
    else:
        x = Slice(case.index, case.value, case.shape)
        sampler = Sampler("stratified", n_listed=case.draws, n_zeros=case.zeros)
    plan = sampler.plan(x)
    blocks = stack_factors(case.factors)
    loss = get_loss(case.loss)
    problem = Problem(
        blocks,
        pad_vector(case.weights),
        modes=tuple(range(len(case.shape))),
        update_weights=False,
        code=loss.code,
        parameter=loss.parameter,
        lower=case.lower,
        history=FoldedHistory(case.history, stack_factors(case.old_factors)),
    )
    cells = kernels.prepare_cells(x, plan)
    engine = kernels.SgdEngine(problem, cells, plan, cells, plan)
    moments = Moments.zeros(blocks, ADAM)

    def epoch(iterations: int) -> None:
        engine.epoch(moments, ADAM, RATE, (0.9, 0.999, 1e-8), 0, moments.taken, iterations)

    return epoch, lambda: [np.array(view) for view in blocks.views()]


def _same_work(
    case: Case,
    ours: Callable[[int], None],
    factors: Callable[[], list[np.ndarray]],
    twins: dict[str, Twin],
) -> None:
    """Stop unless twin and library walk the same way: same problem, other random numbers.

    After a number of steps the distance walked must agree to a tenth. Where rows are sampled often
    enough to know their way, the end points must be nearer to each other than those of independent
    walks, which would be 1.41 times the distance apart.
    """
    steps = 3 if case.name == "D" else 50
    ours(steps - 1)
    for twin in twins.values():
        twin.run(steps)
    for k, (start, mine) in enumerate(zip(case.factors, factors(), strict=True)):
        walked = np.linalg.norm(mine - start)
        often = case.draws + case.zeros > 20 * len(start)
        for name, twin in twins.items():
            theirs = twin.factors()[k]
            far, apart = np.linalg.norm(theirs - start), np.linalg.norm(mine - theirs)
            if not 0.9 < far / walked < 1.1 or (often and apart > 1.3 * walked):
                raise RuntimeError(
                    f"case {case.name}, mode {k}: we walked {walked:.3g}, {name} {far:.3g}, "
                    f"and ended {apart:.3g} apart. They do not solve the same problem; compare "
                    "their gradients."
                )
