"""Small tables of many customers, and what makes two runs of them the same."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import numpy as np
import polars as pl

from onlinegcp.many.files import SHARD_KIND, shard_files, shard_numbers
from onlinegcp.many.reading import steps_of
from onlinegcp.many.streams import ManyStreams
from onlinegcp.storage.archive import read_archive
from onlinegcp.streaming import OnlineGCP

START = datetime.datetime(2018, 1, 1)
SETTINGS = {"time": "when", "every": "1d", "modes": ["a", "b"]}


def small_model(**parameters):
    return OnlineGCP(**({"rank": 1, "loss": "poisson", "init_slices": 3} | parameters))


def customers(n=4, n_days=8, seed=0, per_day=9):
    """Events of customers c0, c1, ..., in order of time, each on every day."""
    rng = np.random.default_rng(seed)
    rows = [
        {
            "when": START + datetime.timedelta(days=day, minutes=k),
            "customer": f"c{number}",
            "a": f"a{(int(rng.integers(0, 4)) + number) % 5}",
            "b": f"b{int(rng.integers(0, 3))}",
        }
        for day in range(n_days)
        for k in range(per_day)
        for number in range(n)
    ]
    return pl.DataFrame(rows)


def days(table, first, last):
    at = [START + datetime.timedelta(days=number) for number in (first, last)]
    return table.filter((pl.col("when") >= at[0]) & (pl.col("when") < at[1]))


def fit(path, table, *, n_jobs=1, model=None, settings=SETTINGS, by="customer", **options):
    """Begin a run of many streams, or go on with it."""
    if (Path(path) / "streams.json").exists():
        many = ManyStreams.open(path)
    else:
        many = ManyStreams.create(path, model or small_model(), by=by, events=settings)
    with many:
        return many.learn(table, n_jobs=n_jobs, **options)


def names_of(path):
    return sorted(ManyStreams.open(path, write=False).places())


def told(path, stream):
    """The lines of a stream, without what depends on the clock on the wall."""
    return [
        {name: value for name, value in step.items() if name not in ("seconds", "stream")}
        for step in steps_of(path, stream)
    ]


def assert_same_streams(found, wanted):
    """The same streams in the same shards with the same bits."""
    found, wanted = Path(found), Path(wanted)
    assert shard_numbers(found) == shard_numbers(wanted)
    for number in shard_numbers(wanted):
        ours, theirs = (
            read_archive(shard_files(path, number)[0], SHARD_KIND) for path in (found, wanted)
        )
        assert sorted(ours[0]) == sorted(theirs[0])
        for name, array in theirs[0].items():
            assert ours[0][name].tobytes() == array.tobytes(), name
        assert _lasting(ours[1]["streams"]) == _lasting(theirs[1]["streams"])
    assert [told(found, name) for name in names_of(found)] == [
        told(wanted, name) for name in names_of(wanted)
    ]


def _lasting(value):
    if isinstance(value, dict):
        return {k: _lasting(part) for k, part in value.items() if k != "seconds"}
    if isinstance(value, list):
        return [_lasting(part) for part in value]
    return json.dumps(value)  # in which one NaN equals another
