"""Archives: exact round trips, and one clear error for everything a file can suffer."""

from __future__ import annotations

import json
import os
import pickle
import resource
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from onlinegcp.errors import DataError, StateError
from onlinegcp.storage import archive
from onlinegcp.storage.archive import read_archive, read_record, write_archive

ARRAYS = {
    "numbers": np.arange(3.0),
    "empty": np.empty((0, 4)),
    "whole": np.array([[1, -2]], dtype=np.int32),
    "scalar": np.array(5),
    "words": np.array(["a", "ä\n"]),
    "flags": np.array([True, False]),
}
RECORD = {"name": "x", "nothing": None, "not a number": float("nan"), "list": [1, {"a": 2.5}]}


@pytest.fixture(params=[False, True], ids=["members", "block"])
def block(request):
    """Whether the arrays are stored together."""
    return request.param


@pytest.fixture
def path(tmp_path, block):
    target = tmp_path / "model"
    write_archive(target, "thing", ARRAYS, RECORD, block=block)
    return target


def test_round_trip_is_exact(path):
    arrays, record = read_archive(str(path), "thing")
    assert set(arrays) == set(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype
        assert arrays[name].shape == array.shape
        assert arrays[name].flags.writeable
        assert arrays[name].flags.aligned
    assert json.dumps(record) == json.dumps(RECORD)
    assert json.dumps(read_record(path, "thing")) == json.dumps(RECORD)


def test_the_name_is_used_as_it_is(tmp_path):
    """NumPy alone would add .npz."""
    write_archive(tmp_path / "state", "thing", {}, {})
    assert [p.name for p in tmp_path.iterdir()] == ["state"]
    assert read_archive(tmp_path / "state", "thing") == ({}, {})


@pytest.mark.slow
def test_a_file_cut_anywhere_is_refused(path, block):
    write_archive(path, "thing", {"numbers": ARRAYS["numbers"]}, {}, block=block)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(StateError, match="cannot be read as one"):
            read_archive(path, "thing")


@pytest.mark.slow
def test_a_flipped_byte_is_refused_or_harmless(path):
    """Dates and the like in a zip file have no checksum; what is read must still be the same."""
    whole = bytearray(path.read_bytes())
    refused = 0
    for place in range(0, len(whole), 5):
        damaged = whole.copy()
        damaged[place] ^= 0x41
        path.write_bytes(damaged)
        try:
            arrays, record = read_archive(path, "thing")
        except StateError:
            refused += 1
            continue
        assert json.dumps(record) == json.dumps(RECORD)
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(arrays[name], array)
    assert refused > len(whole) / 10


@pytest.mark.parametrize(
    "content",
    [b"", b"PK\x03\x04", b"hello", pickle.dumps({"a": 1}), b"\x93NUMPY\x01\x00", b"\x00" * 1000],
    ids=["empty", "zip start", "text", "pickle", "array start", "zeros"],
)
def test_files_of_others_are_refused(tmp_path, content):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(StateError, match=r"a saved thing was needed.*use an earlier copy"):
        read_archive(tmp_path / "x", "thing")


def test_archives_of_others_are_refused(tmp_path):
    np.save(tmp_path / "one.npy", np.arange(3))
    np.savez(tmp_path / "some.npz", a=np.arange(3))
    np.savez(tmp_path / "objects.npz", onlinegcp_meta=np.array({"kind": 1}, dtype=object))
    np.savez(tmp_path / "odd.npz", onlinegcp_meta=np.array('{"kind": "thing"}'))
    with zipfile.ZipFile(tmp_path / "plain.zip", "w") as file:
        file.writestr("onlinegcp_meta.npy", "not an array")
    for found in sorted(tmp_path.iterdir()):
        with pytest.raises(StateError, match="cannot be read as one"):
            read_archive(found, "thing")


class Trap:
    """Makes a directory when it is unpickled."""

    def __init__(self, folder):
        self.folder = str(folder)

    def __reduce__(self):
        return os.mkdir, (self.folder,)


@pytest.mark.parametrize("read", [read_archive, read_record])
def test_nothing_is_ever_unpickled(tmp_path, read):
    trapped = np.empty(1, dtype=object)
    trapped[0] = Trap(tmp_path / "sprung")
    np.savez(tmp_path / "x.npz", onlinegcp_meta=trapped)
    with pytest.raises(StateError, match="cannot be read as one"):
        read(tmp_path / "x.npz", "thing")
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("durable", [True, False])
def test_who_does_not_ask_for_the_disk_does_not_wait_for_it(tmp_path, monkeypatch, durable):
    waited = []
    monkeypatch.setattr(os, "fsync", waited.append)
    write_archive(tmp_path / "x", "thing", ARRAYS, RECORD, durable=durable)
    assert bool(waited) == durable


def test_newer_formats_other_kinds_and_missing_files_are_named(path, monkeypatch):
    for read in (read_archive, read_record):
        with pytest.raises(StateError, match=r"a saved model was needed, but .* holds a thing"):
            read(path, "model")
    with pytest.raises(StateError, match="there is no such file"):
        read_archive(path.with_name("nothing"), "thing")
    with pytest.raises(StateError, match="could not be opened: Is a directory"):
        read_archive(path.parent, "thing")
    monkeypatch.setattr(archive, "FORMAT_VERSION", archive.FORMAT_VERSION + 1)
    write_archive(path, "thing", ARRAYS, RECORD, block=True)
    monkeypatch.undo()
    with pytest.raises(StateError, match=r"has format 4\. Upgrade onlinegcp"):
        read_archive(path, "thing")


@pytest.mark.parametrize("block", [False], indirect=True)
def test_an_array_under_another_name_is_noticed(path, tmp_path):
    """A zip file protects contents by checksums, but not their names."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(tmp_path / "new", "w") as new:
        for name in old.namelist():
            new.writestr(name.replace("numbers", "numbess"), old.read(name))
    with pytest.raises(StateError, match="not there"):
        read_archive(tmp_path / "new", "thing")


def test_objects_are_refused_and_the_old_file_stays(path):
    before = path.read_bytes()
    with pytest.raises(DataError, match="'bad' holds Python objects"):
        write_archive(path, "thing", {"bad": np.array([{}, []], dtype=object)}, {})
    with pytest.raises(TypeError):
        write_archive(path, "thing", {}, {"bad": object()})
    assert path.read_bytes() == before
    assert len(list(path.parent.iterdir())) == 1


@pytest.mark.slow
def test_a_full_disk_leaves_the_old_file(path):
    """A real one, as far as the process can tell: no file may grow beyond 10 kB."""
    before = path.read_bytes()
    script = (
        "import resource, signal, sys\n"
        "import numpy as np\n"
        "from onlinegcp.storage.archive import write_archive\n"
        "from onlinegcp.errors import StateError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, {resource.RLIM_INFINITY}))\n"
        "try:\n"
        "    write_archive(sys.argv[1], 'thing', {'a': np.zeros(100_000)}, {})\n"
        "except StateError as error:\n"
        "    print(error)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True
    )
    assert "could not be: File too large" in run.stdout
    assert "already there is unchanged" in run.stdout
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["model"]


def test_files_of_the_first_format_are_read(path, tmp_path):
    meta = {"kind": "thing", "format": 1, "arrays": sorted(ARRAYS), "record": RECORD}
    np.savez(tmp_path / "old.npz", onlinegcp_meta=np.array(json.dumps(meta)), **ARRAYS)
    arrays, record = read_archive(tmp_path / "old.npz", "thing")
    assert record == read_archive(path, "thing")[1]
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)


def test_large_files_are_the_same_as_small_ones(path, monkeypatch):
    before = read_archive(path, "thing")
    monkeypatch.setattr(archive, "_SMALL", 0)
    write_archive(path, "thing", ARRAYS, RECORD, durable=False)
    after = read_archive(path, "thing")
    assert before[1] == after[1]
    for name, array in before[0].items():
        np.testing.assert_array_equal(array, after[0][name])


@pytest.mark.parametrize(
    "array",
    [
        np.float64(1.5),
        np.zeros((0, 3)),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(10)[::-3],
        np.array([True, False]),
        np.array(["text", "\u2013"]),
        np.array(["2018-01-01"], dtype="M8[D]"),
        np.arange(3, dtype=">i4"),
        np.zeros(2, dtype=[("a", "i4"), ("b", "f8")]),
    ],
    ids=lambda array: str(array.dtype),
)
def test_numpy_and_zip_programs_read_what_is_written(tmp_path, array):
    write_archive(tmp_path / "a.npz", "thing", {"it": np.asarray(array), "n\xe4me": np.ones(2)}, {})
    with np.load(tmp_path / "a.npz") as stored:
        assert stored["it"].dtype == array.dtype
        np.testing.assert_array_equal(stored["it"], array)
        np.testing.assert_array_equal(stored["n\xe4me"], np.ones(2))
    with zipfile.ZipFile(tmp_path / "a.npz") as file:
        assert file.testzip() is None


@pytest.mark.parametrize("index", ["shorter", "longer", "objects"])
def test_a_block_and_an_index_of_different_files_are_refused(tmp_path, index):
    write_archive(tmp_path / "a", "thing", {"x": np.arange(6.0)}, {}, block=True)
    with np.load(tmp_path / "a") as stored:
        meta, block = json.loads(stored["onlinegcp_meta"].tobytes()), stored["onlinegcp_arrays"]
    wrong = {"shorter": ["x", "<f8", [5]], "longer": ["x", "<f8", [7]], "objects": ["x", "|O", [6]]}
    meta["block"] = [wrong[index]]
    packed = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    np.savez(tmp_path / "b.npz", onlinegcp_meta=packed, onlinegcp_arrays=block)
    with pytest.raises(StateError, match="its block of arrays is"):
        read_archive(tmp_path / "b.npz", "thing")


def test_arrays_of_every_kind_go_into_a_block(tmp_path):
    arrays = {
        "number": np.asarray(1.5),
        "turned": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "every third": np.arange(10)[::-3],
        "day": np.array(["2018-01-01"], dtype="M8[D]"),
        "big": np.arange(3, dtype=">i4"),
        "not numbers": np.array([np.nan, -np.inf, -0.0]),
        "record": np.zeros(2, dtype=[("a", "i4"), ("b", "f8")]),
    }
    for names in (list(arrays), list(arrays)[:-1]):  # records are NumPy's business
        wanted = {name: arrays[name] for name in names}
        write_archive(tmp_path / "a", "thing", wanted, {}, block=True)
        found, _ = read_archive(tmp_path / "a", "thing")
        assert list(found) == names
        for name in names:
            assert found[name].dtype == arrays[name].dtype
            assert found[name].tobytes() == arrays[name].tobytes()


def test_a_text_is_no_model_and_numpy_does_not_advise_to_trust_it(tmp_path):
    (tmp_path / "notes.txt").write_text("root:x:0:0")
    with pytest.raises(StateError, match="it begins with b'ro'") as caught:
        read_archive(tmp_path / "notes.txt", "model")
    assert "pickle" not in str(caught.value)
