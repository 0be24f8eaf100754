"""Moments of one cell from the table: against drawn data, in its limits and between its places."""

from __future__ import annotations

import math

import numpy as np
import pytest

from onlinegcp.anomaly.null_table import (
    COVARIANCE,
    CUBE,
    MEAN,
    SIZE,
    VARIANCE,
    cost,
    has_null,
    null_table,
    zero_cost,
)  # fmt: skip
from onlinegcp.losses import LOSS_NAMES, get_loss

TABLED = [name for name in LOSS_NAMES if has_null(get_loss(name))]


@pytest.mark.parametrize("name", TABLED)
def test_moments_of_a_cell_are_those_of_drawn_data(name):
    loss, table = get_loss(name), null_table(get_loss(name))
    rng = np.random.default_rng(1)
    for m in (0.05, 0.7, 4.0):
        value = m if loss.lower == 0.0 else math.log(m)
        x = loss.sample(rng, np.full(40_000, value))
        deviance, slope = cost(loss, x, value), loss.deriv(x, value)
        size, mean, variance, covariance, cube = (
            float(column[0])
            for column in table.at(
                np.array([value]),
                SIZE,
                MEAN,
                VARIANCE,
                COVARIANCE,
                CUBE,
            )
        )
        slope = slope * math.sqrt(size) / slope.std()
        error = 6.0 / math.sqrt(len(x))
        rest = deviance - deviance.mean()
        assert mean == pytest.approx(deviance.mean(), abs=error * deviance.std())
        assert variance == pytest.approx((rest**2).mean(), abs=error * (rest**2).std())
        assert cube == pytest.approx((rest**3).mean(), abs=error * (rest**3).std())
        assert covariance == pytest.approx(
            (rest * slope).mean(), abs=error * (rest * slope).std() + 0.01 * math.sqrt(variance)
        )


def test_a_large_count_has_the_moments_of_chi_square():
    size, mean, variance, cube = null_table(get_loss("poisson")).at(
        np.array([1e5]), SIZE, MEAN, VARIANCE, CUBE
    )
    np.testing.assert_allclose([mean[0], variance[0], cube[0]], [1.0, 2.0, 8.0], rtol=0.01)
    assert size[0] == pytest.approx(1.0, abs=2e-3)


@pytest.mark.parametrize("name", [name for name in TABLED if get_loss(name).zero_shape])
def test_zeros_cost_what_the_loss_says_less_the_mean_also_beyond_the_table(name):
    table = null_table(get_loss(name))
    logs = np.random.default_rng(0).uniform(-30.0, 3.0, 4001)
    m = np.exp(np.append(logs, 9.0)) if table.positive else np.append(logs, 9.0)
    excess, worth = np.empty(len(m)), np.empty(len(m))
    table.of_zeros(m, excess, worth)
    size, mean, variance = table.at(m, SIZE, MEAN, VARIANCE)
    np.testing.assert_allclose(excess, zero_cost(table.loss, m) - mean, atol=2e-3, rtol=4e-3)
    np.testing.assert_allclose(worth[:-1], (variance + size)[:-1], rtol=4e-3)


def test_a_cell_without_any_chance_of_an_event_has_no_moments():
    found = null_table(get_loss("poisson")).at(np.array([0.0, 1e-300]), SIZE, MEAN, VARIANCE, CUBE)
    np.testing.assert_allclose(np.stack(found), 0.0, atol=1e-290)


def test_nothing_is_looked_up_for_nothing():
    (mean,) = null_table(get_loss("poisson")).at(np.empty((0, 3)), MEAN)
    assert mean.shape == (0, 3)
