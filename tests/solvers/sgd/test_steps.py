"""Step methods: their options, and epochs that are accepted or taken back."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.errors import DataError
from onlinegcp.kernels.layout import pad_vector, stack_factors
from onlinegcp.kernels.sgd.plan import Moments, Problem
from onlinegcp.kernels.sgd.reference import step_problem
from onlinegcp.solvers.sgd.steps import DECREASE, KINDS, Descent, Step, get_step


def problem(update_weights=True, modes=(0, 1)):
    rng = np.random.default_rng(0)
    blocks = stack_factors([rng.random((3, 2)), rng.random((4, 2))])
    return Problem(blocks, pad_vector(rng.random(2)), modes, update_weights, lower=0.0)


def step(own, descent, method):
    """One step of the plain kernels down a gradient of ones."""
    gradient = own.blocks.zeros_like()
    for view in gradient.views():
        view[...] = 1.0
    slopes = gradient, pad_vector(np.ones(2))
    step_problem(own, descent.moments, *slopes, method.kind, descent.rate, method.parameters)


def state(own, descent):
    moments = descent.moments
    arrays = [
        own.blocks.data, own.weights, moments.u, moments.v,
        moments.largest, moments.weights_u, moments.weights_v, moments.weights_largest,
    ]  # fmt: skip
    return [array.copy() for array in arrays], moments.taken


def same(a, b):
    return a[1] == b[1] and all(np.array_equal(x, y) for x, y in zip(a[0], b[0], strict=True))


@pytest.mark.parametrize("name", KINDS)
def test_a_rejected_epoch_restores_everything_and_lowers_the_rate(name):
    own = problem()
    method = Step(name, rate=0.01)
    descent = Descent(method, own)
    start = state(own, descent)
    for _ in range(3):
        step(own, descent, method)
    assert not same(state(own, descent), start)
    descent.reject()
    assert same(state(own, descent), start)
    assert descent.rate == pytest.approx(0.01 * DECREASE)


@pytest.mark.parametrize("name", KINDS)
def test_an_accepted_epoch_is_the_one_gone_back_to(name):
    own = problem()
    method = Step(name, rate=0.01)
    descent = Descent(method, own)
    step(own, descent, method)
    descent.accept()
    kept = state(own, descent)
    step(own, descent, method)
    descent.reject()
    assert same(state(own, descent), kept)
    assert kept[1] == 1


def test_a_failing_first_epoch_of_a_second_solve_gives_back_the_moments_that_came_in():
    own = problem()
    method = Step("adam")
    first = Descent(method, own)
    step(own, first, method)
    moments = first.moments.copy()
    second = Descent(method, own, moments)
    step(own, second, method)
    second.reject()
    assert moments.taken == 1
    np.testing.assert_array_equal(moments.u, first.moments.u)


def test_the_rate_is_restored_by_the_next_solve():
    own = problem()
    method = Step("adam", rate=0.5)
    descent = Descent(method, own)
    descent.reject()
    assert Descent(method, own).rate == 0.5


@pytest.mark.parametrize("name", KINDS)
def test_steps_respect_the_bound_and_leave_other_blocks_alone(name):
    own = problem(update_weights=False, modes=(1,))
    before = own.blocks.copy(), own.weights.copy()
    method = Step(name, rate=100.0)
    descent = Descent(method, own)
    step(own, descent, method)
    assert not own.blocks.views()[1].any()
    np.testing.assert_array_equal(own.blocks.views()[0], before[0].views()[0])
    np.testing.assert_array_equal(own.weights, before[1])


def test_unused_moments_take_no_memory():
    own = problem()
    assert Moments.zeros(own.blocks, KINDS["sgd"]).u.size == 0
    adam = Moments.zeros(own.blocks, KINDS["adam"], factors=False)
    assert adam.u.size == adam.largest.size == 0
    assert adam.weights_u.size == own.blocks.width


def test_options_become_steps():
    assert get_step("adagrad").name == "adagrad"
    assert get_step(Step("sgd"), rate=3.0) == Step("sgd", rate=3.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Step("adamw"), "adamw"),
        (lambda: Step(rate=0.0), r"rate must be a number in \(0, inf\), but got 0.0"),
        (lambda: Step(rate=-1.0), "rate"),
        (lambda: Step(rate=float("nan")), "nan"),
        (lambda: Step(rate=float("inf")), "inf"),
        (lambda: Step(rate="fast"), "fast"),
        (lambda: Step(beta_1=1.0), r"beta_1 must be a number in \[0, 1\)"),
        (lambda: Step(beta_2=-0.1), "beta_2"),
        (lambda: Step(epsilon=0.0), "epsilon"),
        (lambda: get_step(None), "None"),
    ],
)
def test_bad_options_are_refused(make, message):
    with pytest.raises(DataError, match=message):
        make()
