"""How long a user waits: importing, a first solve and model, `--help`, the first demo, the next.

Every number is the processor time of a fresh process, with the wall time in the note: equal on a
quiet machine. Where others use the machine the note says so; processor time is then longer, too,
by up to a half, because cores and caches are shared. The interpreter's own start is not counted
where code is run, and is counted for `--help`. The first demo and `warmup` compile their kernels in
two processes; the one that is waited for is counted, which is the wall time where two cores are
free.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.records import Row, measured
from benchmarks.timing import ONE_THREAD, Times

IMPORT = "import onlinegcp"
ALS = """
import numpy as np
from onlinegcp.static.cp_als import cp_als
from onlinegcp.slices import Slice
cp_als(Slice(np.array([[0, 1], [2, 0]]), np.array([1.0, 2.0]), (3, 2)), 1, max_iterations=2)
"""
SGD = """
import numpy as np
from onlinegcp.losses import get_loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.sgd import SgdSettings, solve_sgd
x = Slice(np.array([[0, 1], [2, 0]]), np.array([1.0, 2.0]), (3, 2))
start = [np.ones((3, 1)), np.ones((2, 1))]
solve_sgd(x, start, np.ones(1), get_loss("poisson"), SgdSettings(epochs=1, iterations=2))
"""

MODEL = """
import onlinegcp
model = onlinegcp.OnlineGCP(rank=8, loss="poisson")
for day in onlinegcp.load_flights().slices[:12]:
    model.partial_fit(day)
"""
# As the shell runs them, in a folder that is thrown away.
COMMAND = """
import contextlib, io, os, sys, tempfile
from onlinegcp.cli import main
sys.argv = ["onlinegcp", "{name}", "--quiet"]
with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
    os.chdir(folder)
    try:
        main()
    except SystemExit as end:
        assert end.code == 0, end.code
    os.chdir("/")
"""
DEMO, WARMUP = COMMAND.format(name="demo"), COMMAND.format(name="warmup")


def run(*, quick: bool = False) -> Iterator[Row]:
    """Seconds to import, to the end of a first small solve or model, of help, demo and warmup."""
    rounds, few = (3, 1) if quick else (7, 3)
    cases = [
        ("import", IMPORT, 0.3),
        ("first cp_als, warm cache", ALS, 1.0),
        ("first solve_sgd, warm cache", SGD, 1.0),
        ("first model, 12 days, warm cache", MODEL, 3.0),
        ("demo, warm cache", DEMO, 5.0),
    ]
    for name, code, bound in cases:
        first, _ = _python(code)  # fills caches: Python's byte code and Numba's
        yield _row(name, [_python(code) for _ in range(rounds)], bound, first)
    command = Path(sys.executable).parent / "onlinegcp"
    if command.exists():
        yield _row("onlinegcp --help", [_help(command) for _ in range(rounds)], 0.5)
    yield _row("demo, empty cache", [_cold(DEMO) for _ in range(few)], 18.0)
    yield _row("warmup, empty cache", [_cold(WARMUP) for _ in range(few)], 80.0)


def _row(name: str, pairs: list[tuple[float, float]], bound: float, first: float = 0.0) -> Row:
    processor, wall = (Times(values) for values in zip(*pairs, strict=True))
    note = f"wall {wall.median:.3g} s" + (f", first process ever {first:.2g} s" if first else "")
    others = os.getloadavg()[0] - 1  # besides the process that was measured
    if others > 0.5:
        note += f"; a busy machine: {others:.0f} others on {os.cpu_count()} cores"
    return measured("startup", name, processor, "s", target=f"<= {bound:g}", note=note)


def _cold(code: str) -> tuple[float, float]:
    """The same where nothing has been compiled yet."""
    with tempfile.TemporaryDirectory() as folder:
        return _python(code, {"NUMBA_CACHE_DIR": folder})


def _python(code: str, more: dict[str, str] | None = None) -> tuple[float, float]:
    """Processor and wall seconds of some code in a fresh interpreter."""
    timed = (
        "import time\nprocessor, wall = time.process_time(), time.perf_counter()\n"
        f"{code}\nprint(time.process_time() - processor, time.perf_counter() - wall)"
    )
    processor, wall = _run([sys.executable, "-c", timed], more).split()
    return float(processor), float(wall)


def _help(command: Path) -> tuple[float, float]:
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    _run([str(command), "--help"])
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - begin
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def _run(words: list[str], more: dict[str, str] | None = None) -> str:
    environment = {**os.environ, **ONE_THREAD, **(more or {})}
    # An installed package has its byte code beside it.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout
