"""scikit-learn's contract: check_estimator in full, clones, pickles, pipelines, searches."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from every_method import every_method
from onlinegcp.errors import DataError
from onlinegcp.slices import Slice
from onlinegcp.streaming import (
    SGD,
    OnlineCP,
    OnlineGCP,
    OnlineSGD,
)

MODELS = every_method(init_starts=1) | {
    "online_gcp, sgd": OnlineGCP(
        2, init_starts=1,
        solver=SGD(weight_epochs=1, weight_iterations=20, factor_epochs=1, factor_iterations=5),
    ),
}  # fmt: skip


def table(n=30, features=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.random((n, 2)) @ rng.random((2, features))


@pytest.fixture(params=MODELS)
def model(request):
    return clone(MODELS[request.param])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*check_array_api_input.*")
@pytest.mark.parametrize("name", MODELS)
def test_check_estimator_passes_in_full(name):
    results = check_estimator(clone(MODELS[name]), on_skip=None)
    skipped = {r["check_name"] for r in results if r["status"] == "skipped"}
    # This one needs SCIPY_ARRAY_API in the environment and concerns estimators that claim support.
    assert skipped <= {"check_array_api_input"}
    assert {r["status"] for r in results} <= {"passed", "skipped"}
    assert len(results) > 40


def test_a_table_is_a_stream_of_its_rows(model):
    data = table()
    by_table = clone(model).fit(data)
    by_slices = clone(model).fit([Slice.dense(row) for row in data])
    assert by_table.n_features_in_ == 5
    assert by_table.n_slices_ == len(data)
    np.testing.assert_array_equal(by_table.factors_[0], by_slices.factors_[0])
    np.testing.assert_array_equal(
        by_table.transform(data), by_slices.transform([Slice.dense(row) for row in data])
    )


def test_fit_transform_is_fit_then_transform(model):
    data = table()
    np.testing.assert_array_equal(
        clone(model).fit_transform(data), clone(model).fit(data).transform(data)
    )
    slices = [Slice.dense(row) for row in data]
    np.testing.assert_array_equal(
        clone(model).fit_transform(iter(slices)), clone(model).fit(slices).transform(slices)
    )


def test_partial_fit_in_pieces_is_fit(model):
    """With ndim=1, and as scikit-learn calls it: with a target for every row."""
    data = table()
    for pieces, target in ((clone(model).set_params(ndim=1), None), (clone(model), np.zeros(30))):
        for start, stop in ((0, 1), (1, 12), (12, 30)):
            y = None if target is None else target[start:stop]
            pieces.partial_fit(data[start:stop], y)
        np.testing.assert_array_equal(pieces.factors_[0], clone(model).fit(data).factors_[0])


def test_pickle_goes_on_bit_for_bit(model):
    data = table()
    model.set_params(ndim=1).partial_fit(data[:17])
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(
        model.partial_fit(data[17:]).factors_[0], again.partial_fit(data[17:]).factors_[0]
    )


def test_sparse_rows_equal_dense_ones(model):
    data = np.where(table() > 0.5, table(), 0.0)
    dense = clone(model).fit(data)
    for sparse in (scipy.sparse.csr_array, scipy.sparse.coo_matrix):
        found = clone(model).fit(sparse(data))
        assert found.transform(sparse(data)).shape == (30, dense.rank_)
        # Lists of cells take other paths through the solvers, which sum in another order.
        np.testing.assert_allclose(found.factors_[0], dense.factors_[0], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["online_gcp", "online_gcp, sgd", "online_sgd"])
def test_nan_is_missing(name):
    data = table(60)
    holes = data.copy()
    holes[np.random.default_rng(1).random(data.shape) < 0.2] = np.nan
    model = clone(MODELS[name]).fit(holes)
    filled = model.inverse_transform(model.transform(holes))
    gap = np.abs(filled - data)[np.isnan(holes)]
    assert np.all(np.isfinite(filled))
    if "sgd" not in name:  # few and small steps
        assert np.median(gap) < 0.1


@pytest.mark.parametrize("name", ["online_cp", "cp_stream"])
def test_methods_without_missing_cells_refuse_them(name):
    data = table()
    model = clone(MODELS[name]).fit(data)
    before = model.factors_[0]
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(np.where(np.eye(30, 5) > 0, np.nan, data))
    with pytest.raises(DataError, match="misses 1 of 5 cells"):
        model.partial_fit(Slice.dense([1.0, 2.0, np.nan, 1.0, 1.0]))
    np.testing.assert_array_equal(model.factors_[0], before)


def test_feature_names_are_kept_and_checked(model):
    frame = pd.DataFrame(table(), columns=list("abcde"))
    model.fit(frame)
    assert list(model.feature_names_in_) == list("abcde")
    with pytest.raises(ValueError, match="feature names"):
        model.transform(frame[list("edcba")])
    names = [f"{type(model).__name__.lower()}{r}" for r in range(2)]
    assert list(model.get_feature_names_out()) == names
    framed = clone(model).set_output(transform="pandas").fit(frame).transform(frame)
    assert list(framed.columns) == names
    assert list(framed.index) == list(frame.index)


def test_a_refused_first_table_leaves_no_trace():
    model = OnlineGCP(2, "poisson", ndim=1)
    with pytest.raises(DataError, match="poisson"):
        model.partial_fit(-table())
    assert not hasattr(model, "n_features_in_")
    assert not hasattr(model, "n_slices_")
    model.partial_fit(np.round(table(features=3)))
    assert model.n_features_in_ == 3


def test_a_model_of_tables_has_no_predict(model):
    """There scikit-learn means one number per sample by it."""
    assert hasattr(model, "predict")
    with pytest.raises(NotFittedError):
        model.predict(np.zeros((1, 1), dtype=int))
    assert not hasattr(model.fit(table()), "predict")
    assert hasattr(model.fit([Slice.dense(row) for row in table()]), "predict")
    assert not hasattr(model, "n_features_in_")


def test_pipelines_and_searches_work():
    data = table(40)
    pipeline = make_pipeline(StandardScaler(), OnlineSGD(2, init_starts=1))
    assert pipeline.fit(data).transform(data).shape == (40, 2)
    assert pipeline.score(data) > -1e-3
    search = GridSearchCV(OnlineCP(1, init_starts=1), {"rank": [1, 2]}, cv=2).fit(data)
    assert search.best_params_ == {"rank": 2}


@pytest.mark.filterwarnings("ignore::onlinegcp.errors.RankWarning")  # which is right
def test_single_samples_and_single_features_are_accepted(model):
    assert clone(model).fit(table(1)).transform(table(1)).shape == (1, 2)
    assert clone(model).fit(table(30, 1)).transform(table(30, 1)).shape == (30, 2)
    for a in clone(model).fit(table(1)).factors_:
        assert np.all(np.isfinite(a))


def test_a_search_over_ranks_needs_no_rank_to_start_from():
    rng = np.random.default_rng(0)
    a, b = rng.random((6, 2)), rng.random((5, 2))
    stream = [
        Slice.dense(rng.poisson(9 * (a * rng.random(2)) @ b.T).astype(float)) for _ in range(12)
    ]
    model = OnlineGCP(loss="poisson", init_slices=3, init_starts=1)
    search = GridSearchCV(model, {"rank": [1, 2]}, cv=2).fit(stream)
    assert search.best_params_["rank"] in (1, 2)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
