"""Events of real data: sizes as published, the result of pandas, the page on events."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from event_tables import cells
from onlinegcp.events import from_events
from onlinegcp.problems import load_flights

SHARED = Path("/work/shared/data")


def test_flights_give_the_slices_that_come_with_the_package():
    flights = load_flights()
    from importlib import resources

    with resources.as_file(resources.files("onlinegcp") / "data/flights2013.parquet") as path:
        stream = from_events(path, time="date", every="1d", modes=["dest", "carrier", "hour"])
        slices = list(stream)
    assert [x.time for x in slices] == [x.time for x in flights.slices]
    assert sum(x.nnz for x in slices) == 294_734
    assert stream.n_events == 336_776
    names = [*flights.labels[:2], tuple(str(int(label)) for label in flights.labels[2])]
    for x, expected in zip(slices[::31], flights.slices[::31], strict=True):
        assert cells(stream, x) == {
            tuple(label[i] for label, i in zip(names, index, strict=True)): value
            for index, value in zip(expected.index.tolist(), expected.value, strict=True)
        }


def needs(name):
    path = SHARED / name
    return pytest.param(path, marks=pytest.mark.skipif(not path.exists(), reason="no shared data"))


@pytest.mark.parametrize("path", [needs("nyc_yellow_taxi_sample/yellow_sample_2018_2020.parquet")])
def test_a_sample_of_taxi_trips_has_the_published_size(path):
    stream = from_events(
        path,
        time="pickup_time",
        every="1d",
        modes=["pu_zone", "do_zone", "pickup_time:hour"],
        share=[("pu_zone", "do_zone")],
        until="2019-01-01",
    )
    slices = list(stream)
    assert (len(slices), stream.n_events, sum(x.nnz for x in slices)) == (365, 117_640, 116_641)


@pytest.mark.slow
@pytest.mark.parametrize("path", [needs("mathoverflow/mathoverflow.parquet")])
def test_a_growing_network_has_the_published_size(path):
    stream = from_events(
        path, time="time", every="1d", modes=["src", "dst", "kind"], share=[("src", "dst")]
    )
    slices = list(stream)
    assert (len(slices), sum(x.nnz for x in slices)) == (2351, 410_596)
    assert stream.shape == (24_818, 24_818, 3)


def test_the_result_is_that_of_pandas():
    rng = np.random.default_rng(0)
    times = pd.Timestamp("2018-01-01") + pd.to_timedelta(rng.integers(0, 40 * 86_400, 5000), "s")
    table = pd.DataFrame({"t": times, "pu": rng.integers(0, 30, 5000), "v": rng.normal(size=5000)})
    stream = from_events(table, time="t", every="6h", modes=["pu"], value="v")
    expected = table.groupby([table["t"].dt.floor("6h"), "pu"])["v"].sum()
    found = {
        (pd.Timestamp(x.time), int(cell[0])): value
        for x in stream
        for cell, value in cells(stream, x).items()
    }
    assert found.keys() == set(expected.index)
    np.testing.assert_allclose([found[key] for key in expected.index], expected, rtol=1e-12)


def test_importing_events_is_light():
    code = "import sys, onlinegcp.events; print('polars' in sys.modules, 'pandas' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "False"]


def test_the_page_on_events_runs_as_printed():
    page = Path(__file__).parents[2] / "docs" / "events.md"
    code = [
        part.split("```")[0] for part in page.read_text(encoding="utf-8").split("```python")[1:]
    ]
    space: dict[str, object] = {"print": lambda *words: printed.append(" ".join(map(str, words)))}
    printed: list[str] = []
    first, second = (part.rstrip().splitlines() for part in code)
    exec("\n".join(first), space)
    assert printed == [line[2:] for line in first if line.startswith("# ")]
    assert "'JFK', 'SoHo', 'Harlem'" in first[-1]
    assert space["stream"].labels[0] == ("JFK", "SoHo", "Harlem")
    exec("\n".join(second[:-2]), space)
    assert repr(eval(second[-2], space)) == second[-1][2:]
