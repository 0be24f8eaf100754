"""Labels beside the checkpoints: only new ones are written, and only those that count are read."""

from __future__ import annotations

import json

import pytest

from onlinegcp.errors import StateError
from onlinegcp.runlog.labels import LABELS, append_labels, read_labels
from onlinegcp.storage import labels
from onlinegcp.storage.archive import DamagedFile
from onlinegcp.storage.sealed import seal


def test_what_was_appended_bit_by_bit_is_read_as_a_whole(tmp_path):
    kept = append_labels(tmp_path, None, {"pu": ["a"], "hour": []})
    kept = append_labels(tmp_path, kept, {"pu": ["a", "b", "\udc80 \u2028"], "hour": []})
    kept = append_labels(tmp_path, kept, {"pu": ["a", "b", "\udc80 \u2028"], "hour": ["0"]})
    assert read_labels(tmp_path, kept) == {"pu": ("a", "b", "\udc80 \u2028"), "hour": ("0",)}
    assert (tmp_path / LABELS).read_bytes().count(b"\n") == 3


def test_nothing_new_writes_nothing(tmp_path):
    kept = append_labels(tmp_path, None, {"pu": []})
    assert not (tmp_path / LABELS).exists()
    assert read_labels(tmp_path, kept) == {}
    kept = append_labels(tmp_path, kept, {"pu": ["a"]})
    before = (tmp_path / LABELS).stat()
    assert append_labels(tmp_path, kept, {"pu": ["a"]}) == kept
    assert (tmp_path / LABELS).stat() == before


def test_labels_that_do_not_count_are_not_read_and_then_overwritten(tmp_path):
    kept = append_labels(tmp_path, None, {"pu": ["a"]})
    append_labels(tmp_path, kept, {"pu": ["a", "lost", "too"]})
    assert read_labels(tmp_path, kept) == {"pu": ("a",)}
    kept = append_labels(tmp_path, kept, {"pu": ["a", "b"]})
    assert read_labels(tmp_path, kept) == {"pu": ("a", "b")}


@pytest.mark.parametrize("content", [b"", b'{"name":"pu","labels":["a"', b"\0" * 99, b"[1]\n" * 9])
def test_labels_that_were_lost_are_named(tmp_path, content):
    kept = append_labels(tmp_path, None, {"pu": ["a", "b"]})
    (tmp_path / LABELS).write_bytes(content)
    with pytest.raises(DamagedFile, match=r"labels\.jsonl must hold 2 labels"):
        read_labels(tmp_path, kept)
    (tmp_path / LABELS).unlink()
    with pytest.raises(StateError, match="must hold 2 labels"):
        read_labels(tmp_path, kept)


def test_many_labels_are_several_lines_and_come_back_as_a_column(tmp_path, monkeypatch):
    monkeypatch.setattr(labels, "BLOCK", 1000)
    first, second = [f"a {n}" for n in range(2500)], [f"b {n}" for n in range(1800)]
    kept = append_labels(tmp_path, None, {"pu": labels.held(first)})
    kept = append_labels(tmp_path, kept, {"pu": labels.held([*first, *second])})
    assert (tmp_path / LABELS).read_bytes().count(b"\n") == 5
    found = read_labels(tmp_path, kept)["pu"]
    assert isinstance(found, labels.Labels)
    assert found == [*first, *second]


def test_labels_in_one_long_line_are_read_as_before(tmp_path):
    names = [str(n) for n in range(5000)]
    line = seal(json.dumps({"name": "pu", "labels": names}).encode()) + b"\n"
    (tmp_path / LABELS).write_bytes(line)
    kept = {"bytes": len(line), "counts": {"pu": 5000}}
    assert read_labels(tmp_path, kept)["pu"] == names
