"""Peak memory of static solves of the paper's Poisson tensor, beside the tensor and its factors.

Each solve runs in a process of its own: libraries are loaded and kernels compiled on a small
tensor first, the system's high-water mark is reset, and what the solve adds to the resident set
is its memory. The tensor itself exists before and is not counted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from benchmarks.problems import paper_tensor
from benchmarks.records import Row, measured
from benchmarks.timing import ONE_THREAD, Times

SOLVES = ["cp_als", "cp_apr", "gcp-lbfgsb", "gcp-sgd"]


def run(*, quick: bool = False) -> list[Row]:
    """Extra bytes at the peak, as a multiple of tensor plus factors."""
    problem = paper_tensor()
    tensor = problem.index.nbytes + problem.value.nbytes
    factors = sum(a.nbytes for a in problem.start)
    rows = []
    for name in SOLVES:
        extra = [_in_a_process(name, problem.path) for _ in range(1 if quick else 3)]
        times = Times(tuple(extra))
        rows.append(
            measured(
                "memory",
                name,
                times,
                "MB",
                1e-6,
                against="tensor + factors",
                ratio=times.median / (tensor + factors),
                target="<= 3",
                note=f"tensor {tensor / 1e6:.1f} MB, factors {factors / 1e6:.1f} MB",
            )
        )
    return rows


def _in_a_process(name: str, path: Path) -> float:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.memory", name, str(path)],
        env={**os.environ, **ONE_THREAD},
        cwd=Path(__file__).parent.parent,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return float(json.loads(done.stdout)["extra"])


def _solve(name: str, x: object, rank: int, iterations: int) -> None:
    if name == "cp_als":
        from onlinegcp.static.cp_als import cp_als

        cp_als(x, rank, max_iterations=iterations)
    elif name == "cp_apr":
        from onlinegcp.static.cp_apr import cp_apr

        cp_apr(x, rank, max_iterations=iterations)
    else:
        from onlinegcp.static.gcp import gcp

        method = name.split("-")[1]
        gcp(x, rank, "poisson", method=method, max_iterations=iterations, epochs=iterations)


def _resident(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no line {field}")


def _measure(name: str, path: str) -> None:
    from onlinegcp.problems import poisson_stream
    from onlinegcp.slices import Slice, stack

    small = stack(poisson_stream((20, 20), 10, rank=2, density=0.2).slices)
    with np.load(path) as arrays:
        x = Slice(arrays["index"], arrays["value"], tuple(arrays["shape"].tolist()))
        rank = arrays["start0"].shape[1]
    _solve(name, small, 2, 2)
    before = _resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # peak := present
    _solve(name, x, rank, 3)
    print(json.dumps({"extra": _resident("VmHWM") - before}))


if __name__ == "__main__":
    _measure(*sys.argv[1:])
