"""How long a user waits: importing, the first kernel call with a warm cache, `--help`.

Every number is from a fresh process; the interpreter's own start is not counted for the import
and the kernel call, and is counted for the command.
"""

from __future__ import annotations

import os
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
        first = _seconds(code)  # fills caches: Python's byte code and Numba's
        times = Times(tuple(_seconds(code) for _ in range(rounds)))
        note = f"very first process {first:.1f} s"
        rows.append(measured("startup", name, times, "s", target=f"<= {bound:g}", note=note))
    command = Path(sys.executable).parent / "onlinegcp"
    if command.exists():
        times = Times(tuple(_help(command) for _ in range(rounds)))
        rows.append(measured("startup", "onlinegcp --help", times, "s", target="<= 0.5"))
    return rows


def _seconds(code: str) -> float:
    timed = f"import time\nbegin = time.perf_counter()\n{code}\nprint(time.perf_counter() - begin)"
    return float(_run([sys.executable, "-c", timed]))


def _help(command: Path) -> float:
    begin = time.perf_counter()
    _run([str(command), "--help"])
    return time.perf_counter() - begin


def _run(words: list[str]) -> str:
    environment = {**os.environ, **ONE_THREAD}
    done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout
