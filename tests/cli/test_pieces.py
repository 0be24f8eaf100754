"""Tables and arrays in pieces: as in one piece, whatever the types, in the memory of one piece."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import polars as pl
import pytest

from onlinegcp.cli import pieces
from onlinegcp.cli.pieces import Pieces, write_arrays, write_table
from onlinegcp.errors import StateError

DAYS = [f"2013-01-{day:02}" for day in range(1, 31)]
COLUMNS = {
    "time": DAYS,
    "when": [f"{day}T12:00:00" for day in DAYS],
    "n": list(range(30)),
    "late": [None] * 25 + [1.5] * 5,
    "mixed": [1] * 28 + [2.5] * 2,
    "odd": [True, False] * 15,
    "nothing": [None] * 30,
    "words": ["a"] * 29 + ["a word that is longer"],
    "either": [1] * 15 + ["x"] * 15,
}


def rows():
    return [
        dict(zip(COLUMNS, values, strict=True)) for values in zip(*COLUMNS.values(), strict=True)
    ]


def read(path):
    readers = {".csv": pl.read_csv, ".parquet": pl.read_parquet, ".jsonl": pl.read_ndjson}
    return readers[path.suffix](path)


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".jsonl"])
@pytest.mark.parametrize("size", [1, 7, 30, 1000])
def test_a_table_in_pieces_is_the_table(tmp_path, monkeypatch, ending, size):
    monkeypatch.setattr(pieces, "ROWS", size)
    target = tmp_path / f"t{ending}"
    write_table(target, iter(rows()))
    found = read(target)
    assert found.columns == list(COLUMNS)
    assert found.height == 30
    assert found["n"].to_list() == COLUMNS["n"]
    assert found["late"].to_list() == COLUMNS["late"]
    assert found["mixed"].dtype == pl.Float64
    assert found["either"].to_list()[14:16] == ["1", "x"]
    assert [p.name for p in tmp_path.iterdir()] == [target.name]
    if ending == ".parquet":
        assert found["time"].dtype == pl.Date
        assert found.schema["when"] == pl.String  # only the column called time
        assert found["odd"].dtype == pl.Boolean


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_arrays_in_pieces_are_the_arrays(tmp_path, monkeypatch, size):
    monkeypatch.setattr(pieces, "ROWS", size)
    table = [{**row, "w": [row["n"], None]} for row in rows()]
    write_arrays(tmp_path / "a.npz", iter(table), {"names": np.array(["x", "y"])})
    with np.load(tmp_path / "a.npz", allow_pickle=False) as found:
        assert found["time"].dtype == "M8[D]"
        assert found["when"].dtype == "M8[us]"
        assert str(found["when"][3]) == "2013-01-04T12:00:00.000000"
        np.testing.assert_array_equal(found["n"], np.arange(30.0))
        np.testing.assert_array_equal(found["late"], [np.nan] * 25 + [1.5] * 5)
        assert found["odd"].dtype == bool
        assert found["words"][-1] == "a word that is longer"
        assert found["either"].tolist() == ["1"] * 15 + ["x"] * 15
        assert found["w"].shape == (30, 2)
        assert np.isnan(found["w"][:, 1]).all()
        assert found["names"].tolist() == ["x", "y"]


@pytest.mark.parametrize(
    ("times", "dtype"),
    [
        (["2013-01-01", "2013-01-02T03:00:00"], pl.Datetime("us")),
        (["2013-01-01T00:00:00+02:00", "2013-01-02T03:00:00+01:00"], pl.Datetime("us")),
        (["2013-01-01T00:00:00", "2013-01-02T03:00:00+01:00"], pl.String),
        (["2013-01-01", "week 2"], pl.String),
        (["2013-01-01", None], pl.String),
        ([None, "2013-01-01"], pl.String),
        ([None, None], pl.Null),
        ([True, None], pl.Boolean),
        ([1, 2], pl.Int64),
        ([1, None], pl.Int64),
        ([1, 2.5], pl.Float64),
    ],
)
@pytest.mark.parametrize("size", [1, 9])
def test_times_have_one_type_for_all_pieces(tmp_path, monkeypatch, times, dtype, size):
    monkeypatch.setattr(pieces, "ROWS", size)
    write_table(tmp_path / "t.parquet", [{"time": time} for time in times])
    assert pl.read_parquet(tmp_path / "t.parquet").schema["time"] == dtype


def test_a_table_without_rows_is_a_file(tmp_path):
    for ending in (".csv", ".parquet", ".jsonl"):
        write_table(tmp_path / f"t{ending}", [])
        assert (tmp_path / f"t{ending}").exists()
    write_arrays(tmp_path / "a.npz", [], {})
    assert np.load(tmp_path / "a.npz").files == []


def test_one_piece_is_held_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "ROWS", 500)
    many = ({"n": n, "text": f"number {n}" * 5} for n in range(20_000))
    tracemalloc.start()
    try:
        with Pieces(many, tmp_path) as found:
            total = sum(len(piece["n"]) for piece in found)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert total == found.count == 20_000
    assert peak < 1_500_000  # all of it takes more than four times that


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(StateError, match="could not be"):
        write_table(tmp_path / "none" / "t.csv", itertools.repeat({"a": 1}, 3))
