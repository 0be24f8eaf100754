"""Kernels run their own copies of their callees, whatever else a process compiled or loaded."""

from __future__ import annotations

import os
import subprocess
import sys

import numba
import numpy as np
import pytest

from onlinegcp.kernels.jit import OPTIONS, kernel

PLAIN = {**OPTIONS, "cache": False}
del PLAIN["pipeline_class"]

# Learns a little and prints the bits. Its kernels call others that are too large to be written
# into their callers.
LEARN = """
import hashlib
import numpy as np
from onlinegcp import OnlineGCP
rng = np.random.default_rng(0)
model = OnlineGCP(3, "bernoulli_odds", init_slices=3, random_state=0)
for _ in range(6):
    model.partial_fit([(rng.random((9, 7, 5)) < 0.4) * 1.0])
print(hashlib.sha256(b"".join(f.tobytes() for f in model.factors_)).hexdigest())
"""


def with_a_large_callee(compiled):
    """A function that calls another from two places, which is not worth writing out twice."""

    @compiled
    def callee(a, out):
        for i in range(a.shape[0]):
            for j in range(a.shape[1]):
                out[i] += np.exp(a[i, j]) + np.log1p(a[i, j]) * np.sin(a[i, j])
                out[j] += np.cos(a[i, j]) * np.sqrt(a[i, j]) - np.tanh(a[i, j])
            for j in range(a.shape[1] - 1, -1, -1):
                out[i] *= 1.0 + np.arctan(a[i, j]) / (1.0 + np.exp(-out[j]))
                out[j] -= np.cosh(a[i, j]) / (2.0 + np.sinh(a[i, j]))

    @compiled
    def caller(a, b, out):
        callee(a, out)
        callee(b, out)
        return out.sum()

    a = np.arange(9.0).reshape(3, 3) / 9
    caller(a, 2 * a, np.zeros(3))
    (found,) = caller.overloads.values()
    return found.library.get_asm_str()


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_no_other_code_can_take_the_place_of_a_callee():
    def weak(code):
        return [line for line in code.splitlines() if ".weak" in line and "callee" in line]

    assert weak(with_a_large_callee(numba.njit(**PLAIN))), "Numba's copies were meant to be named"
    assert not weak(with_a_large_callee(kernel(cache=False)))


@pytest.mark.slow
@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_the_process_that_compiles_computes_what_later_ones_do(tmp_path):
    settings = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    first, second = (
        subprocess.run(
            [sys.executable, "-c", LEARN], env=settings, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    )
    assert first == second
