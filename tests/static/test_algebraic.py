"""Algebraic starts: exact where there is no noise, and honest about where they tell nothing."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.ktensor import KTensor
from onlinegcp.slices import Slice
from onlinegcp.static.algebraic import algebraic_start


@pytest.mark.parametrize("shape", [(9, 8, 4), (4, 9, 8), (7, 2, 9, 3)])
@pytest.mark.parametrize("sparse", [False, True])
def test_algebraic_start_is_the_solution_of_a_tensor_without_noise(shape, sparse):
    rng = np.random.default_rng(5)
    factors = [rng.standard_normal((n, 4)) for n in shape]
    full = KTensor(np.ones(4), factors).full()
    x = Slice(np.argwhere(full != 0.0), full[full != 0.0], shape) if sparse else Slice.dense(full)
    found = algebraic_start(x, 4, np.random.default_rng(1))
    # Sign and size of the leading vectors are arbitrary: only they are fitted.
    parts = [KTensor(np.ones(1), [a[:, [r]] for a in found]).full().ravel() for r in range(4)]
    left = np.linalg.lstsq(np.array(parts).T, full.ravel(), rcond=None)[1]
    assert float(left.sum()) < 1e-16 * full.size


def test_algebraic_start_knows_where_it_tells_nothing():
    rng = np.random.default_rng(0)
    assert algebraic_start(Slice.dense(rng.random((9, 8))), 2, rng) is None
    assert algebraic_start(Slice.dense(rng.random((9, 3, 3))), 4, rng) is None


def test_complex_pairs_give_real_columns():
    # Slices that rotate: no mixture has real eigenvectors.
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    x = Slice.dense(np.stack([np.eye(2), turn], axis=2))
    found = algebraic_start(x, 2, np.random.default_rng(0))
    assert all(np.isfinite(a).all() and a.dtype == float for a in found)
    assert np.linalg.matrix_rank(found[0]) == 2
