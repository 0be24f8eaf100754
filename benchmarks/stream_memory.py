"""Memory and time per slice over a long stream: both must stay flat.

Each solver runs in a process of its own on 10,000 small count slices. What it holds and what a
slice costs after the first thousand is compared with the same at the end.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator

import numpy as np

from benchmarks.alone import alone, resident
from benchmarks.records import Row
from benchmarks.timing import clock

EARLY = 1_000
SLICES = 10_000


def run(*, quick: bool = False, only: str | None = None) -> Iterator[Row]:
    """Bytes held and seconds per slice, late over early."""
    count = 3_000 if quick else SLICES
    for solver in ("auto", "sgd"):
        if only not in (None, solver):
            continue
        found = alone("stream_memory", solver, count)
        case, note = f"stream_memory/{solver}", f"{count:,} slices 30 x 20, Poisson, rank 5"
        for what, unit, scale, target in (
            ("memory", "MB held at the end", 1e-6, "<= 1.02"),
            ("time", "ms per slice at the end", 1e3, "<= 1.15"),
        ):
            early, late = (found[f"{what}_{when}"] * scale for when in ("early", "late"))
            values = (late, late, late)
            against, ratio = f"after {EARLY:,} slices", late / early
            yield Row(case, what, *values, unit, "", against, ratio, target, note)


def _measure(solver: str, count: int) -> None:
    from onlinegcp.problems import poisson_stream
    from onlinegcp.slices import Slice
    from onlinegcp.streaming import SGD, OnlineGCP

    made = poisson_stream((30, 20), 200, rank=5, density=0.2, seed=3)
    few = SGD(weight_iterations=10, factor_iterations=10)
    model = OnlineGCP(5, "poisson", solver=few if solver == "sgd" else "auto")
    seconds = np.zeros(count)
    found: dict[str, float] = {}
    for t, old in enumerate(itertools.islice(itertools.cycle(made.slices), count)):
        # A slice of its own, so that nothing kept of an old one could hide among those above.
        x = Slice(old.index.copy(), old.value.copy(), old.shape, time=t)
        begin = clock()
        model.partial_fit(x)
        seconds[t] = clock() - begin
        if t + 1 == EARLY:
            found["memory_early"] = resident("VmRSS")
    found["memory_late"] = resident("VmRSS")
    # Medians of half a thousand: a neighbour's burst must not look like growth.
    found["time_early"] = float(np.median(seconds[EARLY // 2 : EARLY]))
    found["time_late"] = float(np.median(seconds[-EARLY // 2 :]))
    print(json.dumps(found))


if __name__ == "__main__":
    _measure(sys.argv[1], int(sys.argv[2]))
