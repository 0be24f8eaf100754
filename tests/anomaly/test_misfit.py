"""The null distribution of a slice's misfit: standardised scores, sums over all and drawn cells."""

from __future__ import annotations

import math

import numpy as np
import pytest

from drawn_world import World
from onlinegcp.anomaly import misfit as calibration
from onlinegcp.anomaly.misfit import measure
from onlinegcp.slices import Slice


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


@pytest.mark.parametrize("name", ["poisson", "bernoulli_odds", "negative_binomial"])
@pytest.mark.parametrize("shape", [(23,), (7, 1, 5), (30, 20, 40)])
def test_listed_cells_and_zeros_together_are_the_dense_slice(name, shape):
    world = World(name, shape=shape, total=30.0 * len(shape) ** 2)
    x = world.draw()
    weights = world.model.transform([x])[0]
    sparse = measure(x, world.factors, weights, world.loss, top=7)
    dense = measure(Slice.dense(x.to_dense()), world.factors, weights, world.loss, top=7)
    near = 2e-3 * dense.positive  # zeros are taken from the nearest place of a table
    assert sparse.excess == pytest.approx(dense.excess, abs=near)
    assert sparse.positive == pytest.approx(dense.positive, abs=near)
    assert sparse.spread == pytest.approx(dense.spread, rel=0.03)
    assert sparse.shift == pytest.approx(dense.shift, abs=0.03 * dense.spread)
    for rows, truth in zip(sparse.modes, dense.modes, strict=True):
        np.testing.assert_allclose(rows, truth, atol=near)
    np.testing.assert_array_equal(sparse.index, dense.index)
    np.testing.assert_allclose(sparse.model, dense.model)
    np.testing.assert_allclose(sparse.cells, dense.cells, rtol=5e-3)
    np.testing.assert_array_equal(sparse.observed, dense.observed)


def test_components_that_cannot_be_told_apart_are_fitted_once():
    world = World("poisson", shape=(9, 8), total=200.0)
    x, weights = world.draw(), world.model.transform([world.draw()])[0]
    alone = measure(x, world.factors, weights, world.loss)
    twice = [np.hstack([a, a]) for a in world.factors]
    both = measure(x, twice, np.tile(weights / 2.0, 2), world.loss)
    assert both.freedom == pytest.approx(alone.freedom, abs=1e-3)
    assert both.spread == pytest.approx(alone.spread, rel=1e-6)
    assert both.shift == pytest.approx(alone.shift, rel=1e-4)


def test_a_sample_of_cells_of_a_long_mode_stands_for_all_of_them(monkeypatch):
    world = World("poisson", shape=(2503, 3), rank=3, total=4000.0)
    x = world.draw()
    weights = world.model.transform([x])[0]
    sampled = measure(x, world.factors, weights, world.loss)
    monkeypatch.setattr(calibration, "LARGEST_SAMPLE", 10**6)
    monkeypatch.setattr(calibration, "SMALLEST_SAMPLE", 10**6)
    exact = measure(x, world.factors, weights, world.loss)
    assert sampled.excess == exact.excess
    assert sampled.spread == pytest.approx(exact.spread, rel=0.03)
    assert sampled.skewness == pytest.approx(exact.skewness, rel=0.1)
    assert sampled.shift == pytest.approx(exact.shift, abs=0.03 * exact.spread)
