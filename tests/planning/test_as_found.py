"""Plans for tables as newcomers bring them: panels, elections, car parks, meters, ships."""

from __future__ import annotations

import calendar
import datetime
import itertools

import numpy as np
import polars as pl
import pytest

from onlinegcp.errors import DataError
from onlinegcp.events import from_events
from onlinegcp.planning import make_plan

RNG = np.random.default_rng(11)
DAYS = [datetime.date(2023, 1, 1) + datetime.timedelta(days=k) for k in range(120)]
LOTS = {"A": 80, "B": 240, "C": 150}


def reasons(plan):
    return {what: f"{choice} | {why}" for what, choice, why in plan.lines}


def crossed(*columns):
    return map(list, zip(*itertools.product(*columns), strict=True))


def test_what_is_measured_is_not_what_never_changes():
    day, lot = crossed(DAYS, LOTS)
    taken = [int(RNG.integers(0, LOTS[name])) for name in lot]
    plan = make_plan(
        {"day": day, "lot": lot, "occupied": taken, "capacity": [LOTS[name] for name in lot]}
    )
    assert (plan.events["value"], plan.events["modes"]) == ("occupied", ["lot"])
    assert "capacity (the same at all times for each lot)" in reasons(plan)["modes"]


def test_small_whole_numbers_of_a_panel_are_measured_rather_than_rows_counted():
    day, lot = crossed(DAYS, LOTS)
    plan = make_plan({"day": day, "lot": lot, "visitors": RNG.poisson(6.0, len(day))})
    assert (plan.events["value"], plan.events["agg"]) == ("visitors", "sum")


def test_every_four_years_is_a_step():
    year, district, party = crossed(range(1949, 2025, 4), range(1, 9), "abc")
    votes = RNG.integers(1_000, 9_000, len(year))
    plan = make_plan({"year": year, "district": district, "party": party, "votes": votes})
    assert plan.events["every"] == "4y"
    table = pl.DataFrame({"year": year, "d": district, "party": party, "votes": votes})
    settings = {**plan.events, "modes": ["d", "party"]}
    assert [x.total for x in from_events(table, **settings)] == [
        float(votes[24 * k : 24 * (k + 1)].sum()) for k in range(19)
    ]


@pytest.mark.parametrize(
    ("names", "parts", "first"),
    [
        (
            ("Year", "Month name"),
            [(y, calendar.month_name[m]) for y in range(2015, 2021) for m in range(1, 13)],
            "2015-01-01",
        ),
        (("year", "week"), [(y, w) for y in range(2016, 2020) for w in range(1, 53)], "2016-01-04"),
        (("yr", "quarter"), [(y, q) for y in range(2015, 2031) for q in range(1, 5)], "2015-01-01"),
    ],
)
def test_years_beside_their_parts_are_joined_as_the_error_says(names, parts, first):
    at, region = crossed(parts, "abc")
    table = pl.DataFrame(
        {names[0]: [y for y, _ in at], names[1]: [p for _, p in at], "region": region}
    ).with_columns(cases=pl.Series(RNG.poisson(30.0, len(at))))
    with pytest.raises(DataError, match="say it together") as refused:
        make_plan(table)
    remedy = str(refused.value).split("in polars with ")[1].split("; or")[0]
    joined = table.select(eval(remedy, {"pl": pl, "str": str}).alias("when"), "region", "cases")
    plan = make_plan(joined)
    stream = from_events(joined, **plan.events)
    assert (plan.events["time"], len(list(stream))) == ("when", len(parts))
    assert str(next(iter(from_events(joined, **plan.events))).time) == first


def test_a_weekday_is_no_week():
    table = {"year": [y for y in range(2000, 2030) for _ in range(80)], "a": list("abcd") * 600}
    table["day_of_week"] = [k % 7 for k in range(2400)]
    assert make_plan(table).events["time"] == "year"


@pytest.mark.parametrize("layout", ["%d/%m/%y", "%m/%d/%y", "%y/%m/%d"])
@pytest.mark.parametrize("newest", ["last", "first"])
def test_the_order_of_rows_tells_how_dates_are_written(layout, newest):
    # Only days that could as well be months, or years of this century.
    days = [
        datetime.date(y, m, d)
        for y in (2010, 2011, 2012)
        for m in range(1, 13)
        for d in range(1, 13)
    ]
    days = days if newest == "last" else days[::-1]
    near = [
        day for pair in zip(days[1::2], days[::2], strict=True) for day in pair for _ in range(60)
    ]
    table = {
        "Date": [day.strftime(layout) for day in near],
        "team": list("abcd") * (len(near) // 4),
    }
    plan = make_plan(table)
    assert plan.events["time_format"] == layout
    assert f"--time-format {layout}" in plan.command(["x.csv"])
    assert f"written as {layout}" in reasons(plan)["time"]
    limited = make_plan(table, settings={"since": "2011-01-01"})
    assert limited.events["time_format"] == layout


def test_dates_in_no_order_are_asked_about():
    days = [
        datetime.date(2010, m, d).strftime("%d/%m/%y") for m in range(1, 13) for d in range(1, 13)
    ]
    mixed = RNG.permutation(np.repeat(days, 60)).tolist()
    with pytest.raises(DataError, match="mean one day only"):
        make_plan({"Date": mixed, "team": list("abcd") * (len(mixed) // 4)})


def test_ships_have_numbers_for_names_and_prices_do_not():
    ships = RNG.integers(211_000_000, 211_999_999, 12)
    at = np.sort(RNG.uniform(0.0, 60 * 86_400.0, 6_000)) + 1.7e9
    kind = RNG.choice(["cargo", "tanker"], 6_000)
    plan = make_plan({"ts": at, "vessel": ships[RNG.integers(0, 12, 6_000)], "kind": kind})
    assert "vessel" in plan.events["modes"]
    paid = make_plan({"ts": at, "rent": RNG.integers(100, 400, 6_000) * 100, "kind": kind})
    assert paid.events["modes"][0] == "kind"
    assert "rent (a number" in reasons(paid)["modes"]


def test_numbers_that_count_the_rows_name_nothing_whatever_they_are_called():
    when = [DAYS[k // 50] for k in range(6_000)]
    plan = make_plan(
        {"day": when, "form": range(1, 6_001), "kind": RNG.choice(list("abcd"), 6_000)}
    )
    assert "form (numbers the rows)" in reasons(plan)["modes"]


def test_of_two_times_the_reason_says_which_is_later():
    rows = [DAYS[k // 50] for k in range(6_000)]
    table = {"discharged_on": rows, "admitted_on": rows, "ward": RNG.choice(list("abcd"), 6_000)}
    plan = make_plan(table)
    assert plan.events["time"] == "admitted_on"
    assert "discharged_on comes later, as its name says" in reasons(plan)["time"]


def test_numbers_of_another_size_are_named_with_it():
    day, lot = crossed(DAYS, LOTS)
    n = len(day)
    table = {"day": day, "lot": lot, "income": RNG.normal(50_000.0, 99.0, n)}
    plan = make_plan(table | {"rate": RNG.normal(6.0, 0.01, n)})
    assert "rate (typically 6, too far from those of income)" in reasons(plan)["modes"]


def test_meters_with_decimal_commas_are_all_used():
    hours = [
        (datetime.datetime(2023, 9, 1) + datetime.timedelta(hours=k)).strftime("%d-%m-%Y %H:%M")
        for k in range(24 * 60)
    ]
    used = RNG.gamma(2.0, 1.0, (len(hours), 3)).round(3)
    table = {"at": hours} | {
        f"MT_{k}": [f"{value:.3f}".replace(".", ",") for value in used[:, k]] for k in range(3)
    }
    plan = make_plan(table)
    assert plan.events["value"] == ["MT_0", "MT_1", "MT_2"]
    first = next(iter(from_events(table, **plan.events)))
    np.testing.assert_allclose(np.sort(first.value), np.sort(used[:24].ravel()))


def test_quantities_with_returns_are_summed_and_the_reason_says_what_was_said():
    n = 6_000
    table = {"day": [DAYS[k // 50] for k in range(n)], "shop": RNG.choice(list("abcd"), n)}
    table["Quantity"] = RNG.choice([-2, -1, 1, 2, 3], n)
    table["delay"] = RNG.choice([-5, 0, 5, 60], n)
    plan = make_plan(table, {"value": "Quantity"})
    assert (plan.events["agg"], plan.events["modes"]) == ("sum", ["shop"])
    assert reasons(plan)["values"] == "sum of Quantity | the column as you said"
    late = make_plan(table, {"value": "delay", "agg": "mean"})
    assert reasons(late)["values"] == "mean of delay | as you said"
