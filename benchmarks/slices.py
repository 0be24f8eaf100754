"""Making a slice of unsorted cells: compiled and in plain NumPy, by time of day.

Two threads share the work, so that processor time would count both. Rounds alternate.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.records import Row, measured
from benchmarks.timing import Times

# Shape and entries.
PROBLEMS = {"5M": ((100_000, 100_000, 24), 5_000_000), "1M": ((10_000, 10_000, 24), 1_000_000)}
TARGET = {"5M": "<= 60"}
ROUNDS = 7


def run(*, quick: bool = False, only: str | None = None) -> Iterator[Row]:
    """Milliseconds for a Slice, on two threads and on one, and as it was done before."""
    for name, (shape, count) in PROBLEMS.items():
        if only in (None, name) and not (quick and count > 1_000_000):
            yield from _case(name, shape, count)


def _case(name: str, shape: tuple[int, ...], count: int) -> Iterator[Row]:
    from onlinegcp import entries
    from onlinegcp.slices import Slice
    from onlinegcp.sums.local import jobs

    rng = np.random.default_rng(5)
    index = np.stack([(rng.random(count) ** 2 * n).astype(np.int32) for n in shape], axis=1)
    value = 1.0 + rng.poisson(0.6, count)

    def made(threads: int, many: int) -> Slice:
        before, entries._MANY = entries._MANY, many
        try:
            with jobs(threads):
                return Slice(index, value, shape)
        finally:
            entries._MANY = before

    ways: dict[str, Callable[[], Slice]] = {
        "two threads": lambda: made(2, 1),
        "one thread": lambda: made(1, 1),
        "plain NumPy": lambda: made(1, count + 1),
    }
    import onlinegcp.kernels.sorting  # noqa: F401  (from now on Numba is loaded)

    found = [make() for make in ways.values()]  # compiles
    assert all(x.value.tobytes() == found[0].value.tobytes() and x == found[0] for x in found)
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(ROUNDS):
        for way, make in ways.items():
            begin = time.perf_counter()
            make()
            seconds[way].append(time.perf_counter() - begin)
    note = f"{count} entries, unsorted, of {'x'.join(map(str, shape))}"
    ours = Times(tuple(seconds["two threads"]))
    yield measured(
        f"slices/{name}", "two threads", ours, "ms", 1e3, target=TARGET.get(name, ""), note=note
    )
    for way in ("one thread", "plain NumPy"):
        times = Times(tuple(seconds[way]))
        ratio = times.median / ours.median
        yield measured(f"slices/{name}", way, times, "ms", 1e3, against="two threads", ratio=ratio)
