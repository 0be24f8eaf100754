"""The unified SGD solver: what it reaches, what it leaves alone, and that it repeats."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from onlinegcp.errors import BackendError, DataError
from onlinegcp.kernels.layout import stack_factors
from onlinegcp.kernels.sgd import threads as sgd_threads
from onlinegcp.kernels.sgd.plan import FoldedHistory
from onlinegcp.losses import Loss, get_loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.sgd import SgdSettings, solve_sgd
from onlinegcp.solvers.sgd.sampling import Sampler
from onlinegcp.solvers.sgd.steps import KINDS

GAUSSIAN, POISSON = get_loss("gaussian"), get_loss("poisson")


def truth(shape=(9, 7, 5), rank=3, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.random((n, rank)) + 0.1 for n in shape], rng.random(rank) + 0.5


def dense(factors, weights):
    return dense_outer(factors, weights).sum(axis=-1)


def dense_outer(factors, weights):
    out = weights
    for k, factor in enumerate(factors):
        shape = [1] * len(factors) + [len(weights)]
        shape[k] = len(factor)
        out = out * factor.reshape(shape)
    return out


def poisson_slice(shape=(9, 7, 5), seed=1):
    factors, weights = truth(shape)
    counts = np.random.default_rng(seed).poisson(0.3 * dense(factors, weights))
    return Slice(np.argwhere(counts), counts[counts > 0].astype(float), shape)


def start(shape=(9, 7, 5), rank=3):
    return truth(shape, rank, seed=5)


def test_weights_reach_the_least_squares_solution():
    factors, _ = truth()
    x = Slice.dense(dense(factors, np.array([1.0, 2.0, 0.5])) + 0.1)
    settings = SgdSettings(rate=0.03, epochs=40, sampler="all")
    result = solve_sgd(x, factors, np.ones(3), GAUSSIAN, settings, update=("weights",))
    matrix = dense_outer(factors, np.ones(3)).reshape(-1, 3)
    expected = np.linalg.lstsq(matrix, x.array.ravel(), rcond=None)[0]
    np.testing.assert_allclose(result.weights, expected, rtol=1e-4)
    for a, b in zip(result.factors, factors, strict=True):
        np.testing.assert_array_equal(a, b)


def test_weights_reach_the_optimum_that_lbfgs_finds():
    x = poisson_slice()
    factors, weights = truth()
    matrix = dense_outer(factors, np.ones(3)).reshape(-1, 3)
    data = x.to_dense().ravel()

    def objective(w):
        return float(POISSON.value(data, matrix @ w).sum()) + 0.5 * 0.1 * float(w @ w)

    best = minimize(objective, weights, method="L-BFGS-B", bounds=[(0, None)] * 3)
    settings = SgdSettings(rate=0.02, epochs=60, sampler="all", weight_ridge=0.1)
    result = solve_sgd(x, factors, weights, POISSON, settings, update=("weights",))
    assert result.objective == pytest.approx(best.fun, rel=1e-6)
    np.testing.assert_allclose(result.weights, best.x, rtol=0.02, atol=0.01)


@pytest.mark.parametrize("step", KINDS)
@pytest.mark.parametrize("sampler", ["uniform", "stratified", "semi_stratified", "all"])
def test_every_step_and_sampler_lowers_the_objective_and_never_keeps_a_rise(step, sampler):
    x = poisson_slice()
    factors, weights = start()
    rate = {"sgd": 1e-4, "adam": 5e-3, "adagrad": 0.05, "amsgrad": 5e-3}[step]
    settings = SgdSettings(
        step, rate, epochs=6, iterations=50, sampler=Sampler(sampler, 60, 100),
        objective_sampler="all",
    )  # fmt: skip
    result = solve_sgd(x, factors, weights, POISSON, settings)
    assert (np.diff(result.trace) <= 0).all()
    assert result.trace[-1] == result.objective < result.trace[0] - 1.0
    assert result.epochs == 6
    assert result.iterations == 300
    assert min(factor.min() for factor in result.factors) >= 0.0


def test_a_noiseless_model_is_recovered_up_to_rounding_of_the_last_rate():
    factors, weights = truth((8, 6), 2)
    x = Slice.dense(dense(factors, weights))
    begin, _ = truth((8, 6), 2, seed=7)
    settings = SgdSettings(rate=0.02, epochs=60, sampler="all", lower=0.0)
    result = solve_sgd(x, begin, np.ones(2), GAUSSIAN, settings)
    assert result.objective < 1e-4 * x.norm_squared


def test_a_failing_epoch_gives_back_what_came_in():
    x = poisson_slice()
    factors, weights = start()
    settings = SgdSettings("sgd", rate=1e3, epochs=1, iterations=3, sampler="all")
    result = solve_sgd(x, factors, weights, POISSON, settings)
    assert result.failures == 1
    assert result.moments.taken == 0
    for a, b in zip(result.factors, factors, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(result.weights, weights)


def test_the_solver_stops_after_too_many_failures():
    settings = SgdSettings("sgd", rate=1e9, epochs=50, iterations=2, sampler="all", max_fails=1)
    result = solve_sgd(poisson_slice(), *start(), POISSON, settings)
    assert result.epochs == result.failures == 2


def test_the_tolerance_is_relative_so_that_negative_objectives_do_not_stop_at_once():
    factors, weights = truth((6, 5), 2)
    counts = 50.0 * np.ceil(dense(factors, weights))
    x = Slice.dense(counts)
    settings = SgdSettings(rate=0.05, epochs=100, sampler="all", tolerance=1e-4)
    result = solve_sgd(x, factors, weights, POISSON, settings)
    assert result.objective < 0.0
    assert 1 < result.epochs < 100


def test_a_callback_sees_every_epoch_and_can_stop():
    seen = []

    def callback(epoch, objective, kept):
        seen.append((epoch, objective, kept))
        return epoch == 2

    settings = SgdSettings(epochs=9, iterations=2, sampler="all")
    result = solve_sgd(poisson_slice(), *start(), POISSON, settings, callback=callback)
    assert [epoch for epoch, _, _ in seen] == [1, 2]
    assert result.epochs == 2
    assert seen[-1][1] == result.objective


def test_nothing_given_is_changed():
    factors, weights = start()
    copies = [factor.copy() for factor in factors], weights.copy()
    x = poisson_slice()
    settings = SgdSettings(epochs=1, iterations=3)
    first = solve_sgd(x, factors, weights, POISSON, settings)
    taken = first.moments.copy()
    solve_sgd(x, factors, weights, POISSON, settings, moments=first.moments)
    assert first.moments.taken == taken.taken
    np.testing.assert_array_equal(first.moments.u, taken.u)
    for a, b in zip(factors, copies[0], strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(weights, copies[1])


def test_two_solves_with_moments_carried_over_equal_one_long_solve():
    # The draws are numbered within a solve, so this needs a sampler without randomness.
    x = poisson_slice()
    factors, weights = start()
    half = SgdSettings(rate=1e-3, epochs=1, iterations=5, sampler="all")
    whole = solve_sgd(
        x, factors, weights, POISSON, SgdSettings(rate=1e-3, epochs=2, iterations=5, sampler="all")
    )
    first = solve_sgd(x, factors, weights, POISSON, half)
    second = solve_sgd(x, first.factors, first.weights, POISSON, half, moments=first.moments)
    assert second.moments.taken == 10
    for a, b in zip(second.factors, whole.factors, strict=True):
        np.testing.assert_array_equal(a, b)


def results_of(n_jobs=1, seed=0, slice_number=0, kernels="cpu", **options):
    settings = SgdSettings(**{"rate": 1e-3, "epochs": 2, "iterations": 10} | options)
    return solve_sgd(
        poisson_slice(), *start(), POISSON, settings, seed=seed, slice_number=slice_number,
        n_jobs=n_jobs, kernels=kernels,
    )  # fmt: skip


def test_solves_repeat_bit_for_bit_from_run_to_run_and_on_two_threads(monkeypatch):
    monkeypatch.setattr(sgd_threads, "WORK_EACH", 1)
    sampler = Sampler("stratified", 30, 40)
    first = results_of(sampler=sampler)
    for other in (results_of(sampler=sampler), results_of(2, sampler=sampler)):
        assert first.trace.tolist() == other.trace.tolist()
        for a, b in zip(first.factors, other.factors, strict=True):
            np.testing.assert_array_equal(a, b)


def test_other_seeds_and_slices_draw_other_samples():
    sampler = Sampler("stratified", 30, 40)
    ends = [
        results_of(seed=seed, slice_number=number, sampler=sampler).factors[0][0, 0]
        for seed, number in ((0, 0), (1, 0), (0, 1))
    ]
    assert len(set(ends)) == 3


def test_compiled_and_reference_kernels_give_the_same_solve():
    a, b = (
        results_of(kernels=name, sampler=Sampler("semi_stratified", 30, 40))
        for name in ("cpu", "reference")
    )
    tolerance = 1e-10
    np.testing.assert_allclose(a.trace, b.trace, rtol=tolerance)
    for x, y in zip(a.factors, b.factors, strict=True):
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("sampler", ["stratified", "semi_stratified", "uniform"])
def test_a_users_loss_takes_the_same_steps_as_the_built_in_one(sampler):
    own = Loss(
        "my_poisson",
        value=lambda x, m: m - x * np.log(m + 1e-10),
        deriv=lambda x, m: 1.0 - x / (m + 1e-10),
        lower=0.0,
    )
    assert own.code == -1
    settings = SgdSettings(
        rate=1e-3, epochs=2, iterations=10, sampler=Sampler(sampler, 30, 40), ridge=0.1
    )
    a, b = (solve_sgd(poisson_slice(), *start(), loss, settings) for loss in (own, POISSON))
    np.testing.assert_allclose(a.trace, b.trace, rtol=1e-10)
    for x, y in zip(a.factors, b.factors, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-10)


@pytest.mark.parametrize("shape", [(11,), (6, 5), (4, 1, 3), (3, 2, 2, 2)])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("update", [("weights",), ("factors",), ("weights", "factors"), (0,)])
def test_the_dense_gaussian_gradient_takes_the_same_steps_as_summing_all_cells(
    shape, sparse, update
):
    rng = np.random.default_rng(0)
    array = rng.standard_normal(shape) * (rng.random(shape) < 0.6)
    x = Slice(np.argwhere(array), array[array != 0], shape) if sparse else Slice.dense(array)
    factors, weights = start(shape)
    results = [
        solve_sgd(
            x, factors, weights, GAUSSIAN,
            SgdSettings(rate=1e-3, epochs=2, iterations=10, sampler=sampler), update=update,
        )
        for sampler in ("dense", "all")
    ]  # fmt: skip
    np.testing.assert_allclose(results[0].trace, results[1].trace, rtol=1e-9)
    np.testing.assert_allclose(results[0].weights, results[1].weights, rtol=1e-8)
    for a, b in zip(results[0].factors, results[1].factors, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-8)


def test_a_strong_history_holds_the_old_model_and_none_lets_go():
    x = poisson_slice()
    factors, weights = start()
    rows = np.random.default_rng(2).random((6, 3))
    moved = []
    for strength in (0.0, 1e4):
        history = FoldedHistory(strength * rows.T @ rows, stack_factors(factors))
        settings = SgdSettings(rate=1e-3, epochs=5, iterations=50, sampler="all")
        result = solve_sgd(
            x, factors, weights, POISSON, settings, update=("factors",), history=history
        )
        change = [
            dense(result.factors, s) - dense(factors, s) for s in rows
        ]  # in the models the history knows
        moved.append(float(np.linalg.norm(change)))
    assert moved[1] < 0.05 * moved[0]


def test_anchors_hold_single_factors():
    x = poisson_slice()
    factors, weights = start()
    history = FoldedHistory(None, stack_factors(factors), np.array([1e6, 0.0, 0.0]))
    settings = SgdSettings(rate=1e-3, epochs=3, iterations=50, sampler="all")
    result = solve_sgd(x, factors, weights, POISSON, settings, update=("factors",), history=history)
    change = [np.abs(a - b).max() for a, b in zip(result.factors, factors, strict=True)]
    assert change[0] < 0.02 * change[1]


def test_row_weights_of_zero_hide_the_rows_of_the_last_mode():
    factors, weights = truth()
    array = dense(factors, weights)
    spoiled = array.copy()
    spoiled[..., 0] += 100.0
    settings = SgdSettings(rate=0.03, epochs=30, sampler="all")
    seen = np.array([0.0, 1.0, 1.0, 1.0, 1.0])
    result = solve_sgd(
        Slice.dense(spoiled), factors, np.ones(3), GAUSSIAN, settings, update=("weights",),
        row_weights=seen,
    )  # fmt: skip
    np.testing.assert_allclose(result.weights, weights, rtol=1e-3)


def test_an_empty_slice_pulls_the_model_towards_zero():
    x = Slice(np.zeros((0, 2), int), [], (4, 3))
    factors, weights = truth((4, 3), 2)
    settings = SgdSettings(rate=0.05, epochs=10, iterations=50)
    result = solve_sgd(x, factors, weights, POISSON, settings, update=("weights",))
    np.testing.assert_allclose(result.weights, 0.0, atol=1e-12)


def test_a_slice_without_any_observed_cell_leaves_the_model_alone():
    x = Slice(np.zeros((0, 2), int), [], (4, 3), unlisted="missing")
    factors, weights = truth((4, 3), 2)
    result = solve_sgd(x, factors, weights, GAUSSIAN, SgdSettings(epochs=2, iterations=2))
    np.testing.assert_array_equal(result.weights, weights)
    assert result.objective == 0.0


def test_zero_epochs_only_estimate_the_objective():
    x = poisson_slice()
    factors, weights = start()
    result = solve_sgd(x, factors, weights, POISSON, SgdSettings(epochs=0, sampler="all"))
    exact = float(POISSON.value(x.to_dense(), dense(factors, weights)).sum())
    assert result.trace.tolist() == [pytest.approx(exact)]


BAD = {
    "shape": (lambda x, f, w: solve_sgd(x, f[:2], w, POISSON), "mode lengths"),
    "rank": (lambda x, f, w: solve_sgd(x, f, w[:2], POISSON), "as many columns"),
    "block": (lambda x, f, w: solve_sgd(x, f, w, POISSON, update=("s",)), "'s'"),
    "mode": (lambda x, f, w: solve_sgd(x, f, w, POISSON, update=(3,)), "got 3"),
    "nothing": (lambda x, f, w: solve_sgd(x, f, w, POISSON, update=()), "at least one"),
    "zeros": (lambda x, f, w: solve_sgd(x, f, w, get_loss("gamma")), "not defined for zeros"),
    "rows": (lambda x, f, w: solve_sgd(x, f, w, POISSON, row_weights=w), "row_weights"),
    "jobs": (lambda x, f, w: solve_sgd(x, f, w, POISSON, n_jobs=0), "n_jobs"),
    "dense": (
        lambda x, f, w: solve_sgd(x, f, w, POISSON, SgdSettings(sampler="dense")),
        "needs the gaussian loss",
    ),
    "epochs": (lambda x, f, w: SgdSettings(epochs=-1), "epochs"),
    "iterations": (lambda x, f, w: SgdSettings(iterations=0), "iterations"),
    "ridge": (lambda x, f, w: SgdSettings(ridge=-1.0), "ridge"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused(case):
    call, message = BAD[case]
    with pytest.raises(DataError, match=message):
        call(poisson_slice(), *start())


def test_missing_cells_are_refused_by_the_dense_gradient():
    x = Slice([[0, 0]], [1.0], (4, 3), unlisted="missing")
    with pytest.raises(DataError, match="11 missing cells"):
        solve_sgd(x, *truth((4, 3), 2), GAUSSIAN, SgdSettings(sampler="dense"))


def test_unknown_kernels_are_refused():
    with pytest.raises(BackendError, match="reference"):
        solve_sgd(poisson_slice(), *start(), POISSON, kernels="tpu")
