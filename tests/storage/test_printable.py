"""Text from data that is shown: without what is not to be seen, and no longer than can be read."""

from __future__ import annotations

import pytest

from onlinegcp.storage.labels import held
from onlinegcp.storage.printable import LONGEST, all_short, presentable, printable


@pytest.mark.parametrize("code", [0x00, 0x1B, 0x7F, 0x9F, 0x202E, 0x2066, 0xFEFF, 0xD800])
def test_what_is_not_to_be_seen_is_written_out(code):
    assert printable(f"a{chr(code)}b") == (f"a\\x{code:02x}b" if code < 256 else f"a\\u{code:04x}b")


def test_lines_and_tabs_stay():
    assert printable("a\tb\nc é 日") == "a\tb\nc é 日"


def test_labels_are_the_same_object_where_none_has_to_be_changed():
    labels = held(["a", "b" * LONGEST])
    assert all_short(labels) is labels


@pytest.mark.parametrize("odd", ["x" * (LONGEST + 1), "a\x1b[2J"])
def test_one_odd_label_is_cut_or_written_out_and_the_others_stay(odd):
    first, second = all_short(held(["a", odd]))
    assert first == "a"
    assert second in ("x" * (LONGEST - 1) + "…", "a\\x1b[2J")


def test_names_and_texts_within_a_record_are_made_fit():
    assert presentable({"a\x07": ["b\x07", 1, None]}) == {"a\\x07": ["b\\x07", 1, None]}
