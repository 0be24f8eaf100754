"""Commands with a cluster: its workers read and learn, one is killed, and the run goes on alone."""

from __future__ import annotations

import os
import signal

import polars as pl
import pytest

from cli_tools import MODEL, TABLE, event_lines
from local_cluster import two_workers
from onlinegcp.cli import Exit, call
from onlinegcp.events import table_parts
from onlinegcp.runlog import read_run, read_run_json
from onlinegcp.sums import chunks, connecting
from onlinegcp.sums.crowd import Crowd
from onlinegcp.sums.dask import Cluster
from run_tools import steps_of

distributed = pytest.importorskip("distributed")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def write(path, days):
    lines = "".join(line for day in days for line in day)
    frame = pl.read_ndjson(lines.encode()).with_columns(pl.col("when").str.to_datetime())
    frame.write_parquet(path) if path.suffix == ".parquet" else frame.write_csv(path)
    return str(path)


def told(run):
    """Lines without the seconds they took, labels, and the bits of the factors."""
    view = read_run(run)
    return steps_of(run), view.labels, [a.tobytes() for a in view.factors]


def test_a_run_goes_from_a_cluster_that_loses_a_worker_to_one_process_and_back(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(table_parts, "BLOCK_ROWS", 100)
    monkeypatch.setattr(chunks, "LEAST_WORK", 16)  # slices of a few cells have chunks
    monkeypatch.setattr(chunks, "MOST_CHUNKS", 2)
    asked = []

    def watched(kind):
        submit = kind._submit

        def noted(self, *arguments, **where):
            asked.append(kind)
            if asked == [Crowd] * 3:  # the third piece of the table is being read
                os.kill(next(iter(self.client.run(os.getpid).values())), signal.SIGKILL)
            return submit(self, *arguments, **where)

        monkeypatch.setattr(kind, "_submit", noted)

    watched(Cluster)
    watched(Crowd)
    days = event_lines(8)
    first, second = write(tmp_path / "1.parquet", days[:6]), write(tmp_path / "2.csv", days[6:])
    with two_workers() as workers:
        there, found = ["--cluster", workers.scheduler_address], []
        for number, (learning, going_on) in enumerate([(there, []), ([], there), ([], [])]):
            run, begun = str(tmp_path / f"{number}.run"), len(asked)
            fit = ["fit", first, *TABLE, *MODEL, "-o", run, "--quiet", *learning]
            assert call(fit) is Exit.DONE
            assert call(["update", run, second, "--quiet", *going_on]) is Exit.DONE
            assert set(asked[begun:]) == ({Crowd} if learning else set()) | (
                {Cluster} if learning or going_on else set()
            )
            assert read_run_json(run)["model"]["parameters"].get("cluster") is None
            found.append(told(run))
        connecting.connected(workers.scheduler_address).close()
    assert found[0] == found[1] == found[2]
