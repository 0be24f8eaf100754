"""Records of JSON that go too deep, of which polars would end the process, are refused."""

from __future__ import annotations

import io
import json

import pytest

from onlinegcp import from_events
from onlinegcp.errors import DataError
from onlinegcp.events.json_depth import DEEPEST, refuse_depths
from onlinegcp.events.table_text import TextTable


def lists(levels):
    return "[" * levels + "]" * levels


def records(levels):
    return '{"a": ' * levels + "1" + "}" * levels


@pytest.mark.parametrize("inner", [lists, records])
@pytest.mark.parametrize("levels", [DEEPEST, 1_000, 200_000])
@pytest.mark.parametrize("row", [1, 2])
@pytest.mark.parametrize("where", ["t", "b"])
def test_the_row_is_named(inner, levels, row, where):
    lines = ['{"t": "2018-01-01", "b": 1}'] * 3
    lines.insert(row, "")
    lines[0 if row == 1 else 3] = f'{{"{where}": {inner(levels)}}}'
    text = "\n".join(lines).encode()
    found = 1 if row == 1 else 3
    with pytest.raises(DataError, match=f"row {found} of x goes {levels + 1:,} deep"):
        for _ in TextTable(io.BytesIO(text), "x", None).frames(["t"]):
            pass


@pytest.mark.parametrize("inner", [lists, records])
def test_the_names_of_the_columns_are_not_looked_for_in_it(inner):
    with pytest.raises(DataError, match="row 1 of x goes 901 deep"):
        TextTable(io.BytesIO(f'{{"a": {inner(900)}}}'.encode()), "x", None).columns()


@pytest.mark.parametrize("inner", [lists, records])
@pytest.mark.parametrize("levels", [DEEPEST, 900, 200_000])
def test_an_array_of_such_records_is_refused_as_well(inner, levels):
    text = f'[{{"t": "2018-01-01", "k": {inner(levels)}}}]'
    with pytest.raises(DataError, match=r"levels deep|recursion|nested"):
        list(from_events(io.BytesIO(text.encode()), time="t", every="1d", modes=["k"]))


def test_as_deep_as_may_be_is_read():
    text = "".join(
        f'{{"t": "2018-01-0{d}", "k": "x", "b": {records(DEEPEST - 1)}}}\n' for d in (1, 2)
    )
    assert len(list(from_events(io.BytesIO(text.encode()), time="t", every="1d", modes=["k"]))) == 2


@pytest.mark.parametrize(
    "record",
    [
        {"a": [[n] for n in range(1000)]},  # many lists, none of them deep
        {"a": "[" * 1000, 'b"[': '\\"' + "{[" * 1000},  # brackets within text
    ],
)
def test_brackets_alone_are_not_deep(record):
    refuse_depths(json.dumps(record).encode(), "x", 0)
