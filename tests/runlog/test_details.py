"""Which slices keep what was found out about them: against sorting all of them."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest

from onlinegcp.runlog import Details

DETAILS = {"cells": [1], "modes": [2], "largest": [3], "newcomers": [4], "components": [5]}


def slices(seed, n=60):
    """Lines of which some were scored, some flagged, and some are as odd as others."""
    rng = np.random.default_rng(seed)
    steps = []
    for number in range(1, n + 1):
        found = {"p": float(rng.choice([0.5, 0.1, 0.01, 1e-9])), **copy.deepcopy(DETAILS)}
        found["flagged"] = bool(rng.random() < 0.2)
        steps.append({"number": number, "anomaly": found if rng.random() < 0.9 else None})
    return steps


def oddest(steps, most):
    """Alarms first, then by p; of those as odd as each other the earliest."""
    scored = [step for step in steps if step["anomaly"]]
    order = sorted(
        scored, key=lambda s: (not s["anomaly"]["flagged"], s["anomaly"]["p"], s["number"])
    )
    return [step["number"] for step in order[:most]]


@pytest.mark.parametrize(("most", "newest"), [(0, 1), (1, 1), (5, 3), (100, 7)])
@pytest.mark.parametrize("seed", range(3))
def test_the_oddest_and_the_newest_keep_their_details_and_nobody_else(seed, most, newest):
    steps = slices(seed)
    scored = [step["number"] for step in steps if step["anomaly"]]
    flagged = [n for n in scored if steps[n - 1]["anomaly"]["flagged"]]
    details = Details(most, newest)
    for step in steps:
        details.take(step)
    assert [step["number"] for step in details.odd] == oddest(steps, most)
    assert [step["number"] for step in details.alarms] == flagged[: -newest - 1 : -1]
    kept = {*oddest(steps, most), *scored[-newest:], *flagged[-newest:]}
    for number in scored:
        left = set(DETAILS) & set(steps[number - 1]["anomaly"])
        assert left == (set(DETAILS) if number in kept else set())


@pytest.mark.parametrize("cut", range(0, 60, 7))
def test_a_stored_one_goes_on_like_one_that_was_never_stored(cut):
    whole, parts = Details(12, 5), Details(12, 5)
    steps, again = slices(7), slices(7)
    for step in steps:
        whole.take(step)
    for step in again[:cut]:
        parts.take(step)
    stored = parts.state()
    # As from a file: each slice once, whatever it is kept for.
    once = {s["number"]: json.loads(json.dumps(s)) for of in stored.values() for s in of}
    resumed = Details(12, 5)
    resumed.restore(*([once[s["number"]] for s in stored[n]] for n in ("odd", "last", "alarms")))
    for step in again[cut:]:
        resumed.take(step)
    assert resumed.state() == whole.state()
