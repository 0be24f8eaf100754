"""CSV and JSON lines: every row is read, wherever the text is cut, and a bad row is named."""

from __future__ import annotations

import contextlib
import io
import json

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinegcp.errors import DataError
from onlinegcp.events import table_text
from onlinegcp.events.table_text import TextTable, check_columns


def rows(text, columns=("a", "b"), *, format=None, live=False):
    data = text if isinstance(text, bytes) else text.encode()
    table = TextTable(io.BytesIO(data), "x.txt", format, live=live)
    return [row for frame in table.frames(columns) for row in frame.rows()]


@pytest.fixture(params=[3, 10, 1 << 23])
def block_bytes(request, monkeypatch):
    monkeypatch.setattr(table_text, "_BLOCK_BYTES", request.param)
    return request.param


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n1,x\n2,y\n",
        "a,b\n1,x\n2,y",
        "a,b\r\n1,x\r\n2,y\r\n",
        "\ufeffa,b\n1,x\n2,y\n",
        "\n\na,b\n1,x\n2,y\n",
        "a;b\n1;x\n2;y\n",
        "a\tb\n1\tx\n2\ty\n",
        "a|b\n1|x\n2|y\n",
        'a,b\n"1","x"\n2,"y"\n',
        "a, b\n1,x\n2,y\n",
        "c,b,a\n9,x,1\n8,y,2\n",
    ],
)
def test_common_habits_of_csv_are_read(text, block_bytes):
    assert rows(text) == [("1", "x"), ("2", "y")]


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("order", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    "text",
    [
        "a\tb\r\n1\tK\xf6ln\r\n2\t\U0001f600\r\n",
        '[{"a": "1", "b": "K\xf6ln"}, {"a": "2", "b": "\U0001f600"}]',
    ],
)
def test_text_of_two_bytes_is_read_as_spreadsheets_write_it(text, order, live, block_bytes):
    found = rows(("\ufeff" + text).encode(order), live=live)
    assert found == [("1", "K\xf6ln"), ("2", "\U0001f600")]


def test_text_of_two_bytes_that_ends_within_a_character_is_refused():
    with pytest.raises(DataError, match=r"begins as UTF-16.*as UTF-8"):
        rows("\ufeffa,b\n1,2\n".encode("utf-16-le")[:-1])


def test_fields_of_csv_are_text_and_empty_ones_null(block_bytes):
    assert rows('a,b\n007,1.50\n,""\ntrue,nan\n') == [
        ("007", "1.50"),
        (None, ""),
        ("true", "nan"),
    ]


def test_a_line_break_inside_quotes_does_not_end_a_row(block_bytes):
    text = 'a,b\n"one\ntwo",x\n3,"say ""hi""\n, there"\n4,y\n'
    assert rows(text) == [("one\ntwo", "x"), ("3", 'say "hi"\n, there'), ("4", "y")]


TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=4)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(TEXT, TEXT), min_size=1), st.integers(1, 30))
def test_csv_written_by_another_package_comes_back(table, block):
    table = [(a or None, b or None) for a, b in table]
    text = pl.DataFrame(table, schema={"a": pl.String, "b": pl.String}, orient="row").write_csv()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_text, "_BLOCK_BYTES", block)
        assert rows(text) == table


def test_json_records_are_read_with_their_types(block_bytes):
    text = '{"a": 1, "b": "x", "c": []}\n\n{"b": null, "a": 2}\n'
    assert rows(text) == [(1, "x"), (2, None)]


def test_records_in_records_are_columns_of_their_own(block_bytes):
    text = (
        '{"a": 1, "u": {"id": 3, "from": {"city": "Bonn"}}}\n'
        '{"a": 2, "u": {"id": 4, "from": null}}\n{"a": 3, "u": null}\n{"a": 4, "u": {"id": "x"}}\n'
    )
    table = TextTable(io.BytesIO(text.encode()), "x.txt", None)
    assert table.columns() == ["a", "u.id", "u.from.city"]
    found = rows(text, ("a", "u.id", "u.from.city"))
    assert [(a, str(b), c) for a, b, c in found] == [
        (1, "3", "Bonn"),
        (2, "4", None),
        (3, "None", None),
        (4, "x", None),
    ]


def test_json_of_mixed_types_becomes_text():
    text = '{"a": 1, "b": true}\n{"a": "two", "b": 1.5}\n{"a": null, "b": "z"}'
    assert rows(text) == [("1", "true"), ("two", "1.5"), (None, "z")]


def test_a_json_record_may_lack_a_column():
    assert rows('{"a": 1, "b": 2}\n{"b": 3}\n') == [(1, 2), (None, 3)]


def test_the_format_is_told_by_the_first_character_or_the_caller():
    assert rows('{"a": 1, "b": 2}') == [(1, 2)]
    assert rows("a,b\n1,2") == [("1", "2")]
    assert rows("a\n{1}", ["a"], format="csv") == [("{1}",)]
    assert TextTable(io.BytesIO(b"a,b\n1,2"), "x", None).columns() == ["a", "b"]
    assert TextTable(io.BytesIO(b'{"b": 1, "a": 2}'), "x", None).columns() == ["b", "a"]
    assert TextTable(io.BytesIO(b"  \n"), "x", None).columns() == []


@pytest.mark.parametrize("text", ["", "  \n\n", "a,b", "a,b\n", "a,b\n\n\n"])
def test_a_table_without_rows_has_no_rows(text):
    assert rows(text) == []


def test_rows_are_handed_on_as_they_arrive():
    class Pipe:
        """Gives what was sent so far, as a pipe does."""

        def __init__(self, *sent):
            self.sent = list(sent)

        def read1(self, size):
            return self.sent.pop(0) if self.sent else b""

    pipe = Pipe(b"a,b\n", b"1,x\n2", b",y\n", b"3,z\n4,w\n")
    frames = TextTable(pipe, "pipe", None, live=True).frames(["a", "b"])
    assert next(frames).rows() == [("1", "x")]
    assert len(pipe.sent) == 2
    assert next(frames).rows() == [("2", "y")]
    assert next(frames).rows() == [("3", "z"), ("4", "w")]
    assert list(frames) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,x\n2,y,z\n", "row 2 of x.txt has 3"),
        (b"a,b\n1,x\n2,\xff\n", "x.txt is not"),
        (b"\xffa,b\n", "first line of x.txt is not"),
        (b"a,b\n1,\x00\n", "x.txt holds binary"),
        ("a,a\n1,2\n", "'a' more than once"),
        ('{"a": 1, "b": 2}\n{"a": 1, "b": }\n', "row 2 of x.txt is not"),
        ('{"a": 1, "b": 2}\n[1]\n', "row 2 of x.txt holds a list"),
        ('{"a": 1, "b": 2}\nhello\n', "row 2 of x.txt is not"),
        ("c,d\n1,2\n", "Column 'a' is needed, but x.txt has only 'c', 'd'"),
        ('{"c": 1}\n', "Column 'a' is needed, but x.txt has only 'c'"),
    ],
)
def test_what_cannot_be_read_is_named(text, message):
    with pytest.raises(DataError, match=message):
        rows(text)


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("format", [None, "jsonl"])
def test_a_json_array_gives_its_records(block_bytes, format, live):
    records = [{"a": n, "b": "x, ]\n\u2028[{" + "y" * n} for n in range(30)]
    for text in (json.dumps(records), json.dumps(records, indent=2, ensure_ascii=False)):
        assert rows(text, format=format, live=live) == [(r["a"], r["b"]) for r in records]
    assert rows("[]", format=format) == rows(" [ ] ", format=format) == []
    assert rows('[{"a": 9007199254740993, "b": 1}]') == [(9007199254740993, 1)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"a": 1, "b": 2}, {"a": 1', "record 2 of x.txt cannot be read"),
        ('[{"a": 1, "b": 2},', "ends after record 1"),
        ('[{"a": 1, "b": 2}, 7]', "row 2 of x.txt holds a int"),
        ('[{"a": 1, "b": 2}, {"a": }]', "record 2"),
    ],
)
def test_what_is_wrong_in_a_json_array_is_named(text, message):
    with pytest.raises(DataError, match=message):
        rows(text)


def test_a_row_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(table_text, "_BLOCK_BYTES", 50)
    monkeypatch.setattr(table_text, "_LONGEST_ROW", 100)
    with pytest.raises(DataError, match=r"row 2 of x\.txt is longer"):
        rows("a,b\n1,x\n" + '"' + "2,y\n" * 100)


@settings(deadline=None, max_examples=150)
@given(st.binary(max_size=60), st.sampled_from([None, "csv", "jsonl"]), st.integers(1, 20))
def test_any_bytes_give_rows_or_a_data_error(noise, format, block):
    start = b'{"a": 1, "b": 2}\n' if format == "jsonl" else b"a,b\n1,2\n"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_text, "_BLOCK_BYTES", block)
        for data in (noise, start + noise):
            with contextlib.suppress(DataError):
                assert all(len(row) == 2 for row in rows(data, format=format))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)


@settings(deadline=None, max_examples=80)
@given(st.lists(st.dictionaries(st.sampled_from("abc"), JSON), max_size=5))
def test_any_json_records_give_rows_or_a_data_error(records):
    text = "\n".join(json.dumps(record) for record in records)
    try:
        found = rows(text)
    except DataError:
        return
    assert len(found) == len(records)


def test_a_missing_column_is_suggested():
    with pytest.raises(DataError, match="Did you mean 'pickup_time'"):
        check_columns(["picup_time"], ["pickup_time", "pu"], "trips.csv")
    with pytest.raises(DataError, match="no columns"):
        check_columns(["a"], [], "trips.csv")


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"meta": {"n": 2}, "data": [{"a": 1}, {"a": 2}]}, r"2 of them under 'data'.*jq -c"),
        ({"a": [1, 2, 3], "b": [4, 5, 6]}, "one record of whole columns, 'a', 'b'"),
        ({"a": {"0": 1, "1": 2}, "b": {"0": 3, "1": 4}}, "pd.read_json"),
    ],
)
def test_a_document_of_json_says_how_to_make_a_table_of_it(document, indent, message):
    text = json.dumps(document, indent=indent).encode()
    with pytest.raises(DataError, match=message):
        TextTable(io.BytesIO(text), "x.json", None).columns()


def test_records_over_several_lines_are_told():
    text = "\n".join(json.dumps({"a": k, "b": 2}, indent=1) for k in range(3)).encode()
    with pytest.raises(DataError, match=r"spread over several lines.*jq -c \. x.json"):
        TextTable(io.BytesIO(text), "x.json", None).columns()


@pytest.mark.parametrize("text", ['{"a": {"x": 1}, "b": [1]}', '{"a": 1, "b": 2}\n{"a": 3}\n'])
def test_records_of_their_own_are_no_documents(text):
    found = TextTable(io.BytesIO(text.encode()), "x.json", None).columns()
    assert found is not None
    assert "b" in found


def test_lines_above_the_names_are_told():
    with pytest.raises(DataError, match=r"it is one field, while row 2 has 3.*tail -n \+3"):
        rows("# made by a logger\n# station 7\na,b,c\n1,2,3\n", ["# made by a logger"])


@pytest.mark.parametrize(
    ("above", "below", "line"),
    [
        (b"Energy report,,,\nmade 02/05/2024 by Ann,,,\n,,,\n", b"", 4),
        (b"\n# a logger\n# station 7, roof\n\n", b"", 5),
    ],
)
def test_the_line_of_names_below_a_title_is_named(above, below, line):
    text = above + b"day,place,n,note\n" + b"2024-01-01,Oslo,3,\n2024-01-02,Rome,4,\n" * 9 + below
    with pytest.raises(DataError, match=rf"tail -n \+{line} x.csv"):
        TextTable(io.BytesIO(text), "x.csv", None).columns()
    assert text.split(b"\n")[line - 1].startswith(b"day")


def test_names_of_a_zeek_log_are_behind_its_mark():
    text = b"#separator \\x09\n#fields\tts\tuid\n#types\ttime\tstring\n1.5\tC1\n"
    with pytest.raises(DataError, match=r"log of Zeek.*sed -e"):
        TextTable(io.BytesIO(text), "dns.log", None).columns()


def test_commas_at_the_ends_of_lines_are_columns_of_nobody():
    text = "day,place,,\n2024-01-01,Oslo,,\n2024-01-02,Rome,,\n"
    assert TextTable(io.BytesIO(text.encode()), "x.csv", None).columns() == ["day", "place"]
    assert rows(text, ["place"]) == [("Oslo",), ("Rome",)]


def test_a_column_that_the_first_record_lacks_is_there():
    text = '{"t": 1, "more": null}\n{"t": 2, "by": "x", "more": {"n": 5}}\n{"t": 3}\n'
    found = TextTable(io.BytesIO(text.encode()), "x.jsonl", None).columns()
    assert found == ["t", "by", "more.n"]
    assert rows(text, found) == [(1, None, None), (2, "x", 5), (3, None, None)]
