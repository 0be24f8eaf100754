"""One process against two workers of a cluster on this machine: Poisson slices of 10 M nonzeros.

100,000 x 100,000 x 24 cells at rank 50, from given factors, so that every second is a step. One
process with one thread, then a driver with one thread and two workers with one each, in processes
of their own that learn the same slices; the bits must be equal. Each slice counts with the best of
its rounds. What the engine costs is the processor time of driver, scheduler and workers together
beyond that of one process. Memory is the most a process ever held, its libraries included. On a
machine with other work, or with fewer than two idle cores, the clock says little.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.memory import _resident
from benchmarks.records import Row
from benchmarks.timing import ONE_THREAD

ROOT = Path(__file__).parent.parent
SHAPE, RANK, WORKERS = (100_000, 100_000, 24), 50, 2
CASES = {"poisson 10 M": 10_000_000, "poisson 1 M": 1_000_000}


def run(*, quick: bool = False, only: str | None = None) -> Iterator[Row]:
    """Seconds per slice, what the engine costs, and memory; promised for ten million only."""
    for name, count in CASES.items():
        if only in (None, name) and not (quick and count > 1_000_000):
            yield from _rows(f"cluster/{name}", count, promised=count == 10_000_000)


def _rows(case: str, count: int, *, promised: bool) -> Iterator[Row]:
    begin = os.getloadavg()[0]
    one, two = _in_a_process("one", count), _in_a_process("two", count)
    load = f"load {begin:.1f} to {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    same = "same bits" if one["digest"] == two["digest"] else "OTHER BITS"

    def row(method: str, value: float, unit: str, ratio: float | None, target: str, note: str):
        more = {} if ratio is None else {"against": "one process", "ratio": ratio}
        bound = target if promised else ""
        return Row(case, method, value, value, value, unit, target=bound, note=note, **more)

    note = f"processor time {one['cpu']:.4g} s; {load}"
    yield row("one process", one["wall"], "s", None, "", note)
    note = f"{same}; processor time {two['cpu']:.4g} s, of it driver {two['driver']:.4g} s; {load}"
    yield row("two workers", two["wall"], "s", two["wall"] / one["wall"], "<= 0.65", note)
    more = two["cpu"] - one["cpu"]
    yield row("engine", more, "s of processors", None, "<= 1", "beyond one process, per slice")
    peak, largest = one["peak"], max(two["workers"])
    yield row("one process, peak", peak * 1e-9, "GB", None, "", "")
    note = f"libraries alone {two['idle'] * 1e-9:.2f} GB"
    yield row("worker, peak", largest * 1e-9, "GB", largest / peak, "<= 0.6", note)
    yield row("driver, peak", two["peak"] * 1e-9, "GB", two["peak"] / peak, "", "")


def _in_a_process(how: str, count: int) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.cluster", how, str(count)],
        env={**os.environ, **ONE_THREAD},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _measure(how: str, count: int) -> dict[str, Any]:
    from benchmarks.cores import _drawn
    from onlinegcp.kernels.blas import one_blas_thread
    from onlinegcp.losses import get_loss
    from onlinegcp.solvers.auto import solver as auto
    from onlinegcp.sums.local import Local, jobs

    loss = get_loss("poisson")
    engine, ask = Local(1), _nobody
    if how == "two":
        from onlinegcp.kernels.machine import facts
        from onlinegcp.sums.dask import Cluster

        engine = Cluster(f"local:{WORKERS}", 1, facts)
        ask = engine.client.run
    idle = max([0, *ask(_resident, "VmRSS").values()])
    _, factors, rows, warm, stream = _drawn(SHAPE, count, "poisson", slices=3, rank=RANK)
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
        "wall": wall, "cpu": cpu, "driver": driver, "idle": idle, "peak": _resident("VmHWM"),
        "workers": list(ask(_resident, "VmHWM").values()),
        "digest": hashlib.sha256(state.factors.data.tobytes()).hexdigest(),
    }  # fmt: skip


def _nobody(function: Any, *arguments: Any) -> dict[str, Any]:
    return {}


def _processors(ask: Any) -> float:
    """Seconds that this process and its workers have taken so far."""
    return time.process_time() + sum(ask(time.process_time).values())


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1], int(sys.argv[2]))))
