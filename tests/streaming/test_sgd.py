"""Settings of the paper's solver: a value, checked before anything is learned."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from onlinegcp.errors import BackendError, DataError
from onlinegcp.slices import Slice
from onlinegcp.streaming import SGD, OnlineGCP
from paper_models import RANK, SHAPE, WARM, counts, gcp_model, start


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"solver": "newton"}, "solver must be"),
        ({"forget": 5.0}, "forget belongs to solver='auto'"),
        ({"weight_solver": "exact"}, "weight_solver must be"),
        ({"history": "window"}, "history must be one of"),
        ({"history": "reservior"}, "Did you mean 'reservoir'"),
        ({"history_size": -1}, "history_size must be"),
        ({"history_weight": "ten"}, "history_weight must be"),
        ({"history_decay": 0.0}, "history_decay must be"),
        ({"history_decay": None}, "history_decay must be"),
        ({"sampler": "some"}, "sampler must be one of"),
        ({"sampler": "dense", "history": "data"}, "history='data' weighs"),
        ({"gradient_listed": 0}, "gradient_listed must be"),
        ({"objective_zeros": 1.5}, "objective_zeros must be"),
        ({"step": "newton"}, "step must be one of"),
        ({"weight_rate": -1.0}, "weight_rate must be"),
        ({"factor_rate": None}, "factor_rate must be"),
        ({"factor_epochs": -1}, "factor_epochs must be"),
        ({"factor_iterations": 0}, "factor_iterations must be"),
        ({"factor_penalty": -1.0}, "factor_penalty must be"),
        ({"weight_tolerance": np.nan}, "weight_tolerance must be"),
        ({"loss": "poisson", "lower": np.nan}, "lower must be"),
        ({"lower": np.inf}, "lower must be"),
        ({"lower": "zero"}, "lower must be"),
        ({"n_jobs": 0}, "n_jobs must be"),
        ({"loss": "poison"}, "Did you mean 'poisson'"),
        ({"loss": "poisson", "lower": -1.0}, "needs lower >= 0"),
        ({"loss": "poisson", "weight_solver": "least_squares"}, "needs loss='gaussian'"),
        ({"loss": "poisson", "sampler": "dense"}, "needs loss='gaussian'"),
        ({"rank": 0}, "rank must be"),
        ({"rank": 2.0}, "rank must be"),
        ({"init_slices": 0}, "init_slices must be"),
        ({"init_starts": "three"}, "init_starts must be"),
        ({"random_state": -1}, "random_state must be"),
        ({"init": "random"}, "init must be a KTensor"),
        ({"init": start(shape=(2, 2))}, "init must have shape"),
    ],
)
def test_options_out_of_range_are_refused_and_nothing_is_learned(options, words):
    model = gcp_model(**{"rank": RANK, "solver": "sgd", **options})
    with pytest.raises(DataError, match=words):
        model.partial_fit(Slice.dense(np.ones(SHAPE)))
    assert not hasattr(model, "n_slices_")


def test_an_unknown_device_is_refused():
    model = gcp_model(RANK, solver="sgd", device="abacus", init=start())
    with pytest.raises(BackendError, match="abacus"):
        model.partial_fit(Slice.dense(np.ones(SHAPE)))
    assert not hasattr(model, "n_slices_")


@pytest.mark.parametrize("device", ["abacus", "reference"])
def test_the_default_solver_refuses_a_device_it_does_not_use(device):
    with pytest.raises(BackendError, match=device):
        OnlineGCP(RANK, device=device).partial_fit(Slice.dense(np.ones(SHAPE)))


def test_settings_of_the_other_solver_are_refused_not_ignored():
    with pytest.raises(TypeError, match="history_size"):
        OnlineGCP(RANK, history_size=5)
    with pytest.raises(DataError, match="solver__history_size belongs to the paper's solver"):
        OnlineGCP(RANK).set_params(solver__history_size=5)
    with pytest.raises(DataError, match=r"'auto', 'sgd' or SGD\(\.\.\.\), but got 3"):
        OnlineGCP(RANK, solver=3).partial_fit(Slice.dense(np.ones(SHAPE)))


def test_the_short_form_stands_for_the_usual_settings():
    data = [Slice.dense(x) for x in counts(5)]
    short, long = (OnlineGCP(RANK, solver=s, init_slices=WARM).fit(data) for s in ("sgd", SGD()))
    np.testing.assert_array_equal(short.factors_[0], long.factors_[0])
    assert OnlineGCP(RANK, solver="sgd").set_params(solver__factor_rate=0.1).solver == SGD(
        factor_rate=0.1
    )


def test_settings_are_a_value_as_scikit_learn_wants_it():
    model = OnlineGCP(RANK, solver=SGD(factor_rate=0.1, history="last"))
    again = clone(model)
    assert again.solver == model.solver
    assert again.solver is not model.solver
    assert again.set_params(solver__history_size=7).solver.history_size == 7
    assert model.solver.history_size == 50
    assert again.solver != model.solver
    assert model.get_params()["solver__history"] == "last"
    assert repr(model) == "OnlineGCP(rank=2, solver=SGD(factor_rate=0.1, history='last'))"


@pytest.mark.slow
def test_settings_of_the_solver_can_be_searched():
    table = np.random.default_rng(0).random((12, 4))
    grid = {"solver__factor_rate": [1e-3, 1e-2], "solver__weight_epochs": [1]}
    model = OnlineGCP(2, solver=SGD(factor_epochs=1), init_starts=1, init_slices=3)
    found = GridSearchCV(model, grid, cv=2).fit(table)
    assert found.best_params_["solver__factor_rate"] in (1e-3, 1e-2)
    assert found.best_estimator_.solver.weight_epochs == 1
