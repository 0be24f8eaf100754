"""Marks of labels: a word at a time in NumPy is a word at a time in Python."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinegcp.events import label_marks as module
from onlinegcp.events.label_marks import label_marks

WORD = 2**64
PINNED = [
    "48218226ff3cd4bf",
    "eef08ed19c32945e",
    "23c6286d2e74332f",
    "c2c6f47f6f1bead0",
    "1803783c82e597e2",
    "af162cc3c1dbb3a7",
]


def by_hand(label):
    """The mark of one label with whole numbers of Python."""

    def mix(x):
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % WORD
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB % WORD
        return x ^ (x >> 31)

    text = label.encode()
    total = len(text)
    for k in range(max(1, -(-len(text) // 8))):
        word = int.from_bytes(text[8 * k : 8 * k + 8], "little")
        total += mix((word + (k + 1) * 0x9E3779B97F4A7C15) % WORD)
    return mix(total % WORD)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(max_size=30), max_size=12), st.integers(1, 13))
def test_marks_are_those_of_one_label_by_hand(labels, block):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK", block)
        found = label_marks(pl.Series(labels, dtype=pl.String))
    assert found.tolist() == [by_hand(label) for label in labels]


def test_marks_stay_what_they_are():
    """They are stored in runs: whoever changes them lets runs forget what they have read."""
    found = label_marks(pl.Series(["", "a", "a\0", "JFK", "Zürich", "customer-000-1@example.com"]))
    assert [f"{mark:016x}" for mark in found.tolist()] == PINNED
    assert len(set(found.tolist())) == 6
