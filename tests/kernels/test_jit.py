"""The compiler wrapper: where compiled code is kept, and what names it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from onlinegcp.errors import BackendError
from onlinegcp.kernels import get_kernels, jit


@pytest.fixture
def fresh(monkeypatch):
    jit.cache_directory.cache_clear()
    yield monkeypatch
    jit.cache_directory.cache_clear()


def test_numbas_own_cache_directory_is_respected_as_parent(fresh, tmp_path):
    fresh.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert jit.cache_directory().parent == tmp_path


def test_an_unwritable_home_falls_back_to_the_temporary_directory(fresh, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    fresh.delenv("NUMBA_CACHE_DIR", raising=False)
    fresh.setenv("XDG_CACHE_HOME", str(blocked))
    folder = jit.cache_directory()
    assert os.access(folder, os.W_OK)
    assert blocked not in folder.parents


def test_the_folder_changes_when_any_kernel_source_changes(fresh):
    before = jit._source_hash()
    original = Path.read_bytes

    def changed(self):
        return original(self) + (b"#" if self.name == "loss_codes.py" else b"")

    fresh.setattr(Path, "read_bytes", changed)
    assert jit._source_hash() != before


def test_a_kernel_keeps_nan_and_infinity():
    @jit.kernel(cache=False)
    def add(a, b):
        return a + b

    assert np.isnan(add(np.inf, -np.inf))
    assert np.isnan(add(np.nan, 1.0))


def test_decorating_leaves_numbas_settings_alone():
    before = jit.config.CACHE_DIR
    jit.kernel(lambda x: x, cache=False)
    assert before == jit.config.CACHE_DIR


@pytest.mark.parametrize("name", ["tpu", "gpu", ""])
def test_an_unknown_implementation_is_refused_with_the_list(name):
    with pytest.raises(BackendError, match=r"\['cpu', 'cuda', 'reference'\]"):
        get_kernels(name)


def test_both_implementations_have_the_same_names():
    from onlinegcp.kernels.sgd import cpu

    for name in set(cpu.__all__) - {"SgdEngine"}:  # plain epochs are `solvers.sgd.ArrayEngine`'s
        assert hasattr(get_kernels("reference"), name)
