"""Events per second from a parquet file to slices, and the memory it takes.

Twenty million synthetic trips over sixty days (pick-up time, two of 263 zones), in order of time
and shuffled. Beside it the same slices made by hand, as one would in a notebook: the whole table
in memory, a group-by, a loop over days. Each run is a process of its own that has imported its
libraries and may use two threads. Rates are by the clock on the wall, so run this on an idle
machine; the note says what they are per second of processor time, all threads together.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.alone import alone, resident
from benchmarks.problems import BUILD
from benchmarks.records import Row, measured
from benchmarks.timing import Times, take_turns

ZONES = 263
TWO_THREADS = {"POLARS_MAX_THREADS": "2"}


def run(*, quick: bool = False) -> list[Row]:
    """Million events per second; peak memory of a short and a four times longer table."""
    millions = 4 if quick else 20
    rounds = 1 if quick else 3
    ordered, shuffled = trips(millions), trips(millions, shuffled=True)
    runs = {
        "onlinegcp": ("onlinegcp", ordered),
        "shuffled": ("onlinegcp", shuffled),
        "polars": ("polars", ordered),
        "pandas": ("pandas", ordered),
    }
    peaks: dict[str, list[float]] = {name: [] for name in runs}
    costs: dict[str, list[float]] = {name: [] for name in runs}
    checks = set()

    def once(name: str) -> float:
        found = alone("events", *runs[name], **TWO_THREADS)
        peaks[name].append(found["peak"])
        costs[name].append(millions / found["seconds"])
        checks.add((found["total"], found["nnz"]))
        return millions / found["wall"]

    rates = take_turns({name: lambda name=name: once(name) for name in runs}, rounds)
    if len(checks) != 1:
        raise RuntimeError(f"the contestants disagree about the slices: {checks}")
    rows = []
    for name, (method, _) in runs.items():
        note = f"{np.median(costs[name]):.1f} per second of processor time, "
        note += f"peak {np.median(peaks[name]) / 1e6:.0f} MB"
        if name == "shuffled":
            note += ", rows shuffled, sorted on disk"
        more = {"target": ">= 5"} if name == "onlinegcp" else {}
        if name in ("polars", "pandas"):
            method, note = f"{name} by hand", f"{note}, whole table in memory"
        label = "onlinegcp" if method == "onlinegcp" else method
        case = "events/parquet-shuffled" if name == "shuffled" else "events/parquet"
        rows.append(measured(case, label, rates[name], "M events/s", note=note, **more))

    short = Times(
        tuple(
            alone("events", "onlinegcp", trips(millions // 4), **TWO_THREADS)["peak"]
            for _ in range(rounds)
        )
    )
    long = Times(tuple(peaks["onlinegcp"]))
    rows.append(
        measured(
            "events/memory",
            "onlinegcp",
            long,
            "MB",
            1e-6,
            against=f"that for {millions // 4} M events",
            ratio=long.median / short.median,
            target="<= 1.3",
            note=f"{millions} M events; beyond the imported libraries",
        )
    )
    return rows


def trips(millions: int, *, shuffled: bool = False) -> Path:
    """A parquet file of synthetic trips, a third of a million a day, made once."""
    path = BUILD / f"trips-{millions}{'-shuffled' * shuffled}.parquet"
    if path.exists():
        return path
    import polars as pl

    BUILD.mkdir(exist_ok=True)
    rng = np.random.default_rng(millions)
    n_trips = millions * 1_000_000
    milliseconds = rng.integers(0, 3 * millions * 86_400_000, n_trips)
    if not shuffled:
        milliseconds.sort()
    popularity = 1.0 / np.arange(1, ZONES + 1) ** 0.8
    popularity /= popularity.sum()
    table = pl.DataFrame(
        {
            "pickup": pl.Series(milliseconds + 1_514_764_800_000).cast(pl.Datetime("ms")),
            "pu": rng.choice(ZONES, n_trips, p=popularity).astype(np.uint16) + 1,
            "do": rng.choice(ZONES, n_trips, p=popularity).astype(np.uint16) + 1,
        }
    )
    if shuffled:  # the same trips as in order, so that totals can be compared
        table = pl.read_parquet(trips(millions)).sample(fraction=1.0, shuffle=True, seed=0)
    table.write_parquet(path)
    return path


def _slices(method: str, path: str):
    if method == "onlinegcp":
        from onlinegcp.events import from_events

        modes = ["pu", "do", "pickup:hour"]
        return from_events(path, time="pickup", every="1d", modes=modes, share=[("pu", "do")])
    return {"polars": _polars_by_hand, "pandas": _pandas_by_hand}[method](path)


def _polars_by_hand(path: str):
    import polars as pl

    from onlinegcp.slices import Slice

    table = pl.read_parquet(path)
    zones = pl.concat([table["pu"], table["do"]]).unique().sort().to_numpy()
    day, hour = pl.col("pickup").dt.date().alias("day"), pl.col("pickup").dt.hour().alias("hour")
    cells = table.group_by(day, "pu", "do", hour).len().sort("day")
    shape = (len(zones), len(zones), 24)
    for (day,), part in cells.partition_by("day", as_dict=True, maintain_order=True).items():
        pu, do = (np.searchsorted(zones, part[name].to_numpy()) for name in ("pu", "do"))
        index = np.stack([pu, do, part["hour"].to_numpy()], axis=1)
        yield Slice(index, part["len"].cast(pl.Float64).to_numpy(), shape, time=day)


def _pandas_by_hand(path: str):
    import pandas as pd
    import polars as pl

    from onlinegcp.slices import Slice

    raw = pl.read_parquet(path)  # pandas itself would need pyarrow
    table = pd.DataFrame({name: raw[name].to_numpy() for name in raw.columns})
    zones = np.unique(np.concatenate([table["pu"].unique(), table["do"].unique()]))
    table["pu"] = np.searchsorted(zones, table["pu"])
    table["do"] = np.searchsorted(zones, table["do"])
    table["hour"] = table["pickup"].dt.hour
    table["day"] = table["pickup"].dt.normalize()
    cells = table.groupby(["day", "pu", "do", "hour"]).size().reset_index(name="count")
    shape = (len(zones), len(zones), 24)
    for day, part in cells.groupby("day"):
        yield Slice(
            part[["pu", "do", "hour"]].to_numpy(), part["count"].to_numpy(), shape, time=day
        )


def _measure(method: str, path: str) -> None:
    import polars as pl

    import onlinegcp.events
    import onlinegcp.slices  # noqa: F401

    if method == "pandas":
        import pandas as pd  # noqa: F401
    pl.DataFrame({"a": [1]}).lazy().select(pl.col("a").sum()).collect()  # threads are started
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # peak := present
    wall, begin = time.perf_counter(), time.process_time()
    total = nnz = 0
    for x in _slices(method, path):
        total += x.total
        nnz += x.nnz
    found = {
        "seconds": time.process_time() - begin,
        "wall": time.perf_counter() - wall,
        "peak": resident("VmHWM") - before,
        "total": total,
        "nnz": nnz,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    _measure(*sys.argv[1:])
