"""Ensign: components that were planted emerge in the batch in which they were."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.errors import DataError
from onlinegcp.evaluate import factor_match
from onlinegcp.ktensor import KTensor
from onlinegcp.slices import Slice
from onlinegcp.streaming import Ensign


def stream(n=60, noise=0.05, births=(30, 45), seed=0):
    """Three components from the beginning, one more from each birth on."""
    rng = np.random.default_rng(seed)
    factors = [rng.random((k, 3 + len(births))) ** 3 for k in (40, 30)]
    since = np.array([0, 0, 0, *births])
    for t in range(n):
        clean = KTensor((0.5 + rng.random(len(since))) * (since <= t), factors).full()
        yield clean + noise * rng.normal(size=clean.shape), clean, factors


@pytest.mark.parametrize("nonnegative", [False, True])
def test_components_emerge_when_they_were_planted(nonnegative):
    model, born = Ensign(3, batch=5, nonnegative=nonnegative), {}
    slices = list(stream())
    for t, (x, _, _) in enumerate(slices):
        model.partial_fit(Slice.dense(x))
        if t >= 10 and model.n_waiting_ == 0 and model.last_.births:
            born[t + 1] = model.last_.births
    assert born == {35: 1, 50: 1}
    _, clean, factors = slices[-1]
    assert factor_match(model.factors_, factors) > 0.99
    assert np.linalg.norm(model.to_ktensor().full() - clean) < 0.05 * np.linalg.norm(clean)
    if nonnegative:
        assert min(a.min() for a in (model.weights_, *model.factors_)) >= 0.0


def test_a_stationary_stream_keeps_its_rank():
    model = Ensign(3, batch=5)
    for x, _, _ in stream(births=()):
        model.partial_fit(Slice.dense(x))
    assert len(model.weights_) == 3


def test_energy_and_likeness_decide_what_is_new():
    data = [Slice.dense(x) for x, _, _ in stream()]
    assert len(Ensign(3, batch=5, min_energy=0.9).fit(data).weights_) == 3
    assert len(Ensign(3, batch=5, search_rank=0).fit(data).weights_) == 3
    assert len(Ensign(3, batch=5, max_congruence=1e-6).fit(data).weights_) == 3


def test_the_weakest_are_given_up():
    eye = np.eye(12)
    model = Ensign(2, batch=4, max_rank=4, forget=0.1, init_slices=4)
    for t in range(20):
        pair = [2 * (t // 4), 2 * (t // 4) + 1]
        model.partial_fit(Slice.dense(eye[:, pair] * [1.0, 1.5 + t % 4] @ eye[:, pair].T))
        assert len(model.weights_) <= 4
    assert model.last_.deaths == 2
    kept = np.flatnonzero(np.abs(model.factors_[0]).max(axis=1) > 0.5)
    assert {8, 9} <= set(kept)


@pytest.mark.slow
def test_sparse_slices_give_what_dense_ones_give():
    data = [np.round(np.maximum(x - 0.5, 0.0), 3) for x, _, _ in stream(30, births=(15,))]
    dense = Ensign(3, batch=5).fit([Slice.dense(x) for x in data])
    sparse = Ensign(3, batch=5).fit([Slice(np.argwhere(x), x[x != 0], x.shape) for x in data])
    np.testing.assert_allclose(
        dense.to_ktensor().full(), sparse.to_ktensor().full(), rtol=1e-6, atol=1e-6
    )


def test_modes_may_grow():
    rng = np.random.default_rng(0)
    factors = [rng.random((n, 2)) for n in (12, 10)]
    model = Ensign(2, batch=4, init_slices=6, forget=0.5)
    for t in range(46):
        n = 8 if t < 14 else 12
        model.partial_fit(Slice.dense(factors[0][:n] * (0.5 + rng.random(2)) @ factors[1].T))
    assert len(model.factors_[0]) == 12
    assert model.last_.local < 1e-3 * model.last_.norm_squared


@pytest.mark.parametrize(
    ("options", "word"),
    [({"search_rank": -1}, "search"), ({"min_energy": 0}, "min_energy"), ({"forget": 2}, "forget")],
)
def test_options_out_of_range_are_refused(options, word):
    with pytest.raises(DataError, match=word):
        Ensign(2, **options).partial_fit(Slice.dense(np.ones((3, 4))))
