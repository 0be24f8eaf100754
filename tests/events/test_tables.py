"""Tables: every kind of source gives the same rows, and one that cannot be read is named."""

from __future__ import annotations

import bz2
import datetime
import gzip
import io
import json
import lzma
import sys
import zipfile

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinegcp.errors import DataError
from onlinegcp.events import table_parts
from onlinegcp.events.tables import open_tables

TABLE = pl.DataFrame({"a": [1, 2, 3, 4, 5], "b": ["x", "y", None, "x", "é"], "c": [0.5] * 5})
ROWS = TABLE.select("b", "a").rows()


def rows(source, columns=("b", "a"), **options):
    found = open_tables(source, **options)
    return [
        row for part in found.parts for block in part.read(columns) for row in block.frame.rows()
    ]


class Arrow:
    """A table of which only the Arrow interface is known."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def written(folder, kind):
    path = folder / f"t.{kind}"
    if kind.startswith("parquet"):
        TABLE.write_parquet(path)
    elif kind in ("arrow", "feather"):
        TABLE.write_ipc(path)
    else:
        text = TABLE.write_ndjson() if kind.startswith(("jsonl", "ndjson")) else TABLE.write_csv()
        path.write_bytes(gzip.compress(text.encode()) if kind.endswith(".gz") else text.encode())
    return path


@pytest.mark.parametrize("kind", ["parquet", "arrow", "feather", "jsonl", "ndjson", "jsonl.gz"])
def test_files_give_their_rows(tmp_path, kind):
    path = written(tmp_path, kind)
    assert rows(path) == rows(str(path)) == ROWS


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "txt", "data", "gz"])
def test_text_files_give_their_rows_as_text(tmp_path, kind):
    assert rows(written(tmp_path, kind)) == [(b, str(a)) for b, a in ROWS]


def test_content_counts_more_than_the_name(tmp_path):
    TABLE.write_parquet(tmp_path / "t.csv")
    assert rows(tmp_path / "t.csv") == ROWS
    assert rows(tmp_path / "t.csv", format="csv") == ROWS


@pytest.mark.parametrize(
    "source",
    [
        TABLE,
        TABLE.lazy(),
        Arrow(TABLE),
        TABLE.to_dict(as_series=False),
        [TABLE],
        [TABLE.head(2), TABLE.tail(3).lazy()],
        (TABLE.head(0), TABLE),
    ],
)
def test_tables_in_memory_give_their_rows(source):
    assert rows(source) == ROWS
    assert not open_tables(source).live


def test_blocks_are_bounded_and_know_their_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(table_parts, "BLOCK_ROWS", 2)
    for source in (TABLE, TABLE.lazy(), written(tmp_path, "parquet"), written(tmp_path, "arrow")):
        blocks = list(open_tables(source).parts[0].read(["a"]))
        assert [block.frame.height for block in blocks] == [2, 2, 1]
        assert blocks[1].where(1).startswith("row 4 of ")
        assert str(getattr(source, "name", "table")) in blocks[1].where(1)


def test_a_source_can_be_read_twice_unless_it_is_live(tmp_path):
    for source in (TABLE, written(tmp_path, "csv")):
        found = open_tables(source)
        assert not found.live
        assert len(list(found.parts[0].read(["a"]))) == len(list(found.parts[0].read(["a"]))) == 1


def test_iterators_of_tables_are_live():
    found = open_tables(table for table in [TABLE.head(2), Arrow(TABLE.tail(3))])
    assert found.live
    assert [row for block in found.parts[0].read(["b", "a"]) for row in block.frame.rows()] == ROWS
    with pytest.raises(DataError, match="item 0 is a int"):
        rows(iter([3]))
    with pytest.raises(DataError, match="table 0 has only 'z'"):
        rows(iter([pl.DataFrame({"z": [1]})]))


def test_standard_input_and_open_files_are_live(monkeypatch, tmp_path):
    text = TABLE.write_ndjson().encode()

    class Input:
        buffer = io.BufferedReader(io.BytesIO(text))

    monkeypatch.setattr(sys, "stdin", Input)
    assert open_tables("-").live
    assert rows("-") == ROWS
    assert rows(io.BytesIO(text)) == ROWS
    with written(tmp_path, "jsonl").open("rb") as file:
        assert rows(file) == ROWS
    with pytest.raises(DataError, match="standard input"):
        open_tables("-", format="parquet")


# Finding files


def test_patterns_directories_and_lists_find_files_in_order(tmp_path):
    for number in (10, 2, 1):
        TABLE.write_parquet(tmp_path / f"{number}.parquet")
    (tmp_path / "notes.md").write_text("no table")
    (tmp_path / "sub").mkdir()
    names = [part.name for part in open_tables(f"{tmp_path}/*.parquet").parts]
    assert names == [str(tmp_path / f"{number}.parquet") for number in (1, 10, 2)]
    assert [part.name for part in open_tables(tmp_path).parts] == names
    assert [part.name for part in open_tables([names[2], tmp_path / "1.parquet"]).parts] == [
        names[2],
        names[0],
    ]


def test_a_name_with_brackets_is_a_file_if_there_is_one(tmp_path):
    TABLE.write_parquet(tmp_path / "a[1].parquet")
    assert rows(tmp_path / "a[1].parquet") == ROWS


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gone.parquet", "No such file"),
        ("gone/*.parquet", "no file matches"),
        ("folder", "no file ending in"),
        ("empty.csv", "empty.csv is empty"),
        ("empty.parquet", "empty.parquet is empty"),
        ("cut.parquet", "damaged"),
        ("cut.gz", "damaged"),
        ("noise.gz", "damaged"),
        ("binary.csv", "binary"),
        ("blank.csv", "no columns"),
        ("noise.parquet", "noise.parquet"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, name, message):
    (tmp_path / "folder").mkdir()
    for empty in ("empty.csv", "empty.parquet"):
        (tmp_path / empty).touch()
    whole = written(tmp_path, "parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"a,b\n1,2\n" * 100)[:-20])
    (tmp_path / "noise.gz").write_bytes(b"\x1f\x8b" + bytes(range(200)))
    (tmp_path / "noise.parquet").write_bytes(b"hello, this is no table")
    (tmp_path / "binary.csv").write_bytes(np.random.default_rng(0).bytes(1000))
    (tmp_path / "blank.csv").write_text("\n \n")
    with pytest.raises(DataError, match=message) as error:
        rows(tmp_path / name)
    assert name.split("/")[0] in str(error.value)


def test_what_may_not_be_read_is_named(tmp_path, monkeypatch):
    path = written(tmp_path, "csv")

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(type(path), "iterdir", refuse)
        with pytest.raises(DataError, match="Permission denied") as error:
            open_tables(tmp_path)
        assert str(tmp_path) in str(error.value)
    with monkeypatch.context() as patch:
        patch.setattr(type(path), "open", refuse)
        with pytest.raises(DataError, match="Permission denied") as error:
            open_tables(path)
        assert str(path) in str(error.value)


@pytest.mark.parametrize("source", [3, None, [], ["-"], [[TABLE]], [3]])
def test_what_is_no_source_is_refused(source):
    with pytest.raises(DataError):
        open_tables(source)


def test_an_unknown_format_is_suggested():
    with pytest.raises(DataError, match="Did you mean 'parquet'"):
        open_tables("x", format="parket")


def test_columns_of_unequal_length_are_refused():
    with pytest.raises(DataError, match="equal length"):
        open_tables({"a": [1, 2], "b": [1]})


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_a_damaged_parquet_file_gives_rows_or_a_data_error(tmp_path_factory, data):
    buffer = io.BytesIO()
    TABLE.write_parquet(buffer)
    content = bytearray(buffer.getvalue())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(4, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "damaged.parquet"
    path.write_bytes(content)
    try:
        rows(path)
    except DataError as error:
        assert "damaged.parquet" in str(error)  # noqa: PT017


# pandas


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pd.Series([1, 2]), [1, 2]),
        (pd.Series([1, 2], dtype="uint8"), [1, 2]),
        (pd.Series([1.5, None]), [1.5, None]),
        (pd.Series([1, None], dtype="Int64"), [1.0, None]),
        (pd.Series([1, 2], dtype="Int64"), [1, 2]),
        (pd.Series([1.5, 2.0], dtype="Float32"), [1.5, 2.0]),
        (pd.Series([True, False]), [True, False]),
        (pd.Series([True, None], dtype="boolean"), [True, None]),
        (pd.Series([True, False], dtype="boolean"), [True, False]),
        (pd.Series(["x", None]), ["x", None]),
        (pd.Series(["x", None], dtype=object), ["x", None]),
        (pd.Series(["x", None], dtype="string"), ["x", None]),
        (pd.Series(["x", None], dtype="category"), ["x", None]),
        (pd.Series([1, "a", True, None], dtype=object), ["1", "a", "true", None]),
        (pd.Series([datetime.date(2018, 1, 1)]), [datetime.date(2018, 1, 1)]),
        (pd.Series(pd.to_datetime(["2018-01-01", None])), [datetime.datetime(2018, 1, 1), None]),
        (
            pd.Series(pd.period_range("2018-02", periods=1, freq="M")),
            [datetime.datetime(2018, 2, 1)],
        ),
        (pd.Series([], dtype="int64"), []),
    ],
)
def test_columns_of_pandas_are_read_without_arrow(column, expected):
    table = pd.DataFrame({"a": column})
    assert [value for (value,) in rows(table, ["a"])] == expected


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (np.array([datetime.date(2018, 1, 1), None]), [datetime.date(2018, 1, 1), None]),
        (np.array(["2018-01-01T05"], dtype="M8[s]"), [datetime.datetime(2018, 1, 1, 5)]),
        (np.array(["2018-01-01"], dtype="M8[D]"), [datetime.date(2018, 1, 1)]),
        (np.array([1, "a", float("nan"), pd.NA, pd.NaT], object), ["1", "a", None, None, None]),
    ],
)
def test_arrays_of_a_dict_hold_whatever_numpy_can_hold(column, expected):
    assert [value for (value,) in rows({"a": column}, ["a"])] == expected


def test_zones_of_pandas_are_kept():
    times = pd.to_datetime(["2018-07-01 12:00", None]).tz_localize("Europe/Berlin")
    block = next(open_tables(pd.DataFrame({"t": times})).parts[0].read(["t"]))
    column = block.frame["t"]
    assert column.dtype == pl.Datetime("us", "Europe/Berlin")
    assert column[0].isoformat() == "2018-07-01T12:00:00+02:00"
    assert column[1] is None


def test_a_pandas_column_named_twice_is_refused():
    table = pd.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises(DataError, match="'a' more than once"):
        rows(table, ["a"])


def _zstandard(data):
    import zstandard

    return zstandard.ZstdCompressor().compress(data)


def _zip(files):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return packed.getvalue()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (_zip({"a.csv": "t,a\n", "b.csv": "t,a\n"}), "holds 2 files.*Unpack it"),
        (_zip({"[Content_Types].xml": "<x/>", "xl/workbook.xml": "<x/>"}), "workbook.*as CSV"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(512), "workbook.*as CSV"),
    ],
)
def test_archives_of_several_files_and_workbooks_say_what_to_do(tmp_path, data, message):
    path = tmp_path / "book.bin"
    path.write_bytes(data)
    with pytest.raises(DataError, match=message):
        open_tables(path).parts[0].columns()


@pytest.mark.parametrize(
    ("suffix", "pack"),
    [
        ("gz", gzip.compress),
        ("bz2", bz2.compress),
        ("xz", lzma.compress),
        ("zst", _zstandard),
        ("zip", lambda data: _zip({"table.json": data, "__MACOSX/._table.json": b"x"})),
    ],
)
def test_packed_files_are_unpacked_and_damaged_ones_named(tmp_path, suffix, pack):
    records = [{"t": n, "a": str(n)} for n in range(5_000)]
    path = tmp_path / f"table.json.{suffix}"
    path.write_bytes(pack(json.dumps(records).encode()))
    part = open_tables(path).parts[0]
    assert part.columns() == ["t", "a"]
    assert [row for block in part.read(["t"]) for row in block.frame["t"]] == list(range(5_000))
    assert open_tables(tmp_path).parts[0].name == str(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=rf"table\.json\.{suffix}"):
        list(open_tables(path).parts[0].read(["t"]))
