"""New components are what a slice has and the model lacks, from draws that the seed decides."""

from __future__ import annotations

import numpy as np
import pytest

from auto_steps import learn
from onlinegcp.kernels.auto import fisher_sums
from onlinegcp.kernels.layout import pad_vector, stack_factors
from onlinegcp.losses import OddsForm, get_loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import components, seeds
from onlinegcp.solvers.auto import solver as auto
from onlinegcp.solvers.auto.cells import cells_of, listed_cells
from onlinegcp.solvers.auto.fisher_sums import FisherSums


def residual(seed=0):
    """A model of one component, and a slice in which a second one shows."""
    rng = np.random.default_rng(seed)
    factors = [c / np.linalg.norm(c) for c in (rng.random((9, 1)), rng.random((7, 1)))]
    extra = np.outer(rng.standard_normal(9), rng.standard_normal(7))
    x = 3.0 * factors[0] @ factors[1].T + extra + 0.01 * rng.standard_normal((9, 7))
    return stack_factors(factors), Slice.dense(x), x - 3.0 * factors[0] @ factors[1].T


@pytest.mark.parametrize("by_slopes", [False, True])
def test_the_seed_is_the_leading_singular_pair_of_the_residual(by_slopes):
    factors, x, left = residual()
    weights = pad_vector(np.array([3.0]))
    if by_slopes:
        sums = FisherSums(factors, listed_cells(x), get_loss("gaussian"))
        found = seeds.seed_slopes(sums, weights, 5, bounded=False)
    else:
        found = seeds.seed_residual(factors, x, weights, 5, bounded=False)
    columns, size = found
    u, s, v = np.linalg.svd(left)
    assert abs(columns[0] @ u[:, 0]) == pytest.approx(1.0, abs=1e-6)
    assert abs(columns[1] @ v[0]) == pytest.approx(1.0, abs=1e-6)
    assert size == pytest.approx(s[0], rel=1e-6)


@pytest.mark.parametrize("linear", [True, False])
def test_a_new_pattern_of_counts_is_that_of_plain_numpy_to_the_bit(linear):
    rng, shape = np.random.default_rng(3), (9, 7, 5)
    factors = stack_factors([rng.random((n, 2)) for n in shape])
    x = Slice.dense(rng.poisson(2.0, shape))
    weights, form, cells = pad_vector(np.array([0.5, 1.5])), OddsForm(linear=linear), cells_of(x)
    columns, weight = seeds.seed_counts(factors, cells, form, weights)
    m = np.empty(len(cells.value))
    fisher_sums.model_values(factors.data, factors.offsets, cells.index, weights, m)
    share = np.maximum(cells.value - m, 0.0) if linear else cells.value / (1.0 + m)
    for step in range(seeds.STEPS + 1):
        expected = [
            np.bincount(cells.index[:, k], weights=share, minlength=n) / share.sum()
            for k, n in enumerate(shape)
        ]
        if step < seeds.STEPS:
            own = share.sum() * seeds.at_cells(expected, cells.index)
            share = cells.value * own / (m + own + 1e-300)
    for ours, theirs in zip(columns, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert weight == share.sum()


def test_where_nothing_is_left_there_is_no_seed():
    factors, _, _ = residual()
    x = Slice.dense(np.zeros((9, 7)))
    nothing, loss = np.zeros(4), get_loss("gaussian")
    assert seeds.seed_residual(factors, x, nothing, 5, bounded=False) is None
    sums = FisherSums(factors, listed_cells(x), loss)
    assert seeds.seed_slopes(sums, nothing, 5, bounded=True) is None


@pytest.mark.parametrize("name", ["gaussian", "huber"])
def test_the_seed_of_the_model_decides_where_a_trial_begins(name, monkeypatch):
    monkeypatch.setattr(components, "PAUSE", 2)
    monkeypatch.setattr(seeds, "STEPS", 1)  # before they forget where they began
    rng = np.random.default_rng(1)
    slices = [Slice.dense(rng.standard_normal((6, 5))) for _ in range(6)]
    factors = [rng.standard_normal((n, 3)) for n in (6, 5)]
    loss, twins = get_loss(name), []
    for seed in (0, 0, 1):
        state = auto.start(factors, np.ones((1, 3)), slices[:1], loss, seed=seed)
        state, _ = learn(state, slices[1:4], loss, seed=seed)
        assert state.trials.twin is not None
        twins.append(state.trials.twin.factors.data)
    np.testing.assert_array_equal(twins[0], twins[1])
    assert not np.array_equal(twins[0], twins[2])
