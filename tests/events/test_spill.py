"""Sorting on disk: all rows come back, in order, in pieces, and nothing is left behind."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from onlinegcp.errors import StateError
from onlinegcp.events import spill as module
from onlinegcp.events.spill import Spill


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("stretch", [1, 7, 50, 1 << 20])
@pytest.mark.parametrize("valued", [False, True])
def test_rows_come_back_in_order_of_key_then_of_arrival(monkeypatch, folder, stretch, valued):
    monkeypatch.setattr(module, "_STRETCH", stretch)
    rng = np.random.default_rng(0)
    keys = rng.integers(-5, 12, 211)
    keys[:60] = 3  # a bin larger than most stretches
    ids = [np.arange(211, dtype=np.int32), rng.integers(-1, 4, 211).astype(np.int32)]
    values = rng.normal(size=211) if valued else None
    with Spill(Counter(keys.tolist()), 2, valued=valued) as spill:
        for part in (slice(0, 100), slice(100, 101), slice(101, 211)):
            given = None if values is None else values[part]
            spill.add(keys[part], [column[part] for column in ids], given)
        pieces = list(spill.rows())
    order = np.argsort(keys, kind="stable")
    np.testing.assert_array_equal(np.concatenate([p[0] for p in pieces]), keys[order])
    for k in range(2):
        np.testing.assert_array_equal(np.concatenate([p[1][k] for p in pieces]), ids[k][order])
    if valued:
        np.testing.assert_array_equal(np.concatenate([p[2] for p in pieces]), values[order])
    assert max(len(piece[0]) for piece in pieces) <= max(stretch, 1)
    assert not list(folder.iterdir())


def test_the_files_are_removed_after_a_failure(folder):
    spill = Spill({1: 1}, 1, valued=False)
    spill.__enter__()
    spill.add(np.array([1]), [np.zeros(1, np.int32)], None)
    assert list(folder.iterdir())
    spill.__exit__(RuntimeError, RuntimeError(), None)
    assert not list(folder.iterdir())


def test_nothing_in_nothing_out():
    with Spill({}, 1, valued=False) as spill:
        assert list(spill.rows()) == []


def test_a_disk_that_cannot_be_written_is_explained(monkeypatch, folder):
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "gone"))
    with pytest.raises(StateError, match="TMPDIR"), Spill({1: 1}, 1, valued=False):
        pass


def test_a_full_disk_is_explained(monkeypatch):
    def full(self, mode):
        raise OSError(28, "No space left on device")

    with Spill({1: 1}, 1, valued=False) as spill:
        monkeypatch.setattr(Path, "open", full)
        with pytest.raises(StateError, match=r"No space left.*TMPDIR"):
            spill.add(np.array([1]), [np.zeros(1, np.int32)], None)


def test_what_a_killed_program_left_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    gone, alive = (
        tmp_path / "onlinegcp-sort-999999999-x",
        tmp_path / f"onlinegcp-sort-{os.getpid()}-x",
    )
    for folder in (gone, alive):
        folder.mkdir()
        (folder / "0.rows").write_bytes(b"rows")
    with Spill({1: 1}, 1, valued=False):
        assert not gone.exists()
        assert alive.exists()
