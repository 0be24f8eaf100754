"""The real streams the tuning-free solver is judged on, each as a list of slices in time order.

Every problem has 20 warm-start slices, then `streamed` slices, then 20 unseen ones on which the
final factors are scored ("next20"). The taxi stream is a synthetic stand-in, not real data.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

WARM = 20
NEXT = 20


@dataclass(frozen=True)
class Problem:
    """One stream with the rank, the loss and the next-20 loss to reach."""

    name: str
    streamed: int
    rank: int
    loss: str
    target: float  # next-20 loss, float("nan") when none was set


PROBLEMS = {
    p.name: p
    for p in (
        Problem("chi_b50", 250, 50, "bernoulli_odds", 3.445),
        Problem("chi_p20", 200, 20, "poisson", 2.708),
        Problem("chi_p50", 100, 50, "poisson", 2.484),
        Problem("fl13_20", 200, 20, "poisson", 1.340),
        Problem("taxi50", 40, 50, "poisson", -0.05229),
        Problem("manhattan20", 21, 20, "poisson", float("nan")),
        Problem("mathoverflow20", 200, 20, "poisson", float("nan")),
        Problem("origin10", 200, 10, "poisson", float("nan")),
        Problem("delay10", 200, 10, "bernoulli_odds", float("nan")),
        Problem("beijing10", 200, 10, "gaussian", float("nan")),
    )
}

RawSlice = tuple[NDArray[np.int32], NDArray[np.float64]]


def data_folder() -> Path:
    """Return the folder of the data sets: ONLINEGCP_DATA if set, else shared/data."""
    given = os.environ.get("ONLINEGCP_DATA")
    return Path(given) if given else Path(__file__).resolve().parents[2] / "shared" / "data"


def load(name: str) -> tuple[list[RawSlice], tuple[int, ...]]:
    """Return the (index, value) pairs of every slice a problem needs, and the slice shape."""
    count = WARM + PROBLEMS[name].streamed + NEXT
    if name.startswith("chi_"):
        return _chicago(count, binary=name.startswith("chi_b"))
    if name == "fl13_20":
        return _flights(count, ("dest", "carrier", "hour"))
    if name == "origin10":
        return _flights(count, ("origin", "dest", "hour"))
    if name == "delay10":
        return _flights(count, ("dest", "carrier", "hour"), late=True)
    if name == "taxi50":
        return _taxi(count)
    if name == "manhattan20":
        return _manhattan(count)
    if name == "mathoverflow20":
        return _mathoverflow(count)
    return _beijing(count)


def _split(
    keys: NDArray[np.int64],
    columns: list[NDArray[np.int64]],
    value: NDArray[np.float64],
    count: int,
) -> list[RawSlice]:
    order = np.lexsort([*reversed(columns), keys])
    keys, value = keys[order], value[order]
    index = np.ascontiguousarray(np.stack([c[order] for c in columns], axis=1), dtype=np.int32)
    bounds = np.searchsorted(keys, np.arange(count + 1))
    return [(index[a:b], value[a:b]) for a, b in itertools.pairwise(bounds)]


def _chicago(count: int, *, binary: bool) -> tuple[list[RawSlice], tuple[int, ...]]:
    table = pl.read_parquet(data_folder() / "chicago_crime" / "chicago_crime_counts.parquet")
    table = table.filter((pl.col("day") >= 500) & (pl.col("day") < 500 + count))
    columns = [table[c].to_numpy().astype(np.int64) for c in ("hour", "area", "type")]
    value = table["count"].to_numpy().astype(float)
    day = table["day"].to_numpy().astype(np.int64) - 500
    return _split(day, columns, np.sign(value) if binary else value, count), (24, 77, 32)


def _flights(
    count: int, names: tuple[str, ...], late: bool = False
) -> tuple[list[RawSlice], tuple[int, ...]]:
    table = pl.read_parquet(data_folder() / "nycflights13" / "flights2013.parquet")
    shape = tuple(24 if c == "hour" else table[c].n_unique() for c in names)
    first = table["date"].min()
    coded = [
        table[c].cast(pl.Int64)
        if c == "hour"
        else (table[c].cast(pl.String).rank("dense") - 1).cast(pl.Int64)
        for c in names
    ]
    day = (table["date"] - first).dt.total_days().alias("day")
    work = pl.DataFrame(
        [day, table["arr_delay"], *(s.alias(c) for s, c in zip(coded, names, strict=True))]
    )
    if late:
        work = work.filter(pl.col("arr_delay") > 15)
    grouped = work.filter(pl.col("day") < count).group_by(["day", *names]).len()
    value = grouped["len"].to_numpy().astype(float)
    columns = [grouped[c].to_numpy().astype(np.int64) for c in names]
    day_of = grouped["day"].to_numpy().astype(np.int64)
    return _split(day_of, columns, np.sign(value) if late else value, count), shape


def _taxi(count: int) -> tuple[list[RawSlice], tuple[int, ...]]:
    path = data_folder() / "nyc_yellow_taxi_synth" / "generate.py"
    spec = importlib.util.spec_from_file_location("taxi_generate", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    slices: list[RawSlice] = []
    days: Iterator[tuple[int, NDArray, NDArray, NDArray, NDArray]] = module.days(80, 1.0, 0)
    for _, i, j, k, v in days:
        slices.append(
            (np.ascontiguousarray(np.stack([i, j, k], 1), dtype=np.int32), v.astype(float))
        )
        if len(slices) == count:
            break
    return slices, (263, 263, 24)


def _manhattan(count: int) -> tuple[list[RawSlice], tuple[int, ...]]:
    path = data_folder() / "nyc_taxi_manhattan30" / "manhattan30_2018_may_jun.parquet"
    table = pl.read_parquet(path).filter(pl.col("day") < count)
    columns = [table[c].to_numpy().astype(np.int64) for c in ("origin", "dest", "hour")]
    value = table["count"].to_numpy().astype(float)
    return _split(table["day"].to_numpy().astype(np.int64), columns, value, count), (30, 30, 24)


def _mathoverflow(count: int) -> tuple[list[RawSlice], tuple[int, ...]]:
    table = pl.read_parquet(data_folder() / "mathoverflow" / "mathoverflow.parquet")
    busiest = (
        pl.concat([table["src"], table["dst"]])
        .value_counts(sort=True)
        .head(1000)
        .to_series()
        .to_list()
    )
    code = pl.Series(sorted(busiest))
    table = table.filter(pl.col("src").is_in(busiest) & pl.col("dst").is_in(busiest))
    week = ((table["time"] - table["time"].min()).dt.total_days() // 7).to_numpy().astype(
        np.int64
    ) - 30
    source = np.searchsorted(code.to_numpy(), table["src"].to_numpy()).astype(np.int64)
    target = np.searchsorted(code.to_numpy(), table["dst"].to_numpy()).astype(np.int64)
    kind = (table["kind"].cast(pl.String).rank("dense") - 1).to_numpy().astype(np.int64)
    work = pl.DataFrame({"week": week, "source": source, "target": target, "kind": kind})
    grouped = (
        work.filter((pl.col("week") >= 0) & (pl.col("week") < count)).group_by(work.columns).len()
    )
    columns = [grouped[c].to_numpy().astype(np.int64) for c in ("source", "target", "kind")]
    weeks = grouped["week"].to_numpy().astype(np.int64)
    return _split(weeks, columns, grouped["len"].to_numpy().astype(float), count), (1000, 1000, 3)


def _beijing(count: int) -> tuple[list[RawSlice], tuple[int, ...]]:
    """Stations x standardised variables x hours; gaps are left out (unlisted = missing)."""
    table = pl.read_parquet(data_folder() / "beijing_air_quality" / "beijing_air.parquet")
    names = ["pm25", "pm10", "so2", "no2", "co", "o3", "temp", "pres", "dewp", "rain", "wspm"]
    table = table.sort("station", "time")
    stations = table["station"].n_unique()
    cube = table.select(names).to_numpy().astype(float).reshape(stations, -1, 24, len(names))
    cube = cube[:, :count].transpose(1, 0, 3, 2)
    warm = cube[:WARM]
    center = np.nanmean(warm, axis=(0, 1, 3))[:, None]
    spread = np.nanstd(warm, axis=(0, 1, 3))[:, None]
    cube = (cube - center) / np.where(spread > 0, spread, 1.0)
    slices: list[RawSlice] = []
    for day in cube:
        seen = np.isfinite(day)
        slices.append((np.argwhere(seen).astype(np.int32), day[seen]))
    return slices, tuple(cube.shape[1:])
