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


@pytest.mark.parametrize("module", ["numba", "np"])
def test_another_version_of_the_compiler_has_a_folder_of_its_own(cache, monkeypatch, module):
    ours = jit.cache_directory()
    jit.cache_directory.cache_clear()
    monkeypatch.setattr(getattr(jit, module), "__version__", "0.0.0")
    assert jit.cache_directory() != ours


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


def test_a_folder_that_somebody_else_could_have_filled_is_not_used(cache, tmp_path):
    """Compiled code is loaded from there: another user's would run in this process."""
    name = "kernels-" + jit._source_hash()
    (tmp_path / name).mkdir()
    (tmp_path / name).chmod(0o777)
    found = jit.cache_directory()
    assert tmp_path not in found.parents
    assert found.stat().st_mode & 0o777 == 0o700


def test_a_link_is_not_followed(cache, tmp_path):
    (tmp_path / "prepared").mkdir()
    (tmp_path / ("kernels-" + jit._source_hash())).symlink_to(tmp_path / "prepared")
    assert tmp_path not in jit.cache_directory().parents


def test_a_folder_of_another_user_is_not_used(cache, tmp_path, monkeypatch):
    """As when an attacker made the predictable folder in the temporary directory first."""
    inner = tmp_path / ("kernels-" + jit._source_hash())
    inner.mkdir(mode=0o700)
    assert jit._is_private(inner)
    user = os.getuid()
    monkeypatch.setattr(jit.os, "getuid", lambda: user + 1)
    assert not jit._is_private(inner)


@pytest.mark.skipif(os.getuid() != 0, reason="needs the right to give files away")
def test_a_folder_below_one_of_another_user_is_not_used(cache, tmp_path):
    above = tmp_path / "above"
    (above / "inner").mkdir(parents=True, mode=0o700)
    assert jit._is_private(above / "inner")
    os.chown(above, 4711, 4711)
    assert not jit._is_private(above / "inner")


def test_what_everybody_may_read_becomes_private(cache, tmp_path):
    folder = tmp_path / ("kernels-" + jit._source_hash())
    folder.mkdir(mode=0o755)
    assert jit.cache_directory() == folder
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_full_disk_does_not_stop_a_kernel(cache, tmp_path, monkeypatch):
    @jit.kernel
    def doubled(x):
        return 2 * x

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(doubled._cache._cache_file, "save", full)
    assert doubled(2.0) == 4.0
