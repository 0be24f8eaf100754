"""Rank-one approximation of tensors: exact ones are found, others approached."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.ktensor import KTensor
from onlinegcp.solvers.rank_one import khatri_rao, power_sweep


@pytest.mark.parametrize("shape", [(5,), (4, 3), (4, 1, 3), (2, 3, 2, 3)])
def test_components_multiplied_out_are_ktensors_of_rank_one(shape):
    rng = np.random.default_rng(0)
    factors = [rng.normal(size=(n, 2)) for n in shape]
    for r, row in enumerate(khatri_rao(factors)):
        np.testing.assert_allclose(row, KTensor(np.eye(2)[r], factors).full().reshape(-1))


@pytest.mark.parametrize("shape", [(5,), (4, 3), (4, 1, 3), (2, 3, 2, 3)])
def test_tensors_of_rank_one_are_found_in_one_sweep(shape):
    """From any start that is not orthogonal to them; two modes need the direction of one."""
    rng = np.random.default_rng(0)
    truth = [rng.random((n, 3)) + 0.5 for n in shape]
    start = [10.0 * rng.random((n, 3)) for n in shape]
    found = power_sweep(khatri_rao(truth), power_sweep(khatri_rao(truth), start))
    np.testing.assert_allclose(khatri_rao(found), khatri_rao(truth))
    for a in found[:-1]:
        np.testing.assert_allclose(np.linalg.norm(a, axis=0), 1.0)


def test_sweeps_reach_the_best_approximation_of_a_matrix():
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(6, 5))
    factors = [rng.normal(size=(n, 1)) for n in matrix.shape]
    for _ in range(200):
        factors = power_sweep(matrix.reshape(1, -1), factors)
    u, s, v = np.linalg.svd(matrix)
    np.testing.assert_allclose(factors[0] @ factors[1].T, s[0] * np.outer(u[:, 0], v[0]), atol=1e-6)


def test_a_component_that_vanished_stays_zero():
    found = power_sweep(np.zeros((1, 6)), [np.ones((3, 1)), np.ones((2, 1))])
    assert all(np.all(a == 0.0) for a in found)
