"""The river adapter: alone, and inside the real package's pipelines."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.errors import DataError
from onlinegcp.losses import Loss
from onlinegcp.river import RiverAdapter
from onlinegcp.slices import Slice
from onlinegcp.streaming import OnlineCP, OnlineGCP, OnlineSGD

NAMES = ("a", "b", "c")


def observations(n=12, seed=0):
    rng = np.random.default_rng(seed)
    return [dict(zip(NAMES, rng.random(3), strict=True)) for _ in range(n)]


def learned(model, xs, **options):
    adapter = RiverAdapter(model, **options)
    for x in xs:
        assert adapter.learn_one(x) is None
    return adapter


def test_dictionaries_are_rows_of_a_table():
    xs = observations()
    adapter = learned(OnlineSGD(2, init_slices=5), xs)
    table = np.array([[x[name] for name in NAMES] for x in xs])
    by_table = OnlineSGD(2, init_slices=5).fit(table)
    assert adapter.features == NAMES
    np.testing.assert_allclose(adapter.model.factors_[0], by_table.factors_[0], rtol=1e-9)
    np.testing.assert_allclose(
        list(adapter.transform_one(xs[0]).values()), by_table.transform(table)[0], rtol=1e-12
    )
    assert adapter.score_one(xs[0]) == pytest.approx(-by_table.score_samples(table)[0], rel=1e-9)


def test_scores_of_counts_do_not_depend_on_their_size():
    """The Poisson loss itself is lower for larger counts, however badly they fit."""
    rng = np.random.default_rng(0)
    shares = np.array([0.5, 0.3, 0.2])
    model = OnlineGCP(1, "poisson", init_slices=5)
    for _ in range(30):
        counts = rng.poisson(100 * shares)
        model.partial_fit(Slice.dense(counts))
    adapter = RiverAdapter(model, features=NAMES)
    usual = [adapter.score_one({"a": 5 * n, "b": 3 * n, "c": 2 * n}) for n in (10, 10_000)]
    odd = [adapter.score_one({"a": 2 * n, "b": 3 * n, "c": 5 * n}) for n in (10, 10_000)]
    assert min(odd) > 10 * usual[0]
    assert odd[1] > 100 * odd[0]
    assert adapter.score_one({"a": None, "b": None, "c": None}) == 0.0


def test_a_loss_without_minimum_gives_its_value():
    own = Loss("own", value=lambda x, m: (x - m) ** 2 + 7, deriv=lambda x, m: 2 * (m - x))
    xs = observations()
    adapter = learned(OnlineGCP(1, own, init_slices=4), xs)
    assert adapter.score_one(xs[0]) > 7.0


def test_slices_of_any_order_pass_through():
    rng = np.random.default_rng(1)
    a, b = rng.random((4, 2)), rng.random((5, 2))
    slices = [Slice.dense((a * rng.random(2)) @ b.T) for _ in range(8)]
    adapter = learned(OnlineCP(2, init_slices=4), slices)
    assert adapter.features is None
    assert adapter.score_one(slices[0]) == pytest.approx(0.0, abs=1e-9)
    assert adapter.score_one(Slice.dense(10 * rng.random((4, 5)))) > 1e-3
    with pytest.raises(DataError, match="has learned slices"):
        adapter.score_one({"a": 1.0})


def test_an_unfitted_model_answers_as_river_models_do():
    adapter = RiverAdapter(OnlineCP(2))
    assert adapter.transform_one({"a": 1.0}) == {0: 0.0, 1: 0.0}
    assert adapter.score_one({"a": 1.0}) == 0.0


@pytest.mark.parametrize("unlisted", ["zero", "missing"])
def test_a_feature_left_out_is_what_unlisted_says(unlisted):
    adapter = RiverAdapter(OnlineSGD(1), features=NAMES, unlisted=unlisted)
    x = adapter._slice({"c": 2.0, "a": 0.0}, adapter._places)
    expected = [0.0, 0.0 if unlisted == "zero" else np.nan, 2.0]
    np.testing.assert_array_equal(x.to_dense(), expected)


@pytest.mark.parametrize("hole", [None, float("nan"), np.float64("nan"), np.float32("nan")])
def test_none_and_nan_are_missing(hole):
    adapter = RiverAdapter(OnlineSGD(1), features=NAMES)
    x = adapter._slice({"b": hole, "c": 2.0}, adapter._places)
    np.testing.assert_array_equal(x.to_dense(), [0.0, np.nan, 2.0])


def test_unknown_features_are_refused_or_ignored():
    xs = observations()
    strict = learned(OnlineCP(1, init_slices=3), xs)
    before = strict.model.factors_[0]
    with pytest.raises(DataError, match="'d' is not among them"):
        strict.learn_one({"a": 1.0, "d": 1.0})
    np.testing.assert_array_equal(strict.model.factors_[0], before)
    lenient = learned(OnlineCP(1, init_slices=3), xs, unknown="ignore")
    assert lenient.score_one({**xs[0], "d": 9.0}) == lenient.score_one(xs[0])


def test_a_refused_first_observation_fixes_no_features():
    adapter = RiverAdapter(OnlineGCP(1, "poisson"))
    with pytest.raises(DataError, match="poisson"):
        adapter.learn_one({"a": -1.0})
    assert adapter.features is None
    adapter.learn_one({"b": 1.0, "c": 2.0})
    assert adapter.features == ("b", "c")


@pytest.mark.parametrize("loss", ["gaussian", "poisson", "bernoulli_odds", "huber"])
def test_zeros_count_whether_they_are_listed_or_not(loss):
    rng = np.random.default_rng(2)
    arrays = [(rng.random((5, 4)) < 0.4).astype(float) for _ in range(6)]
    adapter = learned(OnlineGCP(2, loss, init_slices=4), [Slice.dense(a) for a in arrays])
    for array in (*arrays, np.zeros((5, 4))):
        sparse = Slice(np.argwhere(array), array[array > 0], array.shape)
        assert adapter.score_one(sparse) == pytest.approx(adapter.score_one(array), rel=1e-6)


def test_a_slice_too_large_to_be_written_out_is_scored():
    shape = (20_000, 20_000, 3_000)
    slices = [Slice([[1, 2, 3], [4, 5, 6]], [1.0, n], shape) for n in (1.0, 2.0, 3.0)]
    adapter = learned(OnlineGCP(1, "poisson", init_slices=2), slices)
    usual, odd = (
        Slice(cells, [2.0, 2.0], shape) for cells in ([[1, 2, 3], [4, 5, 6]], [[7, 7, 7]] * 2)
    )
    assert 0.0 <= adapter.score_one(usual) < adapter.score_one(odd) < np.inf


def test_features_of_one_name_are_refused():
    with pytest.raises(DataError, match="'a' is there 2 times"):
        RiverAdapter(OnlineCP(1), features=["a", "b", "a"])


def test_a_clone_has_learned_nothing():
    xs = observations()
    adapter = learned(OnlineCP(1, init_slices=3), xs, unlisted="missing", unknown="ignore")
    fresh = adapter.clone()
    assert fresh.features is None
    assert (fresh.unlisted, fresh.unknown, fresh.model.init_slices) == ("missing", "ignore", 3)
    assert fresh.score_one(xs[0]) == 0.0
    assert RiverAdapter(OnlineCP(1), features=NAMES).clone().features == NAMES
    assert adapter.clone({"unlisted": "zero"}).unlisted == "zero"
    whole = adapter.clone(include_attributes=True)
    assert whole.score_one(xs[0]) == adapter.score_one(xs[0])
    whole.learn_one(xs[0])
    assert adapter.model.n_slices_ == len(xs)


@pytest.mark.parametrize("options", [{"unlisted": "nothing"}, {"unknown": "grow"}])
def test_unknown_options_are_refused(options):
    with pytest.raises(DataError, match="Choose among these"):
        RiverAdapter(OnlineCP(1), **options)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_adapter_is_a_step_of_river_pipelines():
    pytest.importorskip("river")
    from river import linear_model, preprocessing

    xs = observations(20)
    last = preprocessing.StandardScaler() | RiverAdapter(OnlineSGD(1, init_slices=4))
    for x in xs:
        last.learn_one(x)
    assert last["RiverAdapter"].model.n_slices_ == len(xs)
    assert set(last.transform_one(xs[0])) == {0}

    again = last.clone()
    assert not again["RiverAdapter"].model.__sklearn_is_fitted__()

    inner = RiverAdapter(OnlineSGD(2, init_slices=4))
    middle = inner | linear_model.LinearRegression()
    for x in xs:
        middle.predict_one(x)
        middle.learn_one(x, x["a"])
    assert inner.model.n_slices_ == len(xs)
    assert set(middle["LinearRegression"].weights) == {0, 1}
