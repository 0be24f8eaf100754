"""Vector registers in compiled code: each operation against NumPy on the same numbers."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.kernels import simd
from onlinegcp.kernels.jit import kernel
from onlinegcp.kernels.layout import LANES, aligned_zeros


@kernel(cache=False)
def _apply(which, a, b, out):
    for i in range(0, len(a), LANES):
        x, y = simd.load(a, i), simd.load(b, i)
        z = x
        if which == 0:
            z = simd.add(x, y)
        elif which == 1:
            z = simd.subtract(x, y)
        elif which == 2:
            z = simd.multiply(x, y)
        elif which == 3:
            z = simd.divide(x, y)
        elif which == 4:
            z = simd.maximum(x, y)
        elif which == 5:
            z = simd.square_root(x)
        elif which == 6:
            z = simd.multiply_add(x, y, simd.fill(2.0))
        elif which == 7:
            z = simd.spread(b, i)
        simd.store(out, i, z)


@kernel(cache=False)
def _sums(a, out):
    at = simd.pointer(a)
    for i in range(len(out)):
        simd.prefetch(a, i)
        simd.poke(out, i, simd.lane_sum(simd.load(at, i * LANES)) + simd.peek(at, 0))


ORACLES = [
    np.add,
    np.subtract,
    np.multiply,
    np.divide,
    np.maximum,
    lambda a, b: np.sqrt(a),
    lambda a, b: a * b + 2,
]


@pytest.mark.parametrize("which", range(len(ORACLES)))
def test_each_operation_is_numpys(which):
    a, b, out = (aligned_zeros((32,)) for _ in range(3))
    rng = np.random.default_rng(0)
    a[:], b[:] = rng.random(32), rng.standard_normal(32)
    _apply(which, a, b, out)
    np.testing.assert_allclose(out, ORACLES[which](a, b), rtol=4 * np.finfo(float).eps)


def test_spreading_and_summing_lanes():
    a, out = aligned_zeros((32,)), aligned_zeros((32,))
    a[:] = np.arange(32) + 1
    _apply(7, a, a, out)
    np.testing.assert_array_equal(out, np.repeat(a[::4], 4))
    sums = np.zeros(8)
    _sums(a, sums)
    np.testing.assert_array_equal(sums, a.reshape(-1, 4).sum(axis=1) + 1)


def test_the_maximum_with_a_bound_does_not_hide_nan():
    a, b, out = (aligned_zeros((4,)) for _ in range(3))
    a[:] = [np.nan, -1.0, 1.0, np.inf]
    _apply(4, a, b, out)
    np.testing.assert_array_equal(out, [np.nan, 0.0, 1.0, np.inf])
