"""Pieces of work on the workers of a Dask cluster.

Chunks of cells, and the rows of the factors that these meet, are sent to workers, which give back
sums; the driver adds them up as threads would have been made to, so that the bits are the same.
Tasks are pure functions and the driver keeps all they were made from: when a worker dies and takes
what it held with it, the verb is simply said again. Work on rows, and slices of one chunk, stay
with the driver.
"""

# distributed has types here and there, not for what is called here.
# mypy: disable-error-code="no-untyped-call,attr-defined"

from __future__ import annotations

import os
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from onlinegcp.errors import BackendError
from onlinegcp.sums.asked import Asked, Place, other_number
from onlinegcp.sums.chunks import Chunks, RowChunks, add_tree
from onlinegcp.sums.connecting import (
    ATTEMPTS,
    addresses,
    advice,
    answering,
    await_worker,
    connected,
    losses,
    some_workers,
    threads_of,
)
from onlinegcp.sums.fingerprint import fingerprint
from onlinegcp.sums.local import Local, Steps, cores, engine, jobs
from onlinegcp.sums.prefixes import first_sums
from onlinegcp.sums.relays import Relay, by_path, handed_on, relays
from onlinegcp.sums.segments import Parcel, Segment, reaches, trial_segment, unpacked
from onlinegcp.sums.shares import HasRows, Run, Share, deal, share
from onlinegcp.sums.ways import Line, Sent, Shared, Wanted, Way

Array = NDArray[Any]

LARGE = 1 << 16  # bytes: what is longer is sent once and then called by its name
KEPT = 16  # things that workers keep, and of the largest of them
KEPT_LARGE = 3  # no more than this times: factors before and after, and what goes with them
LEAST_ADDED = 1 << 16  # numbers of row sums that are worth a piece
LOOK_AFTER = 5.0  # seconds of waiting after which to see who is still there
_NUMBERS = count(1)
Given = TypeVar("Given")
Found = TypeVar("Found")


@dataclass(frozen=True)
class _Dealt:
    """Pieces of a slice as they lie on the workers.

    Attributes
    ----------
    gone
        Is called when the slice is.
    number
        No other has it.
    shares, groups, workers, ways, pieces
        For each share: what is in it, the numbers of its pieces, whose it is, the way to that
        worker, and the name of its pieces there.
    by_rows
        Whether factors are sent share by share, only the rows that it meets.
    hands_on
        Whether row sums go from worker to worker: where none of them shares memory with the
        driver, and all number the rows alike.
    """

    gone: Any
    number: int
    shares: list[Share]
    groups: list[list[int]]
    workers: list[str]
    ways: list[Way]
    pieces: list[Any]
    by_rows: bool
    hands_on: bool


class Cluster(Local):
    """Does pieces on the workers of a cluster; what is on rows, on threads of this process.

    Parameters
    ----------
    client
        A `distributed.Client`, or an address: ``tcp://scheduler:8786``, or ``local:4`` for four
        processes on this machine.
    threads
        Threads of this process; None for every core.
    facts
        What bits depend on besides data, by name: it must be the same on every worker.
    prepare
        Done once in the process of every worker, so that it is.
    """

    def __init__(
        self,
        client: Any,
        threads: int | None,
        facts: Callable[[], dict[str, str]],
        prepare: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(cores() if threads is None else threads)
        self.client = connected(client)
        self._sent: OrderedDict[bytes, tuple[Any, int]] = OrderedDict()  # name, and bytes
        self._cells: dict[tuple[int, int], _Dealt] = {}
        self._known: set[str] = set()
        self._facts, self._prepare = facts, prepare
        self._sends, self._shares = Sent(self.client), Shared()
        self._trial = trial_segment()
        self._ways: dict[str, Way] = {}

    def ready(self) -> None:
        """Refuse workers that would give other bits, before anything is learned."""
        workers = some_workers(self.client)
        with answering(self.client):
            self._meet(workers)

    def _meet(self, workers: list[str]) -> None:
        """Compare and prepare workers, if some of them are new."""
        if set(workers) <= self._known:
            return
        ours = self._facts()
        for address, theirs in self.client.run(self._facts).items():
            for name, value in ours.items():
                if theirs.get(name) != value:
                    raise BackendError(
                        f"All machines need the same {name}, or results would differ by who did a "
                        f"piece, but worker {address} has {theirs.get(name)!r} and this process "
                        f"{value!r}. {advice(name)}"
                    )
        if self._prepare is not None:
            self.client.run(_prepared, self._prepare, os.getpid())
        self._known = set(workers)

    def beside(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        """What independent calls give, one after the other: each has the whole cluster."""
        return [call() for call in calls]

    def cells(
        self, function: Callable[..., tuple[Array, ...]], chunks: Chunks, small: tuple[Any, ...]
    ) -> Steps[list[list[Any]]]:
        """What `function` gives for runs of chunks, added up within each: lists to be added up."""
        yield from ()  # nothing is left to this process
        runs = list(pairwise(self._runs(chunks.count)))

        def ask() -> tuple[_Dealt, list[Any], Any]:
            dealt = self._dealt(chunks, runs)
            given = self._given(dealt, small)
            futures = [
                self._submit(_fold, function, pieces, *values, worker=worker)
                for pieces, values, worker in zip(dealt.pieces, given, dealt.workers, strict=True)
            ]
            return dealt, futures, given  # what is given stays until they are done

        def take(asked: tuple[_Dealt, list[Any], Any]) -> list[Any]:
            dealt, futures, _ = asked
            self._wait(futures, dealt)
            found: list[Any] = [None] * len(runs)
            for group, parts in zip(dealt.groups, self.client.gather(futures), strict=True):
                for run, part in zip(group, parts, strict=True):
                    found[run] = part
            return found

        return [list(parts) for parts in zip(*self._until_done(ask, take), strict=True)]

    def spread(
        self,
        function: Callable[..., tuple[Array, ...]],
        chunks: RowChunks,
        modes: range,
        offsets: NDArray[np.int64],
        small: tuple[Any, ...],
        out: Array,
        *,
        fresh: bool,
    ) -> Steps[list[tuple[Array, ...]]]:
        """Add the row sums of every chunk to `out`, in the order of chunks; give their rest."""
        yield from ()  # nothing is left to this process
        singles = [(c, c + 1) for c in range(chunks.count)]
        wanted = out[offsets[modes[0]] : offsets[modes[-1] + 1]]
        before = 0.0 if fresh else wanted.copy()
        found: list[Any] = [None] * chunks.count

        def ask() -> tuple[_Dealt, list[Asked], list[tuple[Any, list[Relay]]]]:
            dealt = self._dealt(chunks, singles)
            owners = [0] * chunks.count
            for number, own in enumerate(dealt.groups):
                for chunk in own:
                    owners[chunk] = number
            # What is added to something else comes first nowhere.
            sums = first_sums(chunks, modes, owners) if fresh else [[-1] * len(modes)] * len(owners)
            passed = relays(chunks, modes, owners) if fresh and dealt.hands_on else []
            elsewhere = {(c, one.mode) for one in passed for _, own in one.legs for c in own}
            given = self._given(dealt, small)
            rest = elsewhere, function, modes, offsets, out.shape[1]
            asked = [
                self._asked(dealt, number, chunks, [sums[c] for c in own], values, *rest)
                for number, (own, values) in enumerate(zip(dealt.groups, given, strict=True))
            ]
            return (
                dealt,
                asked,
                [self._relay(some, dealt, asked, modes) for some in by_path(passed)],
            )

        def take(given: tuple[_Dealt, list[Asked], list[tuple[Any, list[Relay]]]]) -> None:
            dealt, asked, passed = given
            wanted[...] = before

            def wait(future: Any) -> None:
                self._wait([future], dealt)

            for one in asked:
                first, rests = one.answer.take_first(wait)
                self._add(list(zip(first, one.firsts, strict=True)), out)
                for c, rest in zip(one.chunks, rests, strict=True):
                    found[c] = rest
            for future, way in passed:
                wait(future)
                places = [(int(offsets[relay.mode]), range(*relay.rows)) for relay in way]
                self._add(list(zip(future.result(), places, strict=True)), out)
            for line in range(0, chunks.count, chunks.columns):
                others = [other for one in asked for other in one.take_others(line, wait)]
                for _, some in sorted(others, key=lambda other: other[0]):
                    self._add(some, out)

        self._until_done(ask, take)
        return found

    def _asked(
        self,
        dealt: _Dealt,
        number: int,
        chunks: RowChunks,
        sums: list[list[int]],
        small: list[Any],
        elsewhere: set[tuple[int, int]],
        function: Callable[..., tuple[Array, ...]],
        modes: range,
        offsets: NDArray[np.int64],
        width: int,
    ) -> Asked:
        """Ask for the row sums of a share, but for those of chunks and modes that go elsewhere."""
        own, share = dealt.groups[number], dealt.shares[number]
        firsts, alone = dict[int, Place](), [list[Place]() for _ in own]
        lines: dict[int, Line] = {}
        for place, (chunk, numbers) in enumerate(zip(own, sums, strict=True)):
            for mode, which in zip(modes, numbers, strict=True):
                if (chunk, mode) in elsewhere:
                    continue
                at = int(offsets[mode]), share.met(place, mode)
                if which >= 0:
                    firsts.setdefault(which, at)
                    continue
                alone[place].append(at)
                line = lines.setdefault(chunk - chunk % chunks.columns, {})
                line.setdefault(place, []).append(other_number(numbers, mode - modes.start))
        rows = sum(len(met) for _, met in [*firsts.values(), *(at for one in alone for at in one)])
        wanted = Wanted(sorted(firsts), list(lines.values()), rows * width)
        given = function, dealt.pieces[number], sums, modes, width, *small
        answer = dealt.ways[number].ask(self._submit, dealt.workers[number], wanted, *given)
        return Asked(answer, own, [firsts[n] for n in sorted(firsts)], lines, alone, sums)

    def _relay(
        self, some: list[Relay], dealt: _Dealt, asked: list[Asked], modes: range
    ) -> tuple[Any, list[Relay]]:
        """Have the sums of relays that go the same way handed on; where they will be whole."""
        future: Any = None
        for leg, owner in enumerate(some[0].path):
            one = asked[owner]
            picks = [one.pick(relay.legs[leg][1], relay.mode - modes.start) for relay in some]
            arguments = one.answer.done, picks, future
            future = self._submit(handed_on, *arguments, worker=dealt.workers[owner])
        return future, some

    def _add(self, sums: list[tuple[Array, Place]], out: Array) -> None:
        """Add sums to the rows they belong to, no two of them to the same."""
        step = max(1, LEAST_ADDED // max(1, out.shape[1]))
        pieces = [
            (part, begin, rows, cut)
            for part, (begin, rows) in sums
            for cut in range(0, len(rows), step)
        ]

        def work(piece: int) -> None:
            part, begin, rows, cut = pieces[piece]
            rows, part = rows[cut : cut + step], part[cut : cut + step]
            if isinstance(rows, range):
                out[begin + rows.start : begin + rows.stop] += part
            else:
                out[begin + rows] += part

        self.run(work, len(pieces))

    def _until_done(self, ask: Callable[[], Given], take: Callable[[Given], Found]) -> Found:
        lost: BaseException | None = None
        for _ in range(ATTEMPTS):
            try:
                if lost is not None:
                    self._meet(self._addresses())  # one that came instead
                return take(ask())
            except losses(OSError) as error:
                # Whatever the dead worker held is gone: send it again, to those that live.
                lost = error
                self._forget()
                await_worker(self.client)
            except BaseException:
                self._forget()
                raise
        raise BackendError(
            f"A piece of work needs a worker that lives to its end, but {ATTEMPTS} times one was "
            f"lost ({lost}). Look for workers that run out of memory, and start larger ones."
        ) from lost

    def _forget(self) -> None:
        """Know nothing of what workers have: tasks under way may use it for who knows how long."""
        self._sent.clear()
        self._cells.clear()
        self._shares = Shared()
        self._ways.clear()

    def _submit(self, task: Callable[..., Any], *arguments: Any, worker: str | None = None) -> Any:
        segments = {
            place: self._held(given.lease.segment, worker)
            for place, given in enumerate(arguments)
            if isinstance(given, Parcel) and given.lease is not None and worker is not None
        }
        if segments:
            task, arguments = unpacked, (task, segments, *arguments)
        where = None if worker is None else [worker]
        return self.client.submit(_on_threads, task, *arguments, pure=False, workers=where)

    def _held(self, segment: Segment, worker: str) -> Any:
        """The name of a segment on a worker, which has it open as long as this name is known."""
        if worker not in segment.holders:
            held = self.client.scatter(segment, workers=[worker], hash=False)
            segment.holders[worker] = held
        return segment.holders[worker]

    def _wait(self, futures: list[Any], dealt: _Dealt) -> None:
        """Wait until tasks are done, or whoever was to do them is gone."""
        from distributed import wait

        while True:
            try:
                wait(futures, timeout=LOOK_AFTER)
                return
            except TimeoutError:
                if not set(dealt.workers) <= set(self._addresses()):
                    raise

    def _way(self, worker: str) -> Way:
        """The way to a worker: shared memory, if it is seen to work."""
        if worker not in self._ways:
            near = (
                self._trial is not None
                and self.client.run(reaches, *self._trial.__reduce__()[1], workers=[worker])[worker]
            )
            self._ways[worker] = self._shares if near else self._sends
        return self._ways[worker]

    def _dealt(self, chunks: Chunks, runs: list[Run]) -> _Dealt:
        """Runs of chunks on the workers, sent when they are first asked for."""
        key = (id(chunks), len(runs))
        if key not in self._cells:
            workers, known = self._addresses(), self._cells
            if not workers:
                raise TimeoutError("no worker is left")
            groups = deal(chunks, runs, len(workers))
            shares = [share(chunks, [runs[run] for run in group]) for group in groups]
            workers = workers[: len(groups)]
            ways = [self._way(worker) for worker in workers]
            pieces = [
                way.send(list(one.pieces), worker)
                for way, one, worker in zip(ways, shares, workers, strict=True)
            ]
            listed = shares[0].rows is not None
            renumbered = any(one.renumbered for one in shares)
            by_rows = listed and (self._sends in ways or renumbered)
            hands_on = self._shares not in ways and not renumbered
            # When a slice is learned its cells go, and others may get their number.
            gone = weakref.ref(chunks, lambda _: known.pop(key, None))
            number = next(_NUMBERS)
            rest = shares, groups, workers, ways, pieces, by_rows, hands_on
            known[key] = _Dealt(gone, number, *rest)
        return self._cells[key]

    def _given(self, dealt: _Dealt, small: tuple[Any, ...]) -> list[list[Any]]:
        """For every share, the values that go with it."""
        sent = [self._send(value, dealt) for value in small]
        return [[value[number] for value in sent] for number in range(len(dealt.shares))]

    def _send(self, value: Any, dealt: _Dealt) -> list[Any]:
        """The value itself for every share if it is short, else the name of what a share needs."""
        arrays, shares = _arrays_of(value), dealt.shares
        if sum(array.nbytes for array in arrays) < LARGE:
            return [value] * len(shares)
        by_rows, parts = isinstance(value, HasRows) and dealt.by_rows, list[Any]()
        if by_rows and 2 * sum(one.n_rows for one in shares) < len(value.data):
            # Looking at what the shares need is less work than looking at all rows.
            parts = [one.of(value) for one in shares]
            arrays = [part.data for part in parts]
        name = b"".join([type(value).__name__.encode(), *map(fingerprint, arrays)])
        if by_rows:
            own = b"%d" % dealt.number + name
            found: list[Any] = self._kept(own, lambda: self._sent_anew(value, parts, dealt))
            return found
        size = sum(array.nbytes for array in arrays)

        def send(way: Way) -> tuple[Any, int]:
            return way.send(value, None), size

        return [self._kept(way.name + name, partial(send, way)) for way in dealt.ways]

    def _kept(self, name: bytes, send: Callable[[], tuple[Any, int]]) -> Any:
        """What was sent under a name; when first asked for, after it was sent."""
        if name not in self._sent:
            sizes = [size for _, size in self._sent.values()]
            while len(sizes) >= KEPT or sum(sizes) > (KEPT_LARGE - 1) * max(sizes, default=0):
                self._sent.popitem(last=False)  # tasks under way keep what they need
                sizes.pop(0)
            self._sent[name] = send()
        self._sent.move_to_end(name)
        return self._sent[name][0]

    def _sent_anew(self, value: HasRows, parts: list[Any], dealt: _Dealt) -> tuple[list[Any], int]:
        """What every share is given, and the most bytes it takes a worker."""
        found, most = [], 0
        for number, one in enumerate(dealt.shares):
            part = parts[number] if parts else one.of(value)
            found.append(dealt.ways[number].send(part, dealt.workers[number]))
            most = max(most, part.data.nbytes)
        return found, most

    def _runs(self, count: int) -> list[int]:
        """Whole subtrees of chunks, at least two for each thread of a worker."""
        pieces, wanted = 1, 2 * threads_of(self.client)
        if count & (count - 1) == 0:  # only then does every worker have whole subtrees
            while pieces < wanted and pieces < count:
                pieces *= 2
        return [count * piece // pieces for piece in range(pieces + 1)]

    def _addresses(self) -> list[str]:
        return addresses(self.client)


def _prepared(prepare: Callable[[], None], driver: int) -> None:
    """Prepare the process of a worker; that of the driver takes care of itself."""
    if os.getpid() != driver:
        prepare()


def _on_threads(task: Callable[..., Any], *arguments: Any) -> Any:
    """Do a task with all threads that its worker was given."""
    from distributed import get_worker

    with jobs(get_worker().state.nthreads):
        return task(*arguments)


def _fold(
    function: Callable[..., tuple[Array, ...]], parts: list[Chunks], *small: Any
) -> list[list[Array]]:
    found: list[Any] = [None] * len(parts)

    def work(piece: int) -> None:
        found[piece] = [add_tree(array) for array in function(parts[piece], *small)]

    engine().run(work, len(parts))
    return found


def _arrays_of(value: Any) -> list[Array]:
    """Arrays of a record, by which its contents are known; of an array, itself."""
    if isinstance(value, np.ndarray):
        return [value]
    fields = getattr(value, "__dataclass_fields__", ())
    parts = [getattr(value, name) for name in fields]
    return [part for part in parts if isinstance(part, np.ndarray)]
