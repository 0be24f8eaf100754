"""Memory shared by processes: whose it is, when it is used again, and that none is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from onlinegcp.kernels.layout import LINE_BYTES, stack_factors
from onlinegcp.sums.segments import Parcel, Pool, Segment, Shelf, packed, reaches, room, unpacked

pytestmark = pytest.mark.skipif(
    not hasattr(os, "memfd_create"), reason="this system has no memory without a name"
)

MAKE = """
import pickle, sys, time
from onlinegcp.sums.segments import Segment
one = Segment(1 << 24)
one.data[:] = 7
print(*one.__reduce__()[1][:1], one.__reduce__()[1][1].hex(), flush=True)
time.sleep(60)
"""


@pytest.fixture
def other():
    """Another process that has made a segment, and where and what that is."""
    with subprocess.Popen(
        [sys.executable, "-c", MAKE], stdout=subprocess.PIPE, text=True
    ) as process:
        place, key = process.stdout.readline().split()
        yield process, place, bytes.fromhex(key)
        process.kill()


def how_it_lies(process):
    """Rights of the segments that a process has open."""
    files = [
        file.stat() for file in Path(f"/proc/{process}/fd").iterdir() if "memfd" in target(file)
    ]
    return {(file.st_mode & 0o777, file.st_uid) for file in files}


def target(file):
    try:
        return str(file.readlink())
    except OSError:
        return ""


def test_what_one_process_writes_another_reads_without_a_copy(other):
    process, place, key = other
    here, again = Segment.opened(place, key), Segment.opened(place, key)
    assert set(here.data.tolist()) == {7}
    here.data[5] = 8
    assert again.data[5] == 8
    assert how_it_lies(process.pid) == {(0o600, os.getuid())}


def test_of_a_killed_process_nothing_is_left(other):
    process, place, key = other
    assert reaches(place, key)
    here = Segment.opened(place, key)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert set(here.data[:100].tolist()) == {7}  # who has it open may go on
    assert not reaches(place, key)


def test_memory_of_others_is_neither_taken_nor_changed(tmp_path):
    one = Segment(10)
    place, key = one.__reduce__()[1]
    with pytest.raises(OSError, match="other shared memory than was meant"):
        Segment.opened(place, bytes(len(key)))
    file = tmp_path / "file"
    for content in (b"", b"short", b"long enough " * 10):
        file.write_bytes(content)
        assert not reaches(str(file), key)
        assert file.read_bytes() == content
    os.mkfifo(tmp_path / "pipe")
    assert not reaches(str(tmp_path / "pipe"), key)  # and does not wait for a writer
    assert not reaches(str(tmp_path / "nothing"), key)


def test_a_segment_is_freed_when_nobody_has_it():
    one = Segment(10)
    place, key = one.__reduce__()[1]
    assert reaches(place, key)
    del one
    assert not reaches(place, key)


def test_arrays_of_a_parcel_are_memory_of_the_segment_and_suit_kernels():
    rng = np.random.default_rng(0)
    blocks = stack_factors([rng.random((5, 3)), rng.random((7, 3))])
    numbers = np.arange(13, dtype=np.int32)
    parcel = packed([blocks, numbers, "word"], Pool())
    segment = Segment.opened(*parcel.lease.segment.__reduce__()[1])
    sent = Parcel(*parcel.__reduce__()[1])  # as it arrives: without the driver's segment
    found, same, word = unpacked(lambda given: given, {0: segment}, sent)
    assert found.data.tobytes() == blocks.data.tobytes()
    assert found.rank == 3
    assert same.tobytes() == numbers.tobytes()
    assert word == "word"
    for array in (found.data, same):
        assert np.shares_memory(array, segment.data)
        assert array.ctypes.data % LINE_BYTES == 0
        assert array.flags.writeable  # kernels are compiled for such arrays


def test_what_is_written_to_a_room_is_there_for_who_gave_it():
    parcel = room(8 * 10, Pool())
    there = parcel.opened(Segment.opened(*parcel.lease.segment.__reduce__()[1]))
    shelf = Shelf(there)
    kept = [shelf.put(np.full((2, 3), 1.5)), shelf.put(np.arange(4.0))]
    kept[0] += 1.0
    expected = [2.5] * 6 + [0.0, 1.0, 2.0, 3.0]
    assert parcel.lease.segment.data[:80].view(np.float64).tolist() == expected


def test_segments_are_used_again_once_they_are_let_go_of():
    pool = Pool()
    first, second = pool.lease(1 << 21), pool.lease(100)
    segments = {first.segment, second.segment}
    del first, second
    third, fourth = pool.lease(50), pool.lease(1 << 21)
    assert {third.segment, fourth.segment} == segments
    assert len(third.segment.data) < 1 << 21  # the short one, so that the other fits as well
    held = fourth.segment
    del fourth
    assert pool.lease(1 << 20).segment is held


def test_slices_that_get_longer_leave_no_segments_behind():
    pool, seen = Pool(), []
    for size in range(1, 6):
        leases = [pool.lease(size << 20), pool.lease(100)]
        seen += [lease.segment.__reduce__()[1] for lease in leases]
        del leases
    assert sum(reaches(*one) for one in set(seen)) == 2
