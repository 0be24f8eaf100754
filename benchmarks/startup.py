"""How long a user waits: importing, the first kernel call with a warm cache, `--help`.

Every number is the processor time of a fresh process, with the wall time in the note: equal on a
quiet machine. The interpreter's own start is not counted for the import and the kernel call, and
is counted for the command.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
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


def run(*, quick: bool = False) -> list[Row]:
    """Seconds to import, to the end of a first small solve, and of the command's help."""
    rounds = 3 if quick else 7
    cases = [
        ("import", IMPORT, 0.3),
        ("first cp_als, warm cache", ALS, 1.0),
        ("first solve_sgd, warm cache", SGD, 1.0),
    ]
    rows = []
    for name, code, bound in cases:
        first, _ = _python(code)  # fills caches: Python's byte code and Numba's
        rows.append(_row(name, [_python(code) for _ in range(rounds)], bound, first))
    command = Path(sys.executable).parent / "onlinegcp"
    if command.exists():
        rows.append(_row("onlinegcp --help", [_help(command) for _ in range(rounds)], 0.5))
    return rows


def _row(name: str, pairs: list[tuple[float, float]], bound: float, first: float = 0.0) -> Row:
    processor, wall = (Times(values) for values in zip(*pairs, strict=True))
    note = f"wall {wall.median:.3g} s" + (f", first process ever {first:.2g} s" if first else "")
    return measured("startup", name, processor, "s", target=f"<= {bound:g}", note=note)


def _python(code: str) -> tuple[float, float]:
    """Processor and wall seconds of some code in a fresh interpreter."""
    timed = (
        "import time\nprocessor, wall = time.process_time(), time.perf_counter()\n"
        f"{code}\nprint(time.process_time() - processor, time.perf_counter() - wall)"
    )
    processor, wall = _run([sys.executable, "-c", timed]).split()
    return float(processor), float(wall)


def _help(command: Path) -> tuple[float, float]:
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    _run([str(command), "--help"])
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - begin
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def _run(words: list[str]) -> str:
    environment = {**os.environ, **ONE_THREAD}
    done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout
