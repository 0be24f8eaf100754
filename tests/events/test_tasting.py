"""Files that kill whoever reads them: another process dies of them, and we say which they are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import polars as pl
import pytest

from onlinegcp import DataError, from_events
from onlinegcp.events import table_parts, tasting
from onlinegcp.events.tables import open_tables
from onlinegcp.planning.sample import rows_in_all

# Found by changing bytes at random: what polars 2.1 asks for to unpack it does not exist.
ABORTS = Path(__file__).parents[2] / "reliability" / "corpus" / "abort.parquet"
SETTINGS = {"time": "t", "every": "1d", "modes": ["a", "b", "k"], "value": "v"}
READ = "import polars, sys; polars.scan_parquet(sys.argv[1]).collect()"


@pytest.fixture
def table(tmp_path):
    rows = {"t": ["2024-01-01", "2024-01-02", "2024-01-03"], "a": ["x", "y", "x"]}
    found = pl.DataFrame(rows)
    found.write_parquet(tmp_path / "good.parquet")
    found.write_ipc(tmp_path / "good.arrow")
    return tmp_path


def test_the_file_really_ends_a_process_that_reads_it():
    done = subprocess.run(
        [sys.executable, "-c", READ, str(ABORTS)], capture_output=True, check=False
    )
    if done.returncode == 1:
        pytest.skip("this version of polars refuses it")
    assert done.returncode == -signal.SIGABRT


def test_a_file_that_ends_its_reader_is_refused_by_name():
    for _ in range(2):  # the next one is read by a new process
        with pytest.raises(DataError, match=r"abort\.parquet is damaged .* in rows 1 to 300"):
            list(from_events(ABORTS, **SETTINGS))


def test_nothing_is_said_on_standard_error(capfd):
    with pytest.raises(DataError):
        list(from_events(ABORTS, **SETTINGS))
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("block", [1, 2, 100])
@pytest.mark.parametrize("name", ["good.parquet", "good.arrow"])
def test_good_files_are_read_as_ever(table, monkeypatch, name, block):
    monkeypatch.setattr(table_parts, "BLOCK_ROWS", block)
    stream = from_events(table / name, time="t", every="1d", modes=["a"])
    assert [x.total for x in stream] == [1.0, 1.0, 1.0]
    assert rows_in_all(open_tables(table / name).parts) == 3


def test_only_the_file_it_died_of_is_refused(table):
    taster = tasting.Taster()
    common = {"parquet": True, "columns": None, "start": 0, "length": 0}
    bad = {**common, "path": str(ABORTS), "columns": ["t", "a", "b", "v", "k"], "length": 500}
    good = {**common, "path": str(table / "good.parquet")}
    taster.ask(bad)
    taster.ask(good)
    assert taster.wait(good) is None
    assert "ended by that" in taster.wait(bad) or "parquet" in taster.wait(bad)
    taster.close()


def test_one_that_has_waited_long_enough_is_replaced(table):
    taster = tasting.Taster()
    order = {"path": str(table / "good.parquet"), "parquet": True}
    order |= {"columns": ["a"], "start": 0, "length": 2}
    assert taster.wait(order) is None
    first = taster._process
    first.stdin.close()  # which it takes for the end
    first.wait()
    assert taster.wait(order) is None
    assert taster._process is not first
    # Without a process at all, files are read as they are.
    taster.close()
    taster.close()


def test_threads_share_it(table):
    found = []

    def read():
        stream = from_events(table / "good.parquet", time="t", every="1d", modes=["a"])
        found.append(len(list(stream)))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [3] * 4


def test_files_can_be_trusted(table, monkeypatch):
    monkeypatch.setenv(tasting.VARIABLE, "1")
    monkeypatch.setattr(tasting, "_TASTER", None)
    assert len(list(from_events(table / "good.parquet", time="t", every="1d", modes=["a"]))) == 3
    monkeypatch.setenv(tasting.VARIABLE, "0")
    assert not tasting._trusted()


def test_where_no_process_can_be_started_files_are_read(table, monkeypatch):
    def refused(*_, **__):
        raise OSError

    monkeypatch.setattr(tasting, "_TASTER", tasting.Taster())
    monkeypatch.setattr(subprocess, "Popen", refused)
    assert len(list(from_events(table / "good.parquet", time="t", every="1d", modes=["a"]))) == 3
    assert os.getpid() != tasting._TASTER._owner
