"""The walk in docs/design.md meets the files that a slice meets."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import onlinegcp
from auto_steps import learn
from onlinegcp.losses import get_loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import components
from onlinegcp.solvers.auto import solver as auto

PACKAGE = Path(onlinegcp.__file__).parent
PAGE = Path(__file__).parents[3] / "docs" / "design.md"


def listed_files():
    """The files of the table, each as often as the walk comes by."""
    section = PAGE.read_text(encoding="utf-8").split("## One slice, step by step")[1]
    table = [line for line in section.split("\n## ")[0].splitlines() if line.startswith("|")]
    return [name for line in table for name in re.findall(r"^\|[ \d]*\| `([\w/]+\.py)`", line)]


@pytest.fixture
def met():
    """The files of the package in which a function was called."""
    files = set()

    def note(frame, event, argument):
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            files.add(path.relative_to(PACKAGE).as_posix())

    def follow(call):
        sys.setprofile(note)
        try:
            return call()
        finally:
            sys.setprofile(None)

    return files, follow


def test_a_poisson_slice_meets_the_files_of_the_page_and_no_others(met, monkeypatch):
    files, follow = met
    monkeypatch.setattr(components, "PAUSE", 3)
    rng = np.random.default_rng(0)
    factors = [rng.gamma(0.5, 1.0, (n, 3)) for n in (8, 7)]
    slices = []
    for _ in range(9):
        m = 20.0 * (factors[0] * rng.random(3)) @ factors[1].T
        slices.append(Slice.dense(rng.poisson(m).astype(float)))
    loss = get_loss("poisson")
    state = auto.start(factors, np.full((3, 3), 10.0), slices[:3], loss)
    state, _ = learn(state, slices[3:8], loss)
    assert state.trials.twin is not None
    x = Slice.dense(slices[8].array.copy())  # has not been asked anything yet
    follow(lambda: auto.step(state, x, loss))
    listed = listed_files()
    # Kernels are met through a compiled call, which need not show.
    assert files == {name for name in listed if name in files or "kernels/auto" not in name}
    assert max(listed.count(name) for name in listed) <= 3


def test_the_walk_is_short():
    assert len(set(listed_files())) <= 15
