"""The order of new labels: by a key where they are few, in columns and piles where they are not."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinegcp.events import label_order as module
from onlinegcp.events.label_ids import LabelIds
from onlinegcp.events.label_order import ids_in_order, label_order, places_in_order

LABELS = st.lists(
    st.one_of(
        st.text(min_size=1, max_size=4),
        st.text("a\0b", min_size=1, max_size=20),  # long ones that begin alike, or end in zeros
        st.text("-0123456789", min_size=1, max_size=3),
        st.integers(-(10**31), 10**31).map(str),
        st.integers(-(2**63), 2**63 - 1).map(str),
        st.integers(10**20, 10**20 + 30).map(str),  # one number in 64 bits
    ),
    unique=True,
    max_size=40,
)


def test_order_is_numbers_by_size_then_text():
    labels = ["b", "10", "-2", "9", "a", "09", "é", "-", "1" * 40]
    ordered = sorted(labels, key=label_order)
    assert ordered == ["-2", "09", "9", "10", "-", "1" * 40, "a", "b", "é"]


@pytest.mark.parametrize(
    "labels",
    [
        ["9", "009", "8", "09", "10"],  # one number, written in several ways
        ["7" * 31, "1" * 30, "2" * 29, "3" * 28],  # the two long ones count as text
        ["a\0\0", "a", "a\0", "b", "a\0\0\0"],  # the same words of eight bytes, other lengths
        ["x" * 8 + "\0", "x" * 8, "x" * 16, "x" * 9, "x" * 8 + "\0\0"],
    ],
)
def test_labels_that_are_nearly_the_same_have_the_order_that_few_have(labels):
    column = pl.Series(labels, dtype=pl.String)
    found = column.gather(places_in_order(column)).to_list()
    assert found == sorted(labels, key=label_order)
    assert found == column[::-1].gather(places_in_order(column[::-1])).to_list()


@settings(max_examples=60, deadline=None)
@given(LABELS)
def test_many_labels_have_the_order_that_few_have(labels):
    column = pl.Series(labels, dtype=pl.String)
    found = column.gather(places_in_order(column)).to_list()
    assert found == sorted(labels, key=label_order)


@settings(max_examples=60, deadline=None)
@given(LABELS, st.integers(2, 9), st.integers(1, 3), st.randoms())
def test_piles_follow_each_other(labels, block, sample, random):
    known = LabelIds()
    known.add(pl.Series(labels, dtype=pl.String))
    ids = np.arange(len(labels), dtype=np.int32)
    random.shuffle(ids)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MANY", 0)
        patch.setattr(module, "BLOCK", block)
        patch.setattr(module, "_PILE", block)
        patch.setattr(module, "_SAMPLE", sample)
        found = np.concatenate(list(ids_in_order(known, ids)))
    assert [labels[i] for i in found] == sorted(labels, key=label_order)
