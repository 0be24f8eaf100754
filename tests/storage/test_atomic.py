"""Files replaced all at once: whole, with the usual permissions, and without litter."""

from __future__ import annotations

import os
import stat
import sys
import threading
from pathlib import Path

import pytest

from onlinegcp.errors import DataError, StateError
from onlinegcp.storage import atomic, exchanging
from onlinegcp.storage.atomic import replacing
from onlinegcp.storage.exchanging import exchange


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def test_the_new_content_takes_the_place_of_the_old(tmp_path):
    target = tmp_path / "x"
    for content in (b"old", b"newer", b""):
        with replacing(str(target)) as file:
            file.write(content)
        assert target.read_bytes() == content
    assert names(tmp_path) == ["x"]


@pytest.mark.parametrize("error", [OSError(28, "disk full"), KeyError("bug"), KeyboardInterrupt()])
def test_a_block_that_fails_leaves_the_old_file_and_no_other(tmp_path, error):
    target = tmp_path / "x"
    target.write_bytes(b"old")
    expected = StateError if isinstance(error, OSError) else type(error)

    def fail():
        with replacing(target) as file:
            file.write(b"half")
            raise error

    with pytest.raises(expected):
        fail()
    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["x"]


def test_a_failure_says_what_happened_to_the_old_file(tmp_path):
    with (
        pytest.raises(
            StateError, match=r"nowhere/x could not be: No such file [^.]*\. Free some sp"
        ),
        replacing(tmp_path / "nowhere" / "x"),
    ):
        pass
    (tmp_path / "x").write_bytes(b"old")
    with pytest.raises(StateError, match="already there is unchanged"), replacing(tmp_path / "x"):
        raise OSError("disk full")


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc which file is meant")
def test_content_then_name_reach_the_disk_and_nothing_waits_for_what_need_not(
    tmp_path, monkeypatch
):
    waited = []

    def watch(handle):
        found = Path(f"/proc/self/fd/{handle}").readlink()
        waited.append((found.suffix or found.name, (tmp_path / "x").exists()))

    monkeypatch.setattr(os, "fsync", watch)
    with replacing(tmp_path / "x") as file:
        file.write(b"content")
    assert waited == [(".tmp", False), (tmp_path.name, True)]
    with replacing(tmp_path / "x", durable=False) as file:
        file.write(b"newer")
    assert len(waited) == 2


@pytest.mark.parametrize("mark", ["run.json", "streams.json", "../streams.json"])
def test_the_directory_of_a_run_is_for_its_own_files(tmp_path, mark):
    folder = tmp_path / "in" / "here"
    folder.mkdir(parents=True)
    (folder / mark).write_text("{}")
    with pytest.raises(DataError, match="outside the directories of runs"), replacing(folder / "x"):
        pass
    with replacing(folder / "x", of_run=True) as file:
        file.write(b"1")
    with replacing(tmp_path / "x") as file:  # beside the run
        file.write(b"2")
    assert (folder / "x").read_bytes() == b"1"


def test_nothing_is_visible_before_the_end(tmp_path):
    target = tmp_path / "x"
    target.write_bytes(b"old")
    with replacing(target) as file:
        file.write(b"new" * 100_000)
        file.flush()
        assert target.read_bytes() == b"old"
    assert target.stat().st_size == 300_000


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_permissions_are_those_of_any_new_file(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    with replacing(tmp_path / "x"):
        pass
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "x")}
    assert len(modes) == 1


def test_writers_at_the_same_time_leave_one_whole_file(tmp_path):
    target = tmp_path / "x"
    contents = [bytes([k]) * 50_000 for k in range(8)]

    def write(content):
        with replacing(target) as file:
            for start in range(0, len(content), 1000):
                file.write(content[start : start + 1000])

    threads = [threading.Thread(target=write, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert target.read_bytes() in contents
    assert names(tmp_path) == ["x"]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere files are renamed")
def test_two_files_change_their_names(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_bytes(b"1")
    assert not exchange(one, other)
    assert names(tmp_path) == ["one"]
    other.write_bytes(b"2")
    assert exchange(one, other)
    assert (one.read_bytes(), other.read_bytes()) == (b"2", b"1")


@pytest.mark.parametrize("possible", [True, False])
def test_a_file_that_need_not_reach_the_disk_is_replaced_all_the_same(
    tmp_path, monkeypatch, possible
):
    if not possible:  # another file system, or another system
        monkeypatch.setattr(atomic, "exchange", lambda *_: False)
    target = tmp_path / "x"
    for content in (b"old", b"newer", b""):
        with replacing(target, durable=False) as file:
            file.write(content)
        assert target.read_bytes() == content
        assert names(tmp_path) == ["x"]
    with target.open("rb") as before:  # a reader keeps what it has opened
        with replacing(target, durable=False) as file:
            file.write(b"newest")
        assert before.read() == b""


def test_a_system_without_exchange_says_so(monkeypatch):
    monkeypatch.setattr(exchanging, "_renameat2", lambda: None)
    assert not exchange(Path("a"), Path("b"))
