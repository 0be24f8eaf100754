"""The loss of a slice: counted where it can be, estimated without bias where it cannot."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.ktensor import KTensor
from onlinegcp.losses import get_loss
from onlinegcp.slices import Slice
from onlinegcp.solvers import objective
from onlinegcp.solvers.objective import is_affordable, slice_loss


def counts(seed=0, shape=(13, 7, 5)):
    rng = np.random.default_rng(seed)
    factors = [rng.random((n, 2)) for n in shape]
    weights = np.array([1.0, 0.5])
    array = np.minimum(rng.poisson(KTensor(weights, factors).full()), 1).astype(float)
    return array, factors, weights


@pytest.mark.parametrize("name", ["gaussian", "poisson", "bernoulli_odds", "bernoulli_logit"])
def test_loss_is_the_sum_over_every_cell(name):
    array, factors, weights = counts()
    loss = get_loss(name)
    expected = loss.value(array, KTensor(weights, factors).full()).sum()
    sparse = Slice(np.argwhere(array), array[array != 0], array.shape)
    assert slice_loss(sparse, factors, weights, loss) == pytest.approx(expected, rel=1e-10)
    assert slice_loss(Slice.dense(array), factors, weights, loss) == pytest.approx(expected)


def test_estimate_agrees_with_the_count(monkeypatch):
    array, factors, weights = counts()
    loss = get_loss("bernoulli_odds")
    x = Slice(np.argwhere(array), array[array != 0], array.shape)
    exact = slice_loss(x, factors, weights, loss)
    monkeypatch.setattr(objective, "EXACT_CELLS", 10)
    assert not is_affordable(x, loss)
    estimates = np.array([slice_loss(x, factors, weights, loss, seed=s) for s in range(10)])
    assert len(np.unique(estimates)) == 10
    # Half a million draws each: the mean of ten is within a few of its standard errors.
    assert abs(estimates.mean() - exact) < 4 * estimates.std() / np.sqrt(10)
    assert slice_loss(x, factors, weights, loss, seed=3) == estimates[3]


def test_closed_forms_and_complete_lists_are_always_counted(monkeypatch):
    array, _, _ = counts()
    monkeypatch.setattr(objective, "EXACT_CELLS", 10)
    sparse = Slice(np.argwhere(array), array[array != 0], array.shape)
    assert is_affordable(sparse, get_loss("gaussian"))
    assert is_affordable(sparse, get_loss("poisson"))
    assert is_affordable(Slice.dense(array), get_loss("bernoulli_logit"))
    assert not is_affordable(sparse, get_loss("bernoulli_logit"))
