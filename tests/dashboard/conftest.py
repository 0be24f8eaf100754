"""A run that is played step by step."""

from __future__ import annotations

import pytest

import fake_run
from onlinegcp import runlog


@pytest.fixture(scope="module")
def story():
    return fake_run.make_steps(n_days=40, rank=2, n_iterations=3)


class Writer:
    """Plays a run, one step after the other."""

    def __init__(self, path, story):
        self.path = path
        self.factors, self.labels, modes, self.steps = story
        self.at = 0
        fake_run.start(path, modes, 2)

    def write(self, n):
        for step in self.steps[self.at : self.at + n]:
            fake_run.store(self.path, self.factors, self.labels, step)
            runlog.append_lines(self.path, [runlog.encode_step(step)])
        self.at += n


@pytest.fixture
def writer(tmp_path, story):
    return Writer(tmp_path / "live.run", story)
