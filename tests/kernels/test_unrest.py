"""Times that vary more than others are known for it, and only where they do."""

from __future__ import annotations

import numpy as np
import pytest

import kernel_twins as twins
from onlinegcp.kernels.shares import unrest_of
from onlinegcp.kernels.unrest import learn_time


def after(cycles, restless, *, times=24, seed=0):
    """What is known of 24 times of which some are `restless` times as far off as the others."""
    rng, known = np.random.default_rng(seed), np.zeros((3, times))
    for _ in range(cycles):
        for time in range(times):
            off = abs(rng.normal()) * 1.2533 * (restless if time < 6 else 1.0)
            learn_time(known, time, off, unrest_of(known, time))
    return known


def test_what_numpy_makes_of_it():
    for cycles in (1, 2, 9):
        known = after(cycles, 3.0)
        for time in range(24):
            assert unrest_of(known, time) == pytest.approx(twins.unrest_at(known, time), rel=1e-12)


def test_restless_times_are_found_and_others_are_not_made_up():
    known = after(40, 4.0)
    found = np.array([unrest_of(known, time) for time in range(24)])
    assert found[:6].mean() > 2.0 * found[6:].mean()
    same = [[unrest_of(after(40, 1.0, seed=s), time) for time in range(24)] for s in range(6)]
    assert np.abs(np.log(same)).mean() < 0.05


def test_one_slice_does_not_make_its_time_restless():
    known = after(40, 1.0)
    learn_time(known, 3, 50.0, unrest_of(known, 3))
    assert unrest_of(known, 3) < 1.3
