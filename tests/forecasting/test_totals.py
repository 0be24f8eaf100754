"""Totals: no absurd ones, no negative ones, intervals where data are no multiples of the model."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri

from onlinegcp import OnlineGCP, Slice
from onlinegcp.forecasting import Recent, forecast
from onlinegcp.losses import get_loss


def recent_of(totals, shares):
    """Slices that hold so much, in cells that always have the same shares of it."""
    return Recent().after(*(Slice.dense(total * shares) for total in totals))


def test_patterns_that_know_nothing_of_totals_do_not_forecast_them():
    """As of deaths in disasters: one drought in the past, and a model that expects it again."""
    rng = np.random.default_rng(0)
    shares = np.outer([0.7, 0.2, 0.1], [0.5, 0.5])
    held = rng.poisson(500.0, 80).astype(float)
    past = 500_000 * rng.lognormal(0.0, 2.0, (80, 1))  # what the weights say
    factors = [shares.sum(axis=1)[:, None], shares.sum(axis=0)[:, None]]
    found = forecast(past, factors, get_loss("poisson"), 5, recent=recent_of(held, shares))
    np.testing.assert_allclose(found.total, 500.0, rtol=0.1)
    assert (found.low > 400).all()
    assert (found.high < 600).all()
    for step in range(5):
        assert found.dense(step).sum() == pytest.approx(found.total[step])
        np.testing.assert_allclose(found.dense(step) / found.total[step], shares, rtol=1e-9)
    (cell,) = found.cells(0, 1)
    assert cell["expected"] == pytest.approx(0.35 * found.total[0])
    assert cell["high"] < 250


def test_patterns_that_hold_what_slices_hold_are_carried_on_as_they_are():
    rng = np.random.default_rng(1)
    shares = np.outer([0.7, 0.3], [0.5, 0.5])
    held = rng.poisson(500.0, 80).astype(float)
    factors = [shares.sum(axis=1)[:, None], shares.sum(axis=0)[:, None]]
    with_slices = forecast(
        held[:, None], factors, get_loss("poisson"), 5, recent=recent_of(held, shares), period=1
    )
    without = forecast(held[:, None], factors, get_loss("poisson"), 5, period=1)
    np.testing.assert_allclose(with_slices.total, without.total, rtol=0.05)
    np.testing.assert_allclose(with_slices.high, without.high, rtol=0.1)


@pytest.mark.parametrize("name", ["bernoulli_odds", "bernoulli_logit", "poisson_log"])
def test_the_interval_of_a_sum_follows_the_model_where_it_is(name):
    """Against weights drawn from what the forecast says of them."""
    rng = np.random.default_rng(2)
    loss = get_loss(name)
    factors = [rng.random((8, 2)), rng.random((6, 2))]
    sums = np.prod([a.sum(axis=0) for a in factors], axis=0)
    past = (rng.normal(1.0, 0.05, (60, 2)) * [0.2, 0.1]) * sums
    found = forecast(past, factors, loss, 3, period=1)
    for step in range(3):
        weights = rng.multivariate_normal(found.weights[step], found.covariance[step], 4000)
        model = np.einsum("nr,ir,jr->nij", weights, *factors)
        spread = np.asarray(loss.mean(model)).sum(axis=(1, 2)).std()
        width = (found.high - found.low)[step] / (2 * ndtri(0.9))
        assert width == pytest.approx(spread, rel=0.1)


@pytest.mark.slow
def test_yes_or_no_is_covered():
    """Totals of rare events were told with intervals a sixth as wide as their noise."""
    rng = np.random.default_rng(3)
    a, b = rng.gamma(0.5, size=(20, 1)), rng.gamma(0.5, size=(15, 1))
    odds = 0.1 * a @ b.T
    slices = [
        Slice.dense((rng.random(odds.shape) < odds / (1 + odds)).astype(float)) for _ in range(100)
    ]
    found = OnlineGCP(1, "bernoulli_odds").partial_fit(slices[:60]).forecast(1)
    later = np.array([x.total for x in slices[60:]])
    inside = (later >= found.low[0]) & (later <= found.high[0])
    assert 0.6 < inside.mean() < 0.95


@pytest.mark.parametrize("seed", [45, 189])
def test_counts_are_never_foreseen_to_be_negative(seed):
    """What patterns missed in the last seasons, which are few, is not added below zero."""
    rng, one = np.random.default_rng(seed), np.ones((1, 1))
    past = 500.0 * rng.lognormal(0.0, 1.5, (60, 1))
    few = recent_of(rng.poisson(20, 60).astype(float)[-11:], one)
    found = forecast(past, [one, one], get_loss("poisson"), 4, period=2, recent=few)
    assert (found.low >= 0).all()
    assert (found.total >= 0).all()
    assert (found.total <= found.high).all()


def test_one_odd_day_does_not_widen_the_interval_for_weeks():
    one, rng = np.ones((1, 1)), np.random.default_rng(5)
    held = rng.normal(500.0, 20.0, (90, 1))
    odd = held.copy()
    odd[78] = 2500.0
    calm, spoilt = (forecast(x, [one], get_loss("poisson"), 3, period=1) for x in (held, odd))
    widths = [float((found.high - found.low).mean()) for found in (calm, spoilt)]
    assert widths[1] < 5 * widths[0]  # 15 times where it counts as all others do


@pytest.mark.slow
def test_intervals_hold_what_they_promise_where_tails_are_heavy():
    one, inside = np.ones((1, 1)), {0.5: [], 0.8: [], 0.95: []}
    for seed in range(60):
        held = np.exp(1.0 * np.random.default_rng(seed).normal(size=(160, 1)))
        for level, found in inside.items():
            ahead = forecast(held[:150], [one], get_loss("poisson"), 10, period=1, level=level)
            found.append(((held[150:, 0] >= ahead.low) & (held[150:, 0] <= ahead.high)).mean())
    held = {level: float(np.mean(found)) for level, found in inside.items()}
    assert 0.45 < held[0.5] < 0.68
    assert 0.75 < held[0.8] < 0.89  # .92 by the normal distribution
    assert 0.9 < held[0.95] < 0.98


def test_cells_that_nobody_ever_observes_belong_to_no_total():
    """Half of the stations have no thermometer, one began lately: totals are of what is there."""
    rng = np.random.default_rng(7)
    listed = np.argwhere(np.array([[1, 1], [1, 0], [1, 0], [1, 1]]) == 1)
    model = OnlineGCP(1, "gaussian", lower=0.0, init_slices=5)
    held = []
    for t in range(60):
        index = listed if t >= 30 else listed[listed[:, 0] < 3]
        value = np.where(index[:, 1] == 0, 20.0, 400.0) + rng.normal(0.0, 1.0, len(index))
        model.partial_fit([Slice(index, value, (4, 2), unlisted="missing")])
        held.append(value.sum())
    found = model.forecast(7)
    assert found.total == pytest.approx(np.mean(held[-10:]), rel=0.03)
    inside = (found.low < np.mean(held[-10:])) & (np.mean(held[-10:]) < found.high)
    assert inside.all()
    assert found.dense(0)[1, 1] > 100.0  # what it would have measured is still foreseen


@pytest.mark.parametrize("name", ["gaussian", "bernoulli_logit"])
def test_a_cell_counts_as_often_as_it_is_observed(name):
    rng = np.random.default_rng(8)
    loss, shape = get_loss(name), (4, 3)
    factors = [rng.random((n, 2)) for n in shape]
    slices = []
    for _ in range(20):
        index = np.argwhere(rng.random(shape) < 0.6)
        slices.append(Slice(index, np.ones(len(index)), shape, unlisted="missing"))
    past = 1.0 + 0.05 * rng.random((20, 2))
    found = forecast(past, factors, loss, 2, recent=Recent().after(*slices), period=1)
    counts = 0.5 ** (np.arange(20)[::-1] / 5.0)
    shares = np.zeros(shape)
    for x, count in zip(slices, counts / counts.sum(), strict=True):
        for i, j in x.index:
            shares[i, j] += count
    for step in range(2):
        assert found.total[step] == pytest.approx((shares * found.dense(step)).sum())


def test_a_timetable_stays_one_where_totals_are_carried_on_themselves():
    """Patterns know nothing of totals, and cells do: both are foreseen by what knows them."""
    rng = np.random.default_rng(9)
    week = rng.poisson(20.0, (7, 5, 4)).astype(float)
    slices = [week[t % 7] * (1.0 + 0.02 * rng.normal()) for t in range(70)]
    past = 3000.0 * rng.lognormal(0.0, 1.0, (70, 1))  # what the weights say
    factors = [np.full((5, 1), 0.2), np.full((4, 1), 0.25)]
    recent = Recent().after(*(Slice.dense(x) for x in slices))
    found = forecast(past, factors, get_loss("poisson"), 7, recent=recent, period=7)
    for step in range(7):
        assert found.total[step] == pytest.approx(week[step].sum(), rel=0.06)
        assert found.dense(step).sum() == pytest.approx(found.total[step], rel=1e-3)
        far = np.abs(found.dense(step) - week[step]).mean()
        assert far < 0.5 * np.abs(week[step] - week[step].mean()).mean()
