"""Files that pages work on: made by their setup comments, in the folder the page is run in."""

from __future__ import annotations

import datetime
import json
import sqlite3
from pathlib import Path

import numpy as np
import polars as pl

from onlinegcp.run import Run
from onlinegcp.streaming import OnlineGCP

FIRST = datetime.date(2018, 1, 1)
MODES = ["pu", "do", "pickup:hour"]


def trips(n_days=40, last="2018-03-01"):
    """trips/*.parquet, one file per day, and one more of the day the pages call tomorrow."""
    folder = Path("trips")
    folder.mkdir(exist_ok=True)
    days = [FIRST + datetime.timedelta(days=day) for day in range(n_days)]
    for day in [*days, datetime.date.fromisoformat(last)]:
        _trips_of(day).write_parquet(folder / f"{day}.parquet")


def one_file():
    """trips.parquet, all days of the trips in one file."""
    pl.read_parquet("trips/2018-0[12]-*.parquet").sort("pickup").write_parquet("trips.parquet")


def taxi_run():
    """taxi.run, learned from the trips."""
    trips()
    settings = {"time": "pickup", "every": "1d", "modes": MODES, "share": [("pu", "do")]}
    model = OnlineGCP(3, "poisson", random_state=0)
    with Run.create("taxi.run", model, modes=MODES, events=settings, period=7) as run:
        run.learn(run.stream("trips/2018-0[12]-*.parquet"))


def _trips_of(day):
    rng = np.random.default_rng(day.toordinal())
    n = 400
    zones = np.array(["SoHo", "Harlem", "JFK", "Midtown", "Chelsea"])
    hours = np.minimum(rng.poisson(9, n) + 8 * rng.integers(0, 2, n), 23)
    start = datetime.datetime.combine(day, datetime.time())
    return pl.DataFrame(
        {
            "pickup": [start + datetime.timedelta(hours=int(h)) for h in np.sort(hours)],
            "pu": zones[rng.integers(0, 5, n)],
            "do": zones[(rng.integers(0, 3, n) + hours) % 5],
        }
    )


def odd_day(day="2018-03-02"):
    """today.parquet: a day on which many rides went from JFK to Harlem."""
    usual = _trips_of(datetime.date.fromisoformat(day))
    start = datetime.datetime.fromisoformat(day)
    when = [start + datetime.timedelta(hours=4, minutes=k % 60) for k in range(150)]
    more = pl.DataFrame({"pickup": when, "pu": ["JFK"] * 150, "do": ["Harlem"] * 150})
    pl.concat([usual, more]).sort("pickup").write_parquet("today.parquet")


def tables():
    """sales.csv, as a German spreadsheet writes it, and sensors.csv with a column per reading."""
    rng = np.random.default_rng(1)
    lines = ["Datum;Filiale;Artikel;Menge"]
    for day in range(12 * 7):
        date = datetime.date(2024, 1, 1) + datetime.timedelta(days=day)
        for shop, usual in (("Bonn", (9, 2, 4)), ("Kiel", (2, 8, 5))):
            for item, mean in zip(("Brot", "Fisch", "Milch"), usual, strict=True):
                lines.append(f"{date:%d.%m.%Y};{shop};{item};{rng.poisson(mean)}")
    Path("sales.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = ["at,station,temp,humidity"]
    for hour in range(12 * 24):
        at = datetime.datetime(2024, 5, 1) + datetime.timedelta(hours=hour)
        warm = 15 + 6 * np.sin((hour % 24 - 9) / 24 * 2 * np.pi)
        for station, more in (("hill", -3.0), ("lake", 0.0), ("town", 2.0)):
            temp, humid = warm + more + rng.normal(), 70 - 2 * warm + rng.normal()
            rows.append(f"{at.isoformat()},{station},{temp:.1f},{humid:.0f}")
    Path("sensors.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")


def log():
    """yesterday.jsonl and today.jsonl: requests to three hosts, a few hundred an hour."""
    rng = np.random.default_rng(2)
    for name, first, hours in (("yesterday", 0, 24), ("today", 24, 3)):
        rows = []
        for quarter in range(first * 4, (first + hours) * 4):
            start = datetime.datetime(2024, 5, 1) + datetime.timedelta(minutes=15 * quarter)
            n = rng.poisson(60)
            hosts = rng.choice(["api", "shop", "blog"], n, p=[0.5, 0.3, 0.2])
            codes = rng.choice(["200", "404", "500"], n, p=[0.9, 0.08, 0.02])
            seconds = np.sort(rng.integers(0, 900, n))
            rows += [
                json.dumps(
                    {
                        "at": (start + datetime.timedelta(seconds=int(second))).isoformat(),
                        "host": str(host),
                        "status": str(code),
                    }
                )
                for second, host, code in zip(seconds, hosts, codes, strict=True)
            ]
        Path(f"{name}.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")


def rides(hours=15):
    """rides.db, a SQLite file with a table of rides, so many hours of them."""
    zones = ("SoHo", "JFK", "Harlem")
    with sqlite3.connect("rides.db") as connection:
        connection.execute("drop table if exists rides")
        connection.execute('create table rides (pickup, pu, "do")')
        rows = []
        for hour in range(hours):
            time = datetime.datetime(2018, 1, 1) + datetime.timedelta(hours=hour)
            for k in range(9 + hour % 24):
                minute = time + datetime.timedelta(minutes=k)
                rows.append((f"{minute:%Y-%m-%d %H:%M}", zones[k % 3], zones[(k + hour) % 2]))
        connection.executemany("insert into rides values (?, ?, ?)", rows)
    connection.close()


def shops(n_days=40):
    """sales.parquet and tomorrow.parquet: three shops; one closes for the last two days."""
    rng = np.random.default_rng(0)
    rows = [
        {
            "time": datetime.datetime.combine(FIRST, datetime.time()) + datetime.timedelta(day, s),
            "shop": shop,
            "article": f"article {(int(article) + k) % 6}",
            "payment": "card" if card else "cash",
        }
        for day in range(n_days + 1)
        for k, shop in enumerate(["north", "south", "west"])
        if shop != "south" or not n_days - 2 <= day < n_days
        for s, article, card in zip(
            np.sort(rng.integers(0, 86_400, 40)).tolist(),
            rng.poisson(1.5, 40),
            rng.random(40) < 0.6,
            strict=True,
        )
    ]
    table = pl.DataFrame(rows).sort("time")
    tomorrow = datetime.datetime.combine(FIRST, datetime.time()) + datetime.timedelta(n_days)
    table.filter(pl.col("time") < tomorrow).write_parquet("sales.parquet")
    table.filter(pl.col("time") >= tomorrow).write_parquet("tomorrow.parquet")
