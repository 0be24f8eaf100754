"""One iteration of the paper's solver on an NVIDIA card, cases A to E, with one core beside.

Samples are drawn and sorted on the card, within the time that is told; an epoch of iterations is
timed until its end, as the solver waits for it. The slice and the model lie on the card already.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from benchmarks.problems import Case, sgd_case
from benchmarks.records import Row, measured
from benchmarks.timing import Times, clock

TARGETS = {"A": 20.0, "B": 30.0, "C": 15.0, "D": 400.0}  # microseconds
RATE = 1e-4
ROUNDS = 11
MICROSECONDS = 1e6
BANDWIDTH, ARITHMETIC = 4.2e12, 34e12  # bytes and float64 operations per second of an H200


def run(*, quick: bool = False, only: str | None = None) -> Iterator[Row]:
    """Microseconds per iteration on the card and on one core, and how far their results differ."""
    for name in "ABCE" if quick else "ABCDE":
        if only in (None, f"sgd_{name}"):
            yield from _case(sgd_case(name))


def _case(case: Case) -> Iterator[Row]:
    there, here = _Ours(case, "cuda"), _Ours(case, "cpu")
    steps = 4 if case.name == "D" else 20
    begin = time.perf_counter()
    there.epoch(steps)
    there.engine.finish()
    first = time.perf_counter() - begin
    here.epoch(steps)
    apart = max(
        float(np.abs(a - b).max() / np.abs(a).max())
        for a, b in zip(here.blocks.views(), there.blocks.views(), strict=True)
    )
    iterations = 100
    for _ in range(3):
        there.epoch(iterations)  # compiles, records
    there.wait()
    seconds = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        there.epoch(iterations)
        there.wait()
        seconds.append((time.perf_counter() - begin) / iterations)
    times = Times(tuple(seconds))
    limit, words = _limit(case)
    facts = (
        f"{case.loss} {'x'.join(map(str, case.shape))}, {case.draws} + {case.zeros} samples, rank "
        f"{case.rank}; {words}, {100 * limit / times.median:.0f} % reached; first call "
        f"{first:.1f} s"
    )
    where, promised = f"gpu/sgd_{case.name}", TARGETS.get(case.name)
    target = "" if promised is None else f"<= {promised:g}"
    yield measured(where, "card", times, "us", MICROSECONDS, target=target, note=facts)
    begin = clock()
    count = 2 if case.name == "D" else 20
    here.epoch(count)
    core = (clock() - begin) / count
    yield measured(
        where, "one core", Times((core,)), "us", MICROSECONDS, against="card",
        ratio=core / times.median,
    )  # fmt: skip
    yield Row(
        where, "difference", apart, apart, apart, "relative", target="<= 1e-10",
        note=f"factors after {steps} iterations",
    )  # fmt: skip


def _limit(case: Case) -> tuple[float, str]:
    """Seconds if every number moves once, rows of samples come from memory, and sums overlap."""
    rows, rank, modes = sum(case.shape), case.rank, len(case.shape)
    samples = case.draws + case.zeros
    long = [n for n in case.shape if n * rank * 8 > 1 << 20]
    gathers = samples * len(long) * rank * 8 * modes
    matrices = 9 * rows * rank * 8  # steps read four and write three, Gram matrices read two
    moved = gathers + matrices + samples * (8 * modes + 24)
    operations = 8 * rows * rank**2 + samples * rank * (modes + 1) * modes
    seconds = max(moved / BANDWIDTH, operations / ARITHMETIC)
    words = (
        f"{moved / 1e6:.3g} MB, {operations / 1e6:.3g} MFLOP, limit {seconds * MICROSECONDS:.3g} us"
    )
    return seconds, words


class _Ours:
    """The solver's engine on a case."""

    def __init__(self, case: Case, kernels: str) -> None:
        from onlinegcp.kernels import get_kernels
        from onlinegcp.kernels.layout import pad_vector, stack_factors
        from onlinegcp.kernels.sgd.plan import ADAM, FoldedHistory, Moments, Problem
        from onlinegcp.losses import get_loss
        from onlinegcp.slices import Slice
        from onlinegcp.solvers.sgd.sampling import Sampler

        module = get_kernels(kernels)
        if case.index is None:
            x, sampler = Slice.dense(case.value), Sampler("uniform", n_listed=case.draws)
        else:
            x = Slice(case.index, case.value, case.shape)
            sampler = Sampler("stratified", n_listed=case.draws, n_zeros=case.zeros)
        self.x, plan = x, sampler.plan(x)
        self.blocks, loss = stack_factors(case.factors), get_loss(case.loss)
        problem = Problem(
            self.blocks,
            pad_vector(case.weights),
            modes=tuple(range(len(case.shape))),
            update_weights=False,
            code=loss.code,
            parameter=loss.parameter,
            lower=case.lower,
            history=FoldedHistory(case.history, stack_factors(case.old_factors)),
        )
        cells = module.prepare_cells(x, plan)
        self.engine = module.SgdEngine(problem, cells, plan, cells, plan)
        self._kind, self._moments = ADAM, Moments.zeros(self.blocks, ADAM)
        if kernels == "cuda":
            self.engine.start(self._moments)

    def epoch(self, iterations: int) -> None:
        moments = self._moments
        self.engine.epoch(
            moments, self._kind, RATE, (0.9, 0.999, 1e-8), 0, moments.taken, iterations
        )

    def wait(self) -> None:
        from onlinegcp.kernels.cuda.card import card

        card().wait()
