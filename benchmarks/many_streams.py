"""Thousands of small independent streams: one command on one core and on two.

Both commands read the same table, one after the other, and must leave the same bits. As everywhere
here, processor time stands for the wall time of a quiet machine: all of it for one process, half of
it for two, which take shards in turn and end within one of each other. Wall times are in the note.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.records import Row

STREAMS, SLICES, EVENTS = 2_000, 100, 12
FIT = "from onlinegcp.cli import main; main()"


def run(*, quick: bool = False, only: str | None = None) -> Iterator[Row]:
    """Seconds of fit --by with one process and with two."""
    n_streams = STREAMS // 10 if quick else STREAMS
    case = f"many_streams/{n_streams}x{SLICES}"
    if only and only not in case:
        return
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "events.parquet"
        _write(table, n_streams)
        _fit(table, Path(folder) / "warm.run", 1, ["--until", "2018-01-03"])  # compiles
        measured = {jobs: _fit(table, Path(folder) / f"{jobs}.run", jobs) for jobs in (2, 1)}
        same = len({_digest(Path(folder) / f"{jobs}.run") for jobs in measured}) == 1
        files = [file for file in (Path(folder) / "2.run").rglob("*") if file.is_file()]
        size = sum(file.stat().st_size for file in files)
    (two, two_cpu), (one, one_cpu) = measured[2], measured[1]
    load, each = os.getloadavg()[0], two_cpu / 2
    note = (
        f"{one_cpu / each:.2f} times as fast: {n_streams:,} streams of {SLICES} slices of {EVENTS} "
        "events, 8 x 5, rank 3; wall "
        f"{one:.0f} s with one process and {two:.0f} s with two at a load average of {load:.1f}; "
        f"results {'equal' if same else 'DIFFER'}; {len(files)} files of {size / 1e6:.0f} MB"
    )
    yield Row(case, "1 process", one_cpu, one_cpu, one_cpu, "s")
    yield Row(
        case, "2 processes", each, each, each, "s",
        against="1 process", ratio=each / one_cpu, target="<= 0.5556", note=note,
    )  # fmt: skip
    yield Row(
        case, "2 processes, by the clock", two, two, two, "s", against="1 process",
        ratio=two / one, target="<= 0.5556", note=f"1.8 times as fast; {one:.0f} s with one "
        f"process; load average {load:.1f} at the end: says little above 2",
    )  # fmt: skip


def _write(path: Path, n_streams: int) -> None:
    """Events in order of time: every customer has its own mix of two patterns."""
    import polars as pl

    rng = np.random.default_rng(0)
    n = n_streams * SLICES * EVENTS
    day = np.repeat(np.arange(SLICES), n_streams * EVENTS)
    customer = np.tile(np.repeat(np.arange(n_streams), EVENTS), SLICES)
    second = np.sort(rng.integers(0, 86_400, (SLICES, n_streams * EVENTS)), axis=1).ravel()
    when = np.datetime64("2018-01-01") + (day * 86_400 + second) * np.timedelta64(1, "s")
    pattern = rng.random(n) < 0.3 + 0.4 * (customer % 2)
    a = np.where(pattern, rng.integers(0, 4, n), 2 + rng.integers(0, 6, n)) % 8
    b = np.where(pattern, rng.integers(0, 2, n), 1 + rng.integers(0, 4, n)) % 5
    pl.DataFrame(
        {"when": when.astype("M8[us]"), "customer": customer, "a": a, "b": b}
    ).write_parquet(path)


def _fit(table: Path, run: Path, jobs: int, more: list[str] | None = None) -> tuple[float, float]:
    """Wall and processor seconds of the command."""
    words = ["fit", str(table), "--by", "customer", "--time", "when", "--every", "1d"]
    words += ["--modes", "a,b", "--rank", "3", "-o", str(run), "--quiet", "--jobs", str(jobs)]
    before, began = os.times(), time.perf_counter()
    subprocess.run([sys.executable, "-c", FIT, *words, *(more or [])], check=True)
    wall, after = time.perf_counter() - began, os.times()
    cpu = after.children_user - before.children_user
    return wall, cpu + after.children_system - before.children_system


def _digest(run: Path) -> str:
    """What all streams have learned, but for the seconds it took."""
    digest = hashlib.sha256()
    for file in sorted((run / "shards").glob("*.jsonl")):
        for line in file.open("rb"):
            step = {k: v for k, v in json.loads(line).items() if k not in ("seconds", "crc")}
            digest.update(json.dumps(step, sort_keys=True).encode())
    return digest.hexdigest()
