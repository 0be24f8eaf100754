"""CP-ALS against pyttb, TensorLy, normal equations and known truth."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.errors import DataError
from onlinegcp.kernels.static.mttkrp import khatri_rao
from onlinegcp.ktensor import KTensor
from onlinegcp.slices import Slice
from onlinegcp.static.cp_als import cp_als

SHAPES = [(7, 6, 5), (11, 8), (4, 1, 6), (5, 4, 3, 4), (1, 7, 7)]


def random_model(shape, rank, seed=0):
    rng = np.random.default_rng(seed)
    return KTensor(rng.uniform(1, 3, rank), [rng.normal(size=(n, rank)) for n in shape])


def noisy_tensor(shape, rank, noise=0.1, seed=0):
    array = random_model(shape, rank, seed).full()
    rng = np.random.default_rng(seed + 1)
    return array + noise * array.std() * rng.normal(size=shape)


def as_sparse(array):
    index = np.argwhere(array)
    return Slice(index, array[tuple(index.T)], array.shape)


def with_holes(array, share, seed=5):
    holes = np.random.default_rng(seed).random(array.shape) < share
    return np.where(holes, np.nan, array)


def mode_residual(x, model, mode):
    """Unfolded observed residual times the Khatri-Rao product of the other factors."""
    residual = np.where(np.isnan(x), 0.0, x - model.full())
    unfolded = np.moveaxis(residual, mode, 0).reshape(x.shape[mode], -1)
    others = [a for j, a in enumerate(model.factors) if j != mode]
    return unfolded @ khatri_rao(others, model.rank)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sparse_and_dense_agree(shape):
    array = noisy_tensor(shape, 3)
    array[np.abs(array) < 0.7] = 0.0
    start = random_model(shape, 3, seed=9)
    dense = cp_als(array, 3, init=start, max_iterations=15, tolerance=0)
    sparse = cp_als(as_sparse(array), 3, init=start, max_iterations=15, tolerance=0)
    np.testing.assert_allclose(sparse.trace, dense.trace, rtol=1e-7, atol=1e-11)
    assert dense.fit == pytest.approx(sparse.fit, abs=1e-7)


@pytest.mark.slow  # importing pyttb takes most of it
@pytest.mark.parametrize("sparse", [False, True])
def test_fit_equals_pyttb_from_the_same_start(sparse):
    pyttb = pytest.importorskip("pyttb")
    array = noisy_tensor((9, 8, 7), 3)
    if sparse:
        array[np.abs(array) < 1.0] = 0.0
    start = random_model(array.shape, 3, seed=4)
    theirs = pyttb.tensor(array)
    if sparse:
        theirs = theirs.to_sptensor()
    first = pyttb.ktensor([a.copy() for a in start.factors], np.ones(3))
    first.redistribute(0)
    _, _, output = pyttb.cp_als(
        theirs, 3, init=first, maxiters=20, stoptol=0.0, printitn=0, dimorder=np.arange(3)
    )
    start = KTensor(None, first.factor_matrices)
    ours = cp_als(
        as_sparse(array) if sparse else array, 3, init=start, max_iterations=20, tolerance=0
    )
    assert ours.fit == pytest.approx(output["fit"], abs=1e-8)


def test_fit_equals_tensorly_from_the_same_start():
    decomposition = pytest.importorskip("tensorly.decomposition")
    array = noisy_tensor((9, 8, 7), 3)
    start = random_model(array.shape, 3, seed=4)
    _, errors = decomposition.parafac(
        array,
        3,
        n_iter_max=20,
        init=(np.ones(3), [a.copy() for a in start.factors]),
        tol=0,
        return_errors=True,
    )
    ours = cp_als(array, 3, init=KTensor(None, start.factors), max_iterations=20, tolerance=0)
    assert ours.fit == pytest.approx(1.0 - float(errors[-1]), abs=1e-8)


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_residual_is_orthogonal_after_the_last_mode(shape, share):
    x = with_holes(noisy_tensor(shape, 2), share)
    model = cp_als(x, 2, max_iterations=3, tolerance=0).ktensor
    size = np.sqrt(np.nansum(x**2))
    assert np.abs(mode_residual(x, model, len(shape) - 1)).max() < 1e-9 * size


@pytest.mark.parametrize("ridge", [0.0, 0.5])
@pytest.mark.parametrize("share", [0.0, 0.4])
def test_objective_never_rises_and_is_what_it_says(share, ridge):
    x = with_holes(noisy_tensor((8, 7, 6), 4), share)
    fit = cp_als(x, 4, max_iterations=40, tolerance=0, ridge=ridge, seed=3)
    assert (np.diff(fit.trace) <= 1e-10 * fit.trace[0]).all()
    error = np.nansum((x - fit.ktensor.full()) ** 2)
    if ridge == 0.0:
        assert fit.objective == pytest.approx(error, rel=1e-9)
    else:
        # At the best scaling all modes of a component have the same length.
        penalty = 3 * ridge * np.sum(np.abs(fit.ktensor.weights) ** (2 / 3))
        assert fit.objective == pytest.approx(error + penalty, rel=1e-9)
    assert fit.fit == pytest.approx(1 - np.sqrt(error / np.nansum(x**2)), abs=1e-9)


@pytest.mark.parametrize("kind", ["dense", "sparse", "missing"])
def test_noiseless_tensor_is_recovered_from_a_good_start(kind):
    truth = random_model((10, 9, 8), 3)
    rng = np.random.default_rng(1)
    near = KTensor(truth.weights, [a + 0.1 * rng.normal(size=a.shape) for a in truth.factors])
    array = truth.full()
    x = {"dense": array, "sparse": as_sparse(array), "missing": with_holes(array, 0.4)}[kind]
    fit = cp_als(x, 3, init=near, max_iterations=300, tolerance=1e-15)
    assert fit.fit > 1 - 1e-6
    assert float(fit.ktensor.score(truth)) > 1 - 1e-6


def test_missing_cells_are_not_zeros_but_unlisted_zeros_are():
    truth = random_model((6, 5, 4), 1)
    array = truth.full()
    holes = with_holes(array, 0.3)
    seen = ~np.isnan(holes)
    index = np.argwhere(seen)
    listed = Slice(index, array[seen], array.shape, unlisted="missing")
    for x in (holes, listed):
        fit = cp_als(x, 1, max_iterations=200, tolerance=1e-14)
        np.testing.assert_allclose(fit.ktensor.full(), array, rtol=1e-5, atol=1e-6)
    zeros = cp_als(Slice(index, array[seen], array.shape), 1)
    dense = cp_als(np.where(seen, array, 0.0), 1)
    assert zeros.objective == pytest.approx(dense.objective, rel=1e-8)


def test_complete_list_of_observed_cells_equals_the_dense_array():
    array = noisy_tensor((5, 4, 3), 2)
    index = np.argwhere(np.ones(array.shape))
    listed = Slice(index, array.ravel(), array.shape, unlisted="missing")
    assert cp_als(listed, 2).objective == pytest.approx(cp_als(array, 2).objective, rel=1e-9)


def test_a_list_of_slices_is_stacked_with_time_last():
    array = noisy_tensor((5, 4, 6), 2)
    slices = [Slice.dense(array[..., t]) for t in range(6)]
    assert cp_als(slices, 2).ktensor.shape == (5, 4, 6)
    assert cp_als(slices, 2).objective == pytest.approx(cp_als(array, 2).objective, rel=1e-12)


def test_one_way_tensor_is_its_own_model():
    x = np.array([1.0, -2.0, 0.0, 4.0])
    np.testing.assert_allclose(cp_als(x, 1).ktensor.full(), x, atol=1e-12)
    np.testing.assert_allclose(cp_als(as_sparse(x), 1).ktensor.full(), x, atol=1e-12)
    holes = np.array([1.0, np.nan, 3.0])
    np.testing.assert_allclose(cp_als(holes, 1).ktensor.full(), [1.0, 0.0, 3.0], atol=1e-9)


def test_matrix_fit_reaches_the_singular_value_bound():
    x = noisy_tensor((12, 9), 5, noise=1.0)
    tail = np.sum(np.linalg.svd(x, compute_uv=False)[3:] ** 2)
    fit = cp_als(x, 3, max_iterations=2000, tolerance=1e-13)
    assert fit.objective == pytest.approx(tail, rel=1e-6)


def test_redundant_components_do_no_harm():
    truth = random_model((6, 5, 4), 1)
    start = random_model(truth.shape, 3, seed=2)
    doubled = KTensor(None, [np.repeat(a[:, :1], 3, axis=1) for a in start.factors])
    for x in (truth.full(), as_sparse(truth.full()), with_holes(truth.full(), 0.2)):
        fit = cp_als(x, 3, init=doubled, max_iterations=100, tolerance=1e-12)
        assert np.isfinite(fit.ktensor.weights).all()
        assert fit.fit > 0.999


def test_result_is_normalised_sorted_and_describes_the_run():
    seen = []
    fit = cp_als(noisy_tensor((6, 5, 4), 3), 3, max_iterations=7, tolerance=0, progress=seen.append)
    for a in fit.ktensor.factors:
        np.testing.assert_allclose(np.linalg.norm(a, axis=0), 1.0)
    assert (np.diff(np.abs(fit.ktensor.weights)) <= 0).all()
    assert [p.iteration for p in seen] == list(range(1, 8))
    assert [p.objective for p in seen] == fit.trace
    assert fit.iterations == 7
    assert not fit.converged
    assert "all 7 sweeps" in fit.message
    assert fit.seconds > 0


def test_solve_stops_when_the_fit_stands_still():
    fit = cp_als(noisy_tensor((6, 5, 4), 2), 2, max_iterations=500)
    assert fit.converged
    assert fit.iterations < 500


@pytest.mark.parametrize("kind", ["dense", "sparse", "missing"])
def test_seeds_repeat_and_threads_do_not_matter(kind):
    array = noisy_tensor((50, 40, 30), 2)
    x = {"dense": array, "sparse": as_sparse(array), "missing": with_holes(array, 0.3)}[kind]
    first = cp_als(x, 3, max_iterations=3, seed=1)
    again = cp_als(x, 3, max_iterations=3, seed=1, n_jobs=2)
    other = cp_als(x, 3, max_iterations=3, seed=2)
    np.testing.assert_array_equal(first.trace, again.trace)
    for a, b in zip(first.ktensor.factors, again.ktensor.factors, strict=True):
        np.testing.assert_array_equal(a, b)
    assert first.objective != other.objective


def test_more_starts_are_never_worse():
    x = noisy_tensor((7, 6, 5), 4, noise=0.5)
    objectives = [cp_als(x, 4, n_starts=n, max_iterations=20).objective for n in (1, 3, 6)]
    assert objectives[0] >= objectives[1] >= objectives[2]


def test_init_and_data_are_never_changed():
    array = noisy_tensor((6, 5, 4), 2)
    start = random_model(array.shape, 2)
    copies = [a.copy() for a in start.factors]
    before = array.copy()
    cp_als(array, 2, init=start)
    np.testing.assert_array_equal(array, before)
    for a, b in zip(start.factors, copies, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 0}, "rank must be a whole number"),
        ({"rank": 2.5}, "rank must be a whole number"),
        ({"rank": "two"}, "rank must be a whole number"),
        ({"rank": 1000}, "rank must be at most 12"),
        ({"rank": 2, "init": random_model((3, 4, 5), 3)}, "init must have shape"),
        ({"rank": 2, "init": random_model((3, 4, 6), 2)}, "init must have shape"),
        ({"rank": 2, "init": [np.ones((3, 2))]}, "init must be a KTensor"),
        ({"rank": 2, "max_iterations": 0}, "max_iterations must be"),
        ({"rank": 2, "max_iterations": True}, "max_iterations must be"),
        ({"rank": 2, "tolerance": -1.0}, "tolerance must be"),
        ({"rank": 2, "tolerance": float("nan")}, "tolerance must be"),
        ({"rank": 2, "ridge": -1.0}, "ridge must be"),
        ({"rank": 2, "n_jobs": 0}, "n_jobs must be"),
        ({"rank": 2, "n_starts": 0}, "n_starts must be"),
    ],
    ids=str,
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(DataError, match=message):
        cp_als(noisy_tensor((3, 4, 5), 2), **options)


@pytest.mark.parametrize("x", [np.zeros((3, 2)), Slice([], [], (3, 4)), np.full((2, 2), np.nan)])
def test_a_tensor_of_zeros_is_refused(x):
    with pytest.raises(DataError, match="needs data other than zero"):
        cp_als(x, 1)
