"""Peak memory of static solves of the paper's Poisson tensor, beside the tensor and its factors.

Each solve runs in a process of its own: libraries are loaded and kernels compiled on a small
tensor first, the system's high-water mark is reset, and what the solve adds to the resident set
is its memory. The tensor exists before and is not in it; the note says what both come to.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.alone import alone, resident
from benchmarks.problems import paper_tensor
from benchmarks.records import Row, measured
from benchmarks.timing import Times

if TYPE_CHECKING:
    from onlinegcp.slices import Slice

# Name of the solve, then whether the tensor is sparse or dense.
SOLVES = [
    "cp_als sparse",
    "cp_als dense",
    "cp_apr sparse",
    "gcp_lbfgsb sparse",
    "gcp_lbfgsb dense",
    "gcp_sgd sparse",
    "gcp_sgd dense",
]


def run(*, quick: bool = False) -> list[Row]:
    """Extra bytes at the peak, as a multiple of tensor plus factors."""
    problem = paper_tensor()
    factors = sum(a.nbytes for a in problem.start)
    rows = []
    for name in SOLVES:
        found = [alone("memory", name, problem.path) for _ in range(1 if quick else 2)]
        extra, tensor = Times(tuple(f["extra"] for f in found)), found[0]["tensor"]
        whole = (tensor + extra.median) / (tensor + factors)
        rows.append(
            measured(
                "memory",
                name,
                extra,
                "MB",
                1e-6,
                against="tensor + factors",
                ratio=extra.median / (tensor + factors),
                target="<= 3",
                note=f"tensor {tensor / 1e6:.1f} MB, with it {whole:.2f} x",
            )
        )
    return rows


def _solve(solver: str, x: Slice, rank: int, iterations: int) -> None:
    if solver == "cp_als":
        from onlinegcp.static.cp_als import cp_als

        cp_als(x, rank, max_iterations=iterations)
    elif solver == "cp_apr":
        from onlinegcp.static.cp_apr import cp_apr

        cp_apr(x, rank, max_iterations=iterations)
    else:
        from onlinegcp.static.gcp import gcp

        method = solver.removeprefix("gcp_")
        gcp(x, rank, "poisson", method=method, max_iterations=iterations, epochs=iterations)


def _measure(name: str, path: str) -> None:
    from onlinegcp.problems import poisson_stream
    from onlinegcp.slices import Slice, stack

    solver, form = name.split()
    small = stack(poisson_stream((20, 20), 10, rank=2, density=0.2).slices)
    with np.load(path) as arrays:
        x = Slice(arrays["index"], arrays["value"], tuple(arrays["shape"].tolist()))
        rank = arrays["start0"].shape[1]
    if form == "dense":
        # The sum writes every page, so that all of the array is resident before the solve.
        small, x = (Slice.dense(s.to_dense() + 0.0) for s in (small, x))
    tensor = x.index.nbytes + x.value.nbytes if x.array is None else x.array.nbytes
    _solve(solver, small, 2, 2)
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # peak := present
    _solve(solver, x, rank, 3)
    print(json.dumps({"extra": resident("VmHWM") - before, "tensor": tensor}))


if __name__ == "__main__":
    _measure(*sys.argv[1:])
