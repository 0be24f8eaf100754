"""The folders of compiled code: those that nobody uses are removed, the others never."""

from __future__ import annotations

import os
import threading
import time

import pytest

from onlinegcp.kernels import jit

DAY = 86400


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache of its own, and a function that puts a folder of a certain age into it."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    jit.cache_directory.cache_clear()

    def add(name, days):
        folder = tmp_path / name
        (folder / "inner").mkdir(parents=True)
        (folder / "inner" / "code.nbc").write_bytes(b"code")
        os.utime(folder, (time.time() - days * DAY,) * 2)
        return folder

    yield add
    jit.cache_directory.cache_clear()


def names(folder):
    return {p.name for p in folder.iterdir()}


def old(number):
    return f"kernels-{number:016x}"


def test_the_folder_lies_where_numba_is_told_and_is_named_by_the_sources(cache, tmp_path):
    folder = jit.cache_directory()
    assert folder.parent == tmp_path
    assert names(tmp_path) == {"kernels-" + jit._source_hash()}


def test_without_a_writable_folder_a_temporary_one_is_used(cache, tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    monkeypatch.setattr(jit.tempfile, "gettempdir", lambda: str(tmp_path / "elsewhere"))
    assert (tmp_path / "elsewhere") in jit.cache_directory().parents


def test_folders_unused_for_a_month_are_removed(cache, tmp_path):
    cache(old(1), days=31)
    cache(old(2), days=29)
    folder = jit.cache_directory()
    assert names(tmp_path) == {folder.name, old(2)}


def test_of_many_folders_the_newest_stay_and_so_do_all_of_today(cache, tmp_path):
    for k in range(20):
        cache(old(k), days=2 + k)
    for k in range(20, 30):
        cache(old(k), days=0.5)
    jit.cache_directory()
    assert names(tmp_path) >= {old(k) for k in range(20, 30)}
    assert not names(tmp_path) & {old(k) for k in range(20)}


def test_a_few_folders_of_last_week_stay(cache, tmp_path):
    for k in range(20):
        cache(old(k), days=2 + k)
    folder = jit.cache_directory()
    assert names(tmp_path) == {folder.name, *(old(k) for k in range(jit._NEWEST_KEPT - 1))}


def test_our_own_folder_is_kept_however_old_and_counts_as_used(cache, tmp_path):
    ours = cache("kernels-" + jit._source_hash(), days=400)
    assert jit.cache_directory() == ours
    assert (ours / "inner" / "code.nbc").exists()
    assert time.time() - ours.stat().st_mtime < DAY


def test_what_is_not_ours_is_left_alone(cache, tmp_path):
    others = {"kernels-mine", "something", "kernels-" + "0" * 17, "x" + old(1)}
    for name in others:
        cache(name, days=1000)
    folder = jit.cache_directory()
    assert names(tmp_path) == {folder.name, *others}


def test_remains_of_an_interrupted_removal_are_cleaned_up(cache, tmp_path):
    cache(old(1) + ".removed-0123abcd", days=2)
    cache(old(2) + ".removed-0123abcd", days=0.1)
    folder = jit.cache_directory()
    assert names(tmp_path) == {folder.name, old(2) + ".removed-0123abcd"}


def test_many_may_clean_up_at_once(cache, tmp_path):
    for k in range(60):
        cache(old(k), days=100)
    current = cache("kernels-" + "f" * 16, days=0)
    problems = []

    def clean():
        try:
            jit._remove_unused(current)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=clean) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert names(tmp_path) == {current.name}
