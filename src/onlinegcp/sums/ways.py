"""How large things get to the workers of a cluster, and row sums back: two ways, one protocol.

A worker that can open a segment of the driver shares memory with it, others are sent everything.
Which holds is tried, not told by the names of machines: a container may be shut off from its host.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from onlinegcp.sums.prefixes import ShareSums, sums_of_share
from onlinegcp.sums.segments import Parcel, Pool, Shelf, packed, room

Array = NDArray[Any]
# Lets a worker do a task, at its address or, for none, where its arguments are.
Submit = Callable[..., Any]
Place = tuple[int, tuple[int, ...]]  # first byte of an array in a room, and its shape


Wait = Callable[[Any], None]
Line = dict[int, list[int]]  # by the place of a chunk, which of its other sums are wanted


@dataclass(frozen=True)
class Wanted:
    """Row sums of a share that come to the driver; the others are handed on between workers.

    Attributes
    ----------
    first
        Numbers of those that the worker adds up.
    lines
        Of the others those that will be taken together.
    numbers
        How many numbers there are in all of them.
    """

    first: list[int]
    lines: list[Line]
    numbers: int


class Answer(Protocol):
    """Row sums that a worker has been asked for."""

    done: Any  # the name of all of them, where they were made

    def take_first(self, wait: Wait) -> tuple[list[Array], list[tuple[Array, ...]]]:
        """Sums that were added up, and what else the chunks gave, once these are there."""

    def take_others(self, line: Line, wait: Wait) -> list[list[Array]]:
        """Sums that could not be added up, for the chunks of a line, which is asked for once."""


class Way(Protocol):
    """How large things get to a worker, and row sums back."""

    name: bytes

    def send(self, value: Any, worker: str | None) -> Any:
        """What stands for a value in tasks of a worker; for None, of any this is the way to."""

    def ask(self, submit: Submit, worker: str, wanted: Wanted, *given: Any) -> Answer:
        """Ask for row sums.

        Parameters
        ----------
        submit
            Gives a task to a worker.
        worker
            Its address.
        wanted
            What will be taken.
        *given
            What `sums_of_share` is called with.
        """


class Sent:
    """Everything is sent, and row sums come line by line of a grid, which bounds what waits."""

    name = b"sent"

    def __init__(self, client: Any) -> None:
        self._client = client

    def send(self, value: Any, worker: str | None) -> Any:
        if worker is None:
            return self._client.scatter(value, hash=False, broadcast=True)
        return self._client.scatter(value, workers=[worker], hash=False)

    def ask(self, submit: Submit, worker: str, wanted: Wanted, *given: Any) -> Answer:
        return _SentSums(partial(submit, worker=worker), wanted, given)


class _SentSums:
    def __init__(self, submit: Submit, wanted: Wanted, given: Sequence[Any]) -> None:
        self.done = submit(sums_of_share, *given)
        self._first = submit(_first_of, self.done, wanted.first)
        self._others = {min(line): submit(_others_of, self.done, line) for line in wanted.lines}

    def take_first(self, wait: Wait) -> tuple[list[Array], list[tuple[Array, ...]]]:
        wait(self._first)
        found: tuple[list[Array], list[tuple[Array, ...]]] = self._first.result()
        return found

    def take_others(self, line: Line, wait: Wait) -> list[list[Array]]:
        future = self._others.pop(min(line))
        wait(future)
        found: list[list[Array]] = future.result()
        future.release()
        return found


class Shared:
    """Memory is shared: a worker reads what the driver has put there, and writes to what it gave.

    All segments are the driver's. Those that are let go of are used again: the driver lets go of
    none that a task may still use, and of this whole way when it cannot know.
    """

    name = b"shared"

    def __init__(self) -> None:
        # Of each worker its own: what it has looked at counts as its memory, and stays.
        self._pools, self._rooms = _pools(), _pools()

    def send(self, value: Any, worker: str | None) -> Any:
        return packed(value, self._pools[worker])

    def ask(self, submit: Submit, worker: str, wanted: Wanted, *given: Any) -> Answer:
        target = room(8 * wanted.numbers, self._rooms[worker])
        return _SharedSums(target, submit(sums_in_room, target, *given, worker=worker), given)


def _pools() -> dict[str | None, Pool]:
    return defaultdict(Pool)


class _SharedSums:
    def __init__(self, target: Parcel, done: Any, given: Sequence[Any]) -> None:
        self._target, self.done = target, done
        self._given = given  # their memory is in use until the task is done
        self._others = list[list[Place]]()

    def take_first(self, wait: Wait) -> tuple[list[Array], list[tuple[Array, ...]]]:
        wait(self.done)
        first, self._others, rests = self.done.result()
        return [self._array(place) for place in first], rests

    def take_others(self, line: Line, wait: Wait) -> list[list[Array]]:
        return [[self._array(self._others[p][n]) for n in which] for p, which in line.items()]

    def _array(self, place: Place) -> Array:
        assert self._target.lease is not None
        first, shape = place
        last = first + 8 * int(np.prod(shape))
        return self._target.lease.segment.data[first:last].view(np.float64).reshape(shape)


def _first_of(share: ShareSums, wanted: list[int]) -> tuple[list[Array], list[tuple[Array, ...]]]:
    return [share.first[number] for number in wanted], share.rests


def _others_of(share: ShareSums, line: Line) -> list[list[Array]]:
    return [[share.others[place][number] for number in which] for place, which in line.items()]


def sums_in_room(
    data: Array, *given: Any
) -> tuple[list[Place], list[list[Place]], list[tuple[Array, ...]]]:
    """What `sums_of_share` gives, with places in memory that was given instead of arrays."""
    begin = data.ctypes.data

    def place(array: Array) -> Place:
        return array.ctypes.data - begin, array.shape

    found = sums_of_share(*given, keep=Shelf(data).put)
    others = [[place(array) for array in arrays] for arrays in found.others]
    return [place(array) for array in found.first], others, found.rests
