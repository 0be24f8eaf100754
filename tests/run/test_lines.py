"""The line of a slice: its losses are those of the whole slice as the model sees it."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.ktensor import KTensor
from onlinegcp.run.lines import cropped, seen, warm_lines
from onlinegcp.slices import Slice
from onlinegcp.streaming import OnlineGCP


def poisson_loss(dense, model, weights):
    m = KTensor(weights, model.factors_).full()
    return float(np.sum(m - dense * np.log(m + 1e-10)))


@pytest.fixture
def growing():
    """Slices that know one more row from the third on, and the model that started from them."""
    rng = np.random.default_rng(0)
    slices = []
    for t in range(4):
        dense = rng.poisson(3.0, (4 if t < 2 else 5, 3)).astype(float)
        index = np.argwhere(dense)
        slices.append(Slice(index, dense[tuple(index.T)], dense.shape, time=t))
    model = OnlineGCP(2, "poisson", init_slices=4, init_starts=1, random_state=0)
    for x in slices:
        model.partial_fit([x])
    return slices, model


def test_slices_from_before_the_newest_labels_are_scored_on_every_cell(growing):
    slices, model = growing
    for line, x in zip(warm_lines(slices, 1, model), slices, strict=True):
        dense = np.zeros((5, 3))
        dense[: x.shape[0]] = x.to_dense()
        assert line["local"] == pytest.approx(poisson_loss(dense, model, line["weights"]), rel=1e-9)
        assert line["n_observed"] == x.n_observed  # the facts are those of the slice that came


def test_labels_the_model_does_not_know_are_left_out(growing):
    _, model = growing
    dense = np.ones((6, 3))
    x = Slice(np.argwhere(dense), dense.ravel(), dense.shape)
    assert cropped(x, (5, 3)).shape == (5, 3)
    weights, loss = seen(x, model)
    assert loss == pytest.approx(poisson_loss(np.ones((5, 3)), model, weights), rel=1e-9)
