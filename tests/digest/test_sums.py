"""Sums over the slices of a run."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.digest.batch import Batch
from onlinegcp.digest.sums import FitSums, WeightSums
from onlinegcp.losses import get_loss


@pytest.mark.parametrize(("at", "turned", "mean"), [(4, 0.35, 2.0), (4, 0.45, 3.0), (6, 0.45, 3.0)])
def test_a_component_that_turned_far_is_another_one_from_then_on(at, turned, mean):
    sums = WeightSums()
    for n in range(1, 7):
        drift = turned if n == at else 0.01
        sums.add(
            Batch([{"number": n, "weights": [1.0 if n < 4 else 3.0], "drift": [drift]}], "total")
        )
    assert sums.mean(1) == [2.0]
    assert sums.mean(1, since_turn=True) == [mean]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("poisson", np.array([[0.0, 3.0, 1.0, 0.0], [5.0, 2.0, 2.0, 0.0]])),
        ("bernoulli_logit", np.array([[0.0, 1.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0]])),
    ],
)
def test_what_one_rate_for_all_cells_loses_is_the_loss_at_that_rate(name, data):
    steps = [{"total": x.sum(), "n_observed": x.size, "prequential": 7.0} for x in data]
    sums = FitSums()
    for step in steps:
        sums.add(Batch([step], "total"))
    rates = data.mean(axis=1, keepdims=True)
    values = rates if name == "poisson" else np.log(rates / (1.0 - rates))
    even = sums.even_counts if name == "poisson" else sums.even_binary
    assert even == pytest.approx(get_loss(name).value(data, values).sum(), rel=1e-6)
    assert (sums.count, sums.loss, sums.size) == (2, 14.0, data.sum())
    assert sums.means["prequential"] == [pytest.approx((7.0 / data.sum(axis=1)).sum()), 2]
