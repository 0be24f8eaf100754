"""The compiled passes for the weights agree with NumPy and solve what they claim to solve."""

import numpy as np
import pytest

import kernel_twins
from listed_cells import listed, problem
from onlinegcp.kernels.auto import weights_newton
from onlinegcp.kernels.layout import pad_vector, stack_factors

SHAPES = [(7,), (1,), (5, 3), (4, 1, 3), (2, 3, 1, 2), (2, 2, 2, 2, 3), (2, 1, 2, 2, 2, 2)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("count", [0, 1, 7, 131])
def test_listed_sums_agree_with_numpy_for_one_to_six_modes(shape, count):
    factors, index, value, weights = problem(shape, 5, count)
    blocks = stack_factors(factors)
    pull, hessian = np.zeros(8), np.zeros((8, 8))
    block = np.zeros((weights_newton.BLOCK, 8))
    total = weights_newton.listed_sums(
        listed(blocks, index, value), pad_vector(weights), True, pull, hessian, block
    )
    expected = kernel_twins.listed_sums(factors, index, value, weights)
    assert total == pytest.approx(expected[0], rel=1e-12)
    np.testing.assert_allclose(pull[:5], expected[1], rtol=1e-12)
    np.testing.assert_allclose(np.tril(hessian)[:5, :5], np.tril(expected[2]), rtol=1e-11)


def test_chunks_have_lines_of_their_own_that_add_up():
    factors, index, value, weights = problem((5, 3, 4), 5, 300)
    blocks, s, cuts = stack_factors(factors), pad_vector(weights), np.array([0, 70, 70, 300])
    logs, pulls, hessians = np.empty(3), np.empty((3, 8)), np.empty((3, 8, 8))
    cells = listed(blocks, index, value)
    weights_newton.listed_sums_by_chunk(cells, cuts, s, True, logs, pulls, hessians)
    expected = kernel_twins.listed_sums(factors, index, value, weights)
    assert logs.sum() == pytest.approx(expected[0], rel=1e-12)
    np.testing.assert_allclose(pulls.sum(axis=0)[:5], expected[1], rtol=1e-12)
    found = np.tril(hessians.sum(axis=0))[:5, :5]
    np.testing.assert_allclose(found, np.tril(expected[2]), rtol=1e-11)
    assert not pulls[1].any()
    part = kernel_twins.listed_sums(factors, index[:70], value[:70], weights)
    np.testing.assert_allclose(pulls[0][:5], part[1], rtol=1e-12)


@pytest.mark.parametrize("size", [1, 4, 13])
def test_newton_direction_solves_the_free_block_and_leaves_the_rest(size):
    rng = np.random.default_rng(size)
    width = -(-size // 4) * 4
    root = rng.standard_normal((size, size + 3))
    matrix = np.zeros((width, width))
    matrix[:size, :size] = root @ root.T
    slope = pad_vector(rng.standard_normal(size))
    free = np.zeros(width, dtype=bool)
    free[:size:2] = True
    step = np.empty(width)
    damping = np.zeros(width)
    weights_newton.newton_direction(matrix, slope, free, damping, np.zeros((width, width)), step)
    expected = np.linalg.solve(matrix[np.ix_(free, free)], slope[free])
    np.testing.assert_allclose(step[free], expected, rtol=1e-5)
    assert not step[~free].any()


def test_newton_direction_survives_a_component_without_data():
    step = np.empty(4)
    hessian = np.diag([2.0, 0.0, 1.0, 0.0])
    free = np.array([True, True, True, False])
    weights_newton.newton_direction(hessian, np.ones(4), free, np.zeros(4), np.zeros((4, 4)), step)
    assert np.isfinite(step).all()


def test_listed_tangent_is_the_sum_and_slope_of_its_function():
    factors, index, value, weights = problem((4, 3, 2), 3, 19)
    blocks = stack_factors(factors)
    pull = np.zeros(4)

    def total(s, linear):
        return weights_newton.listed_tangent(
            listed(blocks, index, value), pad_vector(s), linear, 2.0, 1.0, pull
        )

    for linear in (True, False):
        for r in range(3):
            up, down = weights.copy(), weights.copy()
            up[r] += 1e-6
            down[r] -= 1e-6
            slope = (total(up, linear) - total(down, linear)) / 2e-6
            total(weights, linear)
            assert pull[r] == pytest.approx(slope, rel=1e-7)


def test_optimality_is_zero_at_a_bound_with_the_slope_pointing_outwards():
    weights, slope = np.array([2.0, 0.0, 0.0, 0.0]), np.array([0.0, 3.0, 1.0, 0.0])
    free = np.zeros(4, dtype=bool)
    assert weights_newton.optimality(weights, slope, np.ones(4), 3, free) == 0.0
    assert free.tolist() == [True, False, False, False]
