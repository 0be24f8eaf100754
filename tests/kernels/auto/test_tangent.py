"""Sums of log(1 + m) over all cells are exact by tiles and unbiased from component samples."""

import numpy as np
import pytest

from onlinegcp.kernels.auto import tangent
from onlinegcp.kernels.layout import pad_vector, stack_factors

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
    total = tangent.tangent_sums(*model_of, -2, pull, rate)
    alone = tangent.tangent_sums(*model_of, -3, np.zeros(8), rate)
    expected = tangent.reference_tangent_sums(factors, weights)
    assert total == pytest.approx(expected[0], rel=1e-12)
    assert alone == total
    assert not rate.any()
    tangent.tangent_sums(*model_of, -1, np.zeros(8), rate)
    np.testing.assert_allclose(pull[:5], expected[1], rtol=1e-11)
    np.testing.assert_allclose(rate[:, :5], np.concatenate(expected[2]), rtol=1e-11)
    for mode in range(len(shape)):
        one = np.zeros_like(rate)
        tangent.tangent_sums(*model_of, mode, np.zeros(8), one)
        rows = slice(blocks.offsets[mode], blocks.offsets[mode + 1])
        np.testing.assert_allclose(one[rows], rate[rows], rtol=1e-11)


def test_huge_model_values_do_not_overflow_the_product_of_many():
    blocks = stack_factors([np.full((8, 1), 1e120)])
    total = tangent.tangent_sums(
        blocks.data, blocks.offsets, 0, pad_vector(np.ones(1)), -2, np.zeros(4), np.zeros((0, 0))
    )
    assert total == pytest.approx(8 * np.log(1e120))


def drawn(factors, draws, key):
    blocks = stack_factors(factors)
    cumulative = np.concatenate([np.cumsum(a, axis=0) for a in blocks.views()])
    rank = factors[0].shape[1]
    cells = np.empty((rank * draws, len(factors)), dtype=np.int64)
    tangent.draw_cells(cumulative, blocks.offsets, rank, draws, np.uint64(key), cells)
    return blocks, cells


def test_draws_follow_the_columns_and_modes_are_independent():
    factors, _ = model((3, 4), rank=2)
    counts = np.zeros((2, 3, 4))
    for key in range(60):
        _, cells = drawn(factors, 50, key)
        for r in range(2):
            np.add.at(counts[r], tuple(cells[50 * r : 50 * r + 50].T), 1.0)
    expected = np.einsum("ar,br->rab", *factors) * 3000
    assert ((counts - expected) ** 2 / expected).sum() < 60.0  # 22 degrees of freedom


def test_sampled_sums_are_unbiased():
    factors, weights = model((6, 5, 4), rank=3)
    exact_total, exact_pull, exact_rates = tangent.reference_tangent_sums(factors, weights)
    s, sums = pad_vector(weights), pad_vector(np.ones(3))
    pulls, totals, conditional, scattered = [], [], [], []
    for key in range(40):
        blocks, cells = drawn(factors, 64, 1000 + key)
        pull, logs = np.zeros(4), np.zeros(4)
        arguments = (blocks.data, blocks.offsets, s, cells, 64, 3, sums)
        tangent.sampled_tangent(*arguments, pull, logs)
        pulls.append(pull[:3])
        totals.append(s @ logs)
        rate = np.zeros_like(blocks.data)
        tangent.sampled_rates(*arguments, 0, rate)
        conditional.append(rate[:6, :3].copy())
        tangent.scattered_rates(*arguments, 0, 2.0, rate)
        scattered.append(rate[:6, :3].copy())
    np.testing.assert_allclose(np.mean(pulls, axis=0), exact_pull, rtol=0.01)
    assert np.mean(totals) == pytest.approx(exact_total, rel=0.01)
    np.testing.assert_allclose(np.mean(conditional, axis=0), exact_rates[0], rtol=0.02)
    # Rows with few draws lean on their component's mean: closeness, not equality, is the claim.
    np.testing.assert_allclose(np.mean(scattered, axis=0), exact_rates[0], rtol=0.3)
