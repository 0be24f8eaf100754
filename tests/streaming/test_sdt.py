"""SDT against its authors' numbers, an explicit window, and their demo, where it diverges, too."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from drifting_stream import demo_error
from onlinegcp.errors import DataError, DivergenceWarning
from onlinegcp.ktensor import KTensor
from onlinegcp.slices import Slice
from onlinegcp.streaming import SDT
from reference_outputs import gap, stored


def test_authors_numbers_after_every_slice():
    given, theirs = stored("inputs"), stored("sdt")
    slices = [Slice.dense(np.ascontiguousarray(given["Xd"][:, :, t])) for t in range(30)]
    init = KTensor(None, [given["Ainit"], given["Binit"], theirs["B0s"]])
    model = SDT(3, forget=0.9, window=8).start_from(init, slices[:10])
    for t, x in enumerate(slices[10:]):
        model.partial_fit(x)
        factors = [theirs[f"sdt_90_{mode}"][:, :, t] for mode in "AB"]
        assert gap(model, factors, theirs["sdt_90_b"][t]) < 1e-9


@pytest.mark.parametrize("forget", [0.9, 1.0])
@pytest.mark.parametrize("shape", [(9,), (6, 5), (4, 3, 5)])
def test_a_stream_without_noise_stays_exact(shape, forget):
    rng = np.random.default_rng(0)
    factors = [rng.normal(size=(k, 3)) for k in shape]
    rows = rng.normal(size=(40, 3))
    slices = [Slice.dense(KTensor(row, factors).full()) for row in rows]
    model = SDT(3, forget=forget, window=7).start_from(
        KTensor(None, [*factors, rows[:10]]), slices[:10]
    )
    for x in slices[10:]:
        model.partial_fit(x)
        assert model.last_.local < 1e-18 * x.norm_squared
    # The window is what a decomposition of the explicit one gives.
    arrays = model.get_state()["state"].arrays
    fade = forget ** (np.arange(6, -1, -1) / 2)
    window = fade[:, None] * np.array([x.to_dense().reshape(-1) for x in slices[-7:]])
    found = arrays["right"] @ arrays["middle"].T @ arrays["left"].T
    np.testing.assert_allclose(found, window, atol=1e-9 * np.abs(window).max())


def test_windows_that_do_not_show_all_components_are_survived():
    rng = np.random.default_rng(0)
    factors = [rng.normal(size=(k, 2)) for k in (6, 5)]
    slices = [Slice.dense(KTensor(rng.normal(size=2), factors).full()) for _ in range(30)]
    nothing = Slice.dense(np.zeros((6, 5)))
    alone = Slice.dense(KTensor([1.0, 0.0], factors).full())
    for pause in ([nothing] * 15, [alone] * 15):
        model = SDT(2, window=5, init=KTensor(None, factors))
        model.partial_fit([*slices[:15], *pause, *slices[15:]])
        assert all(np.all(np.isfinite(a)) for a in (model.weights_, *model.factors_))
        assert model.last_.local < 1e-6 * model.last_.norm_squared


def test_a_window_must_be_longer_than_the_rank():
    with pytest.raises(DataError, match="window must be larger than rank, 5, but is 5"):
        SDT(5, window=5).partial_fit([np.ones((6, 5))])


def test_divergence_is_told_once():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = SDT(8, window=10)
        assert demo_error(model, 0.1, seed=3) > 1.0
        assert [w.category for w in caught] == [DivergenceWarning]
        message = str(caught[0].message)
        assert "worse than zeros" in message
        assert "RLST" in message
        # Also by a model that was stored and goes on.
        again = SDT(8, window=10).set_state(model.get_state())
        again.partial_fit([np.ones((20, 20))])
        assert len(caught) == 1


@pytest.mark.slow
def test_demo_of_the_authors_at_slow_drift():
    errors = [demo_error(SDT(8, window=10), 1e-3, seed=seed) for seed in (21, 22, 23)]
    assert np.mean(errors) <= 0.005
