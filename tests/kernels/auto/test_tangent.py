"""Sums of log(1 + m) over all cells are exact by tiles."""

import numpy as np
import pytest

import kernel_twins
from onlinegcp.kernels.auto import tangent
from onlinegcp.kernels.layout import ALL_MODES, pad_vector, stack_factors

SHAPES = [(7,), (1,), (300,), (5, 1), (24, 7, 5), (3, 1, 2, 2), (2, 2, 3, 2, 2), (2, 2, 2, 1, 2, 2)]


def model(shape, rank=5, seed=0):
    rng = np.random.default_rng(seed)
    factors = [rng.dirichlet(np.ones(n), rank).T for n in shape]
    return factors, 20.0 * rng.random(rank)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_tiles_agree_with_the_full_array(shape):
    factors, weights = model(shape)
    blocks = stack_factors(factors)
    pull, rate = np.zeros(8), np.zeros_like(blocks.data)
    split = tangent.split_modes(shape)
    model_of = (blocks.data, blocks.offsets, split, pad_vector(weights))
    n, places = tangent.left_rows(shape), blocks.offsets
    total = tangent.log_sums(*model_of, True, 0, n, pull)
    alone = tangent.log_sums(*model_of, False, 0, n, np.zeros(8))
    expected = kernel_twins.tangent_sums(factors, weights)
    assert total == pytest.approx(expected[0], rel=1e-12)
    assert alone == total
    tangent.rate_sums(*model_of, ALL_MODES, 0, n, places, rate)
    np.testing.assert_allclose(pull[:5], expected[1], rtol=1e-11)
    np.testing.assert_allclose(rate[:, :5], np.concatenate(expected[2]), rtol=1e-11)
    for mode in range(len(shape)):
        one = np.zeros_like(rate)
        for low, high in ((0, n // 3), (n // 3, n)):
            tangent.rate_sums(*model_of, mode, low, high, places, one)
        rows = slice(blocks.offsets[mode], blocks.offsets[mode + 1])
        np.testing.assert_allclose(one[rows], rate[rows], rtol=1e-11)


def test_huge_model_values_do_not_overflow_the_product_of_many():
    blocks = stack_factors([np.full((8, 1), 1e120)])
    weights = pad_vector(np.ones(1))
    total = tangent.log_sums(blocks.data, blocks.offsets, 0, weights, False, 0, 1, np.zeros(4))
    assert total == pytest.approx(8 * np.log(1e120))
