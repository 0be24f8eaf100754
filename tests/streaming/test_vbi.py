"""VBI against its authors' numbers, and on slices with planted outliers."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.errors import DataError
from onlinegcp.ktensor import KTensor
from onlinegcp.slices import Slice
from onlinegcp.streaming import VBI
from reference_outputs import gap, stored


@pytest.mark.parametrize("kind", ["full", "masked"])
def test_the_authors_numbers_after_every_slice(kind):
    theirs = stored("vbi")
    seen = theirs["W"] > 0 if kind == "masked" else np.ones_like(theirs["W"], dtype=bool)
    model = VBI(5, forget=0.9, window=5, clean_first=False, fill="authors")
    for t in range(6):
        model.partial_fit(Slice.dense(np.where(seen, theirs["X"], np.nan)[..., t]))
        if t:
            name = f"{kind}_t{t + 1}"
            factors = theirs[f"{name}_A"], theirs[f"{name}_B"]
            assert gap(model, factors, theirs[f"{name}_s"].ravel()) < 1e-9
            np.testing.assert_allclose(model.outliers_, theirs[f"{name}_E"], rtol=1e-8, atol=1e-9)


def stream(missing=0.0, n=14, seed=0):
    rng = np.random.default_rng(seed)
    factors = [rng.normal(size=(k, 3)) for k in (40, 30)]
    for _ in range(n):
        clean = KTensor(rng.normal(size=3), factors).full()
        x = clean + 0.1 * rng.normal(size=clean.shape)
        outlying = rng.random(clean.shape) < 0.02
        x[outlying] += 10.0 * rng.choice([-1.0, 1.0], outlying.sum())
        x[rng.random(clean.shape) < missing] = np.nan
        yield x, clean, outlying & ~np.isnan(x)


@pytest.mark.slow
@pytest.mark.parametrize("missing", [0.0, 0.5])
def test_outliers_rank_and_truth_are_found(missing):
    model = VBI(5, window=8)
    slices = list(stream(missing))
    for x, _, _ in slices:
        model.partial_fit(Slice.dense(x))
    x, clean, outlying = slices[-1]
    assert model.n_relevant_ == 3
    found = np.abs(model.outliers_) > 5.0
    assert np.mean(found[outlying]) > 0.9
    assert np.mean(found[~outlying]) < 0.01
    error = np.linalg.norm(model.to_ktensor().full() - clean) / np.linalg.norm(clean)
    assert error < 0.15
    # Weighing without learning sees past the outliers, too.
    filled = model.inverse_transform(model.transform(Slice.dense(x)))
    assert np.linalg.norm(filled - clean) < 0.2 * np.linalg.norm(clean)


def test_a_slice_that_the_outliers_absorb_leaves_the_factors_alone():
    slices = [x for x, _, _ in stream(n=4)]
    model = VBI(3, window=3)
    for x in slices:
        model.partial_fit(Slice.dense(x))
    before = model.factors_
    spikes = np.zeros((40, 30))
    spikes[3, 4], spikes[20, 7] = 50.0, -40.0
    model.partial_fit(Slice.dense(spikes))
    assert all(np.all(np.isfinite(a)) for a in model.factors_)
    filled = model.to_ktensor().full()
    assert np.linalg.norm(filled) < 0.5 * np.linalg.norm(spikes)
    for x in slices:
        model.partial_fit(Slice.dense(x))
    assert np.linalg.norm(model.factors_[0]) > 0.1 * np.linalg.norm(before[0])


@pytest.mark.parametrize(
    ("options", "word"),
    [({"window": 0}, "window"), ({"fill": "zero"}, "fill"), ({"forget": 0}, "forget")],
)
def test_options_out_of_range_are_refused(options, word):
    with pytest.raises(DataError, match=word):
        VBI(2, **options).partial_fit(Slice.dense(np.ones((3, 4))))
