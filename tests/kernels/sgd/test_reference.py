"""The NumPy kernels against dense arrays and finite differences."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.kernels.layout import pad_vector, stack_factors
from onlinegcp.kernels.sgd import reference
from onlinegcp.kernels.sgd.plan import (
    ADAGRAD,
    ADAM,
    AMSGRAD,
    SGD,
    FoldedHistory,
    Problem,
    Sample,
)

SHAPES = [(7,), (5, 1), (4, 3, 2), (2, 3, 1, 2)]


def model(shape, rank=3, seed=0):
    rng = np.random.default_rng(seed)
    return stack_factors([rng.standard_normal((n, rank)) for n in shape]), pad_vector(
        rng.standard_normal(rank)
    )


def full(blocks, weights):
    """Dense model by one outer product per component."""
    out = np.zeros(blocks.shape)
    for r in range(blocks.rank):
        part = np.array(weights[r])
        for view in blocks.views():
            part = np.multiply.outer(part, view[:, r])
        out += part
    return out


def slopes_of(function, array, step=1e-6):
    """Central differences of a function of an array that is changed in place."""
    out = np.zeros_like(array)
    for at in np.ndindex(*array.shape):
        before = array[at]
        array[at] = before + step
        up = function()
        array[at] = before - step
        out[at] = (up - function()) / (2 * step)
        array[at] = before
    return out


@pytest.mark.parametrize("shape", SHAPES)
def test_model_values_are_those_of_the_dense_model(shape):
    blocks, weights = model(shape)
    index = np.argwhere(np.ones(shape, bool))
    np.testing.assert_allclose(
        reference.model_values(blocks, weights, index), full(blocks, weights).ravel(), atol=1e-12
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_the_scattered_gradient_is_the_slope_of_the_weighted_model_values(shape):
    blocks, weights = model(shape)
    rng = np.random.default_rng(1)
    index = np.stack([rng.integers(0, n, 11) for n in shape], axis=1)  # repeats cells
    y = rng.standard_normal(11)

    def total():
        return float(y @ full(blocks, weights)[tuple(index.T)])

    gradient, weights_gradient = reference.scatter_gradient(blocks, weights, index, y)
    for view, out in zip(blocks.views(), gradient.views(), strict=True):
        np.testing.assert_allclose(out, slopes_of(total, view), atol=1e-6)
    np.testing.assert_allclose(weights_gradient[:3], slopes_of(total, weights[:3]), atol=1e-6)
    assert not gradient.data[:, 3:].any()


def test_gradients_of_modes_that_are_not_wanted_are_zero():
    blocks, weights = model((4, 3, 2))
    index, y = np.array([[0, 1, 1]]), np.ones(1)
    gradient, _ = reference.scatter_gradient(blocks, weights, index, y, modes=(1,))
    assert [bool(view.any()) for view in gradient.views()] == [False, True, False]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_history_penalty_is_the_distance_between_the_dense_old_and_new_models(shape):
    blocks, _ = model(shape)
    old, _ = model(shape, seed=1)
    rng = np.random.default_rng(2)
    rows, strengths = rng.standard_normal((5, 3)), rng.random(5)
    S = (rows.T * strengths) @ rows
    expected = 0.5 * sum(
        w * ((full(old, s) - full(blocks, s)) ** 2).sum()
        for w, s in zip(strengths, rows, strict=True)
    )
    assert reference.history_value(blocks, old, S) == pytest.approx(expected, rel=1e-10)
    assert reference.history_value(blocks, blocks, S) == pytest.approx(0.0, abs=1e-10)
    gradient = reference.history_gradient(blocks, old, S, range(len(shape)))
    for view, out in zip(blocks.views(), gradient.views(), strict=True):
        slope = slopes_of(lambda: reference.history_value(blocks, old, S), view, 1e-5)
        np.testing.assert_allclose(out, slope, rtol=1e-5, atol=1e-5)


def test_the_penalty_gradient_is_the_slope_of_the_penalty():
    blocks, weights = model((4, 3))
    old, _ = model((4, 3), seed=1)
    history = FoldedHistory(np.eye(3), old, np.array([0.5, 2.0]))
    problem = Problem(blocks, weights, (0, 1), True, ridge=0.3, weight_ridge=0.7, history=history)
    gradient, weights_gradient = blocks.zeros_like(), np.zeros_like(weights)
    reference.add_penalty_gradient(problem, gradient, weights_gradient)
    for view, out in zip(blocks.views(), gradient.views(), strict=True):
        slope = slopes_of(lambda: reference.penalty_value(problem), view, 1e-5)
        np.testing.assert_allclose(out, slope, rtol=1e-6, atol=1e-6)
    slope = slopes_of(lambda: reference.penalty_value(problem), weights[:3], 1e-5)
    np.testing.assert_allclose(weights_gradient[:3], slope, rtol=1e-6)


def test_corrected_samples_count_what_they_add_to_a_zero():
    sample = Sample(np.zeros((2, 1), np.int32), np.array([2.0, 2.0]), np.array([1.0, 10.0]), 1)
    m = np.array([3.0, 3.0])
    # (2 - 3)^2 - (0 - 3)^2 = -8 for the first, 10 (2 - 3)^2 for the second.
    assert reference.sample_loss(sample, m, lambda x, m: (x - m) ** 2) == -8.0 + 10.0


def moments():
    return [np.zeros(1) for _ in range(3)]


def test_adam_moves_by_its_rate_whatever_the_size_of_a_steady_gradient():
    for size in (1e-3, 1.0, 1e6):
        a, memory = np.zeros(1), moments()
        for number in range(1, 30):
            reference.take_step(
                ADAM, number, 0.1, (0.9, 0.999, 1e-12), -np.inf, a, np.array([size]), *memory
            )
            assert a[0] == pytest.approx(-0.1 * number, rel=1e-6)


def test_adagrad_moves_less_and_less_under_a_steady_gradient():
    a, memory = np.zeros(1), moments()
    for number in range(1, 30):
        before = a[0]
        reference.take_step(
            ADAGRAD, number, 0.1, (0.9, 0.999, 1e-12), -np.inf, a, np.array([5.0]), *memory
        )
        assert before - a[0] == pytest.approx(0.1 / np.sqrt(number), rel=1e-6)


def test_amsgrad_remembers_the_largest_gradient_and_adam_forgets_it():
    last = {}
    for kind in (ADAM, AMSGRAD):
        a, memory = np.zeros(1), moments()
        for number in range(1, 3000):
            before = a[0]
            g = np.array([100.0 if number == 1 else 1.0])
            reference.take_step(kind, number, 0.01, (0.9, 0.99, 1e-8), -np.inf, a, g, *memory)
        last[kind] = before - a[0]
    assert last[ADAM] == pytest.approx(0.01, rel=1e-3)
    # The second moment was at most (1 - 0.99) 100^2 = 100, and stays there.
    assert last[AMSGRAD] == pytest.approx(0.01 / 10.0, rel=1e-3)


def test_sgd_contracts_a_parabola_at_the_expected_speed():
    a = np.array([1.0])
    for number in range(1, 11):
        reference.take_step(SGD, number, 0.1, (0, 0, 1), -np.inf, a, a.copy(), *moments())
    assert a[0] == pytest.approx(0.9**10)


@pytest.mark.parametrize("kind", [SGD, ADAM, ADAGRAD, AMSGRAD])
def test_no_step_goes_below_the_bound(kind):
    a = np.array([0.5])
    reference.take_step(kind, 1, 10.0, (0.9, 0.999, 1e-8), 0.25, a, np.ones(1), *moments())
    assert a[0] == 0.25
