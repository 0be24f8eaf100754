"""Folders that say what is in the files below them."""

from __future__ import annotations

import polars as pl
import pytest

from onlinegcp.errors import DataError
from onlinegcp.events import from_events
from onlinegcp.events.tables import open_tables
from onlinegcp.planning import make_plan


def write(folder, name="part.parquet", **columns):
    folder.mkdir(parents=True, exist_ok=True)
    table = pl.DataFrame(columns)
    path = folder / name
    table.write_parquet(path) if path.suffix == ".parquet" else table.write_csv(path)


@pytest.mark.parametrize("name", ["part.parquet", "part.csv"])
def test_folders_are_columns(tmp_path, name):
    days = ["2024-01-01", "2024-01-02"]
    for city in ("Oslo", "New%20York"):
        write(tmp_path / "sales" / f"city={city}", name, day=days, item=["a", "b"])
    options = {"time": "day", "every": "1d", "modes": ["city", "item"]}
    stream = from_events(tmp_path / "sales", **options)
    totals = [x.total for x in stream]
    assert totals == [2.0, 2.0]
    assert sorted(stream.labels[0]) == ["New York", "Oslo"]
    # One of the files says the same, and a pattern does.
    alone = from_events(tmp_path / "sales" / "city=Oslo" / name, **options)
    assert [x.total for x in alone] == [1.0, 1.0]
    assert tuple(alone.labels[0]) == ("Oslo",)
    assert [x.total for x in from_events(str(tmp_path / "sales/*/*"), **options)] == totals


def test_the_time_may_be_a_folder_and_nothing_else_need_be_read(tmp_path):
    for day in ("2024-01-02", "2024-01-01"):
        write(tmp_path / f"day={day}", item=["a", "b", "b"])
    stream = from_events(tmp_path, time="day", every="1d", modes=["item"])
    assert [(str(x.time), x.total) for x in stream] == [("2024-01-01", 3.0), ("2024-01-02", 3.0)]


def test_a_column_of_the_file_counts_more_and_nothing_is_said_by_unknown(tmp_path):
    write(tmp_path / "city=Rome" / "kind=__HIVE_DEFAULT_PARTITION__", city=["Oslo"], n=[1])
    (part,) = open_tables(tmp_path).parts
    assert part.columns() == ["city", "n", "kind"]
    assert [block.frame.rows() for block in part.read(["kind", "city"])] == [[(None, "Oslo")]]


def test_what_programs_keep_for_themselves_is_passed_over(tmp_path):
    write(tmp_path / "a=1", n=[1])
    write(tmp_path / "_delta_log", "00.csv", n=[7])
    write(tmp_path / ".tmp", n=[7])
    assert [part.name for part in open_tables(tmp_path).parts] == [
        str(tmp_path / "a=1" / "part.parquet")
    ]
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="has no file ending in"):
        open_tables(tmp_path / "empty")


def test_a_run_is_named_after_the_folder_above(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for month in ("01", "02"):
        days = [f"2024-{month}-{day:02}" for day in range(1, 28) for _ in range(60)]
        write(tmp_path / "rides" / "year=2024" / f"month={month}", day=days, x=["a", "b"] * 810)
    assert make_plan("rides").output == "rides.run"
    assert make_plan("rides/year=2024/month=01/part.parquet").output == "part.run"
