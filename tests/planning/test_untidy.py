"""Plans for tables as people have them: words for nothing, odd clocks, repeats, running totals."""

from __future__ import annotations

import datetime
import itertools

import numpy as np
import polars as pl
import pytest

from onlinegcp.errors import DataError
from onlinegcp.events import from_events
from onlinegcp.planning import make_plan

DAYS = [str(datetime.date(2024, 1, 1) + datetime.timedelta(days=k)) for k in range(60)]
GRID = list(itertools.product(DAYS, ("north", "south", "east"), ("a", "b")))
RNG = np.random.default_rng(3)


def measured(**columns):
    """A row for each day, place and kind."""
    keys = zip(("date", "place", "kind"), map(list, zip(*GRID, strict=True)), strict=True)
    return {**dict(keys), **columns}


def reasons(plan):
    return {what: f"{choice} | {why}" for what, choice, why in plan.lines}


@pytest.mark.parametrize(
    "write",
    [
        lambda k: "NA" if k % 7 == 0 else f"{k / 8}",
        lambda k: "." if k % 7 == 0 else f"{k * 3}",
        lambda k: f"{k // 1000 + 1}'{k % 1000:03}.50",
        lambda k: f"({k}.25)" if k % 3 else f"{k}.25",
    ],
)
def test_numbers_are_found_however_they_are_written(write):
    plan = make_plan(measured(v=[write(k) for k in range(len(GRID))]))
    assert (plan.events["value"], plan.events["modes"]) == ("v", ["place", "kind"])


def test_a_label_may_be_a_word_for_nothing():
    places = {"north": "NA", "south": "EU", "east": "AS"}
    table = measured(v=RNG.normal(size=len(GRID)))
    table["place"] = [places[place] for place in table["place"]]
    assert make_plan(table).events["modes"] == ["place", "kind"]


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (["$1.50", "2.50 €"], "amounts in $ and €"),
        (["1,234", "12"], "'1,234' can mean two numbers"),
        (["08:15", "17:40"], "is a time of day; behind date in one column it would tell hours"),
        (["", " "], "is empty"),
    ],
)
def test_columns_that_cannot_be_used_say_why(values, why):
    table = measured(odd=[values[k % 2] for k in range(len(GRID))])
    assert f"odd ({why})" in reasons(make_plan(table))["modes"]


def test_times_may_be_unknown_and_the_rows_are_told():
    table = measured()
    table["date"] = [("N/A", "-", day)[min(k % 10, 2)] for k, day in enumerate(table["date"])]
    plan = make_plan(table)
    assert plan.events["time"] == "date"
    assert "the 20% of rows without it are dropped" in reasons(plan)["time"]


@pytest.mark.parametrize(
    ("odd", "message"),
    [("Total", "row 360 has 'Total'"), ("2024-01-01T00:00Z", "must all have a zone or all have")],
)
def test_a_time_that_cannot_be_read_is_named_rather_than_another_column_taken(odd, message):
    days = [f"{day}T00:00" for day, *_ in GRID]
    table = {"row": range(len(GRID)), **measured(), "date": [*days[:-1], odd]}
    with pytest.raises(DataError, match=message):
        make_plan(table)


def test_seconds_may_have_fractions():
    seconds = np.sort(RNG.uniform(0.0, 60 * 86_400.0, 4_000)) + 1.7e9
    plan = make_plan({"event_ts": seconds, "a": list("abcd") * 1_000})
    assert (plan.events["time"], plan.events["every"]) == ("event_ts", "1d")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"year": [2024] * 9, "month": ["May"] * 9, "a": list("abc") * 3}, "say it together"),
        ({"year, all": [2024] * 9, "month": [1, 2, 3] * 3}, "'year, all' has one itself"),
        (
            {"year": [2024] * 9, "month": [1, 2, 3] * 3, "day": range(9)},
            "'day' must be a whole number from 1 to 31 .* row 1 of the table has '0'",
        ),
        ({"at": ["08:15", "09:30"] * 20, "stop": ["a", "b"] * 20}, "times of day without a day"),
        ({"t": np.arange(40) * 0.5, "stop": ["a", "b"] * 20}, "goes on .* but has fractions"),
        ({"date": ["2024-01-01"], "shop": ["a"], "n": [3]}, "one row alone has none: 'shop' is"),
    ],
)
def test_what_is_nearly_there_is_named(table, message):
    with pytest.raises(DataError, match=message):
        make_plan(table)


def test_years_alone_are_cut_by_years_even_if_there_is_one():
    assert make_plan({"year": [2024] * 80, "a": list("abcd") * 20}).events["every"] == "1y"


def test_many_years_have_months_as_a_mode():
    rows = list(itertools.product(range(1950, 2010), range(1, 13), "ab"))
    year, month, kind = map(list, zip(*rows, strict=True))
    plan = make_plan({"year": year, "month": month, "kind": kind})
    assert (plan.events["time"], plan.events["every"]) == ("year", "1y")


def test_rows_that_came_twice_are_still_measurements():
    table = pl.DataFrame(measured(sales=RNG.integers(0, 90, len(GRID))))
    plan = make_plan(pl.concat([table, table.head(30)]).sort("date"))
    assert (plan.events["value"], plan.events["agg"]) == ("sales", "mean")
    assert "7.7% of rows are there twice" in reasons(plan)["values"]
    assert make_plan(table).events["agg"] == "sum"


def test_running_totals_are_not_summed():
    new = RNG.poisson(30.0, (60, 6))
    total = new.cumsum(axis=0)
    both = make_plan(measured(new=new.reshape(-1), so_far=total.reshape(-1)))
    assert (both.events["value"], both.events["agg"]) == ("new", "sum")
    assert "so_far (only grows, as a running total does)" in reasons(both)["modes"]
    alone = make_plan(measured(so_far=total.reshape(-1)))
    assert (alone.events["value"], alone.events["agg"]) == ("so_far", "mean")
    assert alone.model["loss"] == "gaussian"


def test_reasons_tell_what_was_done():
    few = make_plan({"date": DAYS[:2] * 20, "a": list("abcd") * 10})
    assert "too few to try another loss" in reasons(few)["model"]
    months = [f"{2015 + k // 12}-{k % 12 + 1:02}" for k in range(60)]
    monthly = make_plan({"month": [m for m in months for _ in range(80)], "a": list("abcd") * 1200})
    assert monthly.events["every"] == "1mo"
    assert "days" not in reasons(monthly)["time"]
    assert "tells no shorter ones" in reasons(monthly)["time"]


def test_the_index_of_a_data_frame_is_no_column():
    table = {"": range(len(GRID)), **measured(v=RNG.normal(size=len(GRID)))}
    plan = make_plan(table)
    assert plan.events["value"] == "v"
    assert "one without a name (numbers the rows)" in reasons(plan)["modes"]


@pytest.mark.parametrize("wrong", ["1970-01-01", "2084-11-04"])
def test_a_clock_that_was_reset_is_left_out_as_the_error_says(wrong):
    table = measured(v=RNG.normal(size=len(GRID)))
    odd = {name: [*column[:2], *column] for name, column in table.items()}
    odd["date"][:2] = [wrong] * 2
    limit = "2024-01-01" if wrong < "2000" else wrong
    with pytest.raises(DataError, match=f"until='{limit}', or since='{limit}'"):
        list(from_events(odd, time="date", every="1d", modes=["place"]))
    plan = make_plan(odd, settings={"since" if wrong < "2000" else "until": limit})
    whole = make_plan(table)
    assert (plan.events, plan.model, plan.lines) == (whole.events, whole.model, whole.lines)


def test_limits_that_leave_nothing_are_told():
    with pytest.raises(DataError, match="none of the first 360 lies there"):
        make_plan(measured(), settings={"since": "2030-01-01"})
