"""Files from before the paper's settings were a value of their own open as they did."""

from __future__ import annotations

import json

import numpy as np
import pytest

from onlinegcp import runlog
from onlinegcp.report.payload import build
from onlinegcp.run import Run
from onlinegcp.runlog import read_run
from onlinegcp.solvers.sgd.steps import Step
from onlinegcp.storage.archive import read_archive, write_archive
from onlinegcp.storage.older import todays_parameters
from onlinegcp.streaming import SGD, OnlineGCP
from onlinegcp.streaming.storage import KIND
from run_tools import assert_same_run, make_slices, small_model

OWN = {"factor_rate": 0.02, "history_size": 3, "weight_epochs": 1, "factor_epochs": 1}


def flat(parameters):
    """Parameters as version 0.1.0 wrote them at first: those of both solvers side by side."""
    settings = SGD().get_params()
    if isinstance(parameters["solver"], dict):
        settings |= parameters["solver"]["sgd"]
        parameters = {**parameters, "solver": "sgd"}
    return {**parameters, **settings}


@pytest.mark.parametrize("solver", [SGD(**OWN), "auto"], ids=["sgd", "auto"])
def test_a_model_saved_before_goes_on(tmp_path, solver):
    slices = make_slices(8)
    model = OnlineGCP(2, "poisson", solver=solver, init_slices=3).fit(slices[:5])
    model.save(tmp_path / "new")
    arrays, record = read_archive(tmp_path / "new", KIND)
    record["parameters"] = flat(record["parameters"])
    write_archive(tmp_path / "old", KIND, arrays, record)
    old = OnlineGCP.load(tmp_path / "old")
    assert old.solver == solver
    for each in (model, old):
        each.partial_fit(slices[5:])
    np.testing.assert_array_equal(model.factors_[0], old.factors_[0])


@pytest.mark.parametrize("solver", [SGD(**OWN), "auto"], ids=["sgd", "auto"])
def test_a_run_begun_before_goes_on_and_is_shown(tmp_path, solver):
    slices, model = make_slices(9), small_model(solver=solver)
    with Run.create(tmp_path / "whole", model, modes=["a", "b"]) as run:
        run.learn(slices)
    with Run.create(tmp_path / "r", small_model(solver=solver), modes=["a", "b"]) as run:
        run.learn(slices[:2])
    path = tmp_path / "r" / "run.json"
    info = json.loads(path.read_text())
    info["model"]["parameters"] = flat(info["model"]["parameters"])
    path.write_text(json.dumps(info))
    shown = build(read_run(tmp_path / "r"))["run"]["parameters"]
    assert ("factor_rate" in shown) == (solver != "auto")
    with Run.open(tmp_path / "r") as run:
        assert run.model.solver == solver
        run.learn(slices)
    assert_same_run(tmp_path / "r", tmp_path / "whole")


def test_other_methods_keep_their_parameters():
    kept = {"rank": 2, "factor_penalty": 0.1}
    assert todays_parameters("OnlineSGD", kept) == kept


def test_a_run_keeps_a_step_of_ones_own(tmp_path):
    own = SGD(step=Step("adam", beta_1=0.5), **OWN)
    slices = make_slices(7)
    with Run.create(tmp_path / "r", small_model(solver=own), modes=["a", "b"]) as run:
        run.learn(slices[:2])
    (tmp_path / "r" / runlog.CHECKPOINT).unlink()
    with Run.open(tmp_path / "r") as run:
        assert run.model.solver == own
        assert run.learn(slices) == 7
