"""Products of a dense slice with the factors agree with einsum."""

import numpy as np
import pytest

import kernel_twins
from onlinegcp.kernels.auto import dense_products
from onlinegcp.kernels.auto.tangent import split_modes
from onlinegcp.kernels.layout import stack_factors


@pytest.mark.parametrize(
    "shape",
    [(1,), (11,), (700,), (5, 1), (31, 29), (4, 3, 7), (2, 3, 1, 2), (2, 2, 2, 2, 3, 2)],
    ids=str,
)
def test_every_mode_agrees_with_einsum(shape):
    rng = np.random.default_rng(0)
    factors = [rng.standard_normal((n, 6)) for n in shape]
    array = rng.standard_normal(shape)
    blocks = stack_factors(factors)
    out, split = np.zeros_like(blocks.data), split_modes(shape)
    matrix = array.reshape(int(np.prod(shape[:split])), -1)
    model, places = (blocks.data, blocks.offsets, split), blocks.offsets
    dense_products.dense_products(matrix, *model, 0, -1, places, out)
    for mode in range(len(shape)):
        rows = slice(blocks.offsets[mode], blocks.offsets[mode + 1])
        expected = kernel_twins.dense_products(array, factors, mode)
        np.testing.assert_allclose(out[rows, :6], expected, rtol=1e-10, atol=1e-12)
        one, half = np.full_like(out, 5.0), len(matrix) // 2
        one[rows] = 0.0
        for part, low in ((matrix[:half], 0), (matrix[half:], half)):
            dense_products.dense_products(part, *model, low, mode, places, one)
        np.testing.assert_allclose(one[rows], out[rows], rtol=1e-12, atol=1e-14)
        outside = np.ones(len(out), dtype=bool)
        outside[rows] = False
        assert (one[outside] == 5.0).all()
