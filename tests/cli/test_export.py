"""`export`: tables and arrays that agree with the run."""

from __future__ import annotations

import datetime

import numpy as np
import polars as pl
import pytest

import onlinegcp
from onlinegcp import runlog
from onlinegcp.cli import Exit, call
from onlinegcp.cli.pieces import moments


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".jsonl"])
def test_tables_can_be_exported(run, tmp_path, ending):
    view = runlog.read_run(run)
    readers = {".csv": pl.read_csv, ".parquet": pl.read_parquet, ".jsonl": pl.read_ndjson}
    for what in ("factors", "activations", "anomalies", "cells"):
        target = tmp_path / (what + ending)
        assert call(["export", str(run), what, "-o", str(target)]) is Exit.DONE
        table = readers[ending](target)
        if what == "factors":
            assert table.height == 2 * (4 + 4 + 7)
            value = table.filter(mode="do", label="z2", component=2)["value"].item()
            assert value == view.factors[1][view.labels[1].index("z2"), 1]
        elif what == "activations":
            assert table.height == 60
            assert table["weight"].to_list()[:2] == view.steps[0]["weights"]
        elif what == "anomalies":
            assert table.height == 26
            assert table["flagged"].sum() >= 1
        else:
            assert {"pu", "do", "observed", "expected"} <= set(table.columns)


def test_arrays_and_ktensors_can_be_exported(run, tmp_path, capsys):
    view = runlog.read_run(run)
    for what in ("factors", "activations", "anomalies", "cells", "ktensor"):
        assert call(["export", str(run), what, "-o", str(tmp_path / f"{what}.npz")]) is Exit.DONE
    with np.load(tmp_path / "factors.npz") as stored:
        assert np.array_equal(stored["factor.0"], view.factors[0])
        assert tuple(stored["labels.0"]) == view.labels[0]
    with np.load(tmp_path / "activations.npz") as stored:
        assert stored["weights"].shape == (30, 2)
        assert stored["times"].dtype == np.dtype("M8[D]")
        assert str(stored["times"][0]) == view.times[0]
    model = onlinegcp.KTensor.load(tmp_path / "ktensor.npz")
    # The time mode comes last: a slice of the tensor is the model of that slice.
    assert model.shape == (*map(len, view.factors), 30)
    newest = onlinegcp.KTensor(view.weights, view.factors).full()
    assert np.allclose(model.full()[..., -1], newest)
    assert model.labels[0] == view.labels[0]
    assert model.labels[-1] == tuple(view.times)
    assert call(["export", str(run), "ktensor", "-o", "x.csv"]) is Exit.BAD_INPUT
    assert call(["export", str(run), "everything", "-o", "x.csv"]) is Exit.BAD_INPUT


def test_tables_have_timestamps_names_and_the_numbers_of_the_report(run, tmp_path, capsys):
    assert call(["name", str(run), "2", "Evening leisure"]) is Exit.DONE
    tables = {}
    for what in ("factors", "activations", "anomalies", "cells"):
        out = tmp_path / f"{what}.parquet"
        assert call(["export", str(run), what, "-o", str(out)]) is Exit.DONE
        tables[what] = pl.read_parquet(out)
    for what in ("activations", "anomalies", "cells"):
        assert tables[what]["time"].dtype == pl.Date
    for what in ("factors", "activations"):
        assert set(tables[what]["component"]) == {1, 2}
        second = tables[what].filter(pl.col("component") == 2)
        assert set(second["name"]) == {"Evening leisure"}
    out = tmp_path / "activations.csv"
    assert call(["export", str(run), "activations", "-o", str(out)]) is Exit.DONE
    assert pl.read_csv(out, try_parse_dates=True)["time"].dtype == pl.Date
    assert call(["name", str(run), "2"]) is Exit.DONE


@pytest.mark.parametrize(
    ("times", "first"),
    [
        (["2013-01-01", "2013-01-02"], datetime.date(2013, 1, 1)),
        (["2013-01-01T10:00:00"] * 2, datetime.datetime(2013, 1, 1, 10)),
        (["2013-01-01T10:00:00+02:00"] * 2, datetime.datetime(2013, 1, 1, 8)),
        ([3, 4], None),
        (["first week", "second week"], None),
        (["2013-01-01", None], None),
        ([], None),
    ],
)
def test_times_are_timestamps_where_they_are_times(times, first):
    found = moments(times)
    assert (found and found[0]) == first
