"""Fisher scoring: weights as good as L-BFGS-B for every loss, rows that follow their objective."""

import math

import numpy as np
import pytest
import scipy.optimize

from auto_steps import model_of
from onlinegcp.kernels.layout import pad_vector, stack_factors
from onlinegcp.losses import LOSS_NAMES, Loss, get_loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import fisher_rows, fisher_weights
from onlinegcp.solvers.auto.cells import weighted_cells
from onlinegcp.solvers.auto.fisher_rows import MOST_TURN, FisherRows, Visit
from onlinegcp.solvers.auto.fisher_sums import FisherSums
from onlinegcp.streaming import OnlineGCP


def unit(matrix):
    return matrix / np.sqrt((matrix**2).sum(axis=0))


def draw(loss, shape=(7, 5), rank=3, seed=0, missing=0.2):
    rng = np.random.default_rng(seed)
    bounded = not math.isinf(loss.lower)
    make = (
        (lambda n: rng.random((n, rank)) + 0.1)
        if bounded
        else (lambda n: rng.standard_normal((n, rank)))
    )
    factors = [unit(make(n)) for n in shape]
    weights = 3.0 * rng.random(rank) + 0.5
    letters = "abcdef"[: len(shape)]
    spec = ",".join(["z", *(f"{c}z" for c in letters)])
    m = np.einsum(f"{spec}->{letters}", weights, *factors)
    noise = rng.random(shape)
    if loss.domain == "binary":
        x = (noise < loss.mean(m)).astype(float)
    elif loss.domain == "at_least_one":
        x = 1.0 + rng.poisson(np.maximum(m, 0.0))
    elif loss.domain in ("nonnegative", "positive"):
        x = rng.poisson(np.maximum(np.minimum(loss.mean(m), 50.0), 0.0)) + (
            0.1 if loss.domain == "positive" else 0.0
        )
    else:
        x = m + noise
    x = np.where(rng.random(shape) < missing, np.nan, x)
    return factors, Slice.dense(x), weights


@pytest.mark.parametrize("name", LOSS_NAMES)
@pytest.mark.parametrize("lower", [None, 0.0])
def test_weights_are_as_good_as_lbfgs_for_every_loss(name, lower):
    loss = get_loss(name)
    factors, x, truth = draw(loss)
    sums = FisherSums(stack_factors(factors), weighted_cells(x, 0), loss)
    bounded = lower is not None or not math.isinf(loss.lower)
    found = fisher_weights.solve_weights(
        sums, [pad_vector(truth)], bounded=bounded, tolerance=1e-12
    )
    rows = np.prod([a[x.index[:, k]] for k, a in enumerate(factors)], axis=0)

    def objective(s):
        m = rows @ s
        return float(loss.value(x.value, m).sum()), rows.T @ loss.deriv(x.value, m)

    bounds = [(0.0 if bounded else None, None)] * 3
    best = scipy.optimize.minimize(
        objective, truth, jac=True, method="L-BFGS-B", bounds=bounds,
        options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 1000},
    ).fun  # fmt: skip
    assert found.objective <= best + 1e-6 * (1.0 + abs(best))
    if bounded:
        slope = objective(found.weights[:3])[1]
        assert (found.weights >= 0.0).all()
        assert (slope[found.weights[:3] == 0.0] >= 0.0).all()


def test_a_users_loss_is_solved_like_a_built_in_one():
    loss = Loss(
        "log_cosh", value=lambda x, m: np.log(np.cosh(m - x)), deriv=lambda x, m: np.tanh(m - x)
    )
    factors, x, truth = draw(loss, missing=0.0)
    sums = FisherSums(stack_factors(factors), weighted_cells(x, 0), loss)
    found = fisher_weights.solve_weights(sums, [np.zeros(4), pad_vector(truth)], bounded=False)
    rows = np.prod([a[x.index[:, k]] for k, a in enumerate(factors)], axis=0)
    slope = rows.T @ loss.deriv(x.value, rows @ found.weights[:3])
    np.testing.assert_allclose(slope, 0.0, atol=1e-3)


def test_zeros_are_drawn_without_rejection_and_stand_for_all():
    places = np.random.default_rng(0).permutation(77)[:20]
    x = Slice(np.stack(np.unravel_index(places, (7, 11)), axis=1), np.ones(20), (7, 11))
    found = weighted_cells(x, 1, most=10)
    assert found.weight.sum() == pytest.approx(77.0)
    listed = {tuple(row) for row in x.index.tolist()}
    drawn = [tuple(row) for row in found.index[20:].tolist()]
    assert not listed & set(drawn)
    assert len(set(drawn)) == 57  # as many draws as zeros, stratified: each once


def test_small_slices_are_listed_in_full():
    x = Slice([[0, 1]], [4.0], (2, 3))
    found = weighted_cells(x, 0)
    assert found.value.tolist() == [0.0, 4.0, 0.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("name", ["bernoulli_logit", "gamma", "huber", "negative_binomial"])
@pytest.mark.parametrize("full", [True, False])
def test_an_update_lowers_the_loss_and_keeps_unit_columns(name, full, monkeypatch):
    if not full:
        monkeypatch.setattr(fisher_rows, "CURVATURE_BUDGET", 0)
    loss = get_loss(name)
    factors, x, truth = draw(loss, shape=(6, 1, 5), seed=3)
    blocks = stack_factors(factors)
    bound = {"bounded": not math.isinf(loss.lower)}
    past = FisherRows.start(blocks, **bound)
    assert past.curvature.shape[2] == (4 if full else 1)
    sums = FisherSums(blocks, weighted_cells(x, 0), loss)
    before = fisher_weights.solve_weights(sums, [pad_vector(truth)], **bound)
    after = past.update(model_of(blocks, past, **bound), sums, before.weights, 0.9)
    assert after.objective < before.objective
    for view in blocks.views():
        np.testing.assert_allclose((view**2).sum(axis=0), 1.0)
        if not math.isinf(loss.lower):
            assert (view >= 0.0).all()
    m = np.einsum("z,az,bz,cz->abc", after.weights[:3], *blocks.views())
    seen = ~np.isnan(x.to_dense())
    direct = loss.value(x.to_dense()[seen], m[seen]).sum()
    assert after.objective == pytest.approx(direct, rel=1e-8)


@pytest.mark.parametrize("name", ["gaussian", "huber", "bernoulli_logit", "poisson_log"])
def test_visits_under_a_bound_end_where_no_row_can_do_better(name):
    loss, lam = get_loss(name), 0.7
    rng = np.random.default_rng(4)
    _, x, _ = draw(loss, shape=(5, 6), seed=4)
    old = [unit(rng.random((n, 3)) + 0.05) for n in (5, 6)]
    blocks = stack_factors(old)
    history = FisherRows.start(blocks, bounded=True)
    sums = FisherSums(blocks, weighted_cells(x, 0), loss)
    weights = np.array([1.0, 0.5, 2.0, 0.0])
    history.absorb_at(sums, 0.1 * weights, 0.0)
    before = blocks.data.copy()
    for _ in range(12):
        Visit(history, sums, weights, before, lam, 0, bounded=True).move()
    new = blocks.views()[0]
    assert (new >= 0.0).all()
    assert (new == 0.0).any()
    pull = loss.traits.prior_strength * history.dispersion / (old[0] ** 2).mean(axis=0)
    for i, row in enumerate(new):
        mine = x.index[:, 0] == i
        design = weights[:3] * old[1][x.index[mine, 1]]
        matrix = lam * history.curvature[i, :3, :3]

        def objective(a, design=design, matrix=matrix, away=old[0][i], data=x.value[mine]):
            m, moved = design @ a, a - away
            value = loss.value(data, m).sum() + 0.5 * pull @ a**2 + 0.5 * moved @ matrix @ moved
            return value, design.T @ loss.deriv(data, m) + pull * a + matrix @ moved

        here, slope = objective(row)
        best = scipy.optimize.minimize(
            objective, row + 0.1, jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * 3,
            options={"ftol": 1e-15, "gtol": 1e-10},
        ).fun  # fmt: skip
        assert here <= best + 1e-7 * (1.0 + abs(best))
        assert (slope[row == 0.0] >= -1e-6).all()


def test_gaussian_rows_remember_like_recursive_least_squares():
    # Noise-free slices of one model: whatever is remembered must lead to that model.
    rng = np.random.default_rng(0)
    loss = get_loss("gaussian")
    other = unit(rng.standard_normal((30, 2)))
    truth = rng.standard_normal((4, 2))
    slices = [Slice.dense((truth * s) @ other.T) for s in ([1.0, 2.0], [2.0, -1.0])]
    blocks = stack_factors([unit(truth + 0.1 * rng.standard_normal((4, 2))), other])
    past = FisherRows.start(blocks, bounded=False)
    first = FisherSums(blocks, weighted_cells(slices[0], 0), loss)
    near = fisher_weights.solve_weights(first, [np.zeros(4)], bounded=False)
    past.absorb_at(first, near.weights, 0.0)
    for x in slices * 3:
        sums = FisherSums(blocks, weighted_cells(x, 0), loss)
        start = fisher_weights.solve_weights(sums, [np.ones(4) * [1, 1, 0, 0]], bounded=False)
        last = past.update(model_of(blocks, past, 1.0), sums, start.weights, 0.99)
    assert last.objective < 1e-2 * (slices[-1].norm_squared)


def test_candidates_for_bounded_losses_are_never_zero():
    last = np.array([1.0, 0.0, 0.0, 0.0])
    for start in fisher_weights.start_candidates(last, np.zeros(4), True, 2):
        assert (start[:2] > 0.0).all()
        assert not start[2:].any()


def test_components_that_stand_in_for_each_other_do_not_make_the_derivative_grow():
    # Eight patterns where three would do, as hours of weather have it: any of them may turn as long
    # as others turn back, and the derivative grew from slice to slice until no number held it.
    rng, hours = np.random.default_rng(0), np.arange(12)[:, None]
    model = OnlineGCP(8, "gaussian", init_slices=10, lower=0, ndim=2)
    for t in range(40):
        swing = np.sin(hours / 2 + t / 9) * [0.001, 0.1, 0.05]
        x = [1000.0, 10.0, 4.0] * (1 + swing) + rng.normal(size=(12, 3)) * [0.5, 0.3, 0.1]
        x[rng.random(x.shape) < 0.05] = np.nan
        model.partial_fit(x)
    past = model._state.live.current.model.past
    assert isinstance(past, FisherRows)
    assert np.abs(past.sensitivity).max() <= MOST_TURN
