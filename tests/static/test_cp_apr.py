"""CP-APR: one KKT point for three methods and for pyttb, likelihood and totals."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from onlinegcp.errors import DataError
from onlinegcp.ktensor import KTensor
from onlinegcp.slices import Slice
from onlinegcp.static.cp_apr import cp_apr

METHODS = ["mu", "pdnr", "pqnr"]
SHAPE = (9, 8, 7)


def random_model(shape, rank, seed=0, total=800.0):
    rng = np.random.default_rng(seed)
    factors = [rng.gamma(0.5, size=(n, rank)) + 1e-3 for n in shape]
    weights = rng.dirichlet(np.full(rank, 5.0)) * total
    return KTensor(weights, [a / a.sum(axis=0) for a in factors])


def counts(shape=SHAPE, rank=3, seed=0):
    rng = np.random.default_rng(seed + 100)
    return rng.poisson(random_model(shape, rank, seed).full()).astype(float)


def start(shape=SHAPE, rank=3, seed=7):
    rng = np.random.default_rng(seed)
    return KTensor(None, [rng.uniform(0.1, 1.0, (n, rank)) for n in shape])


def as_sparse(array, unlisted="zero"):
    index = np.argwhere(array if unlisted == "zero" else ~np.isnan(array))
    return Slice(index, array[tuple(index.T)], array.shape, unlisted=unlisted)


def objective(x, model):
    m = np.maximum(model.full(), 1e-10)
    return np.nansum(m + 0.0 * x - x * np.log(m))


def violation(x, model):
    """Largest |min(b, slope)| over the rows b of every factor times the weights."""
    seen = ~np.isnan(x)
    residual = np.where(seen, 1.0 - np.where(seen, x, 0.0) / np.maximum(model.full(), 1e-10), 0.0)
    letters = "abcdef"[: x.ndim]
    worst = 0.0
    for mode in range(x.ndim):
        others = [j for j in range(x.ndim) if j != mode]
        terms = ",".join([letters, *(f"{letters[j]}z" for j in others)])
        slope = np.einsum(
            f"{terms}->{letters[mode]}z", residual, *(model.factors[j] for j in others)
        )
        b = model.factors[mode] * model.weights
        worst = max(worst, np.abs(np.minimum(b, slope)).max())
    return worst


@pytest.fixture(scope="module")
def solutions():
    x = counts()
    return x, {
        method: cp_apr(x, 3, method=method, init=start(), tolerance=1e-6, max_iterations=20_000)
        for method in METHODS
    }


@pytest.mark.slow
def test_three_methods_reach_the_same_kkt_point(solutions):
    x, fits = solutions
    for fit in fits.values():
        assert fit.converged
        assert fit.kkt <= 1e-6
        assert violation(x, fit.ktensor) <= 1e-5
        assert fit.objective == pytest.approx(fits["pdnr"].objective, rel=1e-9)
        assert float(fit.ktensor.score(fits["pdnr"].ktensor)) > 1 - 1e-3


@pytest.mark.slow
def test_totals_are_matched_at_the_solution(solutions):
    x, fits = solutions
    for fit in fits.values():
        assert fit.ktensor.weights.sum() == pytest.approx(x.sum(), rel=1e-6)
        for a in fit.ktensor.factors:
            np.testing.assert_allclose(a.sum(axis=0), 1.0)
            assert (a >= 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["mu", "pdnr"])
def test_solution_is_that_of_pyttb_from_the_same_start(solutions, method):
    pyttb = pytest.importorskip("pyttb")
    x, fits = solutions
    index = np.argwhere(x)
    first = pyttb.ktensor([a.copy() for a in start().factors])
    with warnings.catch_warnings():
        # pyttb takes the logarithm of zero in its line search, and recovers.
        warnings.simplefilter("ignore")
        theirs, _, output = pyttb.cp_apr(
            pyttb.sptensor(index, x[tuple(index.T)][:, None], x.shape),
            3,
            algorithm=method,
            init=first,
            stoptol=1e-5,
            maxiters=200,
            printitn=0,
        )
    ours = fits[method]
    assert ours.objective == pytest.approx(-output["obj"], rel=1e-6 if method == "pdnr" else 1e-4)
    model = KTensor(theirs.weights, theirs.factor_matrices)
    assert float(ours.ktensor.score(model)) > 0.999


@pytest.mark.slow
def test_first_multiplicative_pass_is_that_of_pyttb():
    pyttb = pytest.importorskip("pyttb")
    x = counts()
    first = pyttb.ktensor([a.copy() for a in start().factors])
    theirs, _, output = pyttb.cp_apr(pyttb.tensor(x), 3, init=first, maxiters=1, printitn=0)
    ours = cp_apr(x, 3, method="mu", init=start(), max_iterations=1)
    assert ours.objective == pytest.approx(-output["obj"], rel=1e-10)
    np.testing.assert_allclose(ours.ktensor.full(), theirs.full().data, rtol=1e-8)


@pytest.mark.parametrize("method", METHODS)
def test_objective_never_rises_and_is_what_it_says(method):
    x = counts()
    fit = cp_apr(x, 3, method=method, init=start(), max_iterations=30)
    # The nudge away from zero may cost multiplicative updates a little.
    slack = 1e-3 if method == "mu" else 1e-10
    assert (np.diff(fit.trace) <= slack * abs(fit.trace[-1])).all()
    assert fit.objective == pytest.approx(objective(x, fit.ktensor), rel=1e-9)
    assert fit.trace[-1] < fit.trace[0]


def test_multiplicative_updates_never_raise_the_objective_without_the_nudge():
    fit = cp_apr(counts(), 3, method="mu", init=start(), max_iterations=60, kappa=0.0)
    assert (np.diff(fit.trace) <= 1e-12 * abs(fit.trace[-1])).all()


@pytest.mark.parametrize("method", METHODS)
def test_sparse_dense_and_listed_data_agree(method):
    x = counts()
    listed = Slice(np.argwhere(np.ones(x.shape)), x.ravel(), x.shape, unlisted="missing")
    traces = [
        cp_apr(data, 3, method=method, init=start(), max_iterations=3).trace
        for data in (x, as_sparse(x), listed)
    ]
    np.testing.assert_array_equal(traces[0], traces[1])
    np.testing.assert_array_equal(traces[0], traces[2])


@pytest.mark.parametrize("method", [pytest.param("mu", marks=pytest.mark.slow), "pdnr", "pqnr"])
def test_missing_cells_do_not_count(method):
    x = counts()
    x[np.random.default_rng(3).random(x.shape) < 0.3] = np.nan
    fit = cp_apr(x, 2, method=method, init=start(rank=2), tolerance=1e-3, max_iterations=5000)
    assert fit.converged
    assert violation(x, fit.ktensor) <= 1e-2
    assert fit.objective == pytest.approx(objective(x, fit.ktensor), rel=1e-9)
    seen = ~np.isnan(x)
    assert fit.ktensor.full()[seen].sum() == pytest.approx(x[seen].sum(), rel=1e-3)
    again = cp_apr(
        as_sparse(x, "missing"),
        2,
        method=method,
        init=start(rank=2),
        tolerance=1e-3,
        max_iterations=5000,
    )
    assert again.objective == pytest.approx(fit.objective, rel=1e-9)


def test_missing_cells_of_a_noiseless_model_are_predicted():
    truth = random_model((8, 7, 6), 1, total=1e4)
    x = truth.full()
    holes = np.where(np.random.default_rng(0).random(x.shape) < 0.4, np.nan, x)
    fit = cp_apr(holes, 1, tolerance=1e-8)
    np.testing.assert_allclose(fit.ktensor.full(), x, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", [(6,), (7, 5), (1, 6, 5), (4, 3, 2, 5)], ids=str)
def test_any_number_of_modes(shape, method):
    rank = 1 if len(shape) == 1 else 2
    x = counts(shape, rank)
    fit = cp_apr(x, rank, method=method, tolerance=1e-5, max_iterations=3000)
    assert fit.ktensor.shape == shape
    assert fit.ktensor.weights.sum() == pytest.approx(x.sum(), rel=1e-4)
    if len(shape) == 1:
        np.testing.assert_allclose(fit.ktensor.full(), x, atol=1e-4)


def test_matrix_of_rank_one_has_the_independence_solution():
    x = counts((6, 5), 2)
    fit = cp_apr(x, 1, tolerance=1e-8)
    expected = np.outer(x.sum(axis=1), x.sum(axis=0)) / x.sum()
    np.testing.assert_allclose(fit.ktensor.full(), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("method", METHODS)
def test_rows_without_counts_are_zero(method):
    x = counts()
    x[4] = 0.0
    x[:, 2] = 0.0
    fit = cp_apr(as_sparse(x), 2, method=method, init=start(rank=2))
    np.testing.assert_array_equal(fit.ktensor.factors[0][4], 0.0)
    np.testing.assert_array_equal(fit.ktensor.factors[1][2], 0.0)


@pytest.mark.parametrize("method", METHODS)
def test_a_start_with_zero_rows_and_columns_recovers(method):
    x = counts()
    factors = [a.copy() for a in start().factors]
    factors[0][2] = 0.0
    factors[1][:, 1] = 0.0
    fit = cp_apr(x, 3, method=method, init=KTensor(None, factors), max_iterations=100)
    free = cp_apr(x, 2, method="pdnr", init=start(rank=2))
    assert np.isfinite(fit.objective)
    assert fit.objective < free.objective + 0.05 * abs(free.objective)
    assert (fit.ktensor.full()[2][x[2] > 0] > 0).all()


@pytest.mark.parametrize("method", METHODS)
def test_seeds_repeat_and_threads_do_not_matter(method):
    x = counts((40, 30, 20), 3)
    first = cp_apr(x, 3, method=method, max_iterations=3, seed=1)
    again = cp_apr(x, 3, method=method, max_iterations=3, seed=1, n_jobs=2)
    other = cp_apr(x, 3, method=method, max_iterations=3, seed=2)
    assert first.trace == again.trace
    for a, b in zip(first.ktensor.factors, again.ktensor.factors, strict=True):
        np.testing.assert_array_equal(a, b)
    assert first.objective != other.objective


def test_result_describes_the_run():
    seen = []
    fit = cp_apr(counts(), 3, init=start(), max_iterations=4, progress=seen.append)
    assert [p.iteration for p in seen] == [1, 2, 3, 4]
    assert [p.objective for p in seen] == fit.trace
    assert "KKT violation" in seen[0].message
    assert fit.iterations == 4
    assert not fit.converged
    assert "all 4 passes" in fit.message
    assert (np.diff(fit.ktensor.weights) <= 0).all()
    done = cp_apr(counts(), 3)
    assert done.converged
    assert done.kkt <= 1e-4


def test_more_starts_are_never_worse():
    objectives = [cp_apr(counts(), 4, n_starts=n, max_iterations=10).objective for n in (1, 3, 5)]
    assert objectives[0] >= objectives[1] >= objectives[2]


def test_scaled_data_give_scaled_weights():
    x = counts()
    small = cp_apr(x, 2, init=start(rank=2), tolerance=1e-6)
    large = cp_apr(1000 * x, 2, init=start(rank=2), tolerance=1e-6)
    np.testing.assert_allclose(large.ktensor.weights, 1000 * small.ktensor.weights, rtol=1e-3)


def test_init_and_data_are_never_changed():
    x, first = counts(), start()
    before, copies = x.copy(), [a.copy() for a in first.factors]
    cp_apr(x, 3, init=first, max_iterations=3)
    np.testing.assert_array_equal(x, before)
    for a, b in zip(first.factors, copies, strict=True):
        np.testing.assert_array_equal(a, b)


def test_negative_data_are_refused_with_their_place():
    x = counts()
    x[2, 3, 4] = -1.5
    for data in (x, as_sparse(x)):
        with pytest.raises(DataError, match=r"entry at \(2, 3, 4\) is -1\.5"):
            cp_apr(data, 2)


@pytest.mark.parametrize("x", [np.zeros((3, 2)), Slice([], [], (3, 4)), np.full((2, 2), np.nan)])
def test_a_tensor_without_counts_is_refused(x):
    with pytest.raises(DataError, match="at least one positive count"):
        cp_apr(x, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 0}, "rank must be a whole number"),
        ({"rank": 1.5}, "rank must be a whole number"),
        ({"rank": 57}, "rank must be at most 56"),
        ({"rank": 3, "method": "als"}, "method must be"),
        ({"rank": 2, "init": start()}, "init must have shape"),
        ({"rank": 3, "init": start((9, 8, 6))}, "init must have shape"),
        ({"rank": 3, "init": "random"}, "init must be a KTensor"),
        ({"rank": 1, "init": KTensor(None, [-np.ones((n, 1)) for n in SHAPE])}, "negative"),
        ({"rank": 3, "max_iterations": 0}, "max_iterations must be"),
        ({"rank": 3, "max_inner": 0}, "max_inner must be"),
        ({"rank": 3, "memory": 0}, "memory must be"),
        ({"rank": 3, "epsilon": 0.0}, "epsilon must be"),
        ({"rank": 3, "tolerance": -1.0}, "tolerance must be"),
        ({"rank": 3, "n_jobs": 1.5}, "n_jobs must be"),
    ],
    ids=str,
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(DataError, match=message):
        cp_apr(counts(), **options)


def test_counts_hundreds_of_digits_apart_leave_a_finite_model():
    rng = np.random.default_rng(0)
    apart = rng.gamma(1.0, 1.0, (8, 1)) * 10.0 ** rng.uniform(-300.0, 48.0, (8, 1))
    found = cp_apr(apart, 1, max_iterations=30)
    assert "no longer a number" in found.message
    np.testing.assert_allclose(found.ktensor.weights, apart.sum(), rtol=1e-9)
