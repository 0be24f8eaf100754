"""Losses over slices and factor match: definitions checked on dense reconstructions."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp import evaluate
from onlinegcp.errors import DataError
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import get_loss
from onlinegcp.slices import Slice


def stream(n_slices=4, shape=(5, 1, 3), rank=2):
    rng = np.random.default_rng(0)
    factors = [rng.random((n, rank)) for n in shape]
    weights = rng.random((n_slices, rank)) * 5
    data = [rng.poisson(KTensor(w, factors).full()).astype(float) for w in weights]
    return data, weights, factors


@pytest.mark.parametrize("name", ["gaussian", "poisson", "negative_binomial"])
def test_local_loss_is_the_summed_loss_over_the_squared_norm(name):
    data, weights, factors = stream()
    expected = get_loss(name).value(data[0], KTensor(weights[0], factors).full()).sum()
    expected /= np.linalg.norm(data[0]) ** 2
    sparse = Slice(np.argwhere(data[0]), data[0][data[0] != 0], data[0].shape)
    for x in (data[0], Slice.dense(data[0]), sparse):
        assert evaluate.local_loss(x, weights[0], factors, name) == pytest.approx(expected)


def test_an_empty_slice_reports_the_plain_loss():
    _, weights, factors = stream()
    x = Slice(np.empty((0, 3), dtype=int), [], (5, 1, 3))
    expected = (KTensor(weights[0], factors).full() ** 2).sum()
    assert evaluate.local_loss(x, weights[0], factors, "gaussian") == pytest.approx(expected)


def test_missing_cells_do_not_count():
    data, weights, factors = stream()
    holes = data[0].copy()
    holes[2:] = np.nan
    rows = [factors[0][:2], *factors[1:]]
    expected = evaluate.local_loss(data[0][:2], weights[0], rows, "poisson")
    assert evaluate.local_loss(holes, weights[0], factors, "poisson") == pytest.approx(expected)


def test_global_loss_is_the_mean_of_the_slices_losses():
    data, weights, factors = stream()
    each = evaluate.slice_losses(iter(data), weights, factors, "poisson")
    for t in range(4):
        expected = evaluate.local_loss(data[t], weights[t], factors, "poisson")
        assert each[t] == pytest.approx(expected)
    found = evaluate.global_loss(data, weights, factors, "poisson")
    assert found == pytest.approx(each.mean())
    assert evaluate.global_loss([], np.empty((0, 2)), factors, "poisson") == 0.0


def test_true_weights_and_factors_give_gaussian_loss_zero():
    _, weights, factors = stream()
    exact = [KTensor(w, factors).full() for w in weights]
    assert evaluate.global_loss(exact, weights, factors, "gaussian") < 1e-28


def test_factor_match_ignores_order_scale_and_sign():
    _, _, factors = stream(rank=3, shape=(9, 8, 7))
    shuffled = [-2.0 * a[:, [2, 0, 1]] for a in factors]
    assert evaluate.factor_match(shuffled, factors) == pytest.approx(1.0)
    assert evaluate.factor_match(np.eye(4)[None, :, :2], np.eye(4)[None, :, 2:]) == 0.0
    # One of the two true components is found: half a match.
    assert evaluate.factor_match([np.eye(4)[:, :1]], [np.eye(4)[:, :2]]) == pytest.approx(0.5)


def test_shapes_that_do_not_belong_together_are_refused():
    data, weights, factors = stream()
    with pytest.raises(DataError, match="rows as the slice's modes"):
        evaluate.local_loss(data[0][:4], weights[0], factors, "poisson")
    with pytest.raises(DataError, match="weights"):
        evaluate.local_loss(data[0], weights[0][:1], factors, "poisson")
    with pytest.raises(DataError, match="one row per slice"):
        evaluate.slice_losses(data, weights[:3], factors, "poisson")
    with pytest.raises(DataError, match="one row per slice"):
        evaluate.slice_losses(data[:3], weights, factors, "poisson")
    with pytest.raises(DataError, match="one row per slice"):
        evaluate.slice_losses(data, weights[0], factors, "poisson")
