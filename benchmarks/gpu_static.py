"""The static methods on an NVIDIA card, with one core beside: seconds per sweep, pass or epoch.

All of a fit is timed but its first sweep, which is that of a fit of one sweep alone. Factors
travel, and what is the host's share (systems of R x R, updates of single numbers) is in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.records import Row, measured
from benchmarks.timing import Times

SHAPE, CELLS, RANK = (10_000, 10_000, 24), 1_000_000, 50
SWEEPS = {"cuda": 6, "cpu": 2}  # one more than are timed
Fit = Callable[[Any, str, int], Any]


def run(*, quick: bool = False, only: str | None = None) -> Iterator[Row]:
    """Milliseconds per sweep on the card and on one core, and how far their results differ."""
    x = None
    for name, fit in METHODS.items():
        if only in (None, name):
            x = _tensor() if x is None else x
            yield from _compare(name, fit, x)


def _als(x: Any, device: str, sweeps: int) -> Any:
    from onlinegcp import cp_als

    return cp_als(x, RANK, max_iterations=sweeps, tolerance=0.0, device=device, n_jobs=1)


def _apr(x: Any, device: str, sweeps: int) -> Any:
    from onlinegcp import cp_apr

    return cp_apr(
        x, RANK, method="mu", max_inner=3, max_iterations=sweeps, tolerance=0.0, device=device,
        n_jobs=1,
    )  # fmt: skip


def _gcp(x: Any, device: str, sweeps: int) -> Any:
    from onlinegcp import gcp
    from onlinegcp.solvers.sgd.sampling import stratified

    # As many samples in a short fit as in a long one.
    return gcp(
        x, RANK, "poisson", method="sgd", epochs=sweeps, iterations=100, device=device, n_jobs=1,
        sampler=stratified(10_000, 10_000),
    )  # fmt: skip


METHODS: dict[str, Fit] = {"cp_als": _als, "cp_apr": _apr, "gcp": _gcp}


def _compare(name: str, fit: Fit, x: Any) -> Iterator[Row]:
    seconds, found = {}, {}
    for device, sweeps in SWEEPS.items():
        fit(x, device, 1)  # compiles
        begin = time.perf_counter()
        fit(x, device, 1)
        first = time.perf_counter() - begin
        begin = time.perf_counter()
        found[device] = fit(x, device, sweeps)
        seconds[device] = (time.perf_counter() - begin - first) / (sweeps - 1)
    case = f"gpu/{name}"
    note = f"{'x'.join(map(str, SHAPE))}, {x.n_listed} cells, rank {RANK}"
    card, core = (Times((seconds[device],)) for device in ("cuda", "cpu"))
    yield measured(case, "card", card, "ms", 1e3, note=note)
    yield measured(
        case, "one core", core, "ms", 1e3, against="card", ratio=core.median / card.median
    )
    n = min(len(result.trace) for result in found.values())
    here, there = (np.array(found[device].trace[:n]) for device in ("cpu", "cuda"))
    apart = float(np.abs(here - there).max() / np.abs(here).max())
    yield Row(
        case, "difference", apart, apart, apart, "relative", target="<= 1e-10",
        note=f"objectives of {n} sweeps",
    )  # fmt: skip


def _tensor() -> Any:
    from onlinegcp.slices import Slice

    rng = np.random.default_rng(5)
    index = np.stack([(rng.random(CELLS) ** 2 * n).astype(np.int32) for n in SHAPE], axis=1)
    return Slice(index, 1.0 + rng.poisson(0.6, CELLS), SHAPE)
