"""Shares of rows: what they tell of the total where labels come and go."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.anomaly.shares import RowShares
from onlinegcp.kernels.shares import LATELY


def test_rows_that_are_never_seen_again_do_not_eat_up_the_total():
    # Ten members who stay, and twenty in every slice who come once: after two hundred slices four
    # thousand rows are known, each of which might have half an event.
    rng, shares = np.random.default_rng(0), RowShares()
    for t in range(200):
        sums = np.concatenate([rng.poisson(40.0, 10), np.zeros(20 * t), np.ones(20)]).astype(float)
        seen = shares.judge(sums)
        if t > 20:
            known = float(sums[: seen.n_known].sum())
            assert abs(seen.total - known) < 0.05 * known
            assert abs(seen.forecast[:10].sum() - known) < 0.1 * known
        shares.learn(seen)


def errors_of(slices, *, forgetful):
    """Mean square of the errors of forecasts, in units of Poisson noise, after a start."""
    shares, found = RowShares(), []
    for t, sums in enumerate(slices):
        seen = shares.judge(sums)
        if t >= 200:
            found.append((seen.observed - seen.forecast) ** 2 / seen.forecast)
        shares.learn(seen)
        if forgetful:
            shares.rows[LATELY] = 0.0
    return float(np.mean(found))


@pytest.mark.parametrize("stays", [0.0, 0.8])
def test_a_row_that_stays_off_for_hours_is_expected_to(stays):
    rng = np.random.default_rng(1)
    off, slices = np.zeros(12), []
    for _ in range(600):
        off = stays * off + np.sqrt(1.0 - stays**2) * rng.normal(0.0, 0.3, 12)
        slices.append(rng.poisson(200.0 * np.exp(off)).astype(float))

    ratio = errors_of(slices, forgetful=False) / errors_of(slices, forgetful=True)
    # 1 - stays^2 of the variance is new in every slice; where nothing stays, nothing is lost.
    assert ratio < 0.75 if stays else ratio < 1.02


def test_rows_of_an_earlier_version_go_on():
    rng, shares = np.random.default_rng(3), RowShares()
    for _ in range(30):
        shares.learn(shares.judge(rng.poisson(50.0, 6).astype(float)))
    arrays, record = shares.state()
    resumed = RowShares.from_state({**arrays, "rows": arrays["rows"][:LATELY]}, record)
    assert resumed.rows.shape == shares.rows.shape
    seen = resumed.judge(np.full(6, 50.0))
    assert np.abs(seen.surprise).max() < 3.0
    resumed.learn(seen)


@pytest.mark.parametrize(("longer", "kept"), [(168, True), (52, False)])
def test_hours_of_a_day_tell_those_of_a_week_when_that_is_found(longer, kept):
    rng, shares = np.random.default_rng(0), RowShares(24)
    hours = 1.0 + 0.9 * np.cos(2.0 * np.pi * (np.arange(24)[:, None] / 24.0 + np.arange(4) / 4.0))

    def errors(first, last):
        found = []
        for t in range(first, last):
            seen = shares.judge(rng.poisson(100.0 * hours[t % 24]).astype(float))
            found.append((seen.observed - seen.forecast) ** 2 / np.maximum(seen.forecast, 1.0))
            shares.learn(seen)
        return float(np.mean(found))

    errors(0, 24 * 10)
    before = errors(24 * 10, 24 * 14)
    shares.start_season(longer)
    after = errors(24 * 14, 24 * 15)
    assert (after < 1.3 * before) == kept
    assert shares.season.shape == (longer, 2, 4)


def test_restless_hours_are_so_for_all_rows():
    # At night rows of a city vary several times as much as by day.
    rng, shares, found = np.random.default_rng(2), RowShares(24), ([], [])
    for t in range(24 * 40):
        wild = 0.3 if t % 24 < 6 else 0.1
        seen = shares.judge(rng.poisson(200.0 * np.exp(wild * rng.normal(size=30))).astype(float))
        if t >= 24 * 20:
            found[t % 24 < 6].append(np.mean(np.minimum(seen.surprise**2, 25.0)))
        shares.learn(seen)
    day, night = map(np.mean, found)
    assert night < 2.0 * day
    arrays, record = shares.state()
    before = {name: part for name, part in arrays.items() if name != "unrest"}  # of old runs
    assert RowShares.from_state(before, record).judge(seen.observed).ready
    assert RowShares.from_state(arrays, record).judge(seen.observed).surprise == pytest.approx(
        shares.judge(seen.observed).surprise, rel=0, abs=0
    )


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.6, 0.4), (0.4, 0.3, 0.3)])
def test_a_few_heavy_rows_are_as_seldom_odd_as_chance_has_it(shares):
    # What one of two rows tells of the total varies as much as the other does.
    rng, few = np.random.default_rng(5), RowShares()
    found = []
    for t in range(3000):
        sums = rng.poisson(100.0 * np.array(shares)).astype(float)
        seen = few.judge(sums, expected=[(80.0, 100.0, 120.0)])
        if t >= 100:
            found.append(float(np.abs(seen.surprise).max()))
        few.learn(seen)
    # The largest of three thousand times three normal numbers; five would be one in two hundred.
    assert max(found) < 5.0


@pytest.mark.parametrize("row", [0, 1, 2])
def test_one_of_three_rows_that_falls_is_as_odd_as_two_counts_can_tell(row):
    rng, few, ahead = np.random.default_rng(6), RowShares(), (260.0, 300.0, 340.0)
    for _ in range(400):
        few.learn(few.judge(rng.poisson(100.0, 3).astype(float), expected=[ahead]))
    sums = np.full(3, 100.0)
    sums[row] = 60.0
    seen = few.judge(sums, expected=[ahead])
    # A count of mean 100 less the half of one of mean 200 has the variance 100 + 200 / 4.
    assert seen.surprise[row] == pytest.approx(-40.0 / np.sqrt(150.0), rel=0.25)
    assert np.abs(np.delete(seen.surprise, row)).max() < 0.5
