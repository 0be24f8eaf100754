"""Data that are not as nice as the experiments: too many components, and patterns that cancel."""

import warnings

import numpy as np
import pytest

from onlinegcp import OnlineGCP, RankWarning
from onlinegcp.slices import Slice
from onlinegcp.streaming import METHODS

LOSSES = [("gaussian", None), ("gaussian", 0.0), ("poisson", None), ("bernoulli_odds", None)]


def slices_of(loss, shape, count=30):
    rng = np.random.default_rng(0)
    size = 5.0 * (1 + np.arange(np.prod(shape)).reshape(shape))
    for t in range(count):
        m = size * (1 + 0.1 * t)
        if loss == "gaussian":
            yield Slice.dense(m + rng.standard_normal(shape))
        elif loss == "poisson":
            yield Slice.dense(rng.poisson(m).astype(float))
        else:
            yield Slice.dense((rng.random(shape) < 0.6).astype(float))


@pytest.mark.parametrize(("loss", "lower"), LOSSES)
@pytest.mark.parametrize("shape", [(1,), (4,), (1, 1), (2, 2), (3, 1, 2)])
@pytest.mark.parametrize("rank", [1, 10, 50])
def test_any_rank_and_shape_stay_finite(loss, lower, shape, rank):
    model = OnlineGCP(rank, loss, lower=lower, init_slices=6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RankWarning)
        for x in slices_of(loss, shape):
            model.partial_fit([x])
            if model.last_ is not None:
                assert np.isfinite([model.last_.prequential, model.last_.local]).all()
    assert all(np.isfinite(a).all() for a in model.factors_)
    assert np.isfinite(model.weights_).all()


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "lower"), LOSSES)
@pytest.mark.parametrize("shape", [(1, 1), (4,), (4, 3)])
def test_two_hundred_components_stay_finite_for_long(loss, lower, shape):
    model = OnlineGCP(200, loss, lower=lower, init_slices=6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RankWarning)
        for x in slices_of(loss, shape, 150):
            model.partial_fit([x])
    assert all(np.isfinite(a).all() for a in model.factors_)


def test_a_rank_the_shape_cannot_carry_is_told_once():
    slices = list(slices_of("gaussian", (2, 2)))
    model = OnlineGCP(10, "gaussian", init_slices=6)
    with pytest.warns(RankWarning, match=r"10 components .* slices of 4 cells .* rank=4") as told:
        model.fit(slices)
    assert len(told) == 1
    OnlineGCP(4, "gaussian", init_slices=6).fit(slices)  # no word: warnings are errors here


@pytest.mark.parametrize("missing", [False, True])
def test_signed_patterns_do_not_cancel_at_many_times_the_size_of_the_data(missing):
    # Prices that rise together: two signed patterns can share them in any proportion.
    rng = np.random.default_rng(1)
    level = 100 * np.exp(np.cumsum(0.05 * rng.standard_normal((120, 4)) + 0.01, axis=0))
    if missing:
        level[:40, 1] = np.nan
    model = OnlineGCP(2, "gaussian")
    for t, row in enumerate(level):
        model.partial_fit([Slice.dense(row)])
        if t >= 60:
            norm = np.sqrt(np.nansum(row**2))
            assert np.abs(model.weights_).max() < 5 * norm


@pytest.mark.parametrize("loss", ["gaussian", "poisson", "bernoulli_odds"])
@pytest.mark.parametrize("count", [4, 6, 10])
def test_weights_agree_with_transform_while_the_warm_start_gathers(loss, count):
    rng = np.random.default_rng(2)
    m = np.einsum("tr,ir,jr->tij", *(rng.gamma(1.0, 1.0, (n, 2)) for n in (count, 9, 8)))
    yes = rng.random(m.shape) < 3 * m / (1 + 3 * m)
    draw = {"gaussian": m, "poisson": rng.poisson(20 * m), "bernoulli_odds": yes}[loss]
    model = OnlineGCP(2, loss)
    for x in draw.astype(float):
        model.partial_fit([Slice.dense(x)])
    expected = model.inverse_transform(model.transform([Slice.dense(draw[-1].astype(float))])[0])
    newest = model.inverse_transform(model.weights_)
    assert np.linalg.norm(newest - expected) < 0.1 * np.linalg.norm(expected)
    np.testing.assert_allclose(model.predict([[1, 2]]), newest[1, 2])


# Those that match components of samples with what they have match them with the random columns a
# start without data has: they learn, but badly.
@pytest.mark.parametrize("name", sorted(set(METHODS) - {"seek_and_destroy", "sambaten"}))
@pytest.mark.parametrize("n_zeros", [4, 9], ids=["the warm start", "and more"])
def test_zeros_at_the_start_do_not_end_all_learning(name, n_zeros):
    rng = np.random.default_rng(0)
    a, b = rng.random((6, 2)), rng.random((5, 2))
    model = METHODS[name](2, init_slices=4)
    for time in range(n_zeros):
        model.partial_fit(Slice.dense(np.zeros((6, 5)), time=time))
    assert not model.weights_.any()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for time in range(30):
            weights = rng.random(2) + 0.2
            m = a * weights @ b.T + 0.01 * rng.standard_normal((6, 5))
            model.partial_fit(Slice.dense(m, time=n_zeros + time))
    assert model.last_.local < 0.1 * model.last_.norm_squared
