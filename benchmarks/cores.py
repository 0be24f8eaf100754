"""One thread, two threads and what was before: the default solver and the paper's, the same bits.

Each case runs in processes of its own: `before` is the package as it was when it knew one thread,
taken out of git. Threads take turns in one process, so that both meet the same neighbours, and each
slice counts with the best of its rounds, so that a busy moment costs one slice only. Machines with
more cores go on with four threads, eight and so on, as `many_cores`. `ratio` of some threads is the
time of one by the clock on the wall over theirs, and the note says what the processors spent, how
busy the machine was and whether the bits were equal. On a machine with other work the clock says
little, and processor time all. What there is to gain is told by two more numbers: `kernel alone`,
the same on two halves of a pass that nobody has to wait for, is what the processors give; and the
note of a solver's case says what its pieces take of a step, done one after the other, and what that
would make of two threads that wake and wait in no time.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.alone import alone
from benchmarks.problems import BUILD, sgd_case
from benchmarks.records import Row

BEFORE = "fa2c1d1"
ROOT = Path(__file__).parent.parent
# What was promised of two threads, by the clock of a quiet machine with two cores.
CASES = {
    "poisson 5 M": 1.7,
    "bernoulli 1 M": 1.7,
    "taxi": 1.7,
    "chicago odds": 1.7,
    "chicago logit": 1.7,
    "gaussian 300": 1.0,
    "poisson 300": 1.0,
}
SGD_CASES = {"A": 1.0, "B": 1.5, "D": 1.5}
# Rows of larger machines stand by themselves.
FAMILY = "cores" if (os.cpu_count() or 1) <= 2 else "many_cores"


def run(*, quick: bool = False, only: str | None = None) -> Iterator[Row]:
    """Milliseconds per slice, by threads; microseconds per iteration of the paper's method."""
    if only in (None, "kernel alone"):
        yield from _rows(f"{FAMILY}/kernel alone", _in_a_process("kernel alone", ROOT), "ms", None)
    for name, target in CASES.items():
        if only in (None, name) and not (quick and name.endswith("M")):
            yield from _solver_rows(name, target)
    for name, target in SGD_CASES.items():
        if only in (None, f"sgd {name}") and not (quick and name == "D"):
            yield from _rows(
                f"{FAMILY}/sgd {name}", _in_a_process(f"sgd {name}", ROOT), "us", target
            )


def _solver_rows(name: str, target: float) -> Iterator[Row]:
    before = _in_a_process(name, _tree_before())
    now = _in_a_process(name, ROOT)
    again = _in_a_process(name, _tree_before())
    spent = min(before["1"]["cpu"], again["1"]["cpu"])
    yield from _rows(f"{FAMILY}/{name}", now, "ms", target)
    cpu = now["1"]["cpu"]
    yield Row(
        f"{FAMILY}/{name}", "one thread, processor time", cpu, cpu, cpu, "ms", against="before",
        ratio=cpu / spent, target="<= 1.1", note=f"before {spent:.4g} ms; {now['load']}",
    )  # fmt: skip


def _rows(case: str, found: dict[str, Any], unit: str, target: float | None) -> Iterator[Row]:
    one = found["1"]
    yield Row(case, "one thread", one["wall"], one["wall"], one["wall"], unit, note=found["load"])
    for threads in sorted(int(key) for key in found if key.isdigit() and key != "1"):
        some = found[str(threads)]
        same = "same bits" if one["digest"] == some["digest"] else "OTHER BITS"
        spent = f"{one['cpu']:.4g} and {some['cpu']:.4g} {unit}"
        note, wanted = f"{same}; processor time {spent}; {found['load']}", ""
        if threads == 2 and target is not None and FAMILY == "cores":
            wanted = f">= {target:g}"
        if threads == 2 and "pieces" in found:
            whole, pieces, in_two = found["whole"], found["pieces"], found["in two"]
            most = whole / (whole - pieces + in_two)
            note += f"; pieces {pieces:.4g} of {whole:.4g} {unit}, so {most:.2f} times at most"
        method = "two threads" if threads == 2 else f"{threads} threads"
        yield Row(
            case, method, some["wall"], some["wall"], some["wall"], unit, against="one thread",
            ratio=one["wall"] / some["wall"], note=note, target=wanted,
        )  # fmt: skip


def _tree_before() -> Path:
    folder = BUILD / f"before-{BEFORE}"
    if not folder.exists():
        packed = subprocess.run(
            ["git", "archive", BEFORE, "src"], cwd=ROOT, stdout=subprocess.PIPE, check=True
        )
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
            archive.extractall(folder, filter="data")
    return folder


def _in_a_process(name: str, tree: Path) -> dict[str, Any]:
    begin = os.getloadavg()[0]
    path = f"{tree / 'src'}{os.pathsep}{ROOT}"
    found = alone("cores", name, PYTHONPATH=path)
    found["load"] = f"load {begin:.1f} to {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    return found


def _measure(name: str) -> dict[str, Any]:
    """Best of several rounds for each slice by itself, threads in turn."""
    make = _sgd if name.startswith("sgd ") else _kernel if name == "kernel alone" else _solver
    per, scale, rounds, learn = make(name)
    best: dict[int, Any] = {}
    found: dict[str, Any] = {}
    for number in range(rounds + 1):  # the first round compiles
        for threads in _threads():
            spent: list[tuple[float, float]] = []
            digest = learn(threads, spent)
            if number:
                least = np.minimum(best.get(threads, np.inf), np.array(spent))
                best[threads], (wall, cpu) = least, least.sum(axis=0) / per * scale
                found[str(threads)] = {"wall": wall, "cpu": cpu, "digest": digest}
    if make is _solver:
        found |= {key: value / per * scale for key, value in _account(learn, rounds).items()}
    return found


def _threads() -> list[int]:
    """One, two, four and so on, as many as there are cores; two in any case."""
    found = [1, 2]
    while 2 * found[-1] <= len(os.sched_getaffinity(0)):
        found.append(2 * found[-1])
    return found


def _account(learn: Callable[[Any, Spent], str], rounds: int) -> dict[str, float]:
    """Processor time of a stream, of the pieces that are shared, and how long these take two."""
    try:
        from onlinegcp.sums.local import Local, jobs
    except ImportError:  # before
        return {}

    class InTurn(Local):
        """Two threads' pieces, one after the other."""

        def run(self, work: Callable[[int], object], count: int) -> None:
            if count == 1:  # the whole step may be in it
                work(0)
                return
            spent = []
            with jobs(1):  # nothing in a piece is split again
                for piece in range(count):
                    begin = time.thread_time()
                    work(piece)
                    spent.append(time.thread_time() - begin)
            busy = [0.0, 0.0]  # whoever is free takes the next
            for piece in spent:
                busy[busy.index(min(busy))] += piece
            runs.append((sum(spent), max(busy)))

    found: dict[str, float] = {}
    for _ in range(rounds):
        runs: list[tuple[float, float]] = []
        spent: Spent = []
        learn(InTurn(2), spent)
        whole = sum(cpu for _, cpu in spent)
        if whole < found.get("whole", np.inf):
            pieces, in_two = np.sum(runs, axis=0) if runs else (0.0, 0.0)
            found = {"whole": whole, "pieces": float(pieces), "in two": float(in_two)}
    return found


Spent = list[tuple[float, float]]  # seconds on the wall and of processors, slice by slice
Made = tuple[int, float, int, Callable[[int, Spent], str]]


@contextmanager
def _timed(spent: Spent) -> Iterator[None]:
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    spent.append((time.perf_counter() - wall, time.process_time() - cpu))


def _kernel(name: str) -> Made:
    """A pass over listed cells, over and over: each half is one piece."""
    from onlinegcp.kernels.layout import pad_vector, stack_factors
    from onlinegcp.solvers.auto.odds_sums import listed_pass
    from onlinegcp.sums.chunks import Chunks
    from onlinegcp.sums.local import Local

    _, factors, rows, _, stream = _stream("taxi")
    x, blocks, weights = stream[0], stack_factors(factors), pad_vector(rows[0])
    cuts = np.array([0, x.n_listed // 2, x.n_listed])
    halves = [Chunks((x.index, x.value), cuts).part(half, half + 1) for half in range(2)]
    sums: list[Any] = [None, None]

    def add_up(half: int) -> None:
        for _ in range(20):
            sums[half] = listed_pass(halves[half], blocks, weights, False)[1]

    def learn(threads: int, spent: Spent) -> str:
        with _timed(spent):
            Local(threads).run(add_up, 2)
        return hashlib.sha256(np.stack(sums).tobytes()).hexdigest()

    return 20, 1e3, 10, learn


def _one_blas_thread() -> AbstractContextManager[Any]:
    try:
        from onlinegcp.kernels.blas import one_blas_thread
    except ImportError:  # before, each step did so itself
        return nullcontext()
    return one_blas_thread()


def _solver(name: str) -> Made:
    from onlinegcp.losses import get_loss
    from onlinegcp.solvers.auto import solver as auto

    loss_name, factors, rows, warm, stream = _stream(name)
    loss = get_loss(loss_name)
    with _one_blas_thread():
        first = auto.start(factors, rows, warm, loss)

    def learn(threads: int, spent: Spent) -> str:
        state = first
        with _one_blas_thread():
            for x in stream:
                with _timed(spent):
                    state = _step(auto, state, x, loss, threads)
        return hashlib.sha256(state.factors.data.tobytes()).hexdigest()

    return len(stream), 1e3, 2 if name.endswith("M") else 8, learn


def _step(auto: Any, state: Any, x: Any, loss: Any, threads: int) -> Any:
    try:
        from onlinegcp.sums.local import jobs
    except ImportError:  # before
        return auto.step(state, x, loss, n_jobs=threads)[0]
    with jobs(threads):
        return auto.step(state, x, loss)[0]


def _stream(name: str) -> tuple[str, list[np.ndarray], np.ndarray, list[Any], list[Any]]:
    """Loss, factors, weights of the first slices, these, and those to learn."""
    if name.startswith("chicago"):
        from benchmarks.streams import real
        from onlinegcp.static.gcp import gcp

        problem = real("chi_b50")
        loss = "bernoulli_odds" if name.endswith("odds") else "bernoulli_logit"
        fit = gcp(problem.first, problem.rank, loss, max_iterations=40).ktensor
        *factors, rows = fit.factors
        stream = problem.stream[: 20 if name.endswith("odds") else 4]
        return loss, factors, rows * fit.weights, problem.first, stream
    if name.endswith("300"):
        from benchmarks.streams import gaussian, poisson

        problem = gaussian() if name.startswith("gaussian") else poisson()
        assert problem.truth is not None
        *factors, rows = problem.truth.factors
        rows = rows[: problem.warm] * problem.truth.weights
        return problem.loss, factors, rows, problem.first, problem.stream[:30]
    shape, count, loss = {
        "poisson 5 M": ((100_000, 100_000, 24), 5_000_000, "poisson"),
        "bernoulli 1 M": ((10_000, 10_000, 24), 1_000_000, "bernoulli_odds"),
        "taxi": ((263, 263, 24), 110_000, "poisson"),
    }[name]
    return _drawn(shape, count, loss, slices=12 if name == "taxi" else 2)


def _drawn(
    shape: tuple[int, ...], count: int, loss: str, *, slices: int, rank: int = 50
) -> tuple[str, list[np.ndarray], np.ndarray, list[Any], list[Any]]:
    """Events of patterns that have popular rows each, some of them at random."""
    from onlinegcp.slices import Slice

    rng = np.random.default_rng(1)
    patterns, made = [rng.permutation(n) for n in shape], []
    for _ in range(slices):
        group = rng.integers(0, rank, count)
        columns = np.empty((count, len(shape)), np.int32)
        for k, n in enumerate(shape):
            reach = (rng.pareto(1.0, count) * n / 50).astype(np.int64)
            place = np.where(rng.random(count) < 0.2, rng.integers(0, n, count), reach)
            columns[:, k] = patterns[k][(place + group * max(1, n // rank)) % n]
        x = Slice(columns, np.ones(count), shape)
        made.append(x if loss == "poisson" else Slice(x.index, np.ones(x.n_listed), shape))
    factors = [rng.gamma(0.5, 1.0, (n, rank)) + 1e-3 for n in shape]
    factors = [a / a.sum(axis=0) for a in factors]
    return loss, factors, np.full((1, rank), count / rank), made[:1], made[1:]


def _sgd(name: str) -> Made:
    from onlinegcp.kernels import get_kernels
    from onlinegcp.kernels.layout import pad_vector, stack_factors
    from onlinegcp.kernels.sgd.plan import ADAM, FoldedHistory, Moments, Problem
    from onlinegcp.losses import get_loss
    from onlinegcp.slices import Slice
    from onlinegcp.solvers.sgd.sampling import Sampler

    case, kernels = sgd_case(name[-1]), get_kernels("cpu")
    assert case.index is not None
    x, loss = Slice(case.index, case.value, case.shape), get_loss(case.loss)
    plan = Sampler("stratified", n_listed=case.draws, n_zeros=case.zeros).plan(x)
    cells = kernels.prepare_cells(x, plan)

    def make(threads: int) -> tuple[Any, Any, Any]:
        blocks = stack_factors(case.factors)
        past = FoldedHistory(case.history, stack_factors(case.old_factors))
        modes = tuple(range(len(case.shape)))
        problem = Problem(
            blocks, pad_vector(case.weights), modes=modes, update_weights=False, code=loss.code,
            parameter=loss.parameter, lower=case.lower, history=past,
        )  # fmt: skip
        engine = kernels.SgdEngine(problem, cells, plan, cells, plan, threads)
        return engine, Moments.zeros(blocks, ADAM), blocks

    made = {threads: make(threads) for threads in _threads()}

    def learn(threads: int, spent: Spent) -> str:
        engine, moments, blocks = made[threads]
        numbers = (1e-4, (0.9, 0.999, 1e-8), 0, moments.taken, case.iterations)
        with _timed(spent):
            engine.epoch(moments, ADAM, *numbers)
        return hashlib.sha256(blocks.data.tobytes()).hexdigest()

    return case.iterations, 1e6, 3 if name[-1] == "D" else 10, learn


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1])))
