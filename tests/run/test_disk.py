"""A second name for the checkpoint that is surely on disk, also where there are no links."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from onlinegcp.errors import StateError
from onlinegcp.run import disk as run_disk
from onlinegcp.runlog import CHECKPOINT, SYNCED


@pytest.mark.parametrize("links", [True, False])
def test_what_was_on_disk_is_kept_under_a_second_name(tmp_path, monkeypatch, links):
    if not links:

        def refuse(*_):
            raise OSError("no links here")

        monkeypatch.setattr(os, "link", refuse)
    disk = run_disk.DiskSync(tmp_path)
    for content in (b"one", b"two"):
        (tmp_path / "new").write_bytes(content)
        (tmp_path / "new").replace(tmp_path / CHECKPOINT)
        disk.written()
        disk.written()
    assert (tmp_path / SYNCED).read_bytes() == b"one"  # seconds have not passed
    disk.sync()
    assert (tmp_path / SYNCED).read_bytes() == b"two"
    (tmp_path / CHECKPOINT).write_bytes(b"")
    if not links:  # else both are one file now
        run_disk.go_back(tmp_path)
        assert (tmp_path / CHECKPOINT).read_bytes() == b"two"
    assert {file.name for file in tmp_path.iterdir()} == {CHECKPOINT, SYNCED}


def test_nothing_written_is_nothing_to_wait_for(tmp_path, monkeypatch):
    monkeypatch.setattr(run_disk, "force", lambda path: pytest.fail("waited for the disk"))
    run_disk.DiskSync(tmp_path).sync()


def test_a_disk_that_fails_is_named(tmp_path, monkeypatch):
    (tmp_path / CHECKPOINT).write_bytes(b"one")

    def fail(handle):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StateError, match=r"checkpoint\.npz was to be written, but .*Input/output"):
        run_disk.DiskSync(Path(tmp_path)).written()
