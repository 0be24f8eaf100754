"""Cells: drawn to what they held where that repeats, left to the patterns where it does not."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import nnls

from onlinegcp import OnlineGCP, Slice
from onlinegcp.forecasting import Recent, forecast
from onlinegcp.forecasting.cells import FADING, RELUCTANCE, SEASONS, draw
from onlinegcp.forecasting.smoothing import carry_on
from onlinegcp.losses import get_loss

PERIOD = 3


def timetable(n, seed=0, noise=0.0):
    """Slices whose single cells repeat every third time, which no few patterns explain."""
    rng = np.random.default_rng(seed)
    plan = rng.poisson(2.0, (PERIOD, 8, 7)) * (rng.random((PERIOD, 8, 7)) < 0.5)
    return [
        Slice.dense(np.maximum(plan[t % PERIOD] + (rng.random((8, 7)) < noise), 0.0), time=t)
        for t in range(n)
    ]


def brute(slices, weights, columns, carried, mean):
    """The same with every cell written out, and least squares over all of them at once."""
    patterns = np.stack(
        [np.outer(a, b).ravel() for a, b in zip(*(c.T for c in columns), strict=True)]
    )
    data = [x.to_dense().ravel() for x in slices]
    for t, x in enumerate(data):
        x[np.isnan(x)] = (weights[t] @ patterns)[np.isnan(x)]
    fitted = weights @ patterns

    def towards(at, ahead, expected):
        same = [j for j in range(at - PERIOD, -1, -PERIOD) if at - ahead >= j and j < len(data)]
        same = same[:SEASONS]
        fading = FADING ** np.arange(len(same))
        fading /= fading.sum()
        last, before = data[same[0]], sum(f * data[j] for f, j in zip(fading, same, strict=True))
        then = sum(f * fitted[j] for f, j in zip(fading, same, strict=True))
        return np.stack([last - expected, before - expected, last - fitted[same[0]], before - then])

    ends = []
    for errors, ahead in ((carried.near, 1), (carried.far, len(mean))):
        left, right = [], []
        for at in range(len(data) - len(errors), len(data)):
            if at - PERIOD < 0 or not any(j <= at - ahead for j in range(at - PERIOD, -1, -PERIOD)):
                continue
            expected = (weights[at] - errors[at - len(data)]) @ patterns
            left.append(towards(at, ahead, expected))
            right.append(data[at] - expected)
        a, y = np.concatenate(left, axis=1).T, np.concatenate(right)
        sizes = np.sum(a**2, axis=0)
        a = np.vstack([a, np.diag(np.sqrt(RELUCTANCE * sizes + 1e-9 * sizes.sum()))])
        shares = nnls(a, np.concatenate([y, np.zeros(4)]))[0]
        ends.append(shares / max(1.0, shares.sum()))
    found = []
    for h in range(len(mean)):
        way = h / (len(mean) - 1)
        expected = mean[h] @ patterns
        shares = (1 - way) * ends[0] + way * ends[1]
        found.append(expected + shares @ towards(len(data) + h, h + 1, expected))
    return np.array(found)


@pytest.mark.parametrize("kind", ["zero", "dense", "holes"])
def test_shares_are_those_of_least_squares_over_all_cells(kind):
    rng = np.random.default_rng(1)
    columns = [rng.random((8, 2)), rng.random((7, 2))]
    columns = [a / a.sum(axis=0) for a in columns]
    slices, recent = [], Recent()
    for x in timetable(30, noise=0.3):
        array = x.to_dense()
        if kind == "holes":
            array[rng.random(array.shape) < 0.2] = np.nan
        y = Slice(np.argwhere(array), array[array != 0], (8, 7)) if kind == "zero" else None
        slices.append(Slice.dense(array) if y is None else y)
        recent = recent.after(slices[-1])
    past = 20.0 + rng.normal(size=(30, 2))
    carried = carry_on(past, 4, PERIOD)
    drawn = draw(recent, past, carried, carried.mean, columns, 1.0, PERIOD)
    expected = brute(slices, past, columns, carried, carried.mean)
    for h in range(4):
        dense = (columns[0] * drawn.weights[h]) @ columns[1].T
        dense[tuple(drawn.index.T)] += drawn.listed(h)
        np.testing.assert_allclose(dense.ravel(), expected[h], atol=2e-4)


def test_a_timetable_is_foreseen_cell_by_cell_and_by_its_totals():
    slices = timetable(46)
    model = OnlineGCP(1, "poisson", init_slices=6).fit(slices[:42])
    found = model.forecast(4, period=PERIOD)
    for h, x in enumerate(slices[42:]):
        assert np.abs(found.dense(h) - x.array).max() < 0.1
        assert found.total[h] == pytest.approx(x.total, rel=0.02)
        best = found.cells(h, 3)
        top = np.sort(x.array.ravel())[::-1][:3]
        np.testing.assert_allclose([cell["expected"] for cell in best], top, atol=0.1)
        for cell in best:
            assert x.array[tuple(map(int, cell["labels"]))] == pytest.approx(top[0], abs=3.1)


def test_noise_that_does_not_repeat_is_left_to_the_patterns():
    rng = np.random.default_rng(2)
    mean = 20.0 * np.outer(rng.random(8), rng.random(7))
    slices = [Slice.dense(rng.poisson(mean).astype(float)) for _ in range(60)]
    model = OnlineGCP(1, "poisson", init_slices=6).fit(slices)
    found = model.forecast(3, period=7)
    assert found.drawn.shares.sum() < 0.2 * len(found)
    assert np.abs(found.dense(0) - mean).mean() < 0.15 * mean.mean()


@pytest.mark.parametrize("spread", [0.3, 1.0, 3.0])
def test_intervals_of_cells_hold_what_they_promise_whatever_the_loss_says(spread):
    """Counts that vary less or more than Poisson: the newest slices tell by how much."""
    inside = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        mean = np.outer(8.0 + rng.random(8) * 20, 0.5 + rng.random(7))
        drawn = mean + np.sqrt(spread * mean) * rng.normal(size=(64, 8, 7))
        slices = [Slice.dense(np.maximum(x.round(), 0.0)) for x in drawn]
        model = OnlineGCP(1, "poisson", init_slices=6).fit(slices[:57])
        found = model.forecast(7, period=7)
        for h, n in itertools.product(range(7), range(20)):
            cell = found.cells(h, 20)[n]
            value = slices[57 + h].array[tuple(map(int, cell["labels"]))]
            inside.append(cell["low"] <= value <= cell["high"])
    assert 0.7 < np.mean(inside) < 0.9


@pytest.mark.parametrize("together", [False, True])
def test_intervals_of_the_largest_cells_hold_what_they_promise(together):
    """Counts whose spread grows as they do, cell by cell or a row at a time.

    One factor for all cells, which small ones decide, held 73 and 76 % of the largest.
    """
    inside = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        rows, columns = (rng.gamma(0.4, size=n) for n in (20, 15))
        mean = 400.0 * np.outer(rows / rows.sum(), columns / columns.sum())
        varied = rng.gamma(3.0, 1.0 / 3.0, (84, 20, 1 if together else 15))
        drawn = rng.poisson(mean * varied).astype(float)
        slices = [Slice.dense(x) for x in drawn]
        found = OnlineGCP(1, "poisson", init_slices=6).fit(slices[:70]).forecast(14, period=7)
        for h in range(14):
            for cell in found.cells(h, 10):
                value = drawn[(70 + h, *map(int, cell["labels"]))]
                inside.append(cell["low"] <= value <= cell["high"])
    assert 0.78 < np.mean(inside) < 0.88


def test_losses_whose_means_are_no_multiples_go_without():
    rng = np.random.default_rng(0)
    past = 5.0 + rng.random((30, 2))
    factors = [rng.random((8, 2)), rng.random((7, 2))]
    recent = Recent()
    for x in timetable(30):
        recent = recent.after(x)
    for name in ("bernoulli_odds", "poisson_log"):
        with_, without = (
            forecast(past, factors, get_loss(name), 2, period=3, recent=r)
            for r in (recent, Recent())
        )
        assert (with_.dense(1) == without.dense(1)).all()


def test_a_stored_model_foresees_the_same_cells(tmp_path):
    model = OnlineGCP(2, "poisson", init_slices=6).fit(timetable(40, noise=0.3))
    model.save(tmp_path / "m.npz")
    again = OnlineGCP.load(tmp_path / "m.npz")
    more = timetable(44, noise=0.3)[40:]
    for one in (model, again):
        one.partial_fit(more)
    ours, theirs = model.forecast(5, period=3), again.forecast(5, period=3)
    assert (ours.dense(4) == theirs.dense(4)).all()
    assert ours.drawn.shares.any()
