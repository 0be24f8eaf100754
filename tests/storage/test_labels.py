"""Labels in columns: a list of text that grows, and views of it that do not."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from onlinegcp.storage import labels as module
from onlinegcp.storage.labels import LabelColumn, Labels, blocks_of, chosen, held


@pytest.fixture
def short_parts(monkeypatch):
    monkeypatch.setattr(module, "MANY", 5)
    monkeypatch.setattr(module, "BLOCK", 7)
    monkeypatch.setattr(module, "_LONGEST_PART", 30)


def drawn(rng, n):
    return [f"{'long ' * rng.integers(0, 5)}{n}" for n in rng.integers(0, 1000, n).tolist()]


@pytest.mark.parametrize("seed", range(5))
def test_a_column_is_a_list_that_grows(short_parts, seed):
    rng = np.random.default_rng(seed)
    column, expected = LabelColumn(), []
    for size in rng.integers(0, 20, 30).tolist():
        new = drawn(rng, size)
        column.extend(pl.Series(new, dtype=pl.String) if rng.random() < 0.5 else new)
        expected += new
        assert len(column) == len(expected)
        if not expected:
            continue
        places = rng.integers(0, len(expected), 25)
        wanted = [expected[i] for i in places]
        assert column.texts(places) == column.take(places).to_list() == wanted
        assert [column[int(i)] for i in places] == wanted
        other = pl.Series(drawn(rng, 25))
        same = [a == b for a, b in zip(wanted, other, strict=True)]
        assert column.are(places, other).tolist() == same
        assert column.are(places, pl.Series(wanted)).all()
    for wrong in (-1, len(expected)):
        with pytest.raises(IndexError):
            column[wrong]


def test_labels_read_like_a_tuple(short_parts):
    expected = tuple(f"label {n}" for n in range(40))
    column = LabelColumn(expected[::-1])
    labels = Labels(column, np.arange(39, -1, -1, dtype=np.int32))
    assert labels == expected
    assert expected == labels
    assert labels == list(expected)
    assert labels != expected[:-1]
    assert labels != (*expected[:-1], "other")
    assert labels != 5
    assert labels == Labels(LabelColumn(expected))
    assert labels == Labels(column, np.arange(39, -1, -1))
    assert tuple(labels) == expected
    assert labels[3] == "label 3"
    assert labels[-1] == "label 39"
    assert tuple(labels[5:9]) == expected[5:9]
    assert labels[30:] == expected[30:]
    assert labels.index("label 7") == 7
    assert "label 8" in labels
    assert "label" not in labels
    assert chosen(labels, np.array([3, 1])) == chosen(expected, np.array([3, 1]))
    assert [len(block) for block in blocks_of(labels)] == [7, 7, 7, 7, 7, 5]
    assert [x for block in blocks_of(iter(expected)) for x in block] == list(expected)
    with pytest.raises(IndexError):
        labels[40]
    with pytest.raises(TypeError):
        hash(labels)
    column.extend(["more"])
    assert labels == expected  # what was taken before stays


def test_few_are_a_tuple_and_many_a_column():
    few, many = [str(n) for n in range(2000)], [str(n) for n in range(2001)]
    assert held(few) == tuple(few)
    assert isinstance(held(many), Labels)
    assert held(tuple(many)) == held(iter(many)) == tuple(many)
    assert held(held(many)) == tuple(many)
    assert json.loads(json.dumps(list(held(many)))) == many


def test_halves_of_characters_are_kept_as_they_are():
    odd = [*(str(n) for n in range(5000)), "\udc80", *(str(n) for n in range(5000, 9000))]
    assert list(held(odd)) == odd
    column = LabelColumn(odd)
    column.extend(pl.Series([f"u{n}" for n in range(3000)]))
    assert column[len(odd) + 2999] == "u2999"


def test_few_labels_need_no_polars():
    import subprocess
    import sys

    code = (
        "import sys; from onlinegcp.storage.labels import held; held(['a'] * 1999);"
        "sys.exit('polars' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
