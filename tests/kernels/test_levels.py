"""Series that learn in one compiled call: what NumPy makes of them."""

from __future__ import annotations

import numpy as np
import pytest

import kernel_twins as twins
from onlinegcp.kernels.levels import (
    NOTHING,
    SEASON,
    SPECIAL_DAY,
    Cycle,
    Habits,
    Series,
    judge_levels,
    learn_levels,
)


def unrest_of(rng, n, times=5):
    """Number, sum and squares of what series showed at five times, of which one is restless."""
    shown = rng.exponential(size=(9, n, times)) * np.where(np.arange(times) == 3, 4.0, 1.0)
    return np.stack([np.full((n, times), 9.0), shown.sum(axis=0), (shown**2).sum(axis=0)])


@pytest.mark.parametrize("kind", [NOTHING, SEASON, SPECIAL_DAY])
@pytest.mark.parametrize("seed", range(4))
def test_series_learn_what_numpy_learns(kind, seed):
    rng = np.random.default_rng(seed)
    experts, n = 4, 23
    values = rng.normal(size=n) * 10.0 ** rng.integers(-3, 4, n)
    values[rng.random(n) < 0.2] = np.nan
    compared = np.stack([rng.normal(size=n), rng.exponential(size=n), 3.0 * rng.normal(size=n)])
    compared[1, :3] = np.inf  # too young to have a spread
    base = rng.normal(size=(experts, n))
    habits = [rng.normal(size=(experts, n)) for _ in range(2)] + [
        rng.exponential(size=(experts, n))
    ]
    unrest = unrest_of(rng, n)
    rates, trends = rng.random((experts, 1)), np.array([[0.0], [0.1], [0.0], [0.1]])
    state = [rng.normal(size=(experts, n)), rng.normal(size=(experts, n))]
    state += [rng.exponential(size=(experts, n)), rng.exponential(size=(2, n))]
    state += [rng.integers(0, 6, n).astype(float), rng.integers(0, 20, n).astype(float)]
    cycle = rng.normal(size=(experts, n, 3))
    given = values, compared, base
    rest = rates, trends, 10, 0.9, 0.3
    expected = twins.learn_levels(*given, habits, *rest, cycle, 2, kind, 3.7, unrest, 3, *state)
    learn_levels(
        *given, Habits(*habits), *rest, Cycle(cycle, 2, kind, 3.7), unrest, 3, Series(*state)
    )  # fmt: skip
    for found, wanted in zip([cycle, *state, *habits, unrest], expected, strict=True):
        # Sums over times are added in another order.
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_series_are_judged_as_by_numpy(seed):
    rng = np.random.default_rng(seed)
    experts, n, more = 4, 23, seed % 3
    values = rng.normal(size=n + more) * 10.0 ** rng.integers(-3, 4, n + more)
    values[rng.random(n + more) < 0.2] = np.nan
    base = rng.normal(size=(experts, n))
    base[:, 5] = np.nan
    habits = Habits(*(rng.exponential(size=(experts, n)) for _ in range(3)))
    unrest = unrest_of(rng, n)
    errors = rng.integers(0, 3, (experts, n)).astype(float)  # often the same: the first counts
    spread = np.stack([rng.exponential(size=n), rng.uniform(0.0, 6.0, n)])
    spread[0, 7] = 0.0  # never moved
    seen, noise = rng.integers(0, 20, n).astype(float), np.where(rng.random(n) < 0.5, 0.5, 0.0)
    out = np.empty((3, n + more))
    given = values, base, habits, errors, spread, unrest, 1, seen, 4, noise
    total = judge_levels(*given, out)
    expected, whole = twins.judge_levels(*given)
    np.testing.assert_allclose(out, expected, rtol=1e-12)
    assert total == pytest.approx(whole, rel=1e-12)
