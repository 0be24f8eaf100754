"""ACP and ROLCP against their authors' numbers, an explicit recursion, and the authors' demo."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.errors import DataError
from onlinegcp.ktensor import KTensor
from onlinegcp.slices import Slice
from onlinegcp.streaming import ACP
from reference_outputs import gap, stored


@pytest.mark.parametrize(
    ("name", "options", "first"),
    [
        ("acp_d2_full", {"regressors": "data"}, 0),
        ("acp_d2_masked0", {"regressors": "data"}, 0),
        ("rolcp", {"variant": "rolcp"}, 1),  # their code stores nothing after the first slice
    ],
)
def test_authors_numbers_after_every_slice(name, options, first):
    given, theirs = stored("inputs"), stored("acp_rolcp")
    data = given["X"]
    if "masked" in name:
        data = np.where(given["W"] > 0, data, np.nan)
    model = ACP(3, init=KTensor(None, [given["A0"], given["B0"]]), **options)
    for t in range(data.shape[-1]):
        model.partial_fit(Slice.dense(np.ascontiguousarray(data[:, :, t])))
        factors = [theirs[f"{name}_{mode}"][:, :, t] for mode in "AB"]
        if t >= first:
            assert gap(model, factors, theirs[f"{name}_C"][t]) < 1e-9


def unfold(array, mode):
    return np.moveaxis(array, mode, 0).reshape(array.shape[mode], -1)


def explicit(arrays, init, variant, regressors, forget, damping):
    """The published recursion with whole matrices W_k."""
    rank, factors = init.rank, list(init.factors)
    past = [damping * np.eye(rank) for _ in factors]
    for x in arrays:
        there = ~np.isnan(x)
        cells = np.argwhere(there)
        z = np.prod([a[cells[:, k]] for k, a in enumerate(factors)], axis=0)
        s = np.linalg.lstsq(z, x[there], rcond=None)[0]
        seen = list(factors)
        for k in range(x.ndim):
            old = seen if variant == "acp" else factors
            error = np.where(there, x - KTensor(s, old).full(), 0.0)
            others = [a if j != k else np.ones((1, rank)) for j, a in enumerate(old)]
            w = np.array(
                [unfold(KTensor(np.eye(rank)[r] * s, others).full(), k)[0] for r in range(rank)]
            )
            share = there.mean()
            if regressors == "data":
                w = np.linalg.pinv(old[k]) @ unfold(np.where(there, x, 0.0), k)
                share = 1.0
            square = share * w @ w.T
            past[k] = (
                forget * past[k] + square if variant == "acp" else square + damping * np.eye(rank)
            )
            factors[k] = old[k] + unfold(error, k) @ w.T @ np.linalg.inv(past[k])
    return KTensor(s, factors).full()


@pytest.mark.parametrize("shape", [(25,), (6, 5), (4, 3, 5)])
@pytest.mark.parametrize("share", [0.3, 0.6, 1.1])
@pytest.mark.parametrize(
    ("variant", "regressors"), [("acp", "model"), ("acp", "data"), ("rolcp", "model")]
)
def test_any_number_of_modes_follows_the_explicit_recursion(shape, share, variant, regressors):
    rng = np.random.default_rng(0)
    truth = [rng.normal(size=(k, 2)) for k in shape]
    init = KTensor(None, [rng.normal(size=(k, 2)) for k in shape])
    arrays = []
    for _ in range(8):
        x = KTensor(rng.normal(size=2), truth).full() + 0.1 * rng.normal(size=shape)
        arrays.append(np.where(rng.random(shape) < share, x, np.nan))
    model = ACP(
        2, forget=0.7, variant=variant, regressors=regressors, damping=5.0, init=init
    ).partial_fit([Slice.dense(x) for x in arrays])
    expected = explicit(arrays, init, variant, regressors, 0.7, 5.0)
    np.testing.assert_allclose(model.to_ktensor().full(), expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("shape", [(25,), (6, 5), (4, 3, 2, 5)])
@pytest.mark.parametrize("share", [0.3, 0.8])
@pytest.mark.parametrize("variant", ["acp", "rolcp"])
def test_zeros_beside_a_list_are_cells_like_others(shape, share, variant):
    rng = np.random.default_rng(1)
    init = KTensor(None, [rng.normal(size=(k, 2)) for k in shape])
    arrays = [rng.normal(size=shape) * (rng.random(shape) < share) for _ in range(6)]
    listed = [Slice(np.argwhere(x), x[x != 0.0], shape) for x in arrays]
    model = ACP(2, forget=0.7, variant=variant, damping=5.0, init=init).partial_fit(listed)
    expected = explicit(arrays, init, variant, "model", 0.7, 5.0)
    np.testing.assert_allclose(model.to_ktensor().full(), expected, rtol=1e-8, atol=1e-8)
    error = ((arrays[-1] - model.to_ktensor().full()) ** 2).sum()
    np.testing.assert_allclose(model.last_.local, error, rtol=1e-8)


def test_weights_may_come_from_a_sample_that_is_the_same_every_time():
    rng = np.random.default_rng(0)
    factors = [rng.normal(size=(k, 2)) for k in (30, 20)]
    x = KTensor([1.0, -2.0], factors).full() + 0.1 * rng.normal(size=(30, 20))
    x = Slice.dense(np.where(rng.random(x.shape) < 0.5, x, np.nan))
    init = KTensor(None, factors)
    whole = ACP(2, init=init).partial_fit(x).weights_
    few, again, other = (
        ACP(2, samples=60, random_state=seed, init=init).partial_fit(x).weights_
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(few, again)
    assert not np.allclose(few, other, atol=1e-9)
    assert 0.0 < np.abs(few - whole).max() < 0.2
    np.testing.assert_array_equal(ACP(2, samples=600, init=init).partial_fit(x).weights_, whole)


def test_options_out_of_range_are_refused():
    for option, value in (
        ("forget", 0.0), ("variant", "racp"), ("damping", 0.0), ("regressors", "none"),
        ("samples", 0),
    ):  # fmt: skip
        with pytest.raises(DataError, match=option):
            ACP(2, **{option: value}).partial_fit([np.ones((4, 3))])
    huge = Slice([[0, 0]], [1.0], (10**5, 10**5))
    with pytest.raises(DataError, match="ACP may hold"):
        ACP(2, regressors="data").partial_fit(huge)


@pytest.mark.slow
@pytest.mark.parametrize("observed", [0.9, 0.5])
@pytest.mark.parametrize("seed", [31, 32])
def test_demo_of_the_authors(observed, seed):
    """20^3 x 1000, rank 2, everything new at slice 600: error at most 0.002 before and after."""
    rng = np.random.default_rng(seed)
    shape = (20, 20, 20)
    factors = [rng.normal(size=(20, 2)) for _ in shape]
    model = ACP(2, init=KTensor(None, [rng.normal(size=(20, 2)) for _ in shape]))
    errors = []
    for t in range(1000):
        if t == 600:
            factors = [rng.normal(size=(20, 2)) for _ in shape]
        factors = [a + 1e-3 * rng.normal(size=a.shape) for a in factors]
        x = KTensor(rng.normal(size=2), factors).full()
        noisy = x + 1e-3 * rng.normal(size=shape)
        model.partial_fit(Slice.dense(np.where(rng.random(shape) < observed, noisy, np.nan)))
        errors.append(np.linalg.norm(model.to_ktensor().full() - x) / np.linalg.norm(x))
    assert np.mean(errors[500:600]) <= 0.002
    assert np.mean(errors[900:]) <= 0.002
