"""One table in every format: the same labels, times, values and slices, or the same refusal."""

from __future__ import annotations

import datetime
import io
import json

import numpy as np
import polars as pl
import pytest

from onlinegcp.errors import DataError
from onlinegcp.events import from_events
from onlinegcp.events.vocabulary import Vocabulary

WRITERS = {
    "parquet": lambda frame, path: frame.write_parquet(path),
    "arrow": lambda frame, path: frame.write_ipc(path),
    "csv": lambda frame, path: frame.write_csv(path),
    "jsonl": lambda frame, path: frame.write_ndjson(path),
}


def table(n=400, seed=0):
    rng = np.random.default_rng(seed)
    start = datetime.datetime(2024, 1, 1)
    minutes = np.sort(rng.integers(0, 20 * 1440, n)).tolist()
    return pl.DataFrame(
        {
            "t": [start + datetime.timedelta(minutes=m) for m in minutes],
            "whole": rng.integers(-3, 4, n),
            "float": rng.integers(-3, 4, n).astype(float),
            "half": rng.integers(0, 6, n) / 4,
            "large": (2**53 + rng.integers(0, 4, n)),
            "text": [f'é {k},\n"x"' for k in rng.integers(0, 4, n)],
            "digits": [str(k) for k in rng.integers(0, 4, n)],
            "pointed": [f"{k}.0" for k in rng.integers(0, 4, n)],
            "yes": rng.integers(0, 2, n).astype(bool),
            "day": [datetime.date(2024, 1, 1 + k) for k in rng.integers(0, 3, n).tolist()],
            "v": rng.normal(size=n),
        }
    )


def slices_of(path, mode, **options):
    stream = from_events(str(path), time="t", every="1d", modes=[mode], **options)
    found = [(x.time, x.index.tolist(), x.value.tolist()) for x in stream]
    return found, stream.labels


@pytest.mark.parametrize(
    "mode",
    ["whole", "float", "half", "large", "text", "digits", "pointed", "yes", "day", "t:hour"],
)
def test_all_formats_give_the_same_slices(tmp_path, mode):
    found = {}
    for name, write in WRITERS.items():
        write(table(), tmp_path / f"x.{name}")
        found[name] = slices_of(tmp_path / f"x.{name}", mode, value="v")
    assert found["csv"] == found["parquet"] == found["arrow"] == found["jsonl"]


def test_whole_numbers_with_a_point_are_whole_numbers():
    one = Vocabulary()
    columns = [[7.0, 8.0], [7, 8], ["7", "8"], ["7.0", "8.00"], ["-0.0", "0"], ["7.50", "7.5"]]
    ids = [one.identify(pl.Series(column)).tolist() for column in columns]
    one.settle([np.array(part, np.int32) for part in ids])
    assert one.labels == ("0", "7", "8", "7.5", "7.50")  # text that is no whole number stays text
    assert ids[0] == ids[1] == ids[2] == ids[3]
    assert ids[4][0] == ids[4][1]


@pytest.mark.parametrize("odd", [[1, 2], {"a": 1}, 7.5, True, "x", None])
def test_one_odd_value_among_json_numbers_changes_no_other_label(tmp_path, odd):
    """polars makes all of a block floats, or text, when one of them is."""
    large = [9007199254740993, 9007199254740992, 7, 7, 8]
    records = [{"t": f"2024-01-01T00:0{k}", "k": v} for k, v in enumerate([*large, odd])]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    _, (labels,) = slices_of(tmp_path / "x.jsonl", "k")
    assert set(labels) >= {"7", "8", "9007199254740992", "9007199254740993"}
    assert len(labels) == 4 + (odd is not None)


# ---- rows of CSV with too many fields


HEADER = "t,a,b,v\n"
GOOD = "2024-01-01,x,y,1\n"


@pytest.mark.parametrize(
    "row",
    [
        "2024-01-01,Smith, John,x,1",
        "2024-01-01,Smith, John,x,",
        "2024-01-01,x,y,1,",
        '2024-01-01,"q, r",y,1,7',
        '2024-01-01,"a\nb",y,1,7',
    ],
)
@pytest.mark.parametrize("also", ["", "2024-01-01,short\n", '2024-01-01,"a,b",y,1\n'])
def test_a_row_with_a_field_too_many_is_refused_by_its_number(row, also):
    text = HEADER + GOOD * 3 + also + row + "\n" + GOOD
    number = 4 + bool(also)
    with pytest.raises(DataError, match=f"row {number} .* has 5"):
        list(
            from_events(
                io.BytesIO(text.encode()), time="t", every="1d", modes=["a", "b"], format="csv"
            )
        )


@pytest.mark.parametrize("row", ["2024-01-01,x", "2024-01-01,x,y,", '2024-01-01,"a,b",y,1', ""])
def test_rows_with_fewer_fields_and_quoted_separators_are_read(row):
    text = HEADER + GOOD * 3 + row + "\n" + GOOD
    source = io.BytesIO(text.encode())
    stream = from_events(source, time="t", every="1d", modes=["a"], format="csv")
    assert next(stream).total == 4 + bool(row)


# ---- dates that look like numbers


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        ("20240101", "%Y%m%d"),
        ("2024010112", "%Y%m%d%H"),
        ("202401011230", "%Y%m%d%H%M"),
        ("20240101123000", "%Y%m%d%H%M%S"),
    ],
)
@pytest.mark.parametrize("kind", [str, int, float])
def test_dates_without_separators_are_not_taken_for_numbers(text, layout, kind):
    source = pl.DataFrame({"t": [kind(text)] * 3, "a": ["x"] * 3})
    if (kind, layout) == (str, "%Y%m%d"):  # ISO 8601 has it
        assert next(from_events(source, time="t", every="1d", modes=["a"])).time.year == 2024
        return
    with pytest.raises(DataError, match=f"has {text}. Give time_format='{layout}'"):
        list(from_events(source, time="t", every="1d", modes=["a"]))
    stream = from_events(source, time="t", every="1d", modes=["a"], time_format=layout)
    assert next(stream).time == datetime.date(2024, 1, 1)


@pytest.mark.parametrize("number", [1704112200, 1704112200000, 1704112200000000])
def test_real_counts_since_1970_are_still_guessed(number):
    source = pl.DataFrame({"t": [number] * 3, "a": ["x"] * 3})
    assert next(from_events(source, time="t", every="1d", modes=["a"])).time.year == 2024
