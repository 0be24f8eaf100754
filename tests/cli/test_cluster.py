"""Commands with a cluster: its workers read and learn, and runs go on with it and without it."""

from __future__ import annotations

import json

import polars as pl
import pytest

from cli_tools import MODEL, TABLE, event_lines
from onlinegcp import runlog
from onlinegcp.cli import Exit, call
from onlinegcp.events import tables
from onlinegcp.runlog import read_run

distributed = pytest.importorskip("distributed")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def address():
    options = {"threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(n_workers=2, processes=True, **options) as workers:
        yield workers.scheduler_address


def write(path, days):
    lines = "".join(line for day in days for line in day)
    frame = pl.read_ndjson(lines.encode()).with_columns(pl.col("when").str.to_datetime())
    frame.write_parquet(path)
    return str(path)


def told(run):
    """Lines without the seconds they took, labels, and the bits of the factors."""
    view = read_run(run)
    steps = [{k: v for k, v in step.items() if k != "seconds"} for step in view.steps]
    return json.dumps(steps), view.labels, [a.tobytes() for a in view.factors]


def test_a_run_goes_from_a_cluster_to_one_process_and_back(tmp_path, address, monkeypatch):
    from onlinegcp.sums.dask import Crowd

    monkeypatch.setattr(tables, "BLOCK_ROWS", 100)
    asked, submit = [], Crowd._submit

    def counted(self, function, item):
        asked.append(item)
        return submit(self, function, item)

    monkeypatch.setattr(Crowd, "_submit", counted)
    days = event_lines(14)
    parts = [write(tmp_path / f"{k}.parquet", days[k * 7 : k * 7 + 7]) for k in range(2)]
    found = []
    for number, (first, second) in enumerate([("", ""), (address, ""), ("", address)]):
        run, before = str(tmp_path / f"{number}.run"), len(asked)
        for command, cluster in (
            (["fit", parts[0], *TABLE, *MODEL, "-o", run], first),
            (["update", run, parts[1]], second),
        ):
            more = ["--cluster", cluster] if cluster else []
            assert call([*command, "--quiet", *more]) is Exit.DONE
        assert (len(asked) > before) is bool(first or second)
        found.append(told(run))
        assert runlog.read_run_json(run)["model"]["parameters"].get("cluster") is None
    assert found[0] == found[1] == found[2]
