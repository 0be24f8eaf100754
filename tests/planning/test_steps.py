"""Steps of clocks and instruments: what is measured, how it is cut, and what is said of it."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from onlinegcp.events import from_events
from onlinegcp.planning import make_plan

START = np.datetime64("2025-05-01", "us")
SECOND = 1_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86_400 * SECOND


def readings(step, n, lost=0.05, seed=0):
    """Two quantities read by the clock, of which some readings are lost."""
    rng = np.random.default_rng(seed)
    kept = np.flatnonzero(rng.random(n) >= lost)
    return pl.DataFrame(
        {
            "time": START + kept * step,
            "temperature": rng.normal(12, 3, len(kept)),
            "humidity": rng.normal(60, 9, len(kept)),
        }
    )


@pytest.mark.parametrize(
    ("step", "n", "every", "modes"),
    [
        (10 * MINUTE, 144 * 60, "1d", ["time:hour"]),  # which no bin of a usual length divides
        (10 * MINUTE, 144 * 9, "10m", []),
        (20 * MINUTE, 72 * 9, "20m", []),
        (30 * SECOND, 5_000, "30s", []),
        (3 * HOUR, 8 * 90, "1d", ["time:hour"]),
        (12 * HOUR, 2 * 90, "1d", ["time:hour"]),
        (3 * HOUR, 8 * 20, "3h", []),
        (2 * DAY, 200, "2d", []),
        (14 * DAY, 200, "2w", []),
        (10_000, 5_000, "10ms", []),
    ],
)
def test_readings_are_measured_whatever_their_step(step, n, every, modes):
    plan = make_plan(readings(step, n))
    assert (plan.events["every"], plan.events["modes"]) == (every, modes)
    assert plan.events["value"] == ["temperature", "humidity"]
    assert plan.model["loss"] == "gaussian"


def test_readings_of_several_instruments_within_a_second():
    rng = np.random.default_rng(0)
    table = pl.DataFrame(
        {
            "time": np.repeat(START + np.arange(2_000) * 10_000, 3),
            "sensor": ["a", "b", "c"] * 2_000,
            "strain": rng.gamma(3, 2, 6_000),
        }
    )
    plan = make_plan(table)
    assert (plan.events["every"], plan.events["modes"]) == ("10ms", ["sensor"])


def test_bursts_within_seconds_are_cut_so_that_there_are_enough_slices():
    rng = np.random.default_rng(0)
    bursts = np.repeat(np.arange(60) * 400_000, 120)
    table = pl.DataFrame(
        {
            "time": np.sort(START + bursts + rng.integers(0, 60_000, 7_200)),
            "src": rng.choice(list("abcd"), 7_200),
            "dst": rng.choice(list("efgh"), 7_200),
        }
    )
    plan = make_plan(table)
    assert plan.events["every"] == "100ms"
    stream = from_events(table, **plan.events)
    assert sum(slice_.nnz > 0 for slice_ in stream) >= 40


@pytest.mark.parametrize(
    ("n", "days"),
    [(8_000, 60), (400, 900), (4_000, 20), (160, 44_000), (40_000, 10), (600, 12), (90, 30)],
)
def test_what_is_said_of_the_bins_is_so(n, days):
    """Each reason is checked against the bins themselves, counted by polars."""
    rng = np.random.default_rng(n)
    start = np.datetime64("1900-01-01", "s")
    times = np.sort(start + rng.integers(0, days * 86_400, n)).astype("M8[ms]")
    table = pl.DataFrame({"at": times, "kind": rng.choice(list("abc"), n)})
    plan = make_plan(table)
    every, said = plan.events["every"], plan.lines[0][2]
    counts = table.group_by(pl.col("at").dt.truncate(every)).len()["len"]
    assert f"about {len(counts):,} slices of {counts.mean():,.0f} events" in said
    ladder = ["1h", "6h", "1d", "1w", "1mo", "1q", "1y"]
    shorter = table["at"].dt.truncate(ladder[ladder.index(every) - 1])
    longer = table["at"].dt.truncate(ladder[min(ladder.index(every) + 1, len(ladder) - 1)])
    claims = {
        "enough events": counts.mean() >= 50,
        "so that a slice holds 50 events": counts.mean() >= 50,
        "so that there are 40 slices": len(counts) >= 40,
        "longer ones would leave too few slices": longer.n_unique() < 40,
        "shorter ones would hold less than 50 events": n / shorter.n_unique() < 50,
        "even years hold less than 50 events": every == "1y" and counts.mean() < 50,
    }
    made = [claim for claim in claims if claim in said]
    assert made, said
    assert all(claims[claim] for claim in made), said


def test_why_a_column_is_left_out_is_so():
    rng = np.random.default_rng(0)
    n = 3_000
    table = pl.DataFrame(
        {
            "at": START + np.arange(n) * 30 * MINUTE,
            "sex": rng.choice(["f", "m"], n),
            "ward": rng.choice(list("abcdef"), n),
            "outcome": rng.choice(["well", "ill"], n, p=[0.9, 0.1]),
            "code": rng.choice([f"c{k}" for k in range(60)], n),  # tells most, by far
            "patient": rng.choice([f"p{k}" for k in range(200)], n),
            "paid": rng.choice(["yes", "no"], n, p=[0.98, 0.02]),
        }
    )
    said = make_plan(table).lines[1][2]
    assert "code (labels of 3 others occur more often)" in said
    assert f"patient (200 labels, about {n / 200:.0f} rows each)" in said
    assert "paid (3 others tell more)" in said
    # A third place that nobody else wants is had for less.
    assert "code" in make_plan(table.drop("outcome", "paid", "patient")).events["modes"]


def test_of_two_columns_that_say_the_same_the_one_with_words_is_taken():
    rng = np.random.default_rng(0)
    which = rng.integers(0, 8, 4_000)
    table = {
        "at": START + np.arange(4_000) * 9 * MINUTE,
        "repo_id": which,
        "repo_name": [f"org/{'abcdefgh'[k]}" for k in which],
    }
    plan = make_plan(table)
    assert plan.events["modes"][0] == "repo_name"
    assert "repo_id (known from repo_name)" in plan.lines[1][2]


def test_durations_are_seconds():
    rng = np.random.default_rng(0)
    took = rng.integers(1, 10**9, 546)
    table = pl.DataFrame(
        {
            "day": np.repeat(np.arange("2024-01-01", "2024-07-01", dtype="M8[D]"), 3),
            "who": ["a", "b", "c"] * 182,
            "took": pl.Series(took, dtype=pl.Duration("us")),
        }
    )
    plan = make_plan(table)
    assert plan.events["value"] == "took"
    first = next(iter(from_events(table, **plan.events)))
    assert np.allclose(np.sort(first.value), np.sort(took[:3] / 1e6), rtol=1e-15)


def test_a_time_of_day_in_a_column_of_its_own_is_told():
    rng = np.random.default_rng(0)
    days = np.repeat(np.arange("2024-10-01", "2024-11-15", dtype="M8[D]"), 96)
    clocks = [f"{k // 4:02}:{k % 4 * 15:02}" for k in range(96)] * 45
    table = {"day": days, "clock": clocks, "load kWh": rng.gamma(3, 2, len(days))}
    with pytest.raises(Exception, match="clock' is a time of day; behind day in one column"):
        make_plan(table)


def test_a_file_without_rows_is_named(tmp_path):
    (tmp_path / "nothing.csv").write_text("day,who\n")
    with pytest.raises(Exception, match=r"but .*nothing.csv has none"):
        make_plan(tmp_path / "nothing.csv")


@pytest.mark.parametrize(("size", "scale"), [(85.0, 1), (4.0, None)])
def test_columns_in_different_units_do_not_drown_each_other(size, scale):
    rng = np.random.default_rng(0)
    table = readings(10 * MINUTE, 144 * 60)
    table = table.select("time", "temperature", pressure=12 * size + rng.normal(0, 3, len(table)))
    plan = make_plan(table)
    assert plan.model.get("scale") == scale
    assert ("units of their own" in plan.lines[3][2]) == (scale is not None)
