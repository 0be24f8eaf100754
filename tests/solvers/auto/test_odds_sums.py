"""Sums over unlisted cells agree with the full array, whichever road they take."""

import numpy as np
import pytest

from onlinegcp.kernels.auto import tangent
from onlinegcp.kernels.layout import ALL_MODES, pad_vector, stack_factors
from onlinegcp.losses import OddsForm, get_loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import solver as auto
from onlinegcp.solvers.auto.cells import cells_of
from onlinegcp.solvers.auto.odds_sums import OddsSums

FORMS = {
    "poisson": OddsForm(True, 1.0, 0.0),
    "bernoulli": OddsForm(False, 1.0, 0.0),
    "negative_binomial": OddsForm(False, 3.0, 1.0),
}


def model(missing):
    rng = np.random.default_rng(0)
    shape = (5, 1, 4)
    factors = [rng.dirichlet(np.ones(n), 3).T for n in shape]
    x = rng.poisson(0.7, shape).astype(float)
    if missing:
        x[rng.random(shape) < 0.3] = np.nan
    return factors, x, 9.0 * rng.random(3)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("missing", [False, True])
def test_value_slope_and_rates_are_those_of_the_full_array(form, missing):
    factors, x, weights = model(missing)
    listing = Slice.dense(x) if missing else Slice(np.argwhere(x), x[x != 0], x.shape)
    blocks = stack_factors(factors)
    zeros = OddsSums(blocks, cells_of(listing), form)
    seen = ~np.isnan(x)

    def total(s, parts):
        m = np.einsum("z,az,bz,cz->abc", s, *parts)[seen]
        v = form.base + form.slope * x[seen]
        return float((v * (m if form.linear else np.log1p(m))).sum())

    value, slope = zeros.tangent(pad_vector(weights))
    assert value == pytest.approx(total(weights, factors), rel=1e-10)
    for r in range(3):
        step = np.eye(3)[r] * 1e-6
        numeric = (total(weights + step, factors) - total(weights - step, factors)) / 2e-6
        assert slope[r] == pytest.approx(numeric, rel=1e-6)
    out = np.full_like(blocks.data, 3.0)
    zeros.rates(pad_vector(weights), ALL_MODES, out)
    for k, row, r in [(0, 2, 1), (1, 0, 2), (2, 3, 0)]:
        up, down = [a.copy() for a in factors], [a.copy() for a in factors]
        up[k][row, r] += 1e-6
        down[k][row, r] -= 1e-6
        numeric = (total(weights, up) - total(weights, down)) / 2e-6
        assert out[blocks.offsets[k] + row, r] == pytest.approx(numeric, rel=1e-6)


def test_draws_are_repeated_until_refreshed(monkeypatch):
    monkeypatch.setattr("onlinegcp.solvers.auto.odds_sums.EXACT_BUDGET", 0.0)
    factors, x, weights = model(missing=False)
    blocks = stack_factors(factors)
    zeros = OddsSums(blocks, cells_of(Slice.dense(x)), FORMS["bernoulli"], seed=5)
    assert zeros.sampled
    first, again = zeros.tangent(pad_vector(weights)), zeros.tangent(pad_vector(weights))
    assert first[0] == again[0]
    zeros.refresh()
    assert zeros.tangent(pad_vector(weights))[0] == first[0]
    other = OddsSums(blocks, cells_of(Slice.dense(x)), FORMS["bernoulli"], seed=6)
    assert other.tangent(pad_vector(weights))[0] != first[0]


def test_cells_of_long_modes_are_visited_box_by_box_in_every_pass(monkeypatch):
    monkeypatch.setattr("onlinegcp.sums.chunks.LEAST_WORK", 1)
    monkeypatch.setattr("onlinegcp.solvers.auto.cells.CELLS_PER_ROW", 0)
    rng = np.random.default_rng(2)
    shape = (60, 50)
    x = Slice.dense(rng.poisson(1.0, shape))
    blocks = stack_factors([rng.dirichlet(np.ones(n), 3).T for n in shape])
    weights = pad_vector(200.0 * rng.random(3))
    near = OddsSums(blocks, cells_of(x), FORMS["poisson"])
    monkeypatch.setattr("onlinegcp.solvers.auto.odds_sums.AT_HAND", 0)
    far = OddsSums(blocks, cells_of(x), FORMS["poisson"])
    assert far.loss(weights) == pytest.approx(near.loss(weights), rel=1e-12)

    order = np.lexsort(near.listed_cells.arrays[0].T)
    again = np.lexsort(far.listed_cells.arrays[0].T)
    for here, there in zip(near.listed_cells.arrays, far.listed_cells.arrays, strict=True):
        assert (here[order] == there[again]).all()
    assert np.ptp(far.listed_cells.part(0, 1).arrays[0][:, 1]) < 25
    assert far.listed_cells.count == near.listed_cells.count


LARGE = (500, 500, 400)  # 10^8 cells


def large_model(seed=0):
    """Popular rows in every mode, so that odds range from nothing to 50."""
    rng = np.random.default_rng(seed)
    return rng, [rng.dirichlet(np.full(n, 0.3), 4).T for n in LARGE], [3e5, 1e5, 3e4, 5e3]


def draw_large(rng, factors, weights):
    """A yes-or-no slice with odds m: Poisson points, thinned from 1 - exp(-m) to m / (1 + m)."""
    points = [
        np.stack([rng.choice(len(a), int(w), p=a[:, r]) for a in factors], axis=1)
        for r, w in enumerate(weights)
    ]
    linear = np.unique(np.ravel_multi_index(np.concatenate(points).T, LARGE))
    index = np.stack(np.unravel_index(linear, LARGE), axis=1)
    m = np.prod([a[index[:, k]] for k, a in enumerate(factors)], axis=0) @ weights
    kept = index[rng.random(len(index)) < m / (1.0 + m) / -np.expm1(-m)]
    return Slice(kept, np.ones(len(kept)), LARGE)


def by_tiles(blocks, zeros, weights, rates=False):
    pull, rate = np.zeros(blocks.width), np.zeros_like(blocks.data)
    model_of = (blocks.data, blocks.offsets, tangent.split_modes(blocks.shape), weights)
    whole = (0, tangent.left_rows(blocks.shape))
    total = tangent.log_sums(*model_of, True, *whole, pull)
    if rates:
        tangent.rate_sums(*model_of, ALL_MODES, *whole, blocks.offsets, rate)
    return total, pull, rate


def test_the_value_alone_is_that_of_the_tangent():
    factors = [np.random.default_rng(4).dirichlet(np.ones(n), 3).T for n in (7, 5, 4)]
    blocks, weights = stack_factors(factors), pad_vector(np.array([3.0, 0.0, 11.0]))
    for form in FORMS.values():
        x = Slice(np.array([[0, 1, 2], [6, 4, 3]]), [1.0, 1.0], (7, 5, 4))
        for unlisted in ("zero", "missing"):
            x = Slice(x.index, x.value, x.shape, unlisted=unlisted)
            zeros = OddsSums(blocks, cells_of(x), form)
            assert zeros.value(weights) == pytest.approx(zeros.tangent(weights)[0], rel=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("scattered", [False, True])
def test_samples_of_a_hundred_million_cells_agree_with_their_sum(scattered, monkeypatch):
    rng, factors, weights = large_model()
    blocks, padded = stack_factors(factors), pad_vector(np.array(weights))
    x = draw_large(rng, factors, weights)
    assert x.size == 10**8
    zeros = OddsSums(blocks, cells_of(x), FORMS["bernoulli"], seed=3)
    assert zeros.sampled
    total, pull, rate = by_tiles(blocks, zeros, padded, rates=True)
    value, slope = zeros.tangent(padded)
    assert value == pytest.approx(total, rel=0.01)
    np.testing.assert_allclose(slope, pull, rtol=0.03)
    if scattered:
        monkeypatch.setattr("onlinegcp.solvers.auto.odds_draws.RATE_BUDGET", 4e5)
    found = np.empty_like(rate)
    zeros.rates(padded, ALL_MODES, found)
    error = found / rate - 1.0
    for k in range(3):
        rows = slice(blocks.offsets[k], blocks.offsets[k + 1])
        # Each row counts by its part of the component.
        spread = np.sqrt((blocks.data[rows] * error[rows] ** 2).sum(axis=0))
        assert spread.max() < 0.03


@pytest.mark.slow
def test_a_slice_of_a_hundred_million_cells_is_learned_from_samples():
    rng, factors, weights = large_model(1)
    slices = [draw_large(rng, factors, weights) for _ in range(3)]
    loss = get_loss("bernoulli_odds")
    rough = [a * (1.0 + rng.random(a.shape)) for a in factors]
    state = auto.start(rough, [weights], slices[:1], loss)
    losses = []
    for _ in range(2):
        found = auto.solve(state, slices[2], loss)
        zeros = OddsSums(state.factors, cells_of(slices[2]), FORMS["bernoulli"])
        total, pull, _ = by_tiles(state.factors, zeros, found.weights)
        index = slices[2].index
        parts = np.prod([v[index[:, k]] for k, v in enumerate(state.factors.views())], axis=0)
        m = parts @ found.weights[:4]
        # The optimality conditions, with sums over all cells: slopes small, against either part.
        slope = pull - (parts / m[:, None]).sum(axis=0)
        assert np.abs(slope / pull).max() < 0.03
        losses.append(total - np.log(m).sum())
        assert found.objective == pytest.approx(losses[-1], rel=0.01)
        state, _ = auto.step(state, slices[1], loss)
    assert losses[1] < losses[0]
