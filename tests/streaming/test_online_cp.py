"""OnlineCP against the normal equations of the whole tensor, and on streams without noise."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.errors import DataError
from onlinegcp.ktensor import KTensor
from onlinegcp.slices import Slice
from onlinegcp.solvers.least_squares import solve_weights
from onlinegcp.streaming import OnlineCP
from reference_outputs import gap, stored

SHAPE, RANK, WARM = (6, 5, 4), 2, 7


def noisy_stream(n=WARM + 1, noise=0.1, seed=0):
    rng = np.random.default_rng(seed)
    factors = [rng.normal(size=(k, RANK)) for k in SHAPE]
    return [
        KTensor(rng.normal(size=RANK), factors).full() + noise * rng.normal(size=SHAPE)
        for _ in range(n)
    ]


def whole_tensor_update(tensor, factors, rows, mode):
    """Best rows of one mode for the tensor with time last, everything else held fixed."""
    others = [a for j, a in enumerate(factors) if j != mode] + [rows]
    design = np.stack(
        [KTensor(np.eye(RANK)[r], others).full().reshape(-1) for r in range(RANK)], axis=1
    )
    target = np.moveaxis(tensor, mode, 0).reshape(tensor.shape[mode], -1)
    return np.linalg.lstsq(design, target.T, rcond=None)[0].T


@pytest.mark.parametrize("order", ["jacobi", "gauss_seidel"])
def test_first_step_solves_the_concatenated_tensor(order):
    """methods.md 2.5: the temporal rows of the warm start and the other factors held fixed.

    In the Gauss-Seidel order the old part was multiplied with the old factors, so that only the
    first mode has this property.
    """
    data = noisy_stream()
    model = OnlineCP(RANK, order=order, init_slices=WARM)
    model.partial_fit([Slice.dense(x) for x in data[:WARM]])
    before = model.factors_
    past = model.transform([Slice.dense(x) for x in data[:WARM]])
    model.partial_fit(Slice.dense(data[WARM]))
    # The warm start is a minimum, where its rows are what a solve with its factors gives.
    rows = np.vstack([past, solve_weights(Slice.dense(data[WARM]), before)])
    tensor = np.stack(data, axis=-1)
    for mode in range(3 if order == "jacobi" else 1):
        expected = whole_tensor_update(tensor, before, rows, mode)
        np.testing.assert_allclose(model.factors_[mode], expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("order", ["jacobi", "gauss_seidel"])
def test_a_given_start_and_one_slice_are_exact_normal_equations(order):
    """With P = A Q for the given rows, the update is that of the model's own tensor and x."""
    rng = np.random.default_rng(1)
    factors = [rng.normal(size=(k, RANK)) for k in SHAPE]
    factors = [a / np.linalg.norm(a, axis=0) for a in factors]
    rows = rng.normal(size=(5, RANK))
    x = rng.normal(size=SHAPE)
    model = OnlineCP(RANK, order=order, init=KTensor(None, [*factors, rows]))
    model.partial_fit(Slice.dense(x))
    s = solve_weights(Slice.dense(x), factors)
    past = [KTensor(row, factors).full() for row in rows]
    expected = whole_tensor_update(np.stack([*past, x], axis=-1), factors, np.vstack([rows, s]), 0)
    np.testing.assert_allclose(model.factors_[0], expected, rtol=1e-8)


@pytest.mark.parametrize("order", ["jacobi", "gauss_seidel"])
@pytest.mark.parametrize("forget", [1.0, 0.8])
def test_streams_without_noise_stay_exact(order, forget):
    data = noisy_stream(n=20, noise=0.0, seed=2)
    model = OnlineCP(RANK, order=order, forget=forget, init_slices=6)
    for x in data:
        model.partial_fit(Slice.dense(x))
        if model.last_ is not None:
            assert model.last_.prequential < 1e-6 * np.sum(x**2)


def test_sparse_and_dense_slices_give_the_same_model():
    data = [np.where(np.abs(x) > 0.5, x, 0.0) for x in noisy_stream(n=12, seed=3)]
    dense = OnlineCP(RANK, init_slices=5).fit([Slice.dense(x) for x in data])
    sparse = OnlineCP(RANK, init_slices=5).fit(
        [Slice(np.argwhere(x), x[x != 0], SHAPE) for x in data]
    )
    for a, b in zip(dense.factors_, sparse.factors_, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "word"), [({"order": "random"}, "order"), ({"forget": 0.0}, "forget")]
)
def test_options_out_of_range_are_refused(options, word):
    with pytest.raises(DataError, match=word):
        OnlineCP(RANK, **options).partial_fit(Slice.dense(np.ones(SHAPE)))


@pytest.mark.parametrize("case", ["d2_batch1", "d3"])
def test_the_authors_numbers_after_every_slice(case):
    given, theirs = stored("inputs"), stored("onlinecp")
    if case == "d3":
        data, start = given["X3"], [given[f"F30_{k}"] for k in (1, 2, 3)]
        names, rows = ["d3_A", "d3_B", "d3_D"], theirs["d3_C00"]
    else:
        data, start = given["X"], [given["A0"], given["B0"]]
        names, rows = [f"{case}_A", f"{case}_B"], theirs["d2_C00"]
    first = len(rows)
    model = OnlineCP(rows.shape[1], order="jacobi")
    model.start_from(KTensor(None, [*start, rows]), [data[..., t] for t in range(first)])
    for n, s in enumerate(theirs[f"{case}_S"]):
        model.partial_fit(data[..., first + n])
        assert gap(model, [theirs[name][..., n] for name in names], s) < 1e-9


@pytest.mark.parametrize("order", ["jacobi", "gauss_seidel"])
def test_a_batch_is_one_update_with_all_its_slices(order):
    """P and Q gain the terms of all slices, each weighed with the factors before the batch."""
    data = noisy_stream(WARM + 3)
    model = OnlineCP(RANK, order=order, batch=3, init_slices=WARM, forget=0.9)
    model.partial_fit([Slice.dense(x) for x in data[:WARM]])
    before, held = model.factors_, model.get_state()["state"].arrays
    rows = np.array([solve_weights(Slice.dense(x), before) for x in data[WARM:]])
    for x in data[WARM : WARM + 2]:
        model.partial_fit(Slice.dense(x))
        np.testing.assert_array_equal(model.factors_[0], before[0])
    model.partial_fit(Slice.dense(data[-1]))
    others = np.einsum("jr,kr->jkr", before[1], before[2])
    p = 0.9**3 * held["p0"]
    q = 0.9**3 * held["q0"]
    for x, s in zip(data[WARM:], rows, strict=True):
        p = p + np.einsum("ijk,jkr,r->ir", x, others, s)
        q = q + np.einsum("jkr,jks,r,s->rs", others, others, s, s)
    np.testing.assert_allclose(model.factors_[0], np.linalg.solve(q, p.T).T, rtol=1e-8)
    np.testing.assert_allclose(model.weights_, rows[-1], rtol=1e-9)
