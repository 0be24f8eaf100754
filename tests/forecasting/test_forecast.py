"""Forecasts: a season is carried on, intervals hold what they promise, labels stay."""

from __future__ import annotations

import datetime
import json

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtri

from cli_tools import fit, write_events
from onlinegcp import OnlineGCP, Slice
from onlinegcp.cli import Exit, call
from onlinegcp.digest import as_digest
from onlinegcp.errors import DataError
from onlinegcp.forecasting import forecast
from onlinegcp.forecasting.forecast import next_times
from onlinegcp.forecasting.smoothing import carry_on
from onlinegcp.losses import get_loss
from onlinegcp.report.outlook import outlook
from onlinegcp.report.payload import build
from onlinegcp.runlog import read_run
from onlinegcp.streaming import METHODS

WEEK = np.array([9.0, 10, 10, 11, 12, 4, 3])


def weekly(n=70, noise=0.5, seed=0, slope=0.0):
    rng = np.random.default_rng(seed)
    days = np.arange(n)
    return (np.tile(WEEK, n // 7 + 1)[:n] + slope * days + noise * rng.normal(size=n))[:, None]


def test_a_week_is_found_and_carried_on():
    found = carry_on(weekly(), 14)
    assert found.period == 7
    assert np.abs(found.mean[:, 0] - np.tile(WEEK, 2)).max() < 1.0


def test_a_season_the_calendar_suggests_is_dropped_where_there_is_none():
    calm = 10 + 0.1 * np.random.default_rng(0).normal(size=(60, 1))
    ended = np.concatenate([10 * weekly(14), calm])  # a season that is over
    assert carry_on(ended, 7, 7).period == 1
    assert carry_on(weekly(), 7, 7).period == 7


def test_one_holiday_does_not_shift_the_next_week():
    calm, spoilt = weekly(), weekly()
    spoilt[-4] = 80.0
    change = carry_on(spoilt, 7).mean - carry_on(calm, 7).mean
    assert np.abs(change).max() < 2.0


def test_intervals_hold_what_they_promise_and_grow():
    inside = []
    for seed in range(40):
        past = weekly(77, noise=1.0, seed=seed)
        found = carry_on(past[:70], 7)
        spread = np.sqrt(found.covariance[:, 0, 0])
        assert (np.diff(spread) >= -1e-12).all()
        inside.append(np.abs(past[70:, 0] - found.mean[:, 0]) < 1.2816 * spread)
    assert 0.72 < np.mean(inside) < 0.92


def test_what_varies_more_lately_makes_wider_intervals():
    draw = np.random.default_rng(5)
    noise = draw.normal(size=(160, 1)) * np.where(np.arange(160) < 110, 1.0, 4.0)[:, None]
    calm, wild = (carry_on(100 + part, 7, 1).covariance[:, 0, 0] for part in (noise[:110], noise))
    assert (wild[[0, -1]] > 6 * calm[[0, -1]]).all()  # 16 times, of late
    slow = carry_on(100 + np.cumsum(noise[:110], axis=0), 7, 1)
    errors = slow.far[-60:]
    assert slow.covariance[-1, 0, 0] == pytest.approx(float((errors**2).mean()), rel=0.5)


def test_totals_vary_by_what_patterns_leave_out_of_them():
    """Under a loss that expects large cells to vary, weights hold back where totals jump."""
    draw = np.random.default_rng(2)
    slices = [Slice.dense(draw.negative_binomial(1, 0.1, (4, 5)).astype(float)) for _ in range(140)]
    model = OnlineGCP(1, get_loss("negative_binomial", r=1.0)).partial_fit(slices[:130])
    ahead = model.forecast(7)
    spread = np.std([x.total for x in slices])  # totals are independent of each other
    width = (ahead.high - ahead.low) / (2 * ndtri(0.9))
    np.testing.assert_allclose(width, spread, rtol=0.3)


@pytest.mark.parametrize("n", [4, 5, 6, 7])
def test_few_slices_make_wide_intervals_not_none(n):
    """Nothing was foreseen of so few: what they differ by must do."""
    found = carry_on(np.array([90.0, 100, 80, 110, 95, 105, 85])[:n, None], 3)
    spread = np.sqrt(found.covariance[:, 0, 0])
    assert (spread > 5).all()
    assert (spread < 40).all()


def test_totals_are_the_sums_of_cells_for_every_loss():
    rng = np.random.default_rng(0)
    past = 5.0 + rng.random((30, 2))
    factors = [rng.random((4, 2)), rng.random((3, 2))]
    for name in ("poisson", "gaussian", "bernoulli_odds", "bernoulli_logit", "poisson_log"):
        found = forecast(past, factors, get_loss(name), 3)
        for step in range(3):
            assert found.total[step] == pytest.approx(found.dense(step).sum())
        assert (found.low <= found.total).all()
        assert (found.high >= found.total).all()
    nb = get_loss("negative_binomial", r=2.5)
    found = forecast(past, factors, nb, 1)
    assert found.total[0] == pytest.approx(found.dense(0).sum())


def test_cells_are_the_largest_of_all_with_their_labels():
    rng = np.random.default_rng(1)
    factors = [rng.random((5, 2)), rng.random((6, 2))]
    labels = [list("abcde"), list("uvwxyz")]
    found = forecast(5 + rng.random((20, 2)), factors, get_loss("poisson"), 2, labels=labels)
    dense = found.dense(1)
    cells = found.cells(1, 4)
    assert [cell["expected"] for cell in cells] == pytest.approx(sorted(dense.ravel())[::-1][:4])
    best = np.unravel_index(dense.argmax(), dense.shape)
    assert cells[0]["labels"] == [labels[k][i] for k, i in enumerate(best)]
    assert all(0 <= cell["low"] <= cell["expected"] <= cell["high"] for cell in cells)
    # Rows that came later than the labels go by their number.
    few = [list("ab"), []]
    found = forecast(5 + rng.random((20, 2)), factors, get_loss("poisson"), 1, labels=few)
    rows = {cell["labels"][0] for cell in found.cells(0, 30)}
    assert rows == {"a", "b", "2", "3", "4"}


def stream(n=40, seed=0):
    rng = np.random.default_rng(seed)
    a, b = rng.gamma(1.0, 1.0, (6, 2)), rng.gamma(1.0, 1.0, (5, 2))
    first = datetime.date(2024, 1, 1)
    return [
        Slice.dense(
            rng.poisson((a * [WEEK[t % 7], 5.0]) @ b.T).astype(float),
            time=first + datetime.timedelta(days=t),
        )
        for t in range(n)
    ]


def test_a_model_forecasts_better_than_last_week(tmp_path):
    slices = stream(66)
    model = OnlineGCP(2, "poisson", init_slices=5).fit(slices[:52])
    found = model.forecast(14, period=7)
    truth = np.array([x.total for x in slices[52:]])
    naive = np.array([slices[t - 7 if t < 59 else t - 14].total for t in range(52, 66)])
    assert np.abs(found.total - truth).mean() < np.abs(naive - truth).mean()
    model.save(tmp_path / "m.npz")
    again = OnlineGCP.load(tmp_path / "m.npz").forecast(14, period=7)
    assert (again.total == found.total).all()
    assert len(repr(found).splitlines()) == 15
    assert "<script" not in found._repr_html_()


@pytest.mark.parametrize("method", METHODS)
def test_every_method_forecasts_or_says_why_not(method):
    model = METHODS[method](2, init_slices=5).fit(stream(20))
    if model.gathers is not None:
        with pytest.raises(DataError, match="learns several slices together"):
            model.forecast(3)
        return
    assert np.isfinite(model.forecast(3).total).all()


def test_what_cannot_be_forecast_is_explained():
    model = OnlineGCP(2, "poisson", init_slices=5).fit(stream(6))
    with pytest.raises(DataError, match="at least 4 slices"):
        model.forecast(3)
    longer = OnlineGCP(2, "poisson", init_slices=5).fit(stream(12))
    with pytest.raises(DataError, match="steps must be"):
        longer.forecast(0)
    with pytest.raises(DataError, match="level must be"):
        longer.forecast(1, level=80)
    for period in (0, -7, 1.5):
        with pytest.raises(DataError, match="period must be a whole number >= 1"):
            longer.forecast(1, period=period)


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (["2024-02-27", "2024-02-28"], ["2024-02-29", "2024-03-01"]),
        (["2024-01-01T22:00", "2024-01-01T23:00"], ["2024-01-02T00:00:00", "2024-01-02T01:00:00"]),
        (["2024-11-01", "2024-12-01"], ["2025-01-01", "2025-02-01"]),
        ([10, 20], [30, 40]),
        (["spring", "summer"], [1, 2]),
        ([None], [1, 2]),
        ([datetime.date(2024, 1, 1), datetime.date(2024, 1, 8)], ["2024-01-15", "2024-01-22"]),
    ],
)  # fmt: skip
def test_times_go_on_as_they_went(times, expected):
    assert next_times(times, 2) == expected


def test_the_command_tells_totals_and_cells(tmp_path, capsys):
    run = str(fit(write_events(tmp_path / "e.jsonl"), tmp_path / "r.run"))
    capsys.readouterr()
    assert call(["forecast", run, "--ahead", "3"]) is Exit.DONE
    told = capsys.readouterr().out
    assert "31 January 2018" in told
    assert "80% interval" in told
    assert call(["forecast", run, "--ahead", "2", "--top", "1", "--json"]) is Exit.DONE
    found = json.loads(capsys.readouterr().out)
    assert [step["time"] for step in found["steps"]] == ["2018-01-31", "2018-02-01"]
    assert found["steps"][0]["low"] <= found["steps"][0]["total"] <= found["steps"][0]["high"]
    assert len(found["steps"][0]["cells"][0]["labels"]) == 3
    assert call(["forecast", run, "--ahead", "0"]) is Exit.BAD_INPUT


@pytest.fixture(scope="module")
def market(tmp_path_factory):
    """A run on prices that nobody makes at weekends."""
    folder = tmp_path_factory.mktemp("market")
    days = [datetime.date(2024, 1, 1) + datetime.timedelta(days=k) for k in range(140)]
    level = 100 + np.cumsum(np.random.default_rng(3).normal(size=140))
    rows = [
        f"{day},{name},{level[k] + 10 * place:.2f}"
        for k, day in enumerate(days)
        for place, name in enumerate("abc")
        if day.weekday() < 5
    ]
    table = folder / "prices.csv"
    table.write_text("\n".join(["day,ticker,price", *rows]))
    path = folder / "prices.run"
    assert call(["fit", str(table), "--rank", "1", "-o", str(path), "--quiet"]) is Exit.DONE
    return path


def test_slices_that_nobody_observed_are_no_zeros(market):
    lines = read_run(market).steps
    unseen = [line for line in lines if line["n_observed"] == 0]
    assert len(unseen) == 38
    assert not any(line["anomaly"] for line in unseen)
    last = lines[-1]["total"]  # of Friday
    found = outlook(as_digest(read_run(market)))
    assert (found.low > 0.8 * last).all()
    assert (found.high < 1.2 * last).all()
    drawn = build(read_run(market))["steps"]["rows"]
    assert [row["total"] is None for row in drawn] == [line["n_observed"] == 0 for line in lines]


def test_a_model_forecasts_over_slices_that_nobody_observed():
    draw = np.random.default_rng(4)
    full = [Slice.dense(50 + draw.normal(size=(3, 4))) for _ in range(70)]
    empty = Slice(np.zeros((0, 2), dtype=np.int64), np.zeros(0), (3, 4), unlisted="missing")
    weeks = [empty if k % 7 > 4 else x for k, x in enumerate(full)]
    both = [OnlineGCP(1, "gaussian").partial_fit(part).forecast(7) for part in (full, weeks)]
    np.testing.assert_allclose(both[1].total, both[0].total, rtol=0.02)
    widths = [(part.high - part.low).mean() for part in both]
    assert 0.6 < widths[1] / widths[0] < 1.7


def test_patterns_that_are_all_new_did_not_rise_from_nothing():
    """Where all patterns were replaced, lines from before are told as zeros of the new ones."""
    rng = np.random.default_rng(2)
    share = rng.uniform(0.2, 0.8, 20)
    lately = 120.0 * np.column_stack([share, 1.0 - share])  # the total is always the same
    factors = [rng.dirichlet(np.ones(4), 2).T, rng.dirichlet(np.ones(3), 2).T]
    past = np.concatenate([np.zeros((40, 2)), lately])
    found = forecast(past, factors, get_loss("poisson"), 5)
    np.testing.assert_allclose(found.total, 120.0, rtol=1e-6)
    assert (found.high - found.low).max() < 1.0
    assert (past[:40] == 0.0).all()
    # A stream in which nothing ever happened is still one.
    assert forecast(np.zeros((9, 2)), factors, get_loss("poisson"), 2).total.tolist() == [0.0, 0.0]


def test_a_long_forecast_shows_its_beginning_and_its_end():
    past = 5 + np.random.default_rng(2).random((20, 1))
    found = forecast(past, [np.ones((3, 1))], get_loss("poisson"), 1000)
    lines = repr(found).splitlines()
    assert [line.split()[0] for line in lines[1:]] == [*map(str, range(1, 59)), "…", "1000"]
    assert len(found._repr_html_()) < 30_000
    assert found._repr_html_().count("<tr>") == len(lines)
    whole = forecast(past, [np.ones((3, 1))], get_loss("poisson"), 60)
    assert len(repr(whole).splitlines()) == 61
    assert "…" not in repr(whole)


def test_modes_with_and_without_labels_can_be_forecast_together():
    """As pandas and polars bring them along: columns have names, rows have none."""
    rng = np.random.default_rng(3)
    model = OnlineGCP(1, "poisson", ndim=2, init_slices=4)
    for _ in range(9):
        model.partial_fit(pd.DataFrame(rng.poisson([[1, 1, 90], [1, 1, 1]]), columns=list("xyz")))
    assert model.forecast(1).cells(0, 1)[0]["labels"] == ["0", "z"]
    labels = [None, np.array(["u", "v", "w"])]
    assert model.forecast(1, labels).cells(0, 1)[0]["labels"] == ["0", "w"]
    with pytest.raises(DataError, match="labels must be a stream, or a list with the names of"):
        model.forecast(1, ["one mode"])
