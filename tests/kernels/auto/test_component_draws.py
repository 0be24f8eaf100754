"""Sums of log(1 + m) from component samples are unbiased, and the samples follow the columns."""

import numpy as np
import pytest

import kernel_twins
from onlinegcp.kernels.auto import component_draws
from onlinegcp.kernels.layout import pad_vector, stack_factors


def model(shape, rank=5, seed=0):
    rng = np.random.default_rng(seed)
    factors = [rng.dirichlet(np.ones(n), rank).T for n in shape]
    return factors, 20.0 * rng.random(rank)


def drawn(factors, draws, key):
    blocks = stack_factors(factors)
    cumulative = np.concatenate([np.cumsum(a, axis=0) for a in blocks.views()])
    rank = factors[0].shape[1]
    cells = np.empty((rank * draws, len(factors)), dtype=np.int64)
    for r in range(rank):  # components are drawn apart
        arguments = (cumulative, blocks.offsets, r, r + 1, draws, np.uint64(key))
        component_draws.draw_cells(*arguments, cells)
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
    exact_total, exact_pull, exact_rates = kernel_twins.tangent_sums(factors, weights)
    s, sums = pad_vector(weights), pad_vector(np.ones(3))
    pulls, totals, conditional, scattered = [], [], [], []
    for key in range(40):
        blocks, cells = drawn(factors, 64, 1000 + key)
        pull, logs = np.zeros(4), np.zeros(4)
        arguments = (blocks.data, blocks.offsets, s, cells, 64)
        for first, last in ((0, 1), (1, 3)):
            component_draws.sampled_tangent(*arguments, first, last, sums, pull, logs)
        pulls.append(pull[:3])
        totals.append(s @ logs)
        rate = np.zeros_like(blocks.data)
        for first, last in ((0, 2), (2, 6)):
            component_draws.sampled_rates(*arguments, 3, sums, 0, first, last, rate)
        conditional.append(rate[:6, :3].copy())
        chance, mean = np.empty(len(cells)), np.empty(3)
        for first, last in ((0, 2), (2, 3)):
            component_draws.draw_chances(*arguments, first, last, chance, mean)
            component_draws.scattered_rates(
                blocks.offsets, s, cells, 64, sums, 0, 2.0, chance, mean, first, last, rate
            )
        scattered.append(rate[:6, :3].copy())
    np.testing.assert_allclose(np.mean(pulls, axis=0), exact_pull, rtol=0.01)
    assert np.mean(totals) == pytest.approx(exact_total, rel=0.01)
    np.testing.assert_allclose(np.mean(conditional, axis=0), exact_rates[0], rtol=0.02)
    # Rows with few draws lean on their component's mean: closeness, not equality, is the claim.
    np.testing.assert_allclose(np.mean(scattered, axis=0), exact_rates[0], rtol=0.3)
