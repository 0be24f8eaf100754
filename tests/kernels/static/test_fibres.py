"""Sums that multiply a Poisson model: against NumPy and differences of the likelihood."""

from __future__ import annotations

import numpy as np
import pytest

import kernel_twins
from count_tensors import counts, padded, shares
from onlinegcp.kernels.layout import stack_factors
from onlinegcp.kernels.static.fibres import CHUNK, fibre_sums, group_rows

LEAST = 1e-10  # model value that is divided by
SHAPES = [(5, 3), (1, 11), (7, 1, 5), (6, 5, 4), (3, 4, 1, 5), (2, 3, 2, 3, 2)]


@pytest.mark.parametrize("density", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_phi_equals_the_oracle(shape, density):
    index, value = counts(shape, density)
    for rank in (1, 5):
        factors = shares(shape, rank)
        blocks = stack_factors(factors)
        for mode, groups in enumerate(group_rows(index, value, shape)):
            rows = factors[mode] * np.linspace(1, 40, rank)
            phi = fibre_sums(groups, blocks, rows=padded(rows), epsilon=LEAST)
            expected = kernel_twins.poisson_phi(index, value, factors, mode, rows)
            np.testing.assert_allclose(phi[:, :rank], expected, rtol=1e-11, atol=1e-12)
            assert not phi[:, rank:].any()


def test_phi_is_the_slope_of_the_log_likelihood():
    shape, rank = (4, 3, 5), 3
    index, value = counts(shape, 0.8)
    factors = shares(shape, rank)
    rows = factors[1] * np.array([30.0, 20.0, 10.0])

    def log_likelihood(b):
        basis = factors[0][index[:, 0]] * factors[2][index[:, 2]]
        return value @ np.log(np.sum(b[index[:, 1]] * basis, axis=1))

    groups, blocks = group_rows(index, value, shape)[1], stack_factors(factors)
    phi = fibre_sums(groups, blocks, rows=padded(rows), epsilon=LEAST)
    for i in range(shape[1]):
        for r in range(rank):
            step = np.zeros_like(rows)
            step[i, r] = 1e-5
            slope = (log_likelihood(rows + step) - log_likelihood(rows - step)) / 2e-5
            assert phi[i, r] == pytest.approx(slope, rel=1e-6)


def test_a_model_of_zero_is_divided_by_epsilon_not_by_zero():
    index, value = np.array([[0, 0]], dtype=np.int32), np.array([3.0])
    blocks = stack_factors([np.ones((1, 1)), np.ones((1, 1))])
    groups, rows = group_rows(index, value, (1, 1))[0], padded(np.zeros((1, 1)))
    phi = fibre_sums(groups, blocks, rows=rows, epsilon=LEAST)
    assert phi[0, 0] == pytest.approx(3e10)


@pytest.mark.parametrize("shape", [(1, 40, 9), (2, 30, 17), (19, 19)], ids=str)
def test_threads_and_rows_longer_than_a_chunk_do_not_change_a_bit(shape):
    index, value = counts(shape, 1.0)
    copies = 3 * CHUNK // len(value) + 1
    index, value = np.repeat(index, copies, axis=0), np.repeat(value, copies)
    factors = shares(shape, 3)
    blocks = stack_factors(factors)
    for mode, groups in enumerate(group_rows(index, value, shape)):
        rows = padded(factors[mode] * 50.0)
        one = fibre_sums(groups, blocks, rows=rows, epsilon=LEAST)
        two = fibre_sums(groups, blocks, rows=rows, epsilon=LEAST, n_jobs=2)
        np.testing.assert_array_equal(one, two)
        expected = kernel_twins.poisson_phi(index, value, factors, mode, factors[mode] * 50.0)
        np.testing.assert_allclose(one[:, :3], expected, rtol=1e-9)
