"""Vocabularies: one label whatever its type, codes that never change, strangers handled."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinegcp.errors import DataError, closest
from onlinegcp.events import label_ids
from onlinegcp.events import vocabulary as module
from onlinegcp.events.given_labels import read_vocabulary
from onlinegcp.events.label_order import label_order
from onlinegcp.events.vocabulary import OTHER, Vocabulary
from onlinegcp.storage.labels import Labels


def coded(vocabulary, values, **options):
    """Labels of the codes of a column, so that tests speak of labels."""
    ids = vocabulary.identify(pl.Series("c", values, **options))
    vocabulary.settle([ids])
    assert ids.dtype == np.int32
    return [None if c < 0 else vocabulary.labels[c] for c in vocabulary.codes(ids).tolist()]


@pytest.mark.parametrize(
    ("values", "dtype", "labels"),
    [
        (["b", "a", "b", None, ""], pl.String, ["b", "a", "b", None, None]),
        (["b", "a", "b", None], pl.Categorical, ["b", "a", "b", None]),
        (["b", "a", None], pl.Enum(["z", "a", "b"]), ["b", "a", None]),
        ([3, -1, 3, None], pl.Int8, ["3", "-1", "3", None]),
        ([200, 0, 255], pl.UInt8, ["200", "0", "255"]),
        ([2**63 + 5, 2**63 + 6], pl.UInt64, [str(2**63 + 5), str(2**63 + 6)]),
        ([2**62, -(2**62), 0, None], pl.Int64, [str(2**62), str(-(2**62)), "0", None]),
        ([1.0, 2.0, float("nan"), None], pl.Float64, ["1", "2", None, None]),
        ([0.5, 2.0, float("nan"), -0.0], pl.Float64, ["0.5", "2", None, "0"]),
        ([0.1, 1e300], pl.Float64, ["0.1", str(int(1e300))]),
        ([True, None, False], pl.Boolean, ["true", None, "false"]),
        ([True, True], pl.Boolean, ["true", "true"]),
        ([datetime.date(2018, 1, 2), None], pl.Date, ["2018-01-02", None]),
        ([None, None], pl.Null, [None, None]),
        ([None, None], pl.Int64, [None, None]),
        ([None, None], pl.Float64, [None, None]),
        ([], pl.String, []),
        ([], pl.Int64, []),
        ([], pl.Categorical, []),
        ([5], pl.Int128, ["5"]),
    ],
)
def test_labels_are_the_values_as_text(values, dtype, labels):
    assert coded(Vocabulary(), values, dtype=dtype) == labels


def test_numbers_text_and_whole_floats_are_one_label():
    vocabulary = Vocabulary()
    for values in (["7", "10"], [7, 10], [7.0, 10.0]):
        assert coded(vocabulary, values) == ["7", "10"]
    assert coded(vocabulary, ["7"], dtype=pl.Categorical) == ["7"]
    assert len(vocabulary) == 2


def test_no_row_ever_gets_a_code_below_zero_unless_it_is_null():
    vocabulary = Vocabulary()
    ids = vocabulary.identify(pl.Series(["seen"]))
    vocabulary.settle([ids])
    unseen = vocabulary.identify(pl.Series(["unseen", None]))
    vocabulary.settle([unseen])
    assert vocabulary.codes(unseen).tolist() == [1, -1]


def test_codes_do_not_depend_on_the_order_of_rows_within_a_bin():
    rows = ["b", "10", "a", "9", "c"]
    orders = [rows, rows[::-1], sorted(rows)]
    found = []
    for order in orders:
        vocabulary = Vocabulary()
        vocabulary.settle([vocabulary.identify(pl.Series(order))])
        found.append(vocabulary.labels)
    assert found == [("9", "10", "a", "b", "c")] * 3


def test_labels_read_ahead_have_no_code_until_their_bin_is_closed():
    vocabulary = Vocabulary()
    ahead = vocabulary.identify(pl.Series(["a"]))
    first = vocabulary.identify(pl.Series(["z"]))
    vocabulary.settle([first])
    assert vocabulary.labels == ("z",)
    vocabulary.settle([ahead])
    assert vocabulary.labels == ("z", "a")


def test_labels_are_never_sorted_again():
    vocabulary = Vocabulary()
    for label in ("m", "z", "a"):
        coded(vocabulary, [label])
    assert vocabulary.labels == ("m", "z", "a")


@settings(deadline=None, max_examples=50)
@given(
    st.lists(
        st.lists(
            st.one_of(st.none(), st.integers(-3, 300), st.integers(-(2**60), 2**60)), max_size=8
        ),
        max_size=4,
    )
)
def test_whole_numbers_near_and_far_keep_their_labels(batches):
    vocabulary, previous = Vocabulary(), ()
    for batch in batches:
        expected = [None if x is None else str(x) for x in batch]
        assert coded(vocabulary, batch, dtype=pl.Int64) == expected
        assert vocabulary.labels[: len(previous)] == previous
        previous = vocabulary.labels
    assert set(previous) == {str(x) for batch in batches for x in batch if x is not None}


@pytest.mark.parametrize("values", [["a", "x"], [4, 5], [True], [0.5]])
def test_strangers_become_other(values):
    vocabulary = Vocabulary(["a", "4"], on_new="other")
    labels = coded(vocabulary, values)
    assert vocabulary.labels == ("a", "4", OTHER)
    assert set(labels) <= {"a", "4", OTHER}
    assert vocabulary.n_ids == 3  # strangers leave no trace, however many there are


@pytest.mark.parametrize(
    ("values", "dtype", "named"),
    [
        (["EWR", "EWX"], pl.String, "EWX"),
        ([1, None, 2], pl.Int64, "'2'"),
        ([1.5], pl.Float64, "1.5"),
    ],
)
def test_a_closed_vocabulary_names_the_stranger_and_its_row(values, dtype, named):
    vocabulary = Vocabulary(["EWR", "1"], on_new="error")
    with pytest.raises(DataError, match=named) as error:
        vocabulary.identify(pl.Series("origin", values, dtype=dtype), lambda row: f"ROW {row}")
    assert f"ROW {len(values) - 1}" in str(error.value)
    assert "'origin'" in str(error.value)


def test_the_error_suggests_the_label_that_was_meant():
    with pytest.raises(DataError, match="Did you mean 'Brooklyn'"):
        Vocabulary(["Brooklyn"], on_new="error").identify(pl.Series(["Broklyn"]))


@pytest.mark.parametrize("values", [[[1], [2]], [{"a": 1}], [b"x"]])
def test_columns_of_anything_but_plain_values_are_refused(values):
    with pytest.raises(DataError, match="'c'"):
        Vocabulary().identify(pl.Series("c", values))


def test_two_columns_settle_together_in_one_vocabulary():
    vocabulary = Vocabulary()
    origin = vocabulary.identify(pl.Series(["c", "a"]))
    destination = vocabulary.identify(pl.Series(["b", "c"]))
    vocabulary.settle([origin, destination])
    assert vocabulary.labels == ("a", "b", "c")
    assert vocabulary.codes(destination).tolist() == [1, 2]


@pytest.mark.slow
def test_a_million_labels_are_no_trouble():
    numbers = np.random.default_rng(0).permutation(1_000_000)
    vocabulary = Vocabulary()
    ids = vocabulary.identify(pl.Series(numbers).cast(pl.String))
    vocabulary.settle([ids])
    # Sorted as numbers, so that the code of a label is the number itself.
    np.testing.assert_array_equal(vocabulary.codes(ids), numbers)


# Given vocabularies


def test_a_vocabulary_file_is_read(tmp_path):
    path = tmp_path / "labels.json"
    path.write_text(json.dumps({"origin": ["EWR", 3, True, 1.0]}))
    assert read_vocabulary(path) == {"origin": ["EWR", "3", "true", "1"]}
    assert read_vocabulary(str(path)) == read_vocabulary(json.loads(path.read_text()))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "holds a list"),
        ("{", "is not JSON"),
        ('{"a": "bcd"}', "'bcd'"),
        ('{"a": 3}', "3"),
        ('{"a": [null]}', "None"),
        ('{"a": [""]}', "''"),
        ('{"a": ["x", "x"]}', "'x' twice"),
        ('{"a": [1, "1"]}', "'1' twice"),
        ('{"a": ["\\ud800"]}', "halves of characters"),
    ],
)
def test_a_bad_vocabulary_file_is_named(tmp_path, text, message):
    path = tmp_path / "labels.json"
    path.write_text(text)
    with pytest.raises(DataError, match=message) as error:
        read_vocabulary(path)
    assert str(path) in str(error.value)


def test_a_vocabulary_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DataError, match=r"gone\.json"):
        read_vocabulary(tmp_path / "gone.json")


def test_suggestions_are_made_only_for_similar_names():
    assert closest("picup", ["pickup", "dropoff"]) == " Did you mean 'pickup'?"
    assert closest("fare", ["pickup"]) == ""
    assert closest("dest", ["origin", "destination"]) == " Did you mean 'destination'?"
    assert closest("PRICE", ["cost", "Price"]) == " Did you mean 'Price'?"


def test_more_labels_than_are_sorted_one_by_one_get_the_same_codes():
    rng = np.random.default_rng(0)
    texts = [f"user {n}" if n % 3 else str(n) for n in rng.permutation(6000).tolist()]
    vocabulary = Vocabulary()
    assert coded(vocabulary, texts) == texts
    assert list(vocabulary.labels) == sorted(texts, key=label_order)


def test_many_labels_are_a_column_that_reads_like_a_tuple():
    rng = np.random.default_rng(1)
    batches = [[f"user {n}" for n in rng.integers(0, 9000, 3000).tolist()] for _ in range(4)]
    vocabulary, expected = Vocabulary(), []
    for batch in batches:
        coded(vocabulary, [*batch, None, ""])
        expected += sorted(set(batch) - set(expected))
        before, n_before = vocabulary.labels, len(expected)
        assert before == tuple(expected)
    assert isinstance(before, Labels)
    coded(vocabulary, ["one more"])
    assert len(before) == n_before  # what was handed out does not grow
    again = Vocabulary(vocabulary.labels)
    assert again.labels == vocabulary.labels == (*expected, "one more")
    assert Vocabulary(expected, on_new="other").labels == (*expected, OTHER)


@pytest.mark.parametrize("kind", [pl.String, pl.Categorical])
def test_spellings_of_one_number_are_one_label_among_many(kind):
    texts = [f"{n}{'.0' * (n % 2)}" for n in range(3000)] + [f"{n}.00" for n in range(3000)]
    vocabulary = Vocabulary()
    assert coded(vocabulary, texts, dtype=kind) == [str(n) for n in [*range(3000)] * 2]
    assert len(vocabulary) == 3000


@pytest.mark.parametrize("on_new", ["other", "error"])
def test_strangers_among_many_labels(on_new):
    vocabulary = Vocabulary([f"user {n}" for n in range(3000)], on_new=on_new)
    column = pl.Series("c", [*(f"user {n}" for n in range(2999, -1, -1)), "usher 7"])
    if on_new == "error":
        with pytest.raises(DataError, match=r"row 3,001 has 'usher 7'\. Did you mean 'user 7'"):
            vocabulary.identify(column)
        return
    assert coded(vocabulary, column)[2998:] == ["user 1", "user 0", OTHER]


def test_a_few_labels_do_not_keep_the_text_of_their_table(tmp_path):
    """What is held after a hundred labels of a table of 40 MB of text, by what it weighs."""
    code = """
from pathlib import Path
import polars as pl
from onlinegcp.events.vocabulary import Vocabulary

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

def table(n):
    return pl.select(pl.int_range(n).cast(pl.String) + pl.lit("x" * 100)).to_series()

held = [Vocabulary() for _ in range(9)]
held[0].settle([held[0].identify(table(3000))])
before = resident()
for vocabulary in held[1:]:
    texts = table(400_000)
    vocabulary.settle([vocabulary.identify(texts[:3000])])
    del texts
print((resident() - before) // 1_000_000)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert int(done.stdout) < 120  # eight tables would be 350


def test_a_column_of_new_labels_makes_room_for_all_of_them_at_once(monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 1 << 13)
    entered, enter = [], label_ids._Table.enter
    monkeypatch.setattr(
        label_ids._Table,
        "enter",
        lambda self, ids, h: entered.append(len(ids)) or enter(self, ids, h),
    )
    zones, n = Vocabulary(), 1 << 16
    assert zones.identify("z" + pl.Series(range(n)).cast(pl.String)).tolist() == list(range(n))
    assert sum(entered) == n
