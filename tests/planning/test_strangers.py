"""Plans for exports of other people's programs: totals below, clocks in digits, steady pace."""

from __future__ import annotations

import datetime
import itertools
import json
import sqlite3

import numpy as np
import polars as pl
import pytest

from onlinegcp.errors import DataError
from onlinegcp.events import from_events
from onlinegcp.events.remote.databases import database
from onlinegcp.planning import make_plan

RNG = np.random.default_rng(5)
DAYS = [datetime.date(2021, 1, 4) + datetime.timedelta(days=k) for k in range(420)]


def reasons(plan):
    return {what: f"{choice} | {why}" for what, choice, why in plan.lines}


def learned(table, plan):
    return list(from_events(table, **plan.events))


def test_a_row_of_totals_below_changes_neither_plan_nor_slices(tmp_path):
    rows = [
        f"{day},{place},{RNG.integers(100, 900)},{RNG.integers(100, 900)}\n"
        for day, place in itertools.product(DAYS[:60], ("north", "south", "east"))
    ]
    plain, totals = tmp_path / "plain.csv", tmp_path / "totals.csv"
    plain.write_text("day,place,visits,buys\n" + "".join(rows))
    totals.write_text(plain.read_text() + ',,"98,765","87,654"\n')
    plans = [make_plan(path) for path in (plain, totals)]
    assert plans[0].events["value"] == ["visits", "buys"]
    assert plans[0].events == plans[1].events
    found = [learned(path, plan) for path, plan in zip((plain, totals), plans, strict=True)]
    assert [x.total for x in found[0]] == [x.total for x in found[1]]
    # One column of values is read another way than several.
    one = {**plans[1].events, "value": "visits"}
    assert sum(x.total for x in from_events(totals, **one)) == sum(
        int(row.split(",")[2]) for row in rows
    )


@pytest.mark.parametrize(
    ("name", "layout", "every"),
    [
        ("day", "%Y%m%d", "1d"),
        ("period", "%Y%m", "1mo"),
        ("yearweek", "%G%V", "1w"),
        ("stamp", "%Y%m%d%H", "1h"),
    ],
)
@pytest.mark.parametrize("kind", [int, float, str])
def test_dates_written_as_numbers_are_dates(name, layout, every, kind):
    days = DAYS if layout != "%Y%m%d%H" else DAYS[:3]
    clock = range(24) if layout == "%Y%m%d%H" else [0]
    written = [
        datetime.datetime(day.year, day.month, day.day, hour).strftime(layout)
        for day in days
        for hour in clock
    ]
    times = [kind(text) for text in dict.fromkeys(written) for _ in "abc"]
    table = pl.DataFrame(
        {name: times, "place": list("abc") * (len(times) // 3), "v": RNG.random(len(times))}
    )
    plan = make_plan(table)
    assert (plan.events["time"], plan.events["every"]) == (name, every)
    slices = learned(table, plan)
    assert len(slices) == len(dict.fromkeys(written))
    assert slices[0].time.strftime(layout) == written[0]
    assert slices[-1].time.strftime(layout) == written[-1]


def test_numbers_that_cannot_all_be_dates_are_none():
    # The second of them would be the 31st of June.
    table = {"case": [20210630, 20210631, *range(20210701, 20210731)] * 4, "v": RNG.random(128)}
    with pytest.raises(DataError, match="column that says when"):
        make_plan(table)


def test_zeros_in_front_make_labels():
    place = ["02139", "00501", "10001"] * 140
    plan = make_plan({"day": sorted(DAYS[:60] * 7), "zipped": place, "kind": list("ab") * 210})
    assert "zipped" in plan.events["modes"]
    assert learned({"day": DAYS[:3], "zipped": place[:3], "kind": ["a"] * 3}, plan)[0].total == 1.0


@pytest.mark.parametrize("write", [int, "{:04}".format])
def test_a_clock_in_digits_is_told_and_no_amount(write):
    minutes = RNG.integers(0, 1440, 3000)
    table = {
        "day": [DAYS[k // 30] for k in range(3000)],
        "dep_time": [write(m // 60 * 100 + m % 60) for m in minutes],
        "gate": RNG.choice(list("ABC"), 3000),
    }
    told = reasons(make_plan(pl.DataFrame(table)))["modes"]
    assert "dep_time (is a time of day; behind day in one column it would tell hours)" in told


def test_of_whole_numbers_amounts_have_neighbours_and_codes_have_none():
    n = 6000
    popular = RNG.permutation(1.0 / np.arange(1, 31))
    table = {
        "day": [DAYS[k // 60] for k in range(n)],
        "nights": RNG.geometric(0.12, n),
        "thing": RNG.choice(30, n, p=popular / popular.sum()),
        "kind": RNG.choice(list("ab"), n),
    }
    plan = make_plan(table)
    assert plan.events["modes"] == ["thing", "kind", "day:weekday"] or plan.events["modes"] == [
        "thing",
        "kind",
    ]
    assert "nights (a number, which could be --value)" in reasons(plan)["modes"]


def test_the_time_of_the_row_goes_before_that_of_a_record_within(tmp_path):
    path = tmp_path / "log.jsonl"
    rows = [
        {"session": {"begun": f"{day}T0{k}:00:00"}, "at": f"{day}T1{k}:30:00", "who": "ab"[k % 2]}
        for day in DAYS[:50]
        for k in range(4)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    plan = make_plan(path)
    assert plan.events["time"] == "at"
    assert "session.begun belongs to a record within" in reasons(plan)["time"]


def test_columns_that_only_some_files_have_are_left_out_and_the_plan_can_be_learned(tmp_path):
    for k, day in enumerate(DAYS[:50]):
        late = k >= 10
        rows = [f"{day},{'xyz'[j % 3]}{',app' if late else ''}\n" for j in range(60)]
        (tmp_path / f"{day}.csv").write_text(f"day,kind{',by' if late else ''}\n" + "".join(rows))
    (tmp_path / "README.txt").write_text("Ask Bob about these.\n")
    plan = make_plan(tmp_path)
    assert plan.events["modes"] == ["kind"]
    assert "by (only some of the files have it)" in reasons(plan)["modes"]
    assert sum(x.total for x in learned(tmp_path, plan)) == 50 * 60


def readings(jitter, gaps):
    """A thermometer and a hygrometer in each of four rooms, read every five minutes or so."""
    start = np.datetime64("2024-03-01T00:00:00")
    when, room, what, value = [], [], [], []
    for name, (metric, base) in itertools.product("abcd", [("temp", 21.0), ("co2", 600.0)]):
        steps = np.arange(600) * 300 if not gaps else np.cumsum(RNG.exponential(300.0, 600))
        seconds = steps + RNG.integers(0, jitter, 600)
        kept = RNG.random(600) > 0.03
        when += (start + seconds[kept].astype("m8[s]")).tolist()
        room += [name] * kept.sum()
        what += [metric] * kept.sum()
        value += list(base + RNG.normal(size=kept.sum()))
    table = pl.DataFrame({"ts": when, "room": room, "metric": what, "value": value})
    return table.sort("ts")


def test_readings_at_a_steady_pace_are_measured_though_their_clocks_differ():
    plan = make_plan(readings(20, gaps=False))
    assert (plan.events["every"], plan.events["modes"]) == ("5m", ["room", "metric"])
    assert (plan.events["value"], plan.events["agg"]) == ("value", "mean")
    assert "one reading every 5m or so for each room and metric" in reasons(plan)["values"]
    assert plan.model["scale"] == 1  # degrees and parts per million


def test_what_comes_when_it_likes_is_counted():
    assert make_plan(readings(20, gaps=True)).events["value"] is None


def test_labels_that_differ_by_capitals_and_blanks_are_told():
    city = RNG.choice(["Oslo", "OSLO", "oslo ", "Rome"], 3000, p=[0.5, 0.2, 0.1, 0.2])
    table = {"day": [DAYS[k // 60] for k in range(3000)], "city": city}
    told = reasons(make_plan(pl.DataFrame(table)))["modes"]
    assert "in city, 'Oslo', 'OSLO' and 'oslo ' are different labels" in told


def test_a_database_is_planned_and_says_what_it_holds(tmp_path):
    path = tmp_path / "shop.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("create table sales (at text, place text)")
        connection.executemany(
            "insert into sales values (?, ?)",
            [(f"{day} 10:00:00", "ab"[k % 2]) for day in DAYS[:50] for k in range(60)],
        )
        connection.execute("create view lately as select * from sales where at > '2021-02-01'")
    connection.close()
    pytest.importorskip("adbc_driver_sqlite")
    plan = make_plan(database(path, "select * from sales"))
    assert (plan.events["time"], plan.events["every"]) == ("at", "1d")
    assert (plan.events["modes"], plan.output) == (["place"], "shop.run")
    with pytest.raises(DataError, match=r"shop\.sqlite, which holds lately, sales"):
        make_plan(path)


def test_one_of_two_labels_at_a_time_is_an_event_and_no_half_of_a_measurement():
    seconds = np.sort(RNG.integers(0, 400_000, 4000))  # hardly two in one
    when = (np.datetime64("2024-03-01T00:00:00") + seconds.astype("m8[s]")).tolist()
    table = {
        "at": when,
        "member": RNG.choice(["yes", "no"], 4000),
        "cost": RNG.gamma(2.0, 9.0, 4000),
    }
    plan = make_plan(pl.DataFrame(table))
    assert (plan.events["value"], plan.events["modes"][0]) == (None, "member")
