"""The null distribution of a slice's misfit: tables, standardised scores, drawn cells."""

from __future__ import annotations

import math
import runpy
from pathlib import Path

import numpy as np
import pytest

from onlinegcp import calibration
from onlinegcp.calibration import TABLED, cost, measure, null_table
from onlinegcp.losses import get_loss
from onlinegcp.slices import Slice

World = runpy.run_path(str(Path(__file__).with_name("drawn_world.py")))["World"]


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
                calibration.MEAN,
                calibration.VARIANCE,
                calibration.COVARIANCE,
                calibration.CUBE,
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
        np.array([1e5]), calibration.MEAN, calibration.VARIANCE, calibration.CUBE
    )
    np.testing.assert_allclose([mean[0], variance[0], cube[0]], [1.0, 2.0, 8.0], rtol=0.01)
    assert size[0] == pytest.approx(1.0, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("poisson", {"total": 15.0}),
        ("poisson", {"total": 3000.0}),
        ("poisson", {"total": 60.0, "missing": 0.4}),
        ("poisson", {"total": 100.0, "shape": (11, 1, 6), "rank": 3}),
        ("bernoulli_odds", {"total": 12.0}),
        ("bernoulli_logit", {}),
        ("poisson_log", {}),
        ("negative_binomial", {"total": 50.0}),
        ("zero_truncated_poisson", {"total": 60.0}),
    ],
)
def test_scores_of_data_from_the_model_are_standardised(name, options):
    world = World(name, **{"shape": (9, 8), **options})
    found = []
    for _ in range(400):
        x = world.draw()
        weights = world.model.transform([x])[0]
        found.append(measure(x, world.factors, weights, world.loss).standardised)
    # Logit weights carry a prior of the solver's, which the null distribution leaves out.
    assert abs(np.mean(found)) < (0.8 if name == "bernoulli_logit" else 0.2)
    assert 0.85 < np.std(found) < 1.15


@pytest.mark.parametrize("name", ["poisson", "bernoulli_odds", "negative_binomial", "poisson_log"])
def test_drawn_cells_give_the_sums_over_all_cells(name, monkeypatch):
    world = World(name, shape=(30, 20, 10), rank=3, total=400.0)
    x = world.draw()
    if x.array is not None:
        index = np.argwhere(x.array)
        x = Slice(index, x.array[tuple(index.T)], x.shape)
    weights = world.model.transform([x])[0]
    exact = measure(x, world.factors, weights, world.loss)
    monkeypatch.setattr(calibration, "DENSE_CELLS", 0)
    drawn = measure(x, world.factors, weights, world.loss)
    assert drawn.expected == pytest.approx(exact.expected, rel=0.03)
    # The error of the draws is part of the spread.
    assert drawn.spread >= 0.9 * exact.spread
    noise = math.sqrt(max(drawn.spread**2 - exact.spread**2, 0.0))
    assert abs(drawn.excess - exact.excess) < 4.0 * noise + 0.15 * exact.spread
    assert drawn.shift == pytest.approx(exact.shift, abs=0.3 * exact.spread)
    np.testing.assert_array_equal(drawn.index[0], exact.index[0])
    for rows, truth in zip(drawn.modes, exact.modes, strict=True):
        # Signed models are drawn from evenly, which rows with few cells feel.
        assert name == "poisson_log" or np.corrcoef(rows, truth)[0, 1] > 0.6
