"""SamBaTen on planted streams: sampled rows tell the weights, memory stays what it is."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.errors import DataError
from onlinegcp.evaluate import factor_match
from onlinegcp.ktensor import KTensor
from onlinegcp.slices import Slice
from onlinegcp.static.cp_als import cp_als
from onlinegcp.streaming import SamBaTen


def stream(n=50, noise=0.0, seed=0, density=1.0):
    rng = np.random.default_rng(seed)
    factors = [rng.normal(size=(k, 3)) * (rng.random((k, 1)) < density) for k in (40, 30)]
    for _ in range(n):
        clean = KTensor(rng.normal(size=3), factors).full()
        yield clean + noise * rng.normal(size=clean.shape), clean, factors


@pytest.mark.parametrize("sampling", [1.0, 2.0, 4.0])
def test_weights_of_new_slices_come_from_the_samples(sampling):
    model = SamBaTen(3, batch=5, sampling=sampling)
    errors = []
    for t, (x, clean, _) in enumerate(stream(noise=0.1)):
        model.partial_fit(Slice.dense(x))
        if t >= 10 and model.n_waiting_ == 0:
            shown = model.to_ktensor().full()
            errors.append(np.linalg.norm(shown - clean) / np.linalg.norm(clean))
    assert np.mean(errors) < 0.05
    assert factor_match(model.factors_, next(stream())[2]) > 0.999


def test_without_sampling_a_batch_is_cp_als_of_all_that_is_kept():
    """All rows, one repetition, a summary that holds everything (methods.md 2.8)."""
    data = [x for x, _, _ in stream(15, noise=0.3)]
    model = SamBaTen(
        3, batch=5, sampling=1.0, repetitions=1, adapt=1.0, summary=30, tolerance=1e-12,
        max_passes=2000,
    ).fit([Slice.dense(x) for x in data])  # fmt: skip
    whole = cp_als(np.stack(data, axis=-1), 3, n_starts=3, tolerance=1e-12, max_iterations=2000)
    *factors, rows = whole.ktensor.factors
    expected = KTensor(rows[-1] * whole.ktensor.weights, factors).full()
    np.testing.assert_allclose(model.to_ktensor().full(), expected, rtol=1e-3, atol=1e-3)


def test_the_summary_is_bounded_and_prefers_loud_slices():
    rng = np.random.default_rng(0)
    model = SamBaTen(1, batch=1, summary=6, init_slices=3)
    for t in range(60):
        size = 100.0 if t % 10 == 0 else 1.0
        model.partial_fit(Slice.dense(size * np.outer(np.ones(5), 1 + rng.random(4)), time=t))
        assert t < 3 or len(model.get_state()["state"].slices) <= 6
    kept = [x.time for x in model.get_state()["state"].slices]
    assert sum(t % 10 == 0 for t in kept) >= 5


def test_forgetting_keeps_recent_slices():
    model = SamBaTen(1, batch=1, summary=6, forget=0.5, init_slices=3)
    for t in range(60):
        model.partial_fit(Slice.dense(np.outer(np.ones(5), np.arange(1.0, 5.0)), time=t))
    assert min(x.time for x in model.get_state()["state"].slices) > 40


def test_new_rows_are_filled_in_and_old_ones_kept():
    rng = np.random.default_rng(0)
    factors = [rng.random((n, 2)) for n in (12, 10)]
    model = SamBaTen(2, batch=4, init_slices=6, sampling=1.0)
    for t in range(22):
        n = 8 if t < 14 else 12
        model.partial_fit(Slice.dense(factors[0][:n] * rng.random(2) @ factors[1].T))
        if t == 13:
            before = factor_match(model.factors_, [factors[0][:8], factors[1]])
    assert before > 0.9999
    assert factor_match(model.factors_, factors) > 0.99


def test_sparse_slices_are_sampled_as_dense_ones():
    data = [x for x, _, _ in stream(20, density=0.5)]
    dense = SamBaTen(3, batch=5).fit([Slice.dense(x) for x in data])
    sparse = SamBaTen(3, batch=5).fit([
        Slice(np.argwhere(x), x[x != 0], x.shape) for x in data
    ])  # fmt: skip
    np.testing.assert_allclose(
        dense.to_ktensor().full(), sparse.to_ktensor().full(), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize(
    ("options", "word"),
    [({"sampling": 0.5}, "sampling"), ({"adapt": 2.0}, "adapt"), ({"summary": 0}, "summary")],
)
def test_options_out_of_range_are_refused(options, word):
    with pytest.raises(DataError, match=word):
        SamBaTen(2, **options).partial_fit(Slice.dense(np.ones((3, 4))))
