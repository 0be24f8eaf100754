"""The real data of the experiments as slices in time order: Chicago crime and New York taxi rides.

Nothing is downloaded. Every reader takes the folder the data lie in and raises `MissingData` with a
message that says what was looked for where it is not found.
"""

from __future__ import annotations

import datetime
import importlib.util
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from onlinegcp.errors import DataError
from onlinegcp.slices import Slice

TAXI_ZONES = 263  # zones 264 and 265 mean "unknown"
FIRST_DAY, END_DAY = 500, 6187  # the paper's view of the Chicago stream

# Names of the columns in the files of the Taxi and Limousine Commission, and in our sample of them.
TLC_COLUMNS = (
    ("tpep_pickup_datetime", "PULocationID", "DOLocationID"),
    ("pickup_time", "pu_zone", "do_zone"),
)


class MissingData(Exception):  # noqa: N818 - it is a reason to skip, not a fault
    """The data of an experiment are not on this machine."""


def chicago(folder: Path, count: int | None = None, *, binary: bool = True) -> list[Slice]:
    """Crimes in Chicago by hour x community area x type, one slice per day from day 500 on.

    Parameters
    ----------
    folder
        Folder that holds `chicago_crime/`.
    count
        Days to read; None reads all 5,687 of the paper.
    binary
        Whether any crime counts as one.
    """
    path = _found(folder / "chicago_crime" / "chicago_crime_counts.parquet")
    end = END_DAY if count is None else min(END_DAY, FIRST_DAY + count)
    table = pl.read_parquet(path).filter(pl.col("day").is_between(FIRST_DAY, end, closed="left"))
    value = table["count"].to_numpy().astype(np.float64)
    return _by_day(
        table["day"].to_numpy().astype(np.int64) - FIRST_DAY,
        [table[name].to_numpy() for name in ("hour", "area", "type")],
        np.sign(value) if binary else value,
        (24, 77, 32),
        end - FIRST_DAY,
    )


def taxi_stand_in(
    folder: Path, count: int = 365, *, seed: int = 0, zones: int = TAXI_ZONES
) -> Iterator[Slice]:
    """Days of SYNTHETIC taxi rides, zone x zone x hour, drawn from the marginals of real ones.

    Parameters
    ----------
    folder
        Folder that holds `nyc_yellow_taxi_synth/` and `nyc_yellow_taxi_sample/`.
    count
        Days, at most 365.
    seed
        Seed of the generator.
    zones
        Keep only this many zones, those with most pick-ups in the real sample.
    """
    path = _found(folder / "nyc_yellow_taxi_synth" / "generate.py")
    sample = _found(folder / "nyc_yellow_taxi_sample" / "yellow_sample_2018_2020.parquet")
    spec = importlib.util.spec_from_file_location("taxi_stand_in", path)
    if spec is None or spec.loader is None:
        raise MissingData(f"{path} could not be loaded as a Python file.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    pickups = np.bincount(
        pl.read_parquet(sample)["pu_zone"].to_numpy().astype(np.int64) - 1, minlength=TAXI_ZONES
    )
    new_number = np.full(TAXI_ZONES, -1)
    new_number[np.sort(np.argsort(-pickups, kind="stable")[:zones])] = np.arange(zones)
    for day, origin, destination, hour, rides in module.days(count, 1.0, seed):
        index = np.stack([new_number[origin], new_number[destination], hour], axis=1)
        kept = (index >= 0).all(axis=1)
        yield Slice(
            index[kept].astype(np.int32), rides[kept].astype(float), (zones, zones, 24), time=day
        )


def taxi_trips(paths: Sequence[Path], *, year: int = 2018) -> list[Slice]:
    """Real taxi rides by pick-up zone x drop-off zone x hour, one slice per day of a year.

    Trips that the meters date outside the year and trips from or to an unknown zone are left out,
    days without a trip are empty slices.

    Parameters
    ----------
    paths
        Parquet files of the Taxi and Limousine Commission (`yellow_tripdata_2018-01.parquet`...),
        or a sample of them with the columns pickup_time, pu_zone and do_zone.
    year
        Year wanted.
    """
    if not paths:
        raise MissingData(
            "no trip files were found. Download yellow_tripdata_YYYY-MM.parquet from the NYC Taxi "
            "and Limousine Commission into one folder and pass it as --data."
        )
    counted = pl.concat([_count_trips(path, year) for path in paths])
    keys = ["day", "origin", "destination", "hour"]
    counted = counted.group_by(keys).agg(pl.col("rides").sum())
    first, last = datetime.date(year, 1, 1), datetime.date(year, 12, 31)
    days = (last - first).days + 1
    slices = _by_day(
        counted["day"].to_numpy().astype(np.int64),
        [counted[name].to_numpy() for name in keys[1:]],
        counted["rides"].to_numpy().astype(np.float64),
        (TAXI_ZONES, TAXI_ZONES, 24),
        days,
    )
    return [x.with_time(first + datetime.timedelta(days=t)) for t, x in enumerate(slices)]


def manhattan(folder: Path) -> list[Slice]:
    """Real rides among 30 zones in May and June 2018, zone x zone x hour: 61 nearly dense days."""
    path = _found(folder / "nyc_taxi_manhattan30" / "manhattan30_2018_may_jun.parquet")
    table = pl.read_parquet(path)
    return _by_day(
        table["day"].to_numpy().astype(np.int64),
        [table[name].to_numpy() for name in ("origin", "dest", "hour")],
        table["count"].to_numpy().astype(np.float64),
        (30, 30, 24),
        61,
    )


def _found(path: Path) -> Path:
    if not path.exists():
        raise MissingData(f"{path} is not on this machine.")
    return path


def _count_trips(path: Path, year: int) -> pl.DataFrame:
    """Rides per day, pair of zones and hour of one file; grouping by file keeps memory small."""
    table = pl.scan_parquet(path)
    present = table.collect_schema().names()
    names = next((names for names in TLC_COLUMNS if set(names) <= set(present)), None)
    if names is None:
        raise DataError(
            f"{path} needs the columns {', '.join(TLC_COLUMNS[0])}, but has {', '.join(present)}. "
            f"Pass yellow taxi trip files."
        )
    pickup, origin, destination = (pl.col(name) for name in names)
    zones = pl.lit(1), pl.lit(TAXI_ZONES)
    start = pl.lit(datetime.date(year, 1, 1))
    return (
        table.filter(
            pickup.dt.year() == year, origin.is_between(*zones), destination.is_between(*zones)
        )
        .group_by(
            (pickup.dt.date() - start).dt.total_days().cast(pl.Int16).alias("day"),
            (origin - 1).cast(pl.Int16).alias("origin"),
            (destination - 1).cast(pl.Int16).alias("destination"),
            pickup.dt.hour().cast(pl.Int16).alias("hour"),
        )
        .agg(pl.len().cast(pl.Int64).alias("rides"))
        .collect()
    )


def _by_day(
    day: NDArray[np.int64],
    columns: Sequence[NDArray[np.integer]],
    value: NDArray[np.float64],
    shape: tuple[int, ...],
    count: int,
) -> list[Slice]:
    order = np.argsort(day, kind="stable")
    index = np.stack([column[order] for column in columns], axis=1).astype(np.int32)
    value = value[order]
    bounds = np.searchsorted(day[order], np.arange(count + 1))
    return [
        Slice(index[a:b], value[a:b], shape, time=t) for t, (a, b) in enumerate(pairwise(bounds))
    ]
