"""Runs whose rank changes: lines, names, reports and resumes."""

from __future__ import annotations

import numpy as np
import pytest

from line_profiles import activations
from onlinegcp import fit_many
from onlinegcp.many.reading import all_steps, steps_of
from onlinegcp.run import Run
from onlinegcp.runlog import read_run
from onlinegcp.runlog.names import read_names, write_name
from onlinegcp.streaming import OnlineGCP
from planted_ranks import planted

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def slices():
    stream = planted("poisson", 3, 50, 0, born=30, shape=(20, 15))
    return [x.with_time(t) for t, x in enumerate(stream)]


def learn(path, slices, model=None):
    model = OnlineGCP("auto", "poisson", init_slices=8) if model is None else model
    with Run.create(path, model, modes=["a", "b"]) as run:
        run.learn(slices)
    return read_run(path)


def test_lines_are_told_in_the_components_there_are_now(tmp_path, slices):
    view = learn(tmp_path / "r", slices)
    assert {len(step["weights"]) for step in view.steps} == {view.rank}
    ranks = [step["rank"] for step in view.steps]
    assert len(set(ranks)) > 1, "the rank was meant to change"
    assert ranks[-1] == view.rank == view.factors[0].shape[1]
    assert np.isfinite(activations(view)).all()
    assert sum(step["births"] - step["deaths"] for step in view.steps) == ranks[-1] - ranks[0]


def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(tmp_path, slices):
    whole = learn(tmp_path / "whole", slices)
    learn(tmp_path / "parts", slices[:33])
    with Run.open(tmp_path / "parts") as run:
        run.learn(slices[33:])
    parts = read_run(tmp_path / "parts")
    for one, two in zip(whole.steps, parts.steps, strict=True):
        assert {**one, "seconds": 0, "crc": 0} == {**two, "seconds": 0, "crc": 0}
    for a, b in zip(whole.factors, parts.factors, strict=True):
        np.testing.assert_array_equal(a, b)


def test_names_stay_with_their_patterns(tmp_path, slices):
    path = tmp_path / "r"
    before = learn(path, slices[:20])
    write_name(path, 1, "first", before.rank)
    with Run.open(path) as run:
        run.learn(slices[20:])
    after = read_run(path)
    numbers = [number for number, name in read_names(path).items() if name == "first"]
    for number in numbers:  # it may be gone
        cosines = [
            a[:, 0] @ b[:, number - 1] / np.linalg.norm(a[:, 0]) / np.linalg.norm(b[:, number - 1])
            for a, b in zip(before.factors, after.factors, strict=True)
        ]
        assert np.prod(cosines) > 0.7


def test_lines_of_many_streams_are_told_like_those_of_one(tmp_path, slices):
    alone = learn(tmp_path / "r", slices)
    model = OnlineGCP("auto", "poisson", init_slices=8)
    streams = {"changing": slices, "short": slices[:12]}
    fit_many(streams, model, tmp_path / "many", n_jobs=1)
    for name in streams:
        steps = list(steps_of(tmp_path / "many", name))
        assert [s for s in all_steps(tmp_path / "many") if s["stream"] == name] == steps
        assert {len(step["weights"]) for step in steps} == {steps[-1]["rank"]}
    weights = [step["weights"] for step in steps_of(tmp_path / "many", "changing")]
    assert weights == [step["weights"] for step in alone.steps]
