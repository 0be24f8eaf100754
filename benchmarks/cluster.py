"""One process against two workers of a cluster on this machine: Poisson slices.

Ten million nonzeros of 100,000 x 100,000 x 24 cells at rank 50, and two million in a mode of ten
million labels at rank 5, from given factors, so that every second is a step. One process with one
thread, then a driver and two workers with one thread each, the driver with a second for its work on
rows, during which workers have nothing to do; all in processes of their own that learn the same
slices, and the bits must be equal. Each slice counts with the best of its rounds. What the engine
costs is the processor time of driver, scheduler and workers together beyond that of one process.
Memory is the most a process ever held, its libraries included where nothing else is said; what
processes share counts for each that has looked at it.
On a machine with other work, or with fewer than two idle cores, the clock says little.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.alone import alone, resident
from benchmarks.records import Row
from onlinegcp.kernels.layout import padded_width

ROOT = Path(__file__).parent.parent
WORKERS = 2


class Case(NamedTuple):
    """Slices to learn, and what was promised of them, by row."""

    shape: tuple[int, ...]
    rank: int
    count: int
    targets: dict[str, str]


CASES = {
    "poisson 10 M": Case(
        (100_000, 100_000, 24), 50, 10_000_000,
        {"two workers": "<= 0.65", "engine": "<= 1", "worker, peak": "<= 0.6"},
    ),
    "poisson 1 M": Case((100_000, 100_000, 24), 50, 1_000_000, {}),
    # No worker has a copy of the factors of a mode this long.
    "10 M labels": Case(
        (10_000_000, 1_000, 24), 5, 2_000_000, {"worker, beside libraries": "<= 1"}
    ),
}  # fmt: skip


def run(*, quick: bool = False, only: str | None = None) -> Iterator[Row]:
    """Seconds per slice, what the engine costs, and memory."""
    for name, case in CASES.items():
        if only in (None, name) and not (quick and case.count > 1_000_000):
            yield from _rows(name, case)


def _rows(name: str, case: Case) -> Iterator[Row]:
    begin = os.getloadavg()[0]
    one, two = alone("cluster", "one", name), alone("cluster", "two", name)
    load = f"load {begin:.1f} to {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    same = "same bits" if one["digest"] == two["digest"] else "OTHER BITS"

    def row(
        method: str, value: float, unit: str, ratio: float | None, note: str,
        against: str = "one process",
    ) -> Row:  # fmt: skip
        more = {} if ratio is None else {"against": against, "ratio": ratio}
        target, where = case.targets.get(method, ""), f"cluster/{name}"
        return Row(where, method, value, value, value, unit, target=target, note=note, **more)

    note = f"processor time {one['cpu']:.4g} s; {load}"
    yield row("one process", one["wall"], "s", None, note)
    note = f"{same}; processor time {two['cpu']:.4g} s, of it driver {two['driver']:.4g} s; {load}"
    yield row("two workers", two["wall"], "s", two["wall"] / one["wall"], note)
    more = two["cpu"] - one["cpu"]
    yield row("engine", more, "s of processors", None, "beyond one process, per slice")
    peak, largest = one["peak"], max(two["workers"])
    yield row("one process, peak", peak * 1e-9, "GB", None, "")
    note = f"libraries alone {two['idle'] * 1e-9:.2f} GB"
    yield row("worker, peak", largest * 1e-9, "GB", largest / peak, note)
    mode = max(case.shape) * padded_width(case.rank) * 8
    note, own = f"factors of the longest mode {mode * 1e-9:.3g} GB", largest - two["idle"]
    yield row("worker, beside libraries", own * 1e-9, "GB", own / mode, note, "factors of a mode")
    yield row("driver, peak", two["peak"] * 1e-9, "GB", two["peak"] / peak, "")


def _measure(how: str, case: Case) -> dict[str, Any]:
    from benchmarks.cores import _drawn
    from onlinegcp.kernels.blas import one_blas_thread
    from onlinegcp.losses import get_loss
    from onlinegcp.solvers.auto import solver as auto
    from onlinegcp.sums.local import Local, jobs

    loss = get_loss("poisson")
    engine, ask = Local(1), _nobody
    if how == "two":
        from onlinegcp.kernels.blas import hold_blas
        from onlinegcp.kernels.machine import facts
        from onlinegcp.sums.dask import Cluster

        engine = Cluster(f"local:{WORKERS}", WORKERS, facts, hold_blas)
        ask = engine.client.run
    idle = max([0, *ask(_libraries).values()])
    _, factors, rows, warm, stream = _drawn(
        case.shape, case.count, "poisson", slices=3, rank=case.rank
    )
    with one_blas_thread():
        first = auto.start(factors, rows, warm, loss)
        best = np.full((len(stream), 3), np.inf)
        for number in range(3):  # the first compiles
            state, spent = first, []
            for x in stream:
                begin = time.perf_counter(), _processors(ask), time.process_time()
                with jobs(engine):
                    state = auto.step(state, x, loss)[0]
                end = time.perf_counter(), _processors(ask), time.process_time()
                spent.append([b - a for a, b in zip(begin, end, strict=True)])
            best = np.minimum(best, spent) if number else best
    wall, cpu, driver = best.mean(axis=0).tolist()
    return {
        "wall": wall, "cpu": cpu, "driver": driver, "idle": idle, "peak": resident("VmHWM"),
        "workers": list(ask(resident, "VmHWM").values()),
        "digest": hashlib.sha256(state.factors.data.tobytes()).hexdigest(),
    }  # fmt: skip


def _libraries() -> int:
    """Bytes that a process holds with nothing to do."""
    import onlinegcp.solvers.auto.solver  # noqa: F401

    return resident("VmRSS")


def _nobody(function: Any, *arguments: Any) -> dict[str, Any]:
    return {}


def _processors(ask: Any) -> float:
    """Seconds that this process and its workers have taken so far."""
    return time.process_time() + sum(ask(time.process_time).values())


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1], CASES[sys.argv[2]])))
