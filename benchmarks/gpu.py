"""The default solver on an NVIDIA card: results against the CPU's, and milliseconds per slice.

Needs a card and numba-cuda. The slice lies on the card already, as it does for every model but the
first that learns it; all of the solver's step is timed, waiting for its answer included. One core
is the same step with device="cpu". The limit is what the card's memory would take if each number
of the passes moved once and rows of long modes were fetched from it cell by cell: no cache helps.
Streams are drawn; those named after real data have their size, and not their patterns.
"""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from benchmarks import gpu_sgd, gpu_static
from benchmarks.records import Row, measured
from benchmarks.timing import Times, clock

BANDWIDTH = 4.2e12  # bytes per second that an H200 copies
FLOPS = 34e12  # operations per second in double precision
BY_ROWS = ("bernoulli_logit", "gamma")  # losses with one matrix per row
CACHED = 1 << 20  # bytes of a mode's rows that stay in a cache of first level or near it
WARM = 3  # slices a model is made from
ROUNDS, MANY_ROUNDS = 15, 200  # of large slices, and of small ones, where hosts have their moods
RECORDED = 10  # steps until all that is played again has been recorded


@dataclass(frozen=True)
class Problem:
    """Size of a stream, what was promised for it, and the most that the two devices may differ."""

    loss: str
    shape: tuple[int, ...]
    rank: int
    listed: int
    most_ms: float | None  # None: nothing was promised
    least_ratio: float | None  # None: too long on one core
    missing: bool = False
    bounded: bool = False  # factors may not fall below zero, whatever the loss
    far: bool = False  # as if the slice were too large for the card


PROBLEMS = {
    "small": Problem("poisson", (300, 300), 20, 2_900, 0.25, 10),
    "taxi": Problem("poisson", (263, 263, 24), 50, 90_000, 0.4, 100),
    "chicago": Problem("bernoulli_odds", (24, 77, 32), 50, 1_000, 0.6, 20),
    "logit": Problem("bernoulli_logit", (24, 77, 32), 50, 1_000, 5, 100),
    "gamma": Problem("gamma", (2_000, 2_000, 24), 50, 300_000, None, 1, missing=True),
    "bernoulli": Problem("bernoulli_odds", (10_000, 10_000, 24), 50, 1_000_000, 5, 300),
    "missing": Problem("poisson", (10_000, 10_000, 24), 50, 1_000_000, None, 1, missing=True),
    "gaussian": Problem("gaussian", (10_000, 10_000, 24), 50, 1_000_000, None, 1),
    "bounded": Problem("gaussian", (10_000, 10_000, 24), 50, 1_000_000, None, 1, bounded=True),
    "poisson": Problem("poisson", (100_000, 100_000, 24), 50, 5_000_000, 7, 800),
    "far": Problem("poisson", (100_000, 100_000, 24), 50, 5_000_000, None, None, far=True),
    "long": Problem("poisson", (1_000_000, 1_000_000, 24), 50, 20_000_000, 35, None),
    "longest": Problem("poisson", (1_000_000, 1_000_000, 1_000), 64, 50_000_000, 150, None),
}


def machine(known: str) -> str:
    """The machine with its card, in words."""
    from numba import cuda

    from onlinegcp.solvers.cuda.engine import device_problem

    if device_problem():
        return known
    name = cuda.get_current_device().name
    return f"{known}, {name if isinstance(name, str) else name.decode()}"


def run(*, quick: bool = False, only: str | None = None) -> Iterator[Row]:
    """Milliseconds per slice on the card and on one core, and how far their results differ."""
    from onlinegcp.kernels.blas import one_blas_thread
    from onlinegcp.solvers.cuda.engine import device_problem

    if device_problem():
        print(f"No rows of gpu: {device_problem()}", flush=True)
        return
    for name, problem in PROBLEMS.items():
        if only not in (None, name) or (quick and problem.listed > 1_000_000):
            continue
        try:
            # A threaded BLAS spins, and its turns would count as work of the one core.
            with one_blas_thread(), _limited(problem):
                yield from _compare(name, problem)
        except Exception:
            traceback.print_exc()
    if only in (None, "score") and not quick:
        with one_blas_thread():
            yield from _score()
    if only in (None, "year") and not quick:
        with one_blas_thread():
            yield _year()
    for rest in (gpu_sgd, gpu_static):
        yield from rest.run(quick=quick, only=only)


@contextmanager
def _limited(problem: Problem) -> Iterator[None]:
    """The card with less room for slices, where a problem asks for it."""
    from onlinegcp.kernels.cuda.card import card

    on, most = card(), card().most_cell_bytes
    on.most_cell_bytes = 0 if problem.far else most
    try:
        yield
    finally:
        on.most_cell_bytes = most


def _score() -> Iterator[Row]:
    """How odd a slice is to a model on the card: the mean surprise of its events."""
    from onlinegcp.losses import get_loss
    from onlinegcp.solvers.auto import solver
    from onlinegcp.solvers.devices import engine_for
    from onlinegcp.solvers.objective import log_sum

    problem, loss, rng = PROBLEMS["bernoulli"], get_loss("poisson"), np.random.default_rng(5)
    problem = replace(problem, loss="poisson")
    x = _slice(problem, rng, problem.listed)
    state, _ = solver.step(_state(problem, rng, loss), x, loss, card=engine_for("cuda"))
    weights, seconds, found = state.model.mean_weights[: problem.rank], [], []
    for _ in range(ROUNDS + RECORDED):
        begin = time.perf_counter()
        found.append(state.factors.log_sum(x, weights, 1e-12))
        seconds.append(time.perf_counter() - begin)
    card, views = Times(tuple(seconds[RECORDED:])), state.factors.views()
    begin = clock()
    here = log_sum(x, views, weights, 1e-12)
    core, case = clock() - begin, "gpu/score"
    note = f"poisson, {'x'.join(map(str, problem.shape))}, {x.n_listed} cells, rank {problem.rank}"
    yield measured(case, "card", card, "ms per slice", 1e3, note=note)
    yield measured(
        case, "one core", Times((core,)), "ms per slice", 1e3, against="card",
        ratio=core / card.median,
    )  # fmt: skip
    apart = _apart(here, found[-1])
    yield Row(case, "difference", apart, apart, apart, "relative", target="<= 1e-10")


def _year() -> Row:
    """A year of slices of the taxi's size from memory, each new to the card, trials included."""
    from onlinegcp.losses import get_loss
    from onlinegcp.solvers.auto import solver
    from onlinegcp.solvers.devices import engine_for

    problem, loss, engine = PROBLEMS["taxi"], get_loss("poisson"), engine_for("cuda")
    rng = np.random.default_rng(6)
    state = _state(problem, rng, loss)
    slices = [_slice(problem, rng, int(problem.listed * rng.uniform(0.8, 1.1))) for _ in range(365)]
    now = state
    for x in slices[:RECORDED]:  # compiles and records
        now, done = solver.step(now, x, loss, card=engine)
    _warm_trials(now, x, loss, done.weights)
    begin, now, births = time.perf_counter(), state, 0
    for x, coming in zip(slices, [*slices[1:], None], strict=True):
        if coming is not None:  # as `fit` and `partial_fit` do with a list
            engine.expect(coming)
        now, done = solver.step(now, x, loss, card=engine)
        births += done.births
    times = Times((time.perf_counter() - begin,))
    cells = sum(x.n_listed for x in slices)
    note = f"365 slices, {cells} cells in all, rank {problem.rank}, {births} components replaced"
    return measured("gpu/year", "card", times, "s", target="<= 1", note=note)


def _warm_trials(state, x, loss, weights) -> None:  # type: ignore[no-untyped-def]
    """Compile what makes new components, which no slice before the first trial asks for."""
    from onlinegcp.kernels.layout import pad_vector
    from onlinegcp.solvers.auto import splits

    twin = state.model.copy()
    twin.past.seed(twin, x, loss, pad_vector(weights), 0)
    splits.split(twin, x, loss, pad_vector(weights), 0, 0)


def _compare(name: str, problem: Problem) -> Iterator[Row]:
    from onlinegcp.losses import get_loss
    from onlinegcp.solvers.auto import solver
    from onlinegcp.solvers.devices import engine_for

    rng, loss, engine = np.random.default_rng(5), get_loss(problem.loss), engine_for("cuda")
    state = _state(problem, rng, loss)
    x = _slice(problem, rng, problem.listed)
    begin = time.perf_counter()
    there, first = solver.step(state, x, loss, card=engine)
    compiled = time.perf_counter() - begin
    seconds = []
    now = _without_trial(there)  # they would learn the slice twice
    rounds = ROUNDS if problem.listed > 100_000 else MANY_ROUNDS
    for _ in range(rounds + RECORDED):
        begin = time.perf_counter()
        # The same slice again: it lies on the card.
        now, _ = solver.step(now, x, loss, card=engine)
        seconds.append(time.perf_counter() - begin)
    times = Times(tuple(seconds[RECORDED:]))
    limit, bytes_moved, operations = _limit(problem, x.n_listed)
    facts = (
        f"{problem.loss}, {'x'.join(map(str, problem.shape))}, {x.n_listed} cells, rank "
        f"{problem.rank}; {bytes_moved / 1e9:.3g} GB, {operations / 1e9:.3g} GFLOP, limit "
        f"{limit * 1e3:.3g} ms, {100 * limit / times.median:.0f} % reached; first call "
        f"{compiled:.1f} s"
    )
    case, unit = f"gpu/{name}", "ms per slice"
    promised = "" if problem.most_ms is None else f"<= {problem.most_ms}"
    yield measured(case, "card", times, unit, 1e3, target=promised, note=facts)
    if problem.least_ratio is None:
        return
    solver.step(state, x, loss)  # compiles
    begin = clock()
    here, second = solver.step(state, x, loss)
    core = clock() - begin
    yield measured(
        case,
        "one core",
        Times((core,)),
        unit,
        1e3,
        against="card",
        ratio=core / times.median,
        target=f">= {problem.least_ratio}",
    )
    apart = {
        "weights": _apart(second.weights, first.weights),
        "losses": max(
            _apart(second.prequential, first.prequential), _apart(second.local, first.local)
        ),
        "factors": _apart(here.factors.data, there.factors.data),
    }
    worst = max(apart.values())
    words = ", ".join(f"{name} {value:.1g}" for name, value in apart.items())
    yield Row(case, "difference", worst, worst, worst, "relative", target="<= 1e-10", note=words)


def _limit(problem: Problem, cells: int) -> tuple[float, float, float]:
    """Seconds, bytes and operations of a step, if rows of long modes come from memory."""
    rank, modes, linear = problem.rank, len(problem.shape), problem.loss == "poisson"
    long = [n for n in problem.shape[1:] if n * rank * 8 > CACHED]
    looked_at = cells if cells <= 32_768 else cells // min(cells // 16_384, 16)
    # Newton and its multiplicative steps; slopes with the sensitivity's ratios, the second sweep
    # and the loss. Odds and missing cells go over the modes one by one, over the exposure too.
    full = 3 if linear and not problem.missing else 3 + 2 * modes
    if problem.loss == "gaussian":
        looked_at, full = 0, 2 * modes - 1
    if problem.loss in BY_ROWS:
        return _limit_of_rows(problem, cells)
    gathers = (5 * looked_at + full * cells) * len(long) * rank * 8 + cells * len(long) * rank * 4
    added = 2 * cells * len(long) * rank * 16
    lists = (5 * looked_at + full * cells) * (4 * modes + 8)
    matrices = 22 * sum(problem.shape) * rank * 8
    moved = gathers + added + lists + matrices
    operations = (5 * looked_at * rank + full * cells * (modes + 4)) * rank
    return moved / BANDWIDTH, float(moved), float(operations)


def _limit_of_rows(problem: Problem, cells: int) -> tuple[float, float, float]:
    """The same with one matrix per row: some ten looks for the weights, five at every mode."""
    rank, modes = problem.rank, len(problem.shape)
    cells = cells if problem.missing else math.prod(problem.shape)
    long = [n for n in problem.shape if n * rank * 8 > CACHED]
    looks = 10 + 5 * modes
    matrices = 8 * sum(problem.shape) * rank * rank * 8
    moved = looks * cells * (4 * modes + 16 + len(long) * rank * 8) + matrices
    operations = (10 + 3 * modes) * cells * rank * rank + sum(problem.shape) * rank**3
    return max(moved / BANDWIDTH, operations / FLOPS), float(moved), float(operations)


def _state(problem: Problem, rng: np.random.Generator, loss):  # type: ignore[no-untyped-def]
    from onlinegcp.solvers.auto import solver

    factors = [rng.random((n, problem.rank)) ** 3 for n in problem.shape]
    slices = [_slice(problem, rng, min(problem.listed, 200_000)) for _ in range(WARM)]
    if math.isinf(loss.lower) and problem.loss in BY_ROWS:
        factors = [rng.standard_normal((n, problem.rank)) for n in problem.shape]
        return solver.start(factors, rng.standard_normal((WARM, problem.rank)), slices, loss)
    lower = 0.0 if problem.bounded else None
    sizes = np.prod([a.sum(axis=0) for a in factors], axis=0)
    rows = rng.random((WARM, problem.rank)) + 0.2
    rows *= np.array([[problem.listed * 1.5] for _ in slices]) / problem.rank / sizes
    return solver.start(factors, rows, slices, loss, lower=lower)


def _slice(problem: Problem, rng: np.random.Generator, listed: int):  # type: ignore[no-untyped-def]
    from onlinegcp.slices import Slice

    count = min(listed, int(0.6 * math.prod(problem.shape)))
    index = np.stack([(rng.random(count) ** 2 * n).astype(np.int32) for n in problem.shape], axis=1)
    if problem.loss == "gamma":
        linear = np.unique(np.ravel_multi_index(tuple(index.T.astype(np.int64)), problem.shape))
        index = np.stack(np.unravel_index(linear, problem.shape), axis=1)
        return Slice(index, rng.gamma(2.0, 1.0, len(index)), problem.shape, unlisted="missing")
    if problem.loss.startswith("bernoulli"):
        linear = np.unique(np.ravel_multi_index(tuple(index.T.astype(np.int64)), problem.shape))
        index = np.stack(np.unravel_index(linear, problem.shape), axis=1)
        return Slice(index, np.ones(len(index)), problem.shape)
    value = 1.0 + rng.poisson(0.6, count)
    if problem.missing:
        value *= rng.random(count) < 0.5
    return Slice(index, value, problem.shape, unlisted="missing" if problem.missing else "zero")


def _without_trial(state):  # type: ignore[no-untyped-def]
    return replace(state, reseed=False)


def _apart(ours: object, theirs: object) -> float:
    a, b = np.asarray(ours, dtype=np.float64), np.asarray(theirs, dtype=np.float64)
    return float(np.abs(a - b).max() / max(np.abs(a).max(), 1e-300))
