"""Responsibilities share every count out, and their derivative pass is a derivative."""

import numpy as np
import pytest

import kernel_twins
from listed_cells import listed, problem
from onlinegcp.kernels.auto import responsibilities, weights_newton
from onlinegcp.kernels.auto.arguments import Listed
from onlinegcp.kernels.layout import ALL_MODES, pad_vector, stack_factors

SHAPES = [(7,), (5, 1), (4, 3, 2), (2, 3, 1, 2), (2, 2, 2, 2, 2, 2)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shares_agree_with_numpy_and_add_up_to_the_counts(shape):
    factors, index, value, weights = problem(shape)
    blocks = stack_factors(factors)
    phi = np.zeros_like(blocks.data)
    responsibilities.responsibilities(
        listed(blocks, index, value), pad_vector(weights), ALL_MODES, blocks.offsets, phi
    )
    expected = kernel_twins.responsibilities(factors, index, value, weights)
    np.testing.assert_allclose(phi[:, :5], np.concatenate(expected), rtol=1e-12)
    assert phi[: shape[0]].sum() == pytest.approx(value.sum(), rel=1e-8)


def test_one_mode_at_a_time_gives_the_same_rows():
    factors, index, value, weights = problem((4, 3, 2))
    blocks = stack_factors(factors)
    both = [np.zeros_like(blocks.data) for _ in range(2)]
    arguments = (listed(blocks, index, value), pad_vector(weights))
    responsibilities.responsibilities(*arguments, ALL_MODES, blocks.offsets, both[0])
    for mode in range(3):
        responsibilities.responsibilities(*arguments, mode, blocks.offsets, both[1])
    np.testing.assert_array_equal(both[0], both[1])
    # Rows may lie elsewhere than those of the factors.
    places, elsewhere = np.array([5, 2, 0]), np.zeros_like(both[0])
    responsibilities.responsibilities(*arguments, ALL_MODES, places, elsewhere)
    np.testing.assert_array_equal(elsewhere[5:9], both[0][0:4])
    np.testing.assert_array_equal(elsewhere[0:2], both[0][7:9])


def test_sensitivity_pass_gives_the_slope_of_the_loss_along_the_sensitivity():
    factors, index, value, weights = problem((4, 3, 2))
    blocks, rng = stack_factors(factors), np.random.default_rng(3)
    change = np.zeros_like(blocks.data)
    change[:, :5] = 0.1 * rng.standard_normal((9, 5))
    ratio = np.zeros(change.shape, dtype=np.float32)
    ratio[:, :5] = change[:, :5] / blocks.data[:, :5]
    phi, slope, bend = np.zeros_like(change), np.zeros(8), np.zeros(8)
    common, logs = responsibilities.with_sensitivity(
        listed(blocks, index, value), ratio, pad_vector(weights), blocks.offsets, phi, slope, bend
    )

    def minus_logs(step, columns):
        moved = blocks.data.copy()
        moved[:, columns] += step * change[:, columns]
        pull, block = np.zeros(8), np.zeros((64, 8))
        return -weights_newton.listed_sums(
            Listed(moved, blocks.offsets, index, value), pad_vector(weights), False, pull,
            np.zeros((0, 0)), block,
        )  # fmt: skip

    for r in range(5):
        numeric = (minus_logs(1e-6, [r]) - minus_logs(-1e-6, [r])) / 2e-6
        assert slope[r] == pytest.approx(numeric, rel=1e-5, abs=1e-7)
    whole = (minus_logs(1e-6, range(5)) - minus_logs(-1e-6, range(5))) / 2e-6
    assert slope.sum() == pytest.approx(whole, rel=1e-5)
    assert common > 0.0
    assert logs == pytest.approx(-minus_logs(0.0, [0]), rel=1e-12)
    assert (bend[:5] > 0.0).all()
    again = np.zeros_like(phi)
    responsibilities.responsibilities(
        listed(blocks, index, value),
        pad_vector(weights),
        ALL_MODES,
        blocks.offsets,
        again,
    )
    np.testing.assert_allclose(phi, again, rtol=1e-12)


@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_listed_rates_are_the_slopes_in_the_rows(shape, linear):
    factors, index, value, weights = problem(shape, rank=3, count=11)
    blocks = stack_factors(factors)
    rate = np.zeros_like(blocks.data)
    arguments = (pad_vector(weights), linear, 1.5, 1.0)
    cells = listed(blocks, index, value)
    responsibilities.listed_rates(cells, *arguments, ALL_MODES, blocks.offsets, rate)

    def total(data):
        return weights_newton.listed_tangent(
            Listed(data, blocks.offsets, index, value), *arguments, np.zeros(4)
        )

    for row in range(blocks.data.shape[0]):
        up, down = blocks.data.copy(), blocks.data.copy()
        up[row, 1] += 1e-6
        down[row, 1] -= 1e-6
        numeric = (total(up) - total(down)) / 2e-6
        assert rate[row, 1] == pytest.approx(numeric, rel=1e-6, abs=1e-8)
