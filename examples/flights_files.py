"""The bundled flights as files, as they would lie in a folder: one parquet file per month."""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path

import polars as pl

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
flights = pl.read_parquet(files("onlinegcp") / "data/flights2013.parquet")
by_month = flights.with_columns(month=pl.col("date").dt.strftime("%Y-%m"))
for (month,), part in by_month.partition_by("month", as_dict=True, include_key=False).items():
    part.write_parquet(folder / f"{month}.parquet")
