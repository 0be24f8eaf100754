"""Static GCP: gradients, optima shared with other solvers, bounds, starts and refusals."""

from __future__ import annotations

import contextlib
import io
import warnings

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from onlinegcp.errors import DataError
from onlinegcp.evaluate import factor_match
from onlinegcp.kernels.exact import exact_objective
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import LOSS_NAMES, Loss, get_loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.sgd.sampling import Sampler
from onlinegcp.static import gcp as module
from onlinegcp.static.cp_als import cp_als
from onlinegcp.static.gcp import gcp

SHAPE, RANK = (9, 7, 8), 2


def truth(shape=SHAPE, rank=RANK, seed=0):
    rng = np.random.default_rng(seed)
    # Cubed: columns that differ clearly, so that no solver crawls between them.
    return [rng.random((n, rank)) ** 3 + 0.02 for n in shape]


def data_for(name, shape=SHAPE, rank=RANK, seed=0):
    """Data a model of this rank explains, in the domain of the loss."""
    rng = np.random.default_rng(seed + 1)
    mean = KTensor(np.full(rank, 20.0), truth(shape, rank, seed)).full()
    loss = get_loss(name)
    if name == "bernoulli_logit":
        odds = KTensor(None, [1.5 * rng.standard_normal((n, rank)) for n in shape]).full()
        return (rng.random(shape) < 1.0 / (1.0 + np.exp(-odds))).astype(float)
    if loss.domain == "real":
        return mean + 0.1 * rng.standard_normal(shape)
    if loss.domain == "binary":
        return (rng.random(shape) < mean / (1.0 + mean)).astype(float)
    counts = rng.poisson(mean).astype(float)
    return counts if loss.zero_shape is not None else counts + 1.0


def generator():
    return np.random.default_rng(0)


def sparse(data):
    return Slice(np.argwhere(data), data[data != 0], data.shape)


def random_model(shape=SHAPE, rank=RANK, seed=7):
    rng = np.random.default_rng(seed)
    return KTensor(None, [rng.random((n, rank)) for n in shape])


def least_squares_objective(data, start, sweeps):
    """Oracle: alternating least squares on unfoldings with the textbook normal equations."""
    factors = [a.copy() for a in start]
    d = data.ndim
    for _ in range(sweeps):
        for k in range(d):
            others = [j for j in range(d) if j != k]
            product = factors[others[0]]
            for j in others[1:]:
                product = np.einsum("ir,jr->ijr", product, factors[j]).reshape(-1, product.shape[1])
            unfolded = np.moveaxis(data, k, 0).reshape(data.shape[k], -1)
            factors[k] = np.linalg.lstsq(product, unfolded.T, rcond=None)[0].T
    return float(((data - KTensor(None, factors).full()) ** 2).sum())


# The optimum --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOSS_NAMES)
def test_every_loss_descends_to_a_stationary_point(name):
    loss, x = get_loss(name), Slice.dense(data_for(name))
    found = gcp(x, RANK, loss, tolerance=1e-14, ridge=0.05)
    assert found.trace == sorted(found.trace, reverse=True)
    assert np.isfinite(found.objective)
    short = gcp(x, RANK, loss, max_iterations=1, ridge=0.05)
    assert found.kkt < 5e-3 * short.kkt


@pytest.mark.parametrize("name", ["gaussian", "poisson", "bernoulli_logit", "gamma"])
@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_the_gradient_is_the_finite_difference_of_the_objective(name, ridge):
    x = Slice.dense(np.where(np.random.default_rng(2).random((4, 3, 2)) < 0.2, np.nan, 1.0))
    problem = module._problem(x, 2, name, None, ridge)
    shapes = [(n, 2) for n in x.shape]
    vector = np.random.default_rng(3).random(18) + 0.3
    slope = module._objective(vector, problem, shapes)[1]
    for i in range(18):
        step = 1e-6 * (np.arange(18) == i)
        above, below = (module._objective(vector + h, problem, shapes)[0] for h in (step, -step))
        assert slope[i] == pytest.approx((above - below) / 2e-6, rel=1e-6, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [SHAPE, (6, 11), (4, 3, 5, 2)])
def test_gaussian_objective_is_that_of_alternating_least_squares(shape):
    data = data_for("gaussian", shape)
    start = random_model(shape)
    expected = least_squares_objective(data, start.factors, 400)
    solved = cp_als(data, RANK, init=start, tolerance=0.0, max_iterations=400)
    assert solved.objective == pytest.approx(expected, rel=1e-7)
    found = gcp(data, RANK, "gaussian", init=start, tolerance=1e-15, max_iterations=5000)
    assert found.objective == pytest.approx(expected, rel=1e-7)
    assert found.fit == pytest.approx(1 - np.sqrt(expected) / np.linalg.norm(data), rel=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gaussian", "poisson", "bernoulli_odds"])
def test_the_optimum_is_pyttbs_from_the_same_start(name):
    pyttb = pytest.importorskip("pyttb")
    from pyttb.gcp.optimizers import LBFGSB

    data, start = data_for(name), random_model()
    objective = getattr(pyttb.gcp.handles.Objectives, name.upper())
    tensor = pyttb.tensor(np.asfortranarray(data))
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        threadpool_limits(1, user_api="blas"),
    ):
        warnings.simplefilter("ignore")
        theirs, _, _ = pyttb.gcp_opt(
            tensor, RANK, objective, LBFGSB(factr=10.0, maxiter=5000), start.to_pyttb(), printitn=0
        )
    expected = exact_objective(
        Slice.dense(data), theirs.factor_matrices, theirs.weights, get_loss(name)
    )
    found = gcp(data, RANK, name, init=start, tolerance=1e-15, max_iterations=5000)
    assert found.objective == pytest.approx(expected, rel=1e-6)
    ours = KTensor(theirs.weights, theirs.factor_matrices)
    assert found.ktensor.score(ours).score > 0.999


@pytest.mark.parametrize("name", ["gaussian", "poisson"])
def test_noiseless_data_give_back_their_factors(name):
    data = KTensor(np.full(RANK, 20.0), truth()).full()
    found = gcp(data, RANK, name, n_starts=3, tolerance=1e-14, max_iterations=5000)
    assert factor_match(found.ktensor.factors, truth()) > 0.9999
    np.testing.assert_allclose(found.ktensor.full(), data, atol=1e-3)


def test_poisson_matches_the_total_count_at_the_optimum():
    data = data_for("poisson")
    found = gcp(data, RANK, "poisson", tolerance=1e-13)
    assert found.ktensor.weights.sum() == pytest.approx(data.sum(), rel=1e-5)
    for a in found.ktensor.factors:
        np.testing.assert_allclose(a.sum(axis=0), 1.0)


@pytest.mark.parametrize("name", ["gaussian", "poisson", "bernoulli_odds", "bernoulli_logit"])
def test_sparse_and_dense_forms_of_the_same_tensor_agree(name):
    # Rank 1 has one optimum worth the name, so that rounding cannot lead elsewhere.
    data = data_for(name, rank=1)
    if name == "gaussian":
        data *= np.random.default_rng(5).random(SHAPE) < 0.3
    whole, listed = (gcp(x, 1, name, ridge=1.0, tolerance=1e-12) for x in (data, sparse(data)))
    assert listed.objective == pytest.approx(whole.objective, rel=1e-8)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_units_of_the_data_do_not_matter(scale):
    data = data_for("gaussian")
    plain = gcp(data, RANK, "gaussian", tolerance=1e-13)
    scaled = gcp(scale * data, RANK, "gaussian", tolerance=1e-13)
    assert scaled.objective / scale**2 == pytest.approx(plain.objective, rel=1e-6)


def test_a_start_that_cannot_be_improved_stays_finite():
    """Yes-or-no data that a model tells apart: slopes of 1e-199, whose squares are zero."""
    answers = np.tile([1.0, 0.0], 30)[None, :, None]
    sure = KTensor(None, [np.full((1, 1), 16.0), 3.6 * (answers[0] - 0.5), np.full((1, 1), 16.0)])
    found = gcp(Slice.dense(answers), 1, "bernoulli_logit", init=sure)
    assert found.objective < 1e-100
    assert np.isfinite(found.ktensor.weights).all()


def test_missing_cells_do_not_influence_the_fit():
    data, holes = data_for("gaussian"), np.random.default_rng(4).random(SHAPE) < 0.3
    results = [
        gcp(np.where(holes, np.nan, data + junk), RANK, "gaussian", init=random_model())
        for junk in (0.0, 1e3 * holes)
    ]
    assert results[0].objective == results[1].objective
    # And cells that were hidden are predicted about as well as the noise of 0.1 allows.
    error = (results[0].ktensor.full() - data)[holes]
    assert np.sqrt((error**2).mean()) < 0.25


# Sampled gradients --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "share"), [("gaussian", 1e-4), ("poisson", 1e-3), ("bernoulli_logit", 1e-2)]
)
def test_sampled_solves_reach_the_exact_optimum_from_the_same_start(name, share):
    shape = (30, 25, 20)
    data = data_for(name, shape, 3)
    x = Slice.dense(data) if name == "gaussian" else sparse(data)
    start = KTensor(None, module._random(module._problem(x, 3, name, None, 0.01), generator()))
    exact, sampled = (
        gcp(x, 3, name, method=method, init=start, ridge=0.01, epochs=60)
        for method in ("lbfgsb", "sgd")
    )
    before = exact_objective(x, start.factors, start.weights, get_loss(name))
    # Of the way from start to optimum, all but this share is covered.
    assert sampled.objective - exact.objective < share * (before - exact.objective)
    assert sampled.ktensor.score(exact.ktensor).score > 0.9


@pytest.mark.parametrize("rate", [None, 0.1])
def test_sampled_odds_do_not_freeze_at_zero(rate):
    counts = data_for("poisson", (30, 25, 20), 3)
    x = sparse((counts > 6.0).astype(float))
    found = gcp(x, 3, "bernoulli_odds", method="sgd", rate=rate, epochs=40)
    share = x.nnz / x.size
    constant = -x.size * (share * np.log(share) + (1.0 - share) * np.log1p(-share))
    # A frozen solve ends worse than the best constant model (peers.md); this one far below it.
    assert found.objective < 0.6 * constant
    assert min(a.min() for a in found.ktensor.factors) > 0.0


@pytest.mark.parametrize("sampler", ["uniform", "stratified", "semi_stratified", "all"])
@pytest.mark.parametrize("step", ["adam", "amsgrad", "adagrad"])
def test_every_sampler_and_step_descends(sampler, step):
    x = sparse(data_for("poisson"))
    found = gcp(x, RANK, "poisson", method="sgd", sampler=sampler, step=step, epochs=15)
    best = gcp(x, RANK, "poisson").objective
    assert found.trace == sorted(found.trace, reverse=True)
    first = found.trace[0]
    assert found.objective - best < 0.5 * (first - best) + 0.02 * abs(best)


@pytest.mark.slow
def test_sampled_solves_take_bounds_ridges_user_losses_and_missing_cells():
    data = np.where(generator().random(SHAPE) < 0.2, np.nan, data_for("gaussian"))
    data -= np.nanmean(data)
    mine = Loss("mine", value=lambda x, m: (m - x) ** 2, deriv=lambda x, m: 2.0 * (m - x))
    options = {"method": "sgd", "epochs": 8, "iterations": 60, "lower": 0.0, "ridge": 0.5}
    ours, built_in = (gcp(data, RANK, loss, **options) for loss in (mine, "gaussian"))
    exact = gcp(data, RANK, "gaussian", lower=0.0, ridge=0.5)
    for found in (ours, built_in):
        assert min(a.min() for a in found.ktensor.factors) == 0.0
        assert found.objective == pytest.approx(exact.objective, rel=0.05)


def test_sampled_solves_repeat_for_a_seed_and_for_any_number_of_threads():
    x = sparse(data_for("poisson"))
    options = {"method": "sgd", "epochs": 5, "n_starts": 2}
    first, threads, other = (
        gcp(x, RANK, "poisson", seed=seed, n_jobs=jobs, **options)
        for seed, jobs in [(1, 1), (1, 2), (2, 1)]
    )
    assert all(map(np.array_equal, first.ktensor.factors, threads.ktensor.factors))
    assert not np.array_equal(first.ktensor.factors[0], other.ktensor.factors[0])


def test_another_seed_draws_other_samples_from_the_same_start():
    x, init, few = sparse(data_for("poisson")), random_model(), Sampler("stratified", 20, 20)
    first, again, other = (
        gcp(x, RANK, "poisson", method="sgd", sampler=few, epochs=2, init=init, seed=seed)
        for seed in (1, 1, 2)
    )
    assert np.array_equal(first.ktensor.factors[0], again.ktensor.factors[0])
    assert not np.array_equal(first.ktensor.factors[0], other.ktensor.factors[0])


def test_sampled_solves_report_every_epoch():
    heard = []
    x = sparse(data_for("poisson"))
    found = gcp(x, RANK, "poisson", method="sgd", epochs=7, iterations=20, progress=heard.append)
    assert [news.iteration for news in heard] == list(range(1, found.iterations + 1))
    assert [news.objective for news in heard] == found.trace


# Options ------------------------------------------------------------------------------------


def test_a_ridge_keeps_the_factors_smaller_and_is_part_of_the_objective():
    data = data_for("gaussian")
    free = gcp(data, RANK, "gaussian", tolerance=1e-12)
    held = gcp(data, RANK, "gaussian", ridge=20.0, tolerance=1e-12)
    loss = exact_objective(
        Slice.dense(data), held.ktensor.factors, held.ktensor.weights, get_loss("gaussian")
    )
    assert held.ktensor.norm() < free.ktensor.norm()
    # At an optimum a component is equally long in all d modes, so its penalty is known.
    penalty = 0.5 * 20.0 * 3 * (np.abs(held.ktensor.weights) ** (2 / 3)).sum()
    assert held.objective == pytest.approx(loss + penalty, rel=1e-5)


def test_a_lower_bound_holds():
    data = data_for("gaussian")
    data -= data.mean()
    free, bounded = (gcp(data, RANK, "gaussian", lower=lower) for lower in (None, 0.0))
    assert min(a.min() for a in free.ktensor.factors) < 0.0
    assert min(a.min() for a in bounded.ktensor.factors) >= 0.0
    assert bounded.objective > free.objective


def test_a_users_loss_gives_the_built_in_optimum():
    data = data_for("gaussian")
    mine = Loss("mine", value=lambda x, m: (m - x) ** 2, deriv=lambda x, m: 2.0 * (m - x))
    ours, theirs = (gcp(data, RANK, loss, seed=3, tolerance=1e-13) for loss in (mine, "gaussian"))
    assert ours.objective == pytest.approx(theirs.objective, rel=1e-7)


def test_one_seed_gives_one_result_and_more_starts_no_worse_one():
    data = data_for("poisson")
    first, again = (gcp(data, 3, "poisson", seed=4) for _ in range(2))
    assert all(map(np.array_equal, first.ktensor.factors, again.ktensor.factors))
    assert gcp(data, 3, "poisson", seed=4, n_starts=4).objective <= first.objective
    other = gcp(data, 3, "poisson", seed=5)
    assert other.objective != first.objective


def test_init_is_never_changed():
    start = random_model()
    kept = [a.copy() for a in (start.weights, *start.factors)]
    gcp(data_for("poisson"), RANK, "poisson", init=start)
    assert all(map(np.array_equal, kept, (start.weights, *start.factors)))


def test_a_list_of_slices_is_their_stack_with_time_last():
    data = data_for("poisson")
    slices = [sparse(data[:, :, t]) for t in range(SHAPE[2])]
    stacked = gcp(slices, RANK, "poisson", seed=2)
    assert stacked.ktensor.shape == SHAPE
    assert stacked.objective == pytest.approx(gcp(sparse(data), RANK, "poisson", seed=2).objective)


def test_progress_hears_of_every_iteration_and_nothing_is_printed(capsys):
    heard = []
    found = gcp(data_for("poisson"), RANK, "poisson", progress=heard.append)
    assert [news.iteration for news in heard] == list(range(1, found.iterations + 1))
    assert [news.objective for news in heard] == found.trace
    assert found.trace[-1] == pytest.approx(found.objective)
    assert heard[-1].seconds <= found.seconds
    assert capsys.readouterr() == ("", "")


def test_running_out_of_iterations_is_said():
    found = gcp(data_for("poisson"), RANK, "poisson", max_iterations=2)
    assert (found.converged, found.iterations) == (False, 2)
    assert "max_iterations = 2" in found.message


@pytest.mark.parametrize("shape", [(5,), (1, 1), (1, 6), (7, 1, 3)])
@pytest.mark.parametrize("name", ["gaussian", "poisson", "bernoulli_logit"])
def test_small_and_degenerate_shapes_work(shape, name):
    data = data_for(name, shape, 1)
    found = gcp(data, 1, name, ridge=1e-3, method="lbfgsb")
    assert found.ktensor.shape == shape
    assert np.isfinite(found.objective)


@pytest.mark.parametrize("name", ["gaussian", "poisson", "bernoulli_odds", "poisson_log"])
def test_a_tensor_of_zeros_is_fitted(name):
    found = gcp(Slice(np.empty((0, 3), dtype=int), [], SHAPE), RANK, name)
    model = get_loss(name).mean(found.ktensor.full())
    assert np.abs(model).max() < 0.05


def test_auto_samples_only_where_cells_are_many_and_have_no_closed_form():
    large = Slice([[1, 2, 3]], [1.0], (1000, 1000, 1000))
    assert module._solver("auto", large, get_loss("poisson")) == "lbfgsb"
    assert module._solver("auto", large, get_loss("gaussian")) == "lbfgsb"
    assert module._solver("auto", large, get_loss("bernoulli_odds")) == "sgd"
    small = Slice([[1, 2, 3]], [1.0], (100, 100, 100))
    assert module._solver("auto", small, get_loss("bernoulli_odds")) == "lbfgsb"


# Refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"rank": 0}, "rank must be a whole number from 1 .* but got 0"),
        ({"rank": 1.5}, "rank must be a whole number .* but got 1.5"),
        ({"rank": 57}, "rank must be at most 56"),
        ({"loss": "poison"}, "poisson"),
        ({"method": "newton"}, "method must be one of .* but got 'newton'"),
        ({"init": [1, 2]}, "init must be a KTensor or None, but is a list"),
        ({"init": random_model((3, 3, 3))}, r"shape \(9, 7, 8\)"),
        ({"init": random_model(rank=3)}, "rank 2, but has .* rank 3"),
        ({"n_starts": 0}, "n_starts"),
        ({"seed": -1}, "seed"),
        ({"lower": -1.0}, "lower must not be below 0"),
        ({"lower": "a"}, "lower must be a number"),
        ({"lower": float("inf")}, "lower must be"),
        ({"ridge": -1.0}, r"ridge must be a number in \[0, inf\)"),
        ({"ridge": float("nan")}, "ridge must be a number"),
        ({"max_iterations": 0}, "max_iterations"),
        ({"tolerance": -1.0}, "tolerance"),
        ({"memory": 0}, "memory"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"epochs": 0}, "epochs"),
        ({"max_fails": -1}, "max_fails"),
        ({"method": "sgd", "rate": -1.0}, "rate"),
        ({"method": "sgd", "step": "newton"}, "newton"),
        ({"method": "sgd", "sampler": "some"}, "some"),
        ({"x": -np.ones(SHAPE)}, r"poisson.*-1"),
        ({"x": np.full(SHAPE, np.nan)}, "at least one observed cell"),
        ({"x": np.full(SHAPE, np.inf)}, "finite"),
        ({"x": "abc"}, "abc|str"),
        ({"x": np.ones(SHAPE) * 1j}, "complex|real"),
        ({"x": sparse(np.eye(3)), "loss": "gamma", "rank": 1}, "gamma.*unlisted"),
    ],
)
def test_bad_input_is_refused_in_words(change, match):
    arguments = {"x": data_for("poisson"), "rank": 2, "loss": "poisson", **change}
    with pytest.raises(DataError, match=match):
        gcp(arguments.pop("x"), arguments.pop("rank"), arguments.pop("loss"), **arguments)
