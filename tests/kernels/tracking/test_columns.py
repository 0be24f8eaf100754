"""Small pieces of the trackers against NumPy."""

import numpy as np
import pytest

from onlinegcp.kernels.tracking import columns

SHAPES = [(4,), (5, 3), (3, 1, 4)]


def factors_of(shape, rank=3, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((n, rank)) for n in shape]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_columns_go_there_and_back(shape):
    factors = factors_of(shape)
    block, offsets = columns.to_columns(factors)
    assert block.shape == (3, sum(shape))
    for k, (mine, theirs) in enumerate(
        zip(columns.to_factors(block, offsets), factors, strict=True)
    ):
        np.testing.assert_array_equal(mine, theirs)
        np.testing.assert_array_equal(block[:, offsets[k] : offsets[k + 1]].T, theirs)


def test_normal_equations_are_solved_for_the_columns_asked_for_and_no_others():
    rng = np.random.default_rng(1)
    a, right = rng.standard_normal((9, 4)), rng.standard_normal((4, 5))
    matrix, found = a.T @ a, right.copy()
    columns.solve_normal(matrix, found, 1, 4, np.empty((4, 4)))
    np.testing.assert_allclose(found[:, 1:4], np.linalg.inv(matrix) @ right[:, 1:4], rtol=1e-8)
    np.testing.assert_array_equal(found[:, [0, 4]], right[:, [0, 4]])


def test_a_component_that_is_nowhere_gets_nothing():
    found = np.array([[6.0], [0.0]])
    columns.solve_normal(np.diag([2.0, 0.0]), found, 0, 1, np.empty((2, 2)))
    np.testing.assert_allclose(found, [[3.0], [0.0]], rtol=1e-11)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("skip", [-1, 0])
def test_products_are_those_of_the_patterns_written_out(shape, skip):
    factors = factors_of(shape)
    written = np.ones((1, 3))
    for k, a in enumerate(factors):
        if k != skip:
            written = (written[:, None, :] * a[None, :, :]).reshape(-1, 3)
    out = np.empty((3, 3))
    columns.products(*columns.to_columns(factors), skip, out)
    np.testing.assert_allclose(out, written.T @ written, rtol=1e-12)
