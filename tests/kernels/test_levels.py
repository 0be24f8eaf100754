"""Series that learn in one compiled call: to the bit what NumPy makes of them."""

from __future__ import annotations

import numpy as np
import pytest

import kernel_twins as twins
from onlinegcp.kernels.levels import (
    NOTHING,
    SEASON,
    SPECIAL_DAY,
    Cycle,
    Series,
    judge_levels,
    learn_levels,
)


@pytest.mark.parametrize("kind", [NOTHING, SEASON, SPECIAL_DAY])
@pytest.mark.parametrize("seed", range(4))
def test_series_learn_the_bits_of_numpy(kind, seed):
    rng = np.random.default_rng(seed)
    experts, n = 4, 23
    values = rng.normal(size=n) * 10.0 ** rng.integers(-3, 4, n)
    values[rng.random(n) < 0.2] = np.nan
    compared = np.stack([rng.normal(size=n), rng.exponential(size=n), 3.0 * rng.normal(size=n)])
    compared[1, :3] = np.inf  # too young to have a spread
    ahead = rng.normal(size=(experts, n))
    rates, trends = rng.random((experts, 1)), np.array([[0.0], [0.1], [0.0], [0.1]])
    state = [rng.normal(size=(experts, n)), rng.normal(size=(experts, n))]
    state += [rng.exponential(size=(experts, n)), rng.exponential(size=(2, n))]
    state += [rng.integers(0, 6, n).astype(float), rng.integers(0, 20, n).astype(float)]
    cycle = rng.normal(size=(experts, n, 3))
    given = values, compared, ahead, rates, trends, 10, 0.9, 0.3
    expected = twins.learn_levels(*given, cycle, 2, kind, 3.7, *state)
    learn_levels(*given, Cycle(cycle, 2, kind, 3.7), Series(*state))
    for found, wanted in zip([cycle, *state], expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("seed", range(6))
def test_series_are_judged_with_the_bits_of_numpy(seed):
    rng = np.random.default_rng(seed)
    experts, n, more = 4, 23, seed % 3
    values = rng.normal(size=n + more) * 10.0 ** rng.integers(-3, 4, n + more)
    values[rng.random(n + more) < 0.2] = np.nan
    ahead = rng.normal(size=(experts, n))
    ahead[:, 5] = np.nan
    errors = rng.integers(0, 3, (experts, n)).astype(float)  # often the same: the first counts
    spread = np.stack([rng.exponential(size=n), rng.uniform(0.0, 6.0, n)])
    spread[0, 7] = 0.0  # never moved
    seen, noise = rng.integers(0, 20, n).astype(float), np.where(rng.random(n) < 0.5, 0.5, 0.0)
    out = np.empty((3, n + more))
    total = judge_levels(values, ahead, errors, spread, seen, 4, noise, out)
    expected, whole = twins.judge_levels(values, ahead, errors, spread, seen, 4, noise)
    np.testing.assert_array_equal(out, expected)
    assert total == pytest.approx(whole, rel=1e-12)
