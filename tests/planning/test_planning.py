"""Plans for tables of every kind, made up so that the right choice is known."""

from __future__ import annotations

import datetime

import numpy as np
import polars as pl
import pytest

from onlinegcp.drawing.text import words_of
from onlinegcp.errors import DataError
from onlinegcp.events import from_events
from onlinegcp.planning import make_plan
from onlinegcp.planning.columns import column_of
from onlinegcp.planning.losses import choose_loss
from onlinegcp.planning.sample import read_sample
from onlinegcp.slices import Slice

START = datetime.datetime(2023, 1, 2)
DAY = datetime.timedelta(days=1)


def log(n=6_000, days=90, seed=0):
    """Events at random moments: who did what to whom, from where, and what it cost."""
    rng = np.random.default_rng(seed)
    moments = np.sort(rng.random(n)) * days
    users = np.array([f"user {i}" for i in range(40)])
    return {
        "request_id": [f"{n:08x}" for n in rng.permutation(n)],
        "created_at": [START + moment * DAY for moment in moments],
        "closed_at": [START + (moment + rng.random()) * DAY for moment in moments],
        "sender": users[rng.integers(0, 40, n)],
        "receiver": users[rng.integers(0, 40, n)],
        "status": rng.choice(["open", "done", "failed"], n),
        "version": ["v2"] * n,
        "amount": rng.gamma(1.0, 20.0, n).round(2),
        "lat": rng.normal(52, 0.1, n),
        "note": ["something was said here that is long, and not the same twice " * 2] * n,
    }


def panel(steps=120, seed=0, **columns):
    """Measurements: each site at each time once."""
    rng = np.random.default_rng(seed)
    sites = ["north", "south", "east", "west"]
    table = {
        "day": [START.date() + t * DAY for t in range(steps) for _ in sites],
        "site": sites * steps,
    }
    return table | {name: make(rng, 4 * steps) for name, make in columns.items()}


def test_an_event_log_is_counted_by_day_with_its_pairs_and_hours():
    plan = make_plan(log())
    assert plan.events == {
        "time": "created_at",
        "every": "1d",
        "modes": ["sender", "receiver", "status", "created_at:hour"][: len(plan.events["modes"])],
        "value": None,
        "agg": None,
        "share": [("sender", "receiver")],
    }
    told = " ".join(reason for _, _, reason in plan.lines)
    for why in ("request_id (6,000 labels", "closed_at (says when, too)", "version (is always v2)"):
        assert why in told
    assert plan.model["loss"] == "poisson"


@pytest.mark.parametrize(
    ("n", "days", "every"),
    [
        (6_000, 90, "1d"),
        (1_500, 400, "1w"),
        (900, 4_000, "1q"),
        (40_000, 3, "1h"),
        (30_000, 0.1, "1m"),
    ],
)
def test_bins_hold_enough_events_and_are_many(n, days, every):
    assert make_plan(log(n, days)).events["every"] == every


def test_what_is_given_is_kept_and_the_rest_planned_around_it():
    given = {"time": "closed_at", "every": "1w", "modes": ["status"], "loss": "gaussian", "rank": 3}
    plan = make_plan(log(), {**given, "output": "x.run"})
    assert {name: plan.events[name] for name in ("time", "every", "modes")} == {
        name: given[name] for name in ("time", "every", "modes")
    }
    assert plan.model == {"rank": 3, "loss": "gaussian", "init_slices": 2, "lower": 0.0}
    assert plan.output == "x.run"
    assert [reason.split(";")[0] for _, _, reason in plan.lines] == [
        *("as you said", "as you said", "rows are events", "as you said", "as you said")
    ]


@pytest.mark.parametrize(
    ("columns", "value", "agg", "loss", "lower"),
    [
        ({"price": lambda rng, n: rng.gamma(9, 2, n)}, "price", "mean", "gaussian", 0.0),
        ({"change": lambda rng, n: rng.normal(0, 2, n)}, "change", "mean", "gaussian", None),
        ({"visits": lambda rng, n: rng.poisson(9, n)}, "visits", "sum", "poisson", None),
        (
            {"visits": lambda rng, n: rng.negative_binomial(1, 0.05, n)},
            *("visits", "sum", "negative_binomial", None),
        ),
        ({"speed": lambda rng, n: rng.integers(20, 90, n)}, "speed", "mean", "gaussian", 0.0),
        (
            {"a": lambda rng, n: rng.gamma(9, 1, n), "b": lambda rng, n: rng.gamma(9, 2, n)},
            *(["a", "b"], "mean", "gaussian", 0.0),
        ),
        (
            {"tiny": lambda rng, n: rng.random(n) / 1e5, "a": lambda rng, n: rng.gamma(9, 1, n),
             "b": lambda rng, n: rng.gamma(9, 2, n)},
            *(["a", "b"], "mean", "gaussian", 0.0),
        ),
    ],
)  # fmt: skip
def test_measurements_are_summed_or_averaged_by_what_they_are(columns, value, agg, loss, lower):
    plan = make_plan(panel(**columns))
    events = plan.events
    assert (events["time"], events["every"], events["modes"]) == ("day", "1d", ["site"])
    assert (events["value"], events["agg"]) == (value, agg)
    assert (plan.model["loss"].split(":")[0], plan.model["lower"]) == (loss, lower)


def test_the_spread_of_counts_is_found():
    plan = make_plan(panel(visits=lambda rng, n: rng.negative_binomial(2, 0.05, n)))
    size = float(plan.model["loss"].split("=")[1])
    assert 1.0 < size < 4.0


def test_rare_counts_are_poisson_without_a_trial(monkeypatch):
    monkeypatch.setattr("onlinegcp.planning.losses.held_out_size", None)  # must not be called
    slices = [Slice([[t % 9, t % 7]], [1.0], (9, 7)) for t in range(20)]
    assert choose_loss("count", slices, 5).loss == "poisson"


def test_a_single_series_with_hours_becomes_days_by_hours():
    hours = [START + n * datetime.timedelta(hours=1) for n in range(24 * 60)]
    rng = np.random.default_rng(0)
    plan = make_plan({"ts": hours, "load": rng.gamma(9, 10, len(hours))})
    events = plan.events
    assert (events["every"], events["modes"], events["value"]) == ("1d", ["ts:hour"], "load")


def test_one_row_at_a_time_is_an_event_where_no_clock_took_it():
    """Flows every few minutes with their ends are events; readings on the dot are measurements."""
    rng = np.random.default_rng(0)
    table = {
        "src": [f"h{k}" for k in rng.integers(0, 9, 6000)],
        "dst": [f"h{k}" for k in rng.integers(0, 9, 6000)],
        "bytes": rng.integers(1, 9000, 6000),
    }
    start = 1_690_000_000 + np.arange(6000) * 300
    plan = make_plan({"ts": start + rng.integers(0, 200, 6000), **table})
    assert plan.events["modes"] == ["src", "dst"]
    assert plan.events["value"] is None
    assert make_plan({"ts": start, **table}).events["value"] == "bytes"


def test_columns_that_repeat_the_time_are_left_out():
    table = panel(sales=lambda rng, n: rng.poisson(50, n))
    table["month"] = [day.month for day in table["day"]]
    table["weekday"] = [f"{day:%A}" for day in table["day"]]
    first = min(table["day"])
    table["season"] = [f"S{(day - first).days // 50}" for day in table["day"]]
    plan = make_plan(table)
    assert plan.events["modes"] == ["site"]
    told = plan.lines[1][2]
    assert "month (repeats day)" in told
    assert "weekday (repeats day)" in told
    assert "season (repeats day)" in told


def test_columns_that_many_rows_lack_come_last_and_what_is_dropped_is_told():
    table = log(4_000)
    table = {"created_at": table["created_at"]}
    rng = np.random.default_rng(1)
    table |= {"full": rng.choice(list("ab"), 4_000), "also": rng.choice(list("uv"), 4_000)}
    table["third"] = rng.choice(list("pq"), 4_000)
    table["asked"] = [None if k % 3 == 0 else "wxyz"[k % 4] for k in range(4_000)]
    assert make_plan(table).events["modes"][:3] == ["full", "also", "third"]
    del table["also"], table["third"]
    plan = make_plan(table)
    assert "asked" in plan.events["modes"]
    assert "the 33% of rows without asked are dropped" in plan.lines[1][2]


def test_bins_that_would_mostly_be_empty_are_longer():
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(days=3 * k) for k in range(300)]
    table = {"day": np.repeat(days, 60), "kind": list("aabbcd") * 3_000}
    plan = make_plan(table)
    assert plan.events["every"] == "1w"
    assert "shorter ones would mostly be empty" in plan.lines[0][2]
    single = make_plan({"day": [days[0]] * 600, "kind": list("aabbcd") * 100})
    assert single.events["every"] == "1d"
    assert single.events["modes"] == ["kind"]
    assert "a guess, as all rows have the same time: about 1 slice of 600" in single.lines[0][2]


def test_codes_and_amounts_are_told_apart_by_name_where_values_leave_it_open():
    rng = np.random.default_rng(0)
    whole = rng.integers(0, 60, 5_000)
    kinds = {
        name: column_of(pl.Series(name, whole)).kind
        for name in ("zone_id", "duration_minutes", "n", "x", "customerScore", "stop")
    }
    assert kinds == {
        "zone_id": "label",
        "duration_minutes": "number",
        "n": "number",
        "x": "label",  # uses up its range from 0 on
        "customerScore": "number",
        "stop": "label",
    }
    assert words_of("PULocationID") == ["pu", "location", "id"]


def test_a_counter_without_a_calendar_is_time():
    rng = np.random.default_rng(0)
    table = {
        "step": np.repeat(np.arange(100), 80),
        "kind": rng.choice(list("abcd"), 8_000),
        "place": rng.choice(list("uvwxyz"), 8_000),
    }
    plan = make_plan(table)
    assert (plan.events["time"], plan.events["every"]) == ("step", 1)
    assert len(list(from_events(table, **plan.events))) == 100


@pytest.mark.parametrize(
    ("texts", "time_format"),
    [
        (["31/12/2023", "30/11/2023", "03/04/2023"], None),
        (["03/04/2023", "05/06/2023"], "%d/%m/%Y"),
        (["01/02/2023"] * 300 + ["01/31/2023"] * 300, None),  # settled late
    ],
)
def test_dates_are_read_as_written_or_as_said(texts, time_format):
    table = {"when": texts * 200, "kind": list("aabbcc") * (len(texts) * 200 // 6 + 1)}
    table["kind"] = table["kind"][: len(table["when"])]
    settings = {"time_format": time_format}
    plan = make_plan(table, {"time": "when"} if time_format else None, settings=settings)
    assert plan.events["time"] == "when"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"a": ["x", "y"], "b": ["u", "v"]}, "A column that says when"),
        ({"when": ["01/02/2023", "03/04/2023"], "a": ["x", "y"]}, "time_format='%m/%d/%Y'"),
        ({"order": range(40), "when": ["01/02/2023"] * 40}, "time_format='%m/%d/%Y'"),
        ({"a": ["x"], "2019": [1], "2020": [2], "2021": [3]}, "the table lies on its side"),
        ({"a": []}, "the table has none"),
        ({'10.0.0.9 - - "GET /"': ["x", "y"]}, "Lines of a log must be taken apart"),
    ],
)
def test_what_cannot_be_planned_says_what_is_missing(table, message):
    with pytest.raises(DataError, match=message):
        make_plan(table)


def test_a_time_that_most_rows_lack_is_not_when_they_happened():
    table = log(600, 60)
    rare = [moment if k % 3 == 0 else None for k, moment in enumerate(table["created_at"])]
    assert make_plan({"approved_at": rare, **table}).events["time"] == "created_at"
    with pytest.raises(DataError, match="A column that says when is needed"):
        make_plan({"order": [k if k % 4 else None for k in range(80)], "user": list("abcd") * 20})


def test_a_misspelt_time_column_gets_a_suggestion():
    with pytest.raises(DataError, match="Did you mean 'created_at'"):
        make_plan(log(), {"time": "created"})


def test_a_sample_is_bounded_and_says_how_much_there_is(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("t,a\n" + "".join(f"2024-01-01,{n % 7}\n" for n in range(5_000)))
    sample = read_sample(path, rows=1_000)
    assert sample.frame.height == 1_000
    assert sample.n_rows == pytest.approx(5_000, rel=0.05)
    assert read_sample(path).n_rows == 5_000


def test_the_run_is_named_after_the_source_and_never_takes_a_name_twice(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pl.DataFrame(log(2_000, 30)).write_parquet("trips.v2.parquet")
    assert make_plan("trips.v2.parquet").output == "trips.run"
    (tmp_path / "trips.run").mkdir()
    assert make_plan("trips.v2.parquet").output == "trips-2.run"


def test_a_first_line_without_names_is_told():
    table = pl.DataFrame(
        {"2023-01-01 00:00:00": ["2023-01-01 05:00:00"] * 9, "a": list("abcabcabc")}
    )
    with pytest.raises(DataError, match=r"must name its columns.*'2023-01-01 00:00:00' is a time"):
        make_plan(table)
