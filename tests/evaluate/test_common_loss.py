"""One loss for models of different losses, against sums over all cells."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.errors import DataError
from onlinegcp.evaluate import common_loss
from onlinegcp.evaluate.common_loss import expected_loss, expects_itself, mean_range, model_values
from onlinegcp.losses import LOSS_NAMES, get_loss
from onlinegcp.slices import Slice


@pytest.mark.parametrize("name", LOSS_NAMES)
def test_means_are_inverted(name):
    loss = get_loss(name)
    low, high = mean_range(loss)
    inside = np.linspace(max(low, -3.0) + 0.01, min(high, 5.0) - 0.01, 40)
    np.testing.assert_allclose(loss.mean(model_values(loss, inside)), inside, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("unlisted", ["zero", "missing"])
@pytest.mark.parametrize(
    ("own", "common"),
    [("gaussian", "gaussian"), ("poisson", "gaussian"), ("gaussian", "poisson"),
     ("poisson_log", "poisson"), ("gaussian", "bernoulli_odds"), ("bernoulli_odds", "gaussian"),
     ("bernoulli_odds", "bernoulli_logit")],
)  # fmt: skip
def test_expectations_are_scored_by_one_formula(own, common, unlisted):
    rng = np.random.default_rng(0)
    own, common = get_loss(own), get_loss(common)
    signed = own.lower < 0
    factors = [rng.normal(size=(n, 2)) if signed else rng.random((n, 2)) for n in (6, 5)]
    weights = rng.random(2)
    data = (rng.random((6, 5)) < 0.4).astype(float)
    x = Slice(np.argwhere(data), np.ones(int(data.sum())), (6, 5), unlisted=unlisted)
    found = expected_loss(x, factors, weights, own, common, 0.02)
    total = 0.0
    for cell in np.ndindex(6, 5):
        if data[cell] or unlisted == "zero":
            m = sum(weights[r] * factors[0][cell[0], r] * factors[1][cell[1], r] for r in range(2))
            expected = float(own.mean(m))
            if common.name == "poisson":
                expected = max(expected, 0.02)
            if common.domain == "binary":
                expected = min(max(expected, 0.02), 0.98)
            value = {
                "bernoulli_odds": expected / (1 - expected) if common.domain == "binary" else 0,
                "bernoulli_logit": np.log(expected / (1 - expected))
                if common.domain == "binary"
                else 0,
            }.get(common.name, expected)
            total += float(common.value(data[cell], value))
    assert found == pytest.approx(total, rel=1e-6)


def test_slices_too_large_to_write_out_are_refused(monkeypatch):
    monkeypatch.setattr(common_loss, "DENSE_CELLS", 10)
    x = Slice.dense(np.ones((4, 3)))
    factors = [-np.ones((4, 1)), np.ones((3, 1))]
    gaussian, poisson = get_loss("gaussian"), get_loss("poisson")
    with pytest.raises(DataError, match="at most 10 cells"):
        expected_loss(x, factors, np.ones(1), gaussian, poisson, 0.1)
    assert expected_loss(x, factors, np.ones(1), gaussian, gaussian, 0.1) == pytest.approx(48.0)


def test_own_losses_without_a_mean_expect_their_values():
    assert expects_itself(get_loss("huber"))
    assert mean_range(get_loss("gaussian")) == (-np.inf, np.inf)
