"""`export`: tables and arrays that agree with the run."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import onlinegcp
from cli_tools import fit, write_events
from onlinegcp import runlog
from onlinegcp.cli import Exit, call


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    return write_events(tmp_path_factory.mktemp("events") / "events.jsonl")


@pytest.fixture(scope="module")
def run(events, tmp_path_factory):
    return fit(events, tmp_path_factory.mktemp("runs") / "small.run")


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
    model = onlinegcp.KTensor.load(tmp_path / "ktensor.npz")
    assert np.array_equal(model.weights, view.weights)
    assert model.labels[0] == view.labels[0]
    assert call(["export", str(run), "ktensor", "-o", "x.csv"]) is Exit.BAD_INPUT
    assert call(["export", str(run), "everything", "-o", "x.csv"]) is Exit.BAD_INPUT
