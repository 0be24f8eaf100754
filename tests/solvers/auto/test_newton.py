"""Weights satisfy the optimality conditions and are as good as L-BFGS-B's."""

import numpy as np
import pytest
import scipy.optimize

from onlinegcp.kernels.layout import stack_factors
from onlinegcp.losses import get_loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import newton
from onlinegcp.solvers.auto.cells import cells_of
from onlinegcp.solvers.auto.odds_sums import OddsSums

LOSSES = ["poisson", "bernoulli_odds", "negative_binomial"]


def draw(name, shape, rank, seed, missing=0.0, counts=2.0):
    rng = np.random.default_rng(seed)
    factors = [rng.dirichlet(np.full(n, 0.4), rank).T + 1e-4 for n in shape]
    factors = [a / a.sum(axis=0) for a in factors]
    weights = counts * np.prod(shape) / rank * rng.gamma(0.5, 1.0, rank)
    weights[0] = 0.0
    letters = "abcdef"[: len(shape)]
    spec = ",".join(["z", *(f"{c}z" for c in letters)])
    m = np.einsum(f"{spec}->{letters}", weights, *factors)
    if name == "bernoulli_odds":
        x = (rng.random(shape) < m / (1.0 + m)).astype(float)
    else:
        x = rng.poisson(m).astype(float)
    if missing:
        x[rng.random(shape) < missing] = np.nan
        return factors, Slice.dense(x)
    return factors, Slice(np.argwhere(x), x[x != 0], shape)


def exact(factors, x, loss, weights):
    """Loss and slope from the full array."""
    full = x.to_dense()
    seen = ~np.isnan(full)
    rows = np.prod([a[np.argwhere(seen)[:, k]] for k, a in enumerate(factors)], axis=0)
    m = rows @ weights
    return float(loss.value(full[seen], m).sum()), rows.T @ loss.deriv(full[seen], m)


def problem(factors, x, loss):
    sums = OddsSums(stack_factors(factors), cells_of(x), loss.traits.odds_form)
    mean = np.zeros(sums.factors.width)
    mean[: sums.factors.rank] = 1.0
    return sums, newton.start_weights(mean, sums.cells.total, mean, sums.factors.rank)


def solve(factors, x, loss):
    return newton.solve_odds_form(*problem(factors, x, loss))


@pytest.mark.slow
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize(
    ("shape", "missing"),
    [((13,), 0.0), ((7, 5), 0.0), ((6, 1, 5), 0.3), ((3, 2, 4, 2), 0.0), ((2, 2, 3, 1, 2, 2), 0.0)],
    ids=str,
)
def test_weights_satisfy_the_optimality_conditions_and_match_lbfgs(name, shape, missing):
    loss = get_loss(name)
    factors, x = draw(name, shape, 4, 0, missing)
    found = solve(factors, x, loss)
    weights = found.weights[:4]
    value, slope = exact(factors, x, loss, weights)
    assert found.objective == pytest.approx(value, rel=1e-9, abs=1e-8)
    assert (weights >= 0.0).all()
    top = weights.max()
    assert (slope >= -1e-4).all()
    assert (np.abs(slope * weights) <= 1e-4 * top).all()
    best = min(
        scipy.optimize.minimize(
            lambda s: exact(factors, x, loss, s), start, jac=True, method="L-BFGS-B",
            bounds=[(0.0, None)] * 4, options={"ftol": 1e-14, "gtol": 1e-9, "maxiter": 500},
        ).fun
        for start in (np.full(4, 1.0), weights + 0.01 * top)
    )  # fmt: skip
    assert value <= best + 1e-6 * (1.0 + abs(best))


def test_components_without_data_get_exact_zeros():
    factors, x = draw("poisson", (9, 8), 4, 3)
    found = solve(factors, x, get_loss("poisson"))
    assert (found.weights[:4] == 0.0).any()


@pytest.mark.parametrize("name", LOSSES)
def test_an_empty_slice_has_zero_weights(name):
    factors, _ = draw(name, (5, 4), 3, 1)
    empty = Slice(np.zeros((0, 2)), np.zeros(0), (5, 4))
    found = solve(factors, empty, get_loss(name))
    assert not found.weights.any()
    assert found.objective == 0.0


def test_the_subset_of_a_large_slice_gives_the_same_optimum(monkeypatch):
    factors, x = draw("poisson", (40, 30, 20), 5, 2, counts=1.0)
    loss = get_loss("poisson")
    whole = solve(factors, x, loss)
    monkeypatch.setattr(newton, "SUBSET", 500)
    assert x.n_listed > 1000
    chord = solve(factors, x, loss)
    np.testing.assert_allclose(
        chord.weights, whole.weights, rtol=1e-4, atol=1e-4 * whole.weights.max()
    )
    assert chord.optimality <= 1e-6
    weights, _, objective = newton.solve_roughly(
        *problem(factors, x, loss), tolerance=1e-6, max_steps=50
    )
    value, _ = exact(factors, x, loss, weights[:5])
    assert objective is None
    assert value <= whole.objective + 5 * 5 * x.n_listed / 500


def test_the_start_is_positive_and_has_the_total_of_the_slice():
    start = newton.start_weights(np.array([5.0, 0.0, 1.0, 0.0]), 30.0, np.ones(4), 3)
    assert (start[:3] > 0.0).all()
    assert start.sum() == pytest.approx(30.0)
    assert newton.start_weights(np.zeros(4), 2.0, np.ones(4), 2).sum() == pytest.approx(2.0)


def test_sampled_zeros_come_close_to_exact_ones(monkeypatch):
    factors, x = draw("bernoulli_odds", (20, 15, 12), 4, 5, counts=0.2)
    loss = get_loss("bernoulli_odds")
    precise = solve(factors, x, loss)
    monkeypatch.setattr("onlinegcp.solvers.auto.odds_sums.EXACT_BUDGET", 0.0)
    sampled = solve(factors, x, loss)
    value, _ = exact(factors, x, loss, sampled.weights[:4])
    assert value <= precise.objective + 2e-3 * abs(precise.objective)
