"""Forecasts of the next seven slices against seasonal naive, on real streams.

Seasonal naive says what the slice a season ago held. Origins are every fifth slice of the last
60 %, each with the weights and factors as they were then. Errors of totals are absolute, summed
over all; those of cells are roots of mean squares, as absolute ones are least for a guess of
zero where most cells are empty. The rows `median` are those of the streams.
Streams whose data are not here are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.records import Row
from onlinegcp.events import from_events
from onlinegcp.forecasting import forecast
from onlinegcp.problems import load_flights
from onlinegcp.slices import Slice
from onlinegcp.streaming import OnlineGCP

DATA = Path("/work/shared/data")
AHEAD = 7
EVERY_STREAM, MEDIAN = 1.0, 0.9


def _read(path: str, **options: Any) -> Callable[[], list[Slice]]:
    return lambda: list(from_events(DATA / path, **options))


# Stream, loss, rank, season, bound.
STREAMS: dict[str, tuple[Callable[[], list[Slice]], str, int, int, float | None]] = {
    "flights": (lambda: load_flights().slices, "poisson", 8, 7, None),
    "nab_taxi": (
        _read(
            "labelled/nab_nyc_taxi.csv",
            time="timestamp", every="1d", modes=["timestamp:hour"], value="value",
        ),
        "poisson", 4, 7, None,
    ),
    "manhattan": (
        _read(
            "nyc_taxi_manhattan30/manhattan30_2018_may_jun.parquet",
            time="day", every=1, modes=["hour", "origin", "dest"], value="count",
        ),
        "poisson", 8, 7, None,
    ),
    "chicago": (
        _read(
            "chicago_crime/chicago_crime_counts.parquet",
            time="day", every=1, modes=["hour", "area", "type"], value="count", until=400,
        ),
        "poisson", 8, 7, None,
    ),
    "yellow": (
        _read(
            "nyc_yellow_taxi_sample/yellow_sample_2018_2020.parquet",
            time="pickup_time", every="1d", modes=["pu_zone", "do_zone", "pickup_time:hour"],
            until="2019-03-01",
        ),
        "poisson", 8, 7, None,
    ),
    "mathoverflow": (
        _read(
            "mathoverflow/mathoverflow.parquet",
            time="time", every="1w", modes=["src", "dst", "kind"], top=200,
        ),
        "poisson", 8, 52, None,
    ),
    "unemployment": (
        _read(
            "tables/unemployment-across-industries.json",
            time="date", every="1mo", modes=["series"], value="count",
        ),
        "poisson", 5, 12, None,
    ),
    "weather": (
        _read(
            "tables/weather.csv",
            time="date", every="1w", modes=["location"],
            value=["precipitation", "temp_max", "wind"], agg="mean",
        ),
        "gaussian", 2, 52, 0.0,
    ),
    "beijing": (
        _read(
            "beijing_air_quality/beijing_air.parquet",
            time="time", every="1d", modes=["station", "time:hour"],
            value=["pm25", "so2", "no2", "o3"], agg="mean", until="2014-06-01",
        ),
        "gaussian", 5, 7, 0.0,
    ),
}  # fmt: skip


def run(*, quick: bool = False, only: str | None = None) -> Iterator[Row]:
    """Errors over those of seasonal naive, for each stream and in the median."""
    ratios, by_cell = [], []
    for name, (read, loss, rank, season, lower) in STREAMS.items():
        if only not in (None, name) or (quick and name not in ("nab_taxi", "unemployment")):
            continue
        try:
            slices = read()
        except ValueError:  # the data are not here
            continue
        found = _errors(slices, loss, rank, season, lower)
        ratio = float(np.sum(found.ours) / np.sum(found.naive))
        ratios.append(ratio)
        usual = max(float(np.mean(found.naive)), 1e-300)
        low, high = np.percentile(np.array(found.ours) / usual, [20, 80])
        yield Row(
            *("forecast/" + name, "smoothing", ratio, float(low), float(high), "of naive"),
            target=f"<= {EVERY_STREAM:g}",
            note=f"{len(found.ours)} totals, 80 % interval holds {np.mean(found.inside):.0%}",
        )
        cells = np.array(found.cells)
        root = np.sqrt(cells[:, 0].sum() / cells[:, 1].sum())
        by_cell.append(float(root))
        low, high = np.percentile(np.sqrt(cells[:, 0] / cells[:, 1].clip(1e-300)), [20, 80])
        yield Row(
            *("forecast/" + name, "cells", float(root), float(low), float(high), "of naive"),
            target=f"<= {EVERY_STREAM:g}",
            note=f"{len(cells)} slices of {int(np.prod(slices[-1].shape)):,} cells, 80 % "
            f"intervals of the ten largest hold {np.mean(found.inside_cells):.0%}",
        )
    for method, of_all in (("smoothing", ratios), ("cells", by_cell)):
        if len(of_all) > 2:
            low, high = np.percentile(of_all, [20, 80])
            median = float(np.median(of_all))
            yield Row(
                *("forecast/median", method, median, float(low), float(high), "of naive"),
                target=f"<= {MEDIAN:g}",
                note=f"of {len(of_all)} streams",
            )


@dataclass
class Errors:
    """Errors of totals and whether they lay in their intervals; squared errors of cells.

    Squares are summed over each slice, of ours and of naive.
    """

    ours: list[float]
    naive: list[float]
    inside: list[bool]
    cells: list[list[float]]
    inside_cells: list[bool]


def _errors(slices: list[Slice], loss: str, rank: int, season: int, lower: float | None) -> Errors:
    shape = tuple(max(lengths) for lengths in zip(*(x.shape for x in slices), strict=True))
    wide = [Slice(x.index, x.value, shape, time=x.time, unlisted=x.unlisted) for x in slices]
    model = OnlineGCP(rank, loss, lower=lower)
    held, seen = [], []
    for x in wide:
        model.partial_fit([x])
        if model.last_ is not None:
            factors = model.factors_
            sums = np.prod([np.abs(a).sum(axis=0) for a in factors], axis=0)
            held.append(model.weights_ * sums)
            seen.append((factors, model.get_state()["recent"]))
    before = len(wide) - len(held)  # slices of the warm start
    first = max(int(0.4 * len(wide)), before + 10, season)
    found = Errors([], [], [], [], [])
    for origin in range(first, len(wide) - AHEAD, 5):
        known = origin - before
        factors, recent = seen[known - 1]
        ahead = forecast(
            np.array(held[:known]), factors, model.loss_, AHEAD, period=season, recent=recent
        )
        for h in range(AHEAD):
            x = wide[origin + h].to_dense()
            old = wide[origin + h - season * (1 + h // season)].to_dense()
            both = ~(np.isnan(x) | np.isnan(old))
            guess = ahead.dense(h)
            found.cells.append([np.sum((x - guess)[both] ** 2), np.sum((x[both] - old[both]) ** 2)])
            # Cells that are missing belong to no total.
            found.ours.append(abs(float(x[both].sum() - guess[both].sum())))
            found.naive.append(abs(float(x[both].sum() - old[both].sum())))
            found.inside.append(found.ours[-1] < ahead.high[h] - ahead.total[h])
            for cell in ahead.cells(h, 10):
                value = x[tuple(int(i) for i in cell["labels"])]
                if np.isfinite(value):
                    found.inside_cells.append(cell["low"] <= value <= cell["high"])
    return found
