"""Sums over the slices of a run."""

from __future__ import annotations

import pytest

from onlinegcp.digest.batch import Batch
from onlinegcp.digest.sums import WeightSums


@pytest.mark.parametrize(("at", "turned", "mean"), [(4, 0.35, 2.0), (4, 0.45, 3.0), (6, 0.45, 3.0)])
def test_a_component_that_turned_far_is_another_one_from_then_on(at, turned, mean):
    sums = WeightSums()
    for n in range(1, 7):
        drift = turned if n == at else 0.01
        sums.add(
            Batch([{"number": n, "weights": [1.0 if n < 4 else 3.0], "drift": [drift]}], "total")
        )
    assert sums.mean(1) == [2.0]
    assert sums.mean(1, since_turn=True) == [mean]
