"""Files that pages work on: made by their setup comments, in the folder the page is run in."""

from __future__ import annotations

import datetime
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


def rides():
    """rides.db, a SQLite file with a table of rides."""
    with sqlite3.connect("rides.db") as connection:
        connection.execute('create table rides (pickup, pu, "do")')
        rows = [(f"2018-01-01 {hour:02}:15", "SoHo", "JFK") for hour in range(15)]
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
