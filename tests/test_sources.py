"""Tensor files: what is written comes back, other people's habits are read, damage is named."""

from __future__ import annotations

import contextlib
import datetime
import gzip
import time

import numpy as np
import pytest
import pyttb
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from onlinegcp.errors import DataError, MissingFileError, StateError
from onlinegcp.ktensor import KTensor
from onlinegcp.slices import Slice
from onlinegcp.sources import load_npz, read_tns, save_npz, write_tns
from onlinegcp.storage.archive import write_archive
from onlinegcp.streaming import OnlineGCP

X = Slice([[0, 1], [2, 0], [2, 2]], [1.0, 2.5, -3.0], (3, 4))
SAME_FOLDER = settings(
    deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)


def written(folder, text, name="x.tns"):
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


# Text: round trips


@pytest.mark.parametrize("base", [0, 1])
@pytest.mark.parametrize("header", [True, "sptensor"])
@pytest.mark.parametrize("name", ["x.tns", "x.tns.gz"])
def test_a_written_tensor_reads_the_same(tmp_path, base, header, name):
    write_tns(tmp_path / name, X, base=base, header=header)
    assert read_tns(tmp_path / name, base=base) == X
    assert read_tns(str(tmp_path / name)) == X


@SAME_FOLDER
@given(arrays(float, array_shapes(max_dims=4, max_side=4), elements=FLOATS))
def test_text_keeps_every_bit_of_every_value(tmp_path, array):
    x = Slice.dense(array)
    write_tns(tmp_path / "x.tns", x)
    assert read_tns(tmp_path / "x.tns", base=1, unlisted="missing") == x


def test_without_a_header_the_largest_positions_give_the_shape(tmp_path):
    write_tns(tmp_path / "x.tns", X, header=False)
    assert (tmp_path / "x.tns").read_text().splitlines()[0] == "1 2 1.0"
    assert read_tns(tmp_path / "x.tns").shape == (3, 3)
    assert read_tns(tmp_path / "x.tns", shape=(3, 4)) == X


@pytest.mark.parametrize("header", [True, False, "sptensor"])
def test_a_tensor_without_entries_is_written_and_read(tmp_path, header):
    empty = Slice([], [], (2, 1, 3))
    write_tns(tmp_path / "x.tns", empty, header=header)
    assert read_tns(tmp_path / "x.tns", shape=(2, 1, 3)) == empty
    if header:
        assert read_tns(tmp_path / "x.tns") == empty


def test_one_entry_and_one_mode_are_enough(tmp_path):
    x = Slice([[4]], [0.1], (5,))
    write_tns(tmp_path / "x.tns", x)
    assert read_tns(tmp_path / "x.tns") == x


def test_explicit_zeros_are_data_when_unlisted_cells_are_missing(tmp_path):
    x = Slice([[0], [2]], [0.0, 1.0], (3,), unlisted="missing")
    write_tns(tmp_path / "x.tns", x)
    assert read_tns(tmp_path / "x.tns", unlisted="missing") == x
    assert read_tns(tmp_path / "x.tns").n_listed == 1


def test_equal_slices_give_equal_compressed_files(tmp_path):
    write_tns(tmp_path / "a.gz", X)
    write_tns(tmp_path / "b.gz", X)
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


def test_anything_that_holds_a_tensor_can_be_written(tmp_path):
    write_tns(tmp_path / "x.tns", np.eye(2))
    np.testing.assert_array_equal(read_tns(tmp_path / "x.tns").to_dense(), np.eye(2))


# Text: the same files as other packages


def test_pyttb_reads_what_we_write_and_we_read_what_pyttb_writes(tmp_path):
    path = tmp_path / "x.tns"
    write_tns(path, X, header="sptensor")
    theirs = pyttb.import_data(str(path))
    np.testing.assert_array_equal(theirs.full().data, X.to_dense())
    pyttb.export_data(theirs, str(path))
    assert read_tns(path) == X
    pyttb.export_data(theirs, str(path), index_base=0)
    assert read_tns(path, base=0) == X


def test_numpy_reads_the_lines_we_write(tmp_path):
    write_tns(tmp_path / "x.tns", X, header=False, base=0)
    table = np.loadtxt(tmp_path / "x.tns")
    np.testing.assert_array_equal(table[:, :2], X.index)
    np.testing.assert_array_equal(table[:, 2], X.value)


# Text: habits


HABITS = {
    "plain": "1 2 1\n3 1 2.5\n3 3 -3\n",
    "no newline at the end": "1 2 1\n3 1 2.5\n3 3 -3",
    "counted from 0": "0 1 1\n2 0 2.5\n2 2 -3\n",
    "windows": "\ufeff1 2 1\r\n3 1 2.5\r\n3 3 -3\r\n",
    "tabs": "1\t2\t1\n3\t1\t2.5\n3\t3\t-3\n",
    "aligned columns": "  1  2   1.0 \n  3  1   2.5 \n  3  3  -3.0 \n",
    "blank lines": "\n1 2 1\n\n3 1 2.5\n3 3 -3\n\n\n",
    "comments": "# caf\u00e9\n1 2 1\n# more\n3 1 2.5 # inline\n3 3 -3\n#",
    "positions as floats": "1.0 2.0 1\n3.0 1 2.5\n3 3e0 -3\n",
    "duplicates": "1 2 0.5\n3 1 2.5\n1 2 0.5\n3 3 -3\n",
    "header": "2\n3 4\n1 2 1\n3 1 2.5\n3 3 -3\n",
    "header with a comment": "# from somewhere\n2 # modes\n\n3 4\n1 2 1\n3 1 2.5\n3 3 -3\n",
    "header with a count": "2\n3 4\n3\n1 2 1\n3 1 2.5\n3 3 -3\n",
    "pyttb": "sptensor\n2\n3 4\n3\n1 2 1\n3 1 2.5\n3 3 -3\n",
}


@pytest.mark.parametrize("name", ["x.tns", "x.tns.gz", "no-suffix"])
@pytest.mark.parametrize("text", HABITS.values(), ids=HABITS)
def test_files_of_every_habit_read_the_same(tmp_path, text, name):
    data = text.encode()
    path = written(tmp_path, gzip.compress(data) if name.endswith("gz") else data, name)
    assert read_tns(path, shape=(3, 4)) == X
    if "4" in text:
        assert read_tns(path).shape == (3, 4)


def test_the_name_does_not_decide_about_compression(tmp_path):
    assert read_tns(written(tmp_path, gzip.compress(b"1 1 5\n"), "x.tns")).total == 5.0
    assert read_tns(written(tmp_path, "1 1 5\n", "y.gz")).total == 5.0


def test_a_base_that_is_given_is_believed(tmp_path):
    path = written(tmp_path, "1 2 5\n")
    assert read_tns(path).shape == (1, 2)
    assert read_tns(path, base=0).shape == (2, 3)


def test_the_shape_given_goes_before_the_header(tmp_path):
    path = written(tmp_path, "2\n3 4\n1 2 1\n")
    assert read_tns(path, shape=(5, 6)).shape == (5, 6)


# Text: refusals


BAD_FILES = {
    "short line": ("1 1 1\n2 2\n", r"2 positions and a value, but line 2 of .*x\.tns has 2 words"),
    "long line": ("1 1 1\n# c\n\n2 2 2 2\n", r"line 4 of .*has 4 words: '2 2 2 2'\. Correct"),
    "word for a value": ("1 1 1\n2 2 two\n", r"finite numbers, but line 2 of .*has 'two'"),
    "word for a position": ("1 1 1\nx 2 2\n", r"mode 0 must be whole.*line 2 of .*has 'x'"),
    "fraction": ("1 1 1\n1 2.5 2\n", r"mode 1 must be whole.*line 2 of .*has '2\.5'"),
    "NaN position": ("1 1 1\n1 nan 2\n", r"mode 1 must be whole.*line 2 of .*has 'nan'"),
    "NaN": ("1 1 1\n1 2 nan\n", r"finite numbers, but line 2 of .*has 'nan'\. Delete"),
    "infinity": ("1 1 -inf\n1 2 1\n", r"finite numbers, but line 1 of .*has '-inf'"),
    "overflow": ("1 1 1e999\n", r"finite numbers, but line 1 of .*has '1e999'"),
    "negative": ("1 1 1\n-1 2 1\n", r"mode 0 must be whole numbers from 1 .*line 2 .*'-1'"),
    "beyond 32 bits": ("1 1 1\n1 9999999999 1\n", r"mode 1 .*to 2147483647, .*'9999999999'"),
    "beyond the header": ("2\n3 4\n3 4 1\n1 5 1\n", r"mode 1 .*from 1 to 4, but line 4 .*has '5'"),
    "both 0 and the last": ("2\n3 4\n0 1 1\n3 1 1\n", r"mode 0 .*from 0 to 2, but line 4 .*'3'"),
    "commas": ("1,1,1\n1,2,1\n", r"number of modes in line 1, but '1,1,1' was found"),
    "commas later": ("1 1 1\n1,2,1\n", r"line 2 of .*has 1 words: '1,2,1'"),
    "underscore": ("1 1 1\n1 1 1_0\n", r"line 2 of .*has '1_0'"),
    "another pyttb type": ("tensor\n2\n2 2\n", r"number of modes in line 1, but 'tensor'"),
    "header without lengths": ("2\n", r"lengths of 2 modes in line 2, but '' was found"),
    "header of another length": ("3\n2 2\n1 1 1\n", r"lengths of 3 modes in line 2, but '2 2'"),
    "header of fractions": ("2\n2 2.5\n1 1 1\n", r"lengths of 2 modes in line 2, but '2 2\.5'"),
    "endless number": ("9" * 5000 + "\n", r"number of modes in line 1, but '9{57}\.\.\.'"),
    "header for other entries": ("2\n2 2\n1 1 1 1\n", r"2 positions.*line 3 of .*has 4 words"),
    "mode without positions": ("2\n2 0\n", r"x\.tns: Every mode must .*mode 1 has 0"),
    "no mode": ("0\n", r"header of .*|at least one mode"),
    "truncated": ("sptensor\n2\n2 2\n3\n1 1 1\n2 2 1\n", r"promises 3 entries, but 2 were found"),
    "nothing": ("", r"needs at least one entry or a header, but .* has neither\. Give shape"),
    "only comments": ("# a\n\n#b", r"at least one entry or a header"),
    "overflowing sum": ("1 1 1e308\n1 1 1e308\n", r"x\.tns: .*sum must be finite"),
    "binary": (b"\x00\xff\xfe\x80 1 2\n\x93NUMPY", r"mode 0 must be whole numbers|words"),
}


@pytest.mark.parametrize(("text", "message"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_text_file_is_refused_with_its_line(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        read_tns(written(tmp_path, text))


def test_positions_below_the_base_given_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"from 1 to 2, but line 2 of .*has '0'.*another base"):
        read_tns(written(tmp_path, "1 1 1\n2 0 1\n1 2 1\n"), base=1)


def test_a_shape_with_other_modes_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"3 positions and a value, but line 1"):
        read_tns(written(tmp_path, "1 1 1\n"), shape=(2, 2, 2))
    with pytest.raises(DataError, match=r"mode 0 has 0"):
        read_tns(written(tmp_path, "1 1 1\n"), shape=(0, 2))


def test_unknown_options_are_refused(tmp_path):
    path = written(tmp_path, "1 1 1\n")
    with pytest.raises(DataError, match="'auto', 0 or 1, but 2 was found"):
        read_tns(path, base=2)
    with pytest.raises(DataError, match="'zero' or 'missing', but 'nan'"):
        read_tns(path, unlisted="nan")
    with pytest.raises(DataError, match="0 or 1, but 'auto' was found"):
        write_tns(path, X, base="auto")
    with pytest.raises(DataError, match="True, False or 'sptensor', but 'frostt'"):
        write_tns(path, X, header="frostt")
    assert path.read_text() == "1 1 1\n"


@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_a_damaged_gzip_file_is_refused(tmp_path, damage):
    packed = bytearray(gzip.compress(b"1 2 3\n" * 100))
    if damage == "cut":
        packed = packed[:-5]
    else:
        packed[12] ^= 0xFF
    with pytest.raises(DataError, match=r"must be complete, but .*x\.gz could not be unpacked"):
        read_tns(written(tmp_path, bytes(packed), "x.gz"))


def test_missing_text_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_tns(tmp_path / "x.tns")


@pytest.mark.slow
def test_a_million_lines_are_read_faster_than_numpy_reads_numbers(tmp_path):
    rng = np.random.default_rng(0)
    x = Slice(rng.integers(0, 500, (10**6, 3)), rng.random(10**6), (500, 500, 500))
    write_tns(tmp_path / "x.tns", x, header=False)
    start = time.process_time()
    assert read_tns(tmp_path / "x.tns") == x
    ours = time.process_time() - start
    start = time.process_time()
    np.loadtxt(tmp_path / "x.tns")
    assert ours < time.process_time() - start


# Archives


@pytest.mark.parametrize("moment", [None, 7, "Montag", datetime.date(2013, 1, 31)])
def test_an_archive_keeps_the_time(tmp_path, moment):
    save_npz(tmp_path / "x.npz", X.with_time(moment))
    assert load_npz(tmp_path / "x.npz") == X.with_time(moment)


@pytest.mark.parametrize(
    "x",
    [
        X,
        Slice([], [], (1, 2)),
        Slice([[0], [1]], [0.0, 5e-324], (3,), unlisted="missing"),
        Slice([], [], (2,), unlisted="missing"),
        Slice.dense(np.arange(6.0).reshape(1, 2, 3)),
        Slice.dense([1.0, float("nan"), 0.0]),
        Slice([[2**31 - 2, 5]], [1e300], (2**31 - 1, 7)),
    ],
    ids=repr,
)
def test_an_archive_keeps_every_kind_of_slice(tmp_path, x):
    save_npz(tmp_path / "x.npz", x)
    y = load_npz(str(tmp_path / "x.npz"))
    assert y == x
    assert (y.array is None) == (x.array is None)


def test_an_archive_holds_no_pickle_and_takes_the_name_given(tmp_path):
    save_npz(tmp_path / "slice.dat", X)
    assert [p.name for p in tmp_path.iterdir()] == ["slice.dat"]
    with np.load(tmp_path / "slice.dat", allow_pickle=False) as archive:
        assert {"index", "value"} <= set(archive)
        assert not any(array.dtype.hasobject for array in archive.values())


@pytest.mark.parametrize(
    "changes",
    [
        {"shape": [1, 1]},
        {"shape": "large"},
        {"unlisted": "unknown"},
        {"time": {"date": "yesterday"}},
        {"time": {"clock": 1}},
    ],
    ids=str,
)
def test_an_archive_that_contradicts_itself_is_refused(tmp_path, changes):
    record = {"shape": X.shape, "unlisted": "zero", "time": None} | changes
    write_archive(tmp_path / "x.npz", "slice", {"index": X.index, "value": X.value}, record)
    with pytest.raises(StateError, match=r"save_npz, but .*x\.npz contradicts .*write it again"):
        load_npz(tmp_path / "x.npz")


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04", "npy", "npz", "pickle", None])
def test_other_files_are_refused_as_archives(tmp_path, content):
    path = tmp_path / "x.npz"
    if content == "npy":
        with path.open("wb") as file:
            np.save(file, np.eye(2))
    elif content == "npz":
        np.savez(path, a=np.eye(2))
    elif content == "pickle":
        np.savez(path, onlinegcp_meta=np.array([{"a": 1}], dtype=object))
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises(StateError, match=r"saved slice was needed.*x\.npz.*(copy|Check the path)"):
        load_npz(path)


def test_no_damage_to_an_archive_goes_unnoticed_or_unexplained(tmp_path):
    save_npz(tmp_path / "x.npz", X)
    whole = (tmp_path / "x.npz").read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.choice(len(whole), 150, replace=False):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(rng.integers(8))
        for data in (bytes(damaged), whole[:place]):
            path = written(tmp_path, data, "damaged.npz")
            # Either the byte said nothing about the slice, or the damage is found.
            with contextlib.suppress(StateError):
                assert load_npz(path) == X


@pytest.mark.parametrize("moment", [(1, 2), object(), b"bytes", [1], 1j])
def test_a_time_that_needs_a_pickle_is_refused(tmp_path, moment):
    with pytest.raises(DataError, match=r"time that is saved must be .* was found\. Change it"):
        save_npz(tmp_path / "x.npz", X.with_time(moment))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("write", [save_npz, write_tns])
def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path, monkeypatch, write):
    write(tmp_path / "x", X)
    before = (tmp_path / "x").read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(StateError, match="disk full"):
        write(tmp_path / "x", Slice.dense(np.eye(3)))
    assert (tmp_path / "x").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("read", [read_tns, load_npz, KTensor.load, OnlineGCP.load])
def test_a_file_that_is_not_there_is_one_error_everywhere(tmp_path, read):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "nothing.npz", tmp_path / "file" / "below"):
        with pytest.raises(MissingFileError, match="there is no such file") as found:
            read(path)
        assert isinstance(found.value, StateError)
        assert isinstance(found.value, FileNotFoundError)
        assert str(path) in str(found.value)
    with pytest.raises(StateError, match="could not be opened: Is a directory"):
        read(tmp_path)
