"""Memory that processes of one user on one machine share, for large arrays: one copy in, none out.

A segment is a file without a name. Others open it through the list of open files of the process
that made it, which the system lets nobody but its user do. So no segment of anybody else's can be
met, none is left behind however a process ends (the system frees what nobody holds any more), and
no folder has to have room for it: containers give /dev/shm 64 MB.
"""

from __future__ import annotations

import mmap
import os
import pickle
import weakref
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_LINE = 64  # bytes: what lies on such a boundary suits every kernel
_SPARE = 8  # one part in so many: the next slice may be longer, and pages nobody uses cost nothing
_KEY = 16  # bytes by which a segment is known


class Segment:
    """Shared memory.

    Parameters
    ----------
    size
        Bytes wanted.

    Attributes
    ----------
    data
        The bytes; the first lies on a 64-byte boundary.
    holders
        For whoever made it: what keeps it open elsewhere, by where that is.
    """

    def __init__(self, size: int) -> None:
        size += size // _SPARE + _LINE
        file = os.memfd_create("onlinegcp", os.MFD_CLOEXEC)
        weakref.finalize(self, os.close, file)  # until then others find it
        os.fchmod(file, 0o600)
        os.ftruncate(file, size)
        self._place, self._key = f"/proc/{os.getpid()}/fd/{file}", os.urandom(_KEY)
        self._map(mmap.mmap(file, size))
        self._whole[:_KEY] = np.frombuffer(self._key, np.uint8)

    @classmethod
    def opened(cls, place: str, key: bytes) -> Self:
        """The segment of another process; an OSError if it is not there, or not that one."""
        # Whatever else may be at this place by now: neither wait for it nor change it.
        file = os.open(place, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            memory = mmap.mmap(file, 0)
        except ValueError as error:
            raise OSError(f"{place} is no shared memory ({error})") from error
        finally:
            os.close(file)
        if memory[:_KEY] != key:
            raise OSError(f"{place} is other shared memory than was meant")
        found = cls.__new__(cls)
        found._place, found._key = place, key
        found._map(memory)
        return found

    def _map(self, memory: mmap.mmap) -> None:
        self._whole = np.frombuffer(memory, np.uint8)
        self.data = self._whole[_LINE:]
        self.holders: dict[str, Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Segment.opened, (self._place, self._key)


def reaches(place: str, key: bytes) -> bool:
    """Whether this process can open a segment."""
    try:
        Segment.opened(place, key)
    except OSError:
        return False
    return True


def trial_segment() -> Segment | None:
    """A segment to try who can open it; None where the system has no such memory."""
    try:
        return Segment(0)
    except (AttributeError, OSError):
        return None


class Pool:
    """Segments that are used again: the system would fill fresh pages with zeros each time."""

    def __init__(self) -> None:
        self._free, self._lock = list[Segment](), Lock()

    def lease(self, size: int) -> Lease:
        """A segment of so many bytes at least, until what is given back is let go of."""
        with self._lock:
            fitting = [one for one in self._free if len(one.data) >= size]
            # Rather than keep what is too short for anything, grow.
            taken = min(fitting or self._free[-1:], key=lambda one: len(one.data), default=None)
            if taken is not None:
                self._free.remove(taken)
        return Lease(self, taken if fitting and taken is not None else Segment(size))

    def take_back(self, segment: Segment) -> None:
        """Have a segment again that nobody reads or writes any more."""
        with self._lock:
            self._free.append(segment)


class Lease:
    """A segment of a pool, which takes it back when this is gone."""

    def __init__(self, pool: Pool, segment: Segment) -> None:
        self.segment = segment
        weakref.finalize(self, pool.take_back, segment)


class Parcel:
    """An object whose arrays lie in a segment.

    Parameters
    ----------
    lease
        The segment.
    header
        The object without its arrays, pickled.
    places
        First byte of each array, and the one after its last.
    """

    def __init__(self, lease: Lease | None, header: bytes, places: Sequence[tuple[int, int]]):
        self.lease, self.header, self.places = lease, header, places

    def opened(self, segment: Segment) -> Any:
        """The object; its arrays are memory of the segment."""
        buffers = [segment.data[first:last] for first, last in self.places]
        return pickle.loads(self.header, buffers=buffers)

    def __reduce__(self) -> tuple[Any, ...]:
        return Parcel, (None, self.header, self.places)


def unpacked(task: Callable[..., Any], segments: dict[int, Segment], *arguments: Any) -> Any:
    """Do a task; some of what it is given lies in segments, by its place."""
    given = list(arguments)
    for place, segment in segments.items():
        given[place] = given[place].opened(segment)
    return task(*given)


def packed(value: Any, pool: Pool) -> Parcel:
    """Put an object into a segment."""
    found = list[pickle.PickleBuffer]()
    header = pickle.dumps(value, protocol=5, buffer_callback=found.append)
    arrays = [np.frombuffer(buffer.raw(), np.uint8) for buffer in found]
    places, end = [], 0
    for array in arrays:
        places.append((end, end + len(array)))
        end = -(-(end + len(array)) // _LINE) * _LINE
    lease = pool.lease(end)
    for array, (first, last) in zip(arrays, places, strict=True):
        lease.segment.data[first:last] = array
    return Parcel(lease, header, places)


def room(size: int, pool: Pool) -> Parcel:
    """So many bytes for somebody else to write to: an array of these, with whatever is in it."""
    lease = pool.lease(size)
    buffers = list[pickle.PickleBuffer]()
    header = pickle.dumps(lease.segment.data[:size], protocol=5, buffer_callback=buffers.append)
    return Parcel(lease, header, [(0, size)])


class Shelf:
    """Arrays of numbers, put one after the other into memory that was given.

    Parameters
    ----------
    data
        The bytes.
    """

    def __init__(self, data: Array) -> None:
        self._data, self._used, self._lock = data.view(np.float64), 0, Lock()

    def put(self, array: Array) -> Array:
        """A copy of the array; the next one lies behind it."""
        with self._lock:
            first = self._used
            self._used += array.size
        target = self._data[first : first + array.size].reshape(array.shape)
        target[...] = array
        return target
