"""Sums for Fisher scoring agree with NumPy and with finite differences."""

import numpy as np
import pytest

import kernel_twins
from onlinegcp.kernels.auto import fisher_sums
from onlinegcp.kernels.auto.arguments import ByRow
from onlinegcp.kernels.layout import pad_vector, stack_factors

SHAPES = [(7,), (5, 1), (4, 3, 2), (2, 2, 1, 2, 2, 2)]


def problem(shape, count=37):
    rng = np.random.default_rng(5)
    factors = [rng.standard_normal((n, 5)) for n in shape]
    index = np.stack([rng.integers(0, n, count) for n in shape], axis=1).astype(np.int32)
    return factors, index, rng.standard_normal(5), rng.standard_normal(count), rng.random(count)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_row_sums_agree_with_numpy(shape):
    factors, index, weights, y, h = problem(shape)
    blocks, s = stack_factors(factors), pad_vector(weights)
    for mode, rows in enumerate(shape):
        order = np.argsort(index[:, mode], kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(index[:, mode], minlength=rows))])
        expected = kernel_twins.row_sums(factors, index, weights, y, h, mode)
        slopes, full, diagonal = np.empty((rows, 8)), np.empty((rows, 8, 8)), np.empty((rows, 8, 1))
        arguments = (
            blocks.data,
            blocks.offsets,
            index,
            s,
            y,
            h,
            mode,
            ByRow(order, starts),
            slopes,
        )
        fisher_sums.row_sums(*arguments, full)
        fisher_sums.row_sums(*arguments, diagonal)
        np.testing.assert_allclose(slopes[:, :5], expected[0], rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(full[:, :5, :5], expected[1], rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(
            diagonal[:, :5, 0], np.einsum("irr->ir", expected[1]), rtol=1e-9, atol=1e-11
        )


def test_model_changes_are_the_derivative_of_the_model_values():
    factors, index, weights, _, _ = problem((4, 3, 2))
    blocks, s = stack_factors(factors), pad_vector(weights)
    change = np.zeros_like(blocks.data)
    change[:, :5] = np.random.default_rng(0).standard_normal((9, 5))
    up, down, out = np.empty(37), np.empty(37), np.empty(37)
    fisher_sums.model_values(blocks.data + 1e-6 * change, blocks.offsets, index, s, up)
    fisher_sums.model_values(blocks.data - 1e-6 * change, blocks.offsets, index, s, down)
    fisher_sums.model_changes(blocks.data, change, blocks.offsets, index, s, out)
    np.testing.assert_allclose(out, (up - down) / 2e-6, rtol=1e-6, atol=1e-8)


def test_weight_sums_are_weighted_moments_of_the_khatri_rao_rows():
    factors, index, _, y, h = problem((4, 3, 2))
    blocks = stack_factors(factors)
    rows = np.prod([a[index[:, k]] for k, a in enumerate(factors)], axis=0)
    slope, hessian = np.zeros(8), np.zeros((8, 8))
    fisher_sums.weight_sums(blocks.data, blocks.offsets, index, y, h, slope, hessian)
    np.testing.assert_allclose(slope[:5], rows.T @ y, rtol=1e-10)
    expected = np.tril(rows.T @ (h[:, None] * rows))
    np.testing.assert_allclose(np.tril(hessian)[:5, :5], expected, rtol=1e-9, atol=1e-12)
