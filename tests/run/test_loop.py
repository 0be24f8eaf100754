"""A run over slices: what it writes, and that stopping and going on leaves no trace."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

from onlinegcp import runlog
from onlinegcp.errors import DataError, StateError
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import Loss
from onlinegcp.run import Run
from onlinegcp.slices import Slice
from onlinegcp.streaming import OnlineCP, OnlineSGD
from run_tools import assert_same_run, files_of, learn_slices, make_slices, small_model, steps_of


@pytest.fixture
def finished(tmp_path):
    """A run over all slices in one go."""
    assert learn_slices(tmp_path / "whole", make_slices()) == 12
    return tmp_path / "whole"


def test_every_slice_has_a_line_and_the_warm_start_says_so(finished):
    steps = steps_of(finished)
    assert [step["number"] for step in steps] == list(range(1, 13))
    assert [step["warm"] for step in steps] == [True] * 4 + [False] * 8
    assert steps[0]["time"] == "2018-01-01"
    assert all(step["prequential"] is None and step["anomaly"] is None for step in steps[:4])
    for step, x in zip(steps, make_slices(), strict=True):
        assert (step["total"], step["nnz"], step["n_observed"]) == (x.total, x.nnz, x.n_observed)
        assert len(step["weights"]) == len(step["drift"]) == 2
        assert step["local"] > 0 or step["local"] < 0
        assert 0 <= min(step["drift"]) <= max(step["drift"]) <= 2


def test_the_run_holds_the_model_that_partial_fit_makes(finished):
    model = small_model()
    for x in make_slices():
        model.partial_fit(x)
    view = runlog.read_run(finished)
    for ours, theirs in zip(view.factors, model.factors_, strict=True):
        assert np.array_equal(ours, theirs)
    assert view.steps[-1]["prequential"] == model.last_.prequential
    assert view.steps[-1]["weights"] == model.weights_.tolist()


def test_drift_is_one_minus_the_cosine_product(tmp_path):
    slices = make_slices()
    with Run.create(tmp_path / "r", small_model(), modes=["a", "b"]) as run:
        run.learn(slices[:11])
        before = [a / np.linalg.norm(a, axis=0) for a in run.model.factors_]
        run.learn(slices)
        after = [a / np.linalg.norm(a, axis=0) for a in run.model.factors_]
    cosines = [np.diag(old.T @ new) for old, new in zip(before, after, strict=True)]
    found = steps_of(tmp_path / "r")[-1]["drift"]
    assert found == pytest.approx(1 - np.prod(cosines, axis=0), abs=1e-12)


@pytest.mark.parametrize("cut", [1, 3, 4, 5, 11])
def test_stopping_and_going_on_is_as_if_nothing_had_happened(tmp_path, finished, cut):
    slices = make_slices()
    with Run.create(tmp_path / "parts", small_model(), modes=["a", "b"]) as run:
        seen = []
        stopped = run.learn(slices, progress=seen.append, stop=lambda: len(seen) == cut)
    assert stopped == cut
    assert [news.n_slices for news in seen] == list(range(1, cut + 1))
    assert seen[-1].n_events == pytest.approx(sum(x.total for x in slices[:cut]))
    with Run.open(tmp_path / "parts") as run:
        assert run.warming_up == (cut if cut < 4 else 0)
        assert run.learn(slices) == 12 - cut
    assert_same_run(tmp_path / "parts", finished)


def test_slices_that_were_learned_are_passed_over(tmp_path, finished):
    before = files_of(finished)
    with Run.open(finished) as run:
        assert run.learn(make_slices()) == 0
    assert files_of(finished) == before


def test_slices_without_times_are_always_new(tmp_path):
    slices = [x.with_time(None) for x in make_slices(5)]
    with Run.create(tmp_path / "r", small_model(), modes=["a", "b"]) as run:
        run.learn(slices)
    with Run.open(tmp_path / "r") as run:
        assert run.learn(slices) == 5
    assert [step["time"] for step in steps_of(tmp_path / "r")] == [None] * 10


@pytest.mark.parametrize(
    ("times", "written"),
    [
        ([3, 4, 5], [3, 4, 5]),
        (
            [np.datetime64("2018-01-01T05") + np.timedelta64(i, "h") for i in range(3)],
            "2018-01-01T05",
        ),
        ([np.float64(0.5), np.float64(1.5), np.float64(2.5)], [0.5, 1.5, 2.5]),
        ([datetime.datetime(2018, 1, i, 7) for i in (1, 2, 3)], "2018-01-01T07:00:00"),
    ],
)
def test_times_of_any_kind_are_kept_and_compared(tmp_path, times, written):
    slices = [x.with_time(t) for x, t in zip(make_slices(3), times, strict=True)]
    with Run.create(tmp_path / "r", small_model(init_slices=1), modes=["a", "b"]) as run:
        run.learn(slices[:2])
    with Run.open(tmp_path / "r") as run:
        assert run.learn(slices) == 1
    found = [step["time"] for step in steps_of(tmp_path / "r")]
    assert found == written if isinstance(written, list) else found[0] == written


@pytest.mark.parametrize(
    "model",
    [
        lambda: small_model(loss="gaussian", forget=20.0),
        lambda: small_model(loss="bernoulli_odds"),
        lambda: small_model(solver="sgd", init_slices=2),
        lambda: OnlineSGD(2, init_slices=3, random_state=7),
    ],
    ids=["gaussian", "bernoulli", "sgd", "OnlineSGD"],
)
def test_every_method_resumes_exactly(tmp_path, model):
    slices = [
        Slice.dense((x.to_dense() > 6).astype(float), time=x.time) for x in make_slices(9, seed=3)
    ]
    with Run.create(tmp_path / "whole", model(), modes=["a", "b"]) as run:
        run.learn(slices)
    with Run.create(tmp_path / "parts", model(), modes=["a", "b"]) as run:
        run.learn(slices[:5])
    for _ in range(3):
        with Run.open(tmp_path / "parts") as run:
            run.learn(slices[: run.n_steps + 2])
    assert_same_run(tmp_path / "parts", tmp_path / "whole")


def test_a_given_start_is_part_of_the_settings(tmp_path):
    rng = np.random.default_rng(0)
    init = KTensor(rng.random(2), [rng.random((5, 2)), rng.random((4, 2))])
    slices = make_slices(4)
    with Run.create(tmp_path / "r", small_model(init=init), modes=["a", "b"]) as run:
        run.learn(slices[:1])
    (tmp_path / "r" / runlog.CHECKPOINT).unlink()
    (tmp_path / "r" / runlog.STEPS).unlink()
    with Run.open(tmp_path / "r") as run:
        assert run.model.init.isclose(init, rtol=0, atol=0)
        run.learn(slices)
    assert [step["warm"] for step in steps_of(tmp_path / "r")] == [False] * 4


@pytest.mark.slow
def test_a_loss_of_ones_own_is_passed_again(tmp_path):
    loss = Loss(name="mine", value=lambda x, m: (x - m) ** 2, deriv=lambda x, m: 2 * (m - x))
    model = small_model(loss=loss, solver="sgd", init_slices=2)
    with Run.create(tmp_path / "r", model, modes=["a", "b"]) as run:
        run.learn(make_slices(4))
    with pytest.raises(StateError, match="loss 'mine'"):
        Run.open(tmp_path / "r")
    with Run.open(tmp_path / "r", loss=loss) as run:
        assert run.learn(make_slices(5)) == 1


def test_slices_that_wait_for_others_have_lines_too(tmp_path):
    slices = make_slices()
    model = OnlineCP(2, batch=2, init_slices=4)
    with Run.create(tmp_path / "r", model, modes=["a", "b"]) as run:
        run.learn(slices)
    steps = steps_of(tmp_path / "r")
    assert [step["number"] for step in steps] == list(range(1, 13))
    # The first of a pair is as good after as before, and the model has not turned.
    for step in steps[4::2]:
        assert step["prequential"] == step["local"]
        assert not any(step["drift"])
    for step in steps[5::2]:
        assert step["prequential"] != step["local"]
        assert any(step["drift"])


def test_methods_whose_rank_changes_are_refused(tmp_path):
    class Restless(OnlineCP):
        changes_rank = True

    with pytest.raises(DataError, match="Restless changes its rank"):
        Run.create(tmp_path / "r", Restless(2), modes=["a", "b"])
    assert not (tmp_path / "r").exists()
