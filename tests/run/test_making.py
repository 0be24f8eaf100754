"""How a run begins: nothing is touched before all options are known to be good, and by one only."""

from __future__ import annotations

import multiprocessing

import numpy as np
import pytest

from onlinegcp import runlog
from onlinegcp.errors import DataError, StateError
from onlinegcp.run import Run, making
from onlinegcp.slices import Slice
from onlinegcp.storage import archive
from run_tools import files_of, learn_slices, make_slices, small_model, steps_of


@pytest.fixture
def good(tmp_path):
    learn_slices(tmp_path / "good", make_slices())
    return tmp_path / "good"


@pytest.mark.parametrize(
    "options",
    [
        {"level": 5}, {"level": float("nan")}, {"level": 0}, {"level": "x"}, {"level": True},
        {"top": -1}, {"top": 2.5}, {"period": 0}, {"period": 1.5},
        {"model": small_model(rank=0)}, {"model": small_model(rank=10**6)},
        {"model": small_model(rank=2.5)}, {"model": small_model(loss="poison")},
        {"model": small_model(init_slices=0)}, {"model": small_model(random_state=-1)},
        {"model": small_model(forget=-3)}, {"model": small_model(n_jobs=0)},
    ],
)  # fmt: skip
def test_a_bad_option_is_refused_before_anything_is_touched(good, options):
    before = files_of(good)
    arguments = {"model": small_model(), "modes": ["a", "b"], "overwrite": True} | options
    with pytest.raises(DataError):
        Run.create(good, **arguments)
    assert files_of(good) == before


def test_the_old_run_goes_when_the_new_one_has_its_first_slice(good):
    before = files_of(good)
    with Run.create(good, small_model(), modes=["a", "b"], overwrite=True) as run:
        with pytest.raises(DataError):
            run.learn([Slice.dense(-np.ones((5, 4)))])
        assert files_of(good) == before
        run.learn(make_slices()[:1])
    assert not (good / making.REPLACED).exists()
    with Run.open(good) as run:
        assert (run.n_steps, run.warming_up) == (0, 1)


def test_the_old_run_comes_back_when_the_first_slice_cannot_be_stored(good, monkeypatch):
    before = files_of(good)

    def full(*_, **__):
        raise StateError("No space left on device")

    monkeypatch.setattr("onlinegcp.run.loop.write_checkpoint", full)
    with (
        Run.create(good, small_model(), modes=["a", "b"], overwrite=True) as run,
        pytest.raises(StateError, match="No space"),
    ):
        run.learn(make_slices()[:1])
    assert files_of(good) == before


def test_an_old_run_that_a_kill_left_aside_is_opened(good, monkeypatch):
    wanted = steps_of(good)
    monkeypatch.setattr(making, "put_back", lambda folder: None)
    monkeypatch.setattr("onlinegcp.run.loop.write_checkpoint", lambda *_: 1 / 0)
    with (
        Run.create(good, small_model(), modes=["a", "b"], overwrite=True) as run,
        pytest.raises(ZeroDivisionError),
    ):
        run.learn(make_slices()[:1])
    monkeypatch.undo()
    assert steps_of(good / making.REPLACED) == wanted
    with Run.open(good) as run:
        assert run.n_steps == len(wanted)
    assert steps_of(good) == wanted
    assert not (good / making.REPLACED).exists()


def _fit(folder, rank, barrier):
    slices = make_slices()
    with Run.create(folder, small_model(rank=rank, init_slices=1), modes=["a", "b"]) as run:
        barrier.wait()
        run.learn(slices)


@pytest.mark.slow
def test_of_two_that_make_the_same_run_at_once_one_is_refused(tmp_path):
    """Never the settings of one with the model of the other."""
    context = multiprocessing.get_context("spawn")
    for attempt in range(3):
        folder, barrier = tmp_path / str(attempt), context.Barrier(2)
        both = [context.Process(target=_fit, args=(folder, rank, barrier)) for rank in (2, 3)]
        for process in both:
            process.start()
        for process in both:
            process.join()
        assert sorted(process.exitcode for process in both) == [0, 1]
        rank = runlog.read_run_json(folder)["model"]["parameters"]["rank"]
        arrays, _ = archive.read_archive(folder / runlog.CHECKPOINT, runlog.CHECKPOINT_KIND)
        assert arrays["factor.0"].shape[1] == rank
        assert len(steps_of(folder)) == 12


def test_the_lock_comes_before_the_first_file(tmp_path):
    folder = tmp_path / "r"
    folder.mkdir()
    with (
        runlog.Lock(folder),
        Run.create(folder, small_model(), modes=["a", "b"]) as run,
        pytest.raises(StateError, match="being written by"),
    ):
        run.learn(make_slices())
    assert {file.name for file in folder.iterdir()} == {runlog.LOCK}


def test_a_place_that_is_lost_before_the_first_slice_is_named(tmp_path):
    (tmp_path / "here").mkdir()
    with Run.create(tmp_path / "here" / "r", small_model(), modes=["a", "b"]) as run:
        (tmp_path / "here").rmdir()
        (tmp_path / "here").touch()
        with pytest.raises(StateError, match="to be made at"):
            run.learn(make_slices())


def test_an_enormous_value_is_named_by_its_labels_and_a_corrected_slice_is_learned(tmp_path):
    slices = make_slices()
    wrong = slices[6].to_dense()
    wrong[2, 1] = 1e200
    labels = [tuple("abcde"), tuple("wxyz")]
    with Run.create(tmp_path / "r", small_model(), modes=["m", "n"], labels=labels) as run:
        run.learn(slices[:6])
        with pytest.raises(DataError, match=r"slice of 2018-01-07: in the cell of 'c', 'x': .*1e"):
            run.learn([Slice.dense(wrong, time=slices[6].time)])
        run.learn(slices)
    with Run.create(tmp_path / "whole", small_model(), modes=["m", "n"], labels=labels) as run:
        run.learn(slices)
    assert steps_of(tmp_path / "r") == steps_of(tmp_path / "whole")
