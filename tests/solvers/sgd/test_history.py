"""The history terms against dense reconstructions, finite differences and counting."""

import numpy as np
import pytest

from onlinegcp.kernels import get_kernels
from onlinegcp.kernels.layout import stack_factors
from onlinegcp.slices import Slice
from onlinegcp.solvers.sgd.history import KINDS, History

KERNELS = ("reference", "cpu")


def history_value(folded, new, old, kernels="reference"):
    return get_kernels(kernels).history_value(stack_factors(new), stack_factors(old), folded)


def history_gradient(folded, new, old, mode, kernels):
    out = get_kernels(kernels).history_gradient(
        stack_factors(new), stack_factors(old), folded, (mode,)
    )
    return out.views()[mode]


def make(kind, rank=3, size=4, weight=2.0, decay=0.9):
    return History.empty(kind, rank, size=size, weight=weight, decay=decay)


def full(weights, factors):
    letters = "abcdef"[: len(factors)]
    return np.einsum("r," + ",".join(f"{c}r" for c in letters) + "->" + letters, weights, *factors)


def offer_all(history, rows, first=1, seed=0):
    for n, row in enumerate(rows, first):
        x = Slice([[0]], [float(n)], (2,)) if history.kind == "data" else None
        history = history.offer(row, n, x, seed=seed)
    return history


@pytest.mark.parametrize("kind", ["reservoir", "last", "exponential"])
@pytest.mark.parametrize("shape", [(4,), (3, 5), (2, 1, 7)])
def test_value_is_half_the_weighted_distance_between_dense_models(kind, shape):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(4, 3))
    history = offer_all(make(kind), rows)
    new = [rng.normal(size=(n, 3)) for n in shape]
    old = [rng.normal(size=(n, 3)) for n in shape]
    now = 7
    expected = sum(
        0.5 * 2.0 * 0.9 ** (now - h) * np.sum((full(s, old) - full(s, new)) ** 2)
        for h, s in enumerate(rows, 1)
    )
    assert history_value(history.fold(now), new, old) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("kernels", KERNELS)
def test_gradient_is_the_slope_of_the_value(kernels):
    rng = np.random.default_rng(1)
    folded = offer_all(make("last"), rng.normal(size=(6, 3))).fold(9)
    new = [rng.normal(size=(n, 3)) for n in (3, 5, 2)]
    old = [rng.normal(size=(n, 3)) for n in (3, 5, 2)]
    step = 1e-6
    for mode in range(3):
        gradient = history_gradient(folded, new, old, mode, kernels)
        for i, r in np.ndindex(*gradient.shape):
            up, down = [a.copy() for a in new], [a.copy() for a in new]
            up[mode][i, r] += step
            down[mode][i, r] -= step
            slope = (history_value(folded, up, old) - history_value(folded, down, old)) / (2 * step)
            assert gradient[i, r] == pytest.approx(slope, rel=1e-6, abs=1e-6)


def test_last_window_keeps_the_newest_rows_in_order():
    rows = np.arange(30.0).reshape(10, 3)
    history = offer_all(make("last"), rows)
    np.testing.assert_array_equal(history.rows, rows[-4:])
    np.testing.assert_array_equal(history.stamps, [7, 8, 9, 10])


def test_exponential_history_equals_a_window_that_never_loses_a_row():
    rows = np.random.default_rng(2).normal(size=(20, 3))
    window = offer_all(make("last", size=20), rows)
    np.testing.assert_allclose(
        offer_all(make("exponential"), rows).fold(25), window.fold(25), rtol=1e-12
    )


def test_reservoir_is_a_uniform_sample_of_all_rows_offered():
    """Each of 12 rows is kept in 4 of 12 runs; the number of runs that keep it is binomial."""
    n_runs, n_rows = 3000, 12
    counts = np.zeros(n_rows)
    pairs = 0
    for seed in range(n_runs):
        history = offer_all(make("reservoir", rank=1), np.zeros((n_rows, 1)), seed=seed)
        assert len(history.rows) == 4
        counts[history.stamps - 1] += 1
        pairs += 1 in history.stamps and n_rows in history.stamps
    p = 4 / n_rows
    assert np.all(np.abs(counts - n_runs * p) < 4 * np.sqrt(n_runs * p * (1 - p)))
    both = 4 * 3 / (n_rows * (n_rows - 1))
    assert abs(pairs - n_runs * both) < 4 * np.sqrt(n_runs * both * (1 - both))


@pytest.mark.parametrize("kind", KINDS)
def test_state_does_not_grow_with_the_stream(kind):
    history = offer_all(make(kind), np.ones((50, 3)))
    assert len(history.rows) <= 4
    assert len(history.slices) <= 4
    assert history.offered == 50


def test_data_history_keeps_slice_and_row_together():
    history = offer_all(make("data"), np.arange(18.0).reshape(6, 3))
    assert [x.value[0] for x in history.slices] == list(history.stamps)


@pytest.mark.parametrize("kind", ["none", "factors", "data"])
def test_kinds_without_a_matrix_fold_to_none(kind):
    assert offer_all(make(kind), np.ones((5, 3))).fold(6) is None


@pytest.mark.parametrize("kind", KINDS)
def test_state_round_trip(kind):
    history = offer_all(make(kind), np.random.default_rng(3).normal(size=(9, 3)))
    arrays, record = history.to_state()
    again = make(kind).from_state(arrays, record, history.slices)
    for before, after in zip(
        offer_all(history, np.ones((3, 3)), first=10).to_state()[0].values(),
        offer_all(again, np.ones((3, 3)), first=10).to_state()[0].values(),
        strict=True,
    ):
        np.testing.assert_array_equal(before, after)
