"""Objects of a local S3 server give the slices that the same files give."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import run_tools
from cli_tools import MODEL, TABLE
from onlinegcp.cli import Exit, call
from onlinegcp.errors import DataError
from onlinegcp.events import from_events
from onlinegcp.report.global_loss import why_not
from real_servers import s3

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server():
    with s3() as found:
        yield found


@pytest.fixture
def bucket(server, monkeypatch):
    client, environment = server
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return client


@pytest.fixture(scope="module")
def files(server, tmp_path_factory):
    """Days of events, one object per day and format, and in one file."""
    folder = tmp_path_factory.mktemp("files")
    table = pl.read_csv(run_tools.write_events(folder / "all.csv", 9)).sort("when")
    for (day,), some in table.group_by(pl.col("when").str.head(10), maintain_order=True):
        some.write_csv(folder / f"{day}.csv")
        some.write_ndjson(folder / f"{day}.jsonl")
        some.write_parquet(folder / f"{day}.parquet")
        some.write_ipc(folder / f"{day}.arrow")
    for path in folder.iterdir():
        server[0].upload_file(str(path), "taxi", f"rides/{path.name}")
    return folder


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "csv", "jsonl"])
def test_a_pattern_gives_the_slices_the_same_files_give(files, bucket, suffix):
    pattern = f"2018*.{suffix}"
    wanted = from_events(str(files / pattern), **run_tools.SETTINGS)
    found = from_events(f"s3://taxi/rides/{pattern}", **run_tools.SETTINGS)
    slices = list(wanted)
    assert len(slices) == 9
    assert list(found) == slices
    assert found.labels == wanted.labels
    assert found.n_read == wanted.n_read


def test_a_run_learns_from_objects_and_goes_on_with_more(files, bucket, tmp_path):
    run = str(tmp_path / "s3.run")
    some = "s3://taxi/rides/2018-01-0[1-5].parquet"
    assert call(["fit", some, *TABLE, *MODEL, "-o", run, "--quiet"]) is Exit.DONE
    every = "s3://taxi/rides/2018-01-*.parquet"
    assert call(["update", run, every, "--quiet"]) is Exit.DONE
    local = str(tmp_path / "local.run")
    words = ["fit", str(files / "2018-01-*.parquet"), *TABLE, *MODEL, "-o", local, "--quiet"]
    assert call(words) is Exit.DONE
    assert run_tools.steps_of(run) == run_tools.steps_of(local)
    assert "object store" in why_not(Path(run))


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("s3://taxi/rides/nothing*.parquet", "nothing"),
        ("s3://nowhere/rides/*.parquet", "nowhere"),
        ("s3://taxi/rides/2018*", "told by their name"),
        ("s3://taxi/rides/none.csv", "none.csv"),
    ],
)
def test_mistakes_are_named(files, bucket, address, message):
    with pytest.raises(DataError, match=message) as caught:
        next(from_events(address, **run_tools.SETTINGS))
    assert "geheim" not in str(caught.value)
