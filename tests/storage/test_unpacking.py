"""Small files that unpack to gigabytes are refused, before they do, with a limit one can raise."""

from __future__ import annotations

import gzip
import tracemalloc

import numpy as np
import pytest

from onlinegcp.errors import DataError
from onlinegcp.sources import load_npz, read_tns, save_npz
from onlinegcp.storage import unpacking


@pytest.fixture(autouse=True)
def low(monkeypatch):
    monkeypatch.setattr(unpacking, "LIMIT", 1_000_000)
    monkeypatch.setattr(unpacking, "_PIECE", 1 << 16)


@pytest.fixture
def bombs(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", array=np.zeros(500_000))
    text = gzip.compress(b"1 1 1.0\n" * 500_000)
    (tmp_path / "x.tns").write_bytes(text)
    return [(load_npz, tmp_path / "x.npz"), (read_tns, tmp_path / "x.tns")]


def test_they_are_refused_without_being_unpacked(bombs):
    for read, path in bombs:
        tracemalloc.start()
        with pytest.raises(DataError, match=r"unpacks to .* or more. .*ONLINEGCP_MOST_UNPACKED"):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 2500_000
        tracemalloc.stop()


def test_the_limit_can_be_raised(bombs, monkeypatch):
    monkeypatch.setenv(unpacking.VARIABLE, "100000000")
    assert read_tns(bombs[1][1]).total == 500_000
    monkeypatch.setenv(unpacking.VARIABLE, "much")
    with pytest.raises(DataError, match="number of bytes"):
        read_tns(bombs[1][1])


def test_large_files_of_ordinary_data_are_read(tmp_path):
    cells = np.random.default_rng(0).normal(size=(500, 500))
    save_npz(tmp_path / "x.npz", cells)
    assert load_npz(tmp_path / "x.npz").shape == (500, 500)


def test_gzip_in_several_parts_is_one_file(tmp_path):
    parts = gzip.compress(b"1 1 1\n") + gzip.compress(b"2 2 5\n")
    (tmp_path / "x.tns").write_bytes(parts)
    assert read_tns(tmp_path / "x.tns").total == 6
    (tmp_path / "x.tns").write_bytes(parts + b"\0" * 512)  # filled up to a block, as on tapes
    assert read_tns(tmp_path / "x.tns").total == 6
    for damaged in (parts[:-9], parts + b"rest", parts[:30]):
        (tmp_path / "x.tns").write_bytes(damaged)
        with pytest.raises(DataError, match="could not be unpacked"):
            read_tns(tmp_path / "x.tns")
