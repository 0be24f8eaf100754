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

import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from onlinegcp.errors import BackendError
from onlinegcp.sums.chunks import Chunks, RowChunks, add_tree
from onlinegcp.sums.connecting import addresses, advice, connected, losses, some_workers
from onlinegcp.sums.fingerprint import fingerprint
from onlinegcp.sums.local import Local, Steps, cores
from onlinegcp.sums.prefixes import first_sums
from onlinegcp.sums.segments import Parcel, Segment, reaches, trial_segment, unpacked
from onlinegcp.sums.shares import HasRows, Rows, Run, Share, deal, share
from onlinegcp.sums.ways import Answer, Sent, Shared, Way

Array = NDArray[Any]

ATTEMPTS = 5  # how often a verb is said again after a worker was lost
LARGE = 1 << 16  # bytes: what is longer is sent once and then called by its name
KEPT = 16  # things that workers keep, and of the largest of them
KEPT_LARGE = 3  # no more than this times: factors before and after, and what goes with them
LEAST_ADDED = 1 << 16  # numbers of row sums that are worth a piece
LOOK_AFTER = 5.0  # seconds of waiting after which to see who is still there
_NOTHING = object()
_NUMBERS = count(1)
Given = TypeVar("Given")
Found = TypeVar("Found")
_Place = tuple[int, Rows]  # where a mode begins, and rows of it


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
    """

    gone: Any
    number: int
    shares: list[Share]
    groups: list[list[int]]
    workers: list[str]
    ways: list[Way]
    pieces: list[Any]
    by_rows: bool


@dataclass
class _Asked:
    """Row sums that a worker has been asked for.

    Attributes
    ----------
    answer
        Where they will be.
    chunks
        The chunks it has.
    firsts
        For each sum that is added up there, where it belongs.
    lines
        By the first chunk of a line of the grid, places of the chunks with other sums.
    alone
        Where the other sums of each chunk belong.
    """

    answer: Answer
    chunks: list[int]
    firsts: list[_Place]
    lines: dict[int, list[int]]
    alone: list[list[_Place]]

    def take_others(self, line: int) -> list[tuple[int, list[tuple[Array, _Place]]]]:
        """Other sums and where they belong, for the chunks of a line that have some."""
        places = self.lines.get(line)
        if not places:
            return []
        found = zip(places, self.answer.take_others(places), strict=True)
        return [(self.chunks[p], list(zip(sums, self.alone[p], strict=True))) for p, sums in found]


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
    """

    def __init__(
        self, client: Any, threads: int | None, facts: Callable[[], dict[str, str]]
    ) -> None:
        super().__init__(cores() if threads is None else threads)
        self.client = connected(client)
        self._sent: OrderedDict[bytes, tuple[Any, int]] = OrderedDict()  # name, and bytes
        self._cells: dict[tuple[int, int], _Dealt] = {}
        self._known: set[str] = set()
        self._facts = facts
        self._sends, self._shares = Sent(self.client), Shared()
        self._trial = trial_segment()
        self._ways: dict[str, Way] = {}

    def ready(self) -> None:
        """Refuse workers that would give other bits, before anything is learned."""
        workers = set(some_workers(self.client))
        if workers <= self._known:
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
        self._known = workers

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

        def ask() -> tuple[_Dealt, list[_Asked]]:
            dealt = self._dealt(chunks, singles)
            owners = [0] * chunks.count
            for number, own in enumerate(dealt.groups):
                for chunk in own:
                    owners[chunk] = number
            # What is added to something else comes first nowhere.
            sums = first_sums(chunks, modes, owners) if fresh else [[-1] * len(modes)] * len(owners)
            given = self._given(dealt, small)
            rest = function, modes, offsets, out.shape[1]
            return dealt, [
                self._asked(dealt, number, chunks, [sums[c] for c in own], values, *rest)
                for number, (own, values) in enumerate(zip(dealt.groups, given, strict=True))
            ]

        def take(given: tuple[_Dealt, list[_Asked]]) -> None:
            dealt, asked = given
            wanted[...] = before
            for one in asked:
                first, rests = one.answer.take_first(lambda future: self._wait([future], dealt))
                self._add(list(zip(first, one.firsts, strict=True)), out)
                for c, rest in zip(one.chunks, rests, strict=True):
                    found[c] = rest
            for line in range(0, chunks.count, chunks.columns):
                others = [other for one in asked for other in one.take_others(line)]
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
        function: Callable[..., tuple[Array, ...]],
        modes: range,
        offsets: NDArray[np.int64],
        width: int,
    ) -> _Asked:
        """Ask for the row sums of a share."""
        own, share = dealt.groups[number], dealt.shares[number]
        firsts, alone = dict[int, _Place](), [list[_Place]() for _ in own]
        lines: dict[int, list[int]] = {}
        for place, (chunk, numbers) in enumerate(zip(own, sums, strict=True)):
            for mode, which in zip(modes, numbers, strict=True):
                at = int(offsets[mode]), share.met(place, mode)
                if which < 0:
                    alone[place].append(at)
                else:
                    firsts.setdefault(which, at)
            if alone[place]:
                lines.setdefault(chunk - chunk % chunks.columns, []).append(place)
        rows = sum(len(met) for _, met in [*firsts.values(), *(at for one in alone for at in one)])
        given = function, dealt.pieces[number], sums, modes, width, *small
        answer = dealt.ways[number].ask(
            self._submit, dealt.workers[number], rows * width, list(lines.values()), *given
        )
        return _Asked(answer, own, [firsts[n] for n in range(len(firsts))], lines, alone)

    def _add(self, sums: list[tuple[Array, _Place]], out: Array) -> None:
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
                return take(ask())
            except losses() as error:
                # Whatever the dead worker held is gone: send it again, to those that live.
                lost = error
                self._forget()
                self.client.wait_for_workers(1, timeout=60)
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
        if not segments:
            return self.client.submit(task, *arguments, pure=False)
        return self.client.submit(
            unpacked, task, segments, *arguments, pure=False, workers=[worker]
        )

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
            by_rows = listed and (self._sends in ways or any(one.renumbered for one in shares))
            # When a slice is learned its cells go, and others may get their number.
            gone = weakref.ref(chunks, lambda _: known.pop(key, None))
            number = next(_NUMBERS)
            known[key] = _Dealt(gone, number, shares, groups, workers, ways, pieces, by_rows)
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
        """Whole subtrees of chunks, at least two for each worker."""
        pieces, wanted = 1, 2 * len(self._addresses())
        if count & (count - 1) == 0:  # only then does every worker have whole subtrees
            while pieces < wanted and pieces < count:
                pieces *= 2
        return [count * piece // pieces for piece in range(pieces + 1)]

    def _addresses(self) -> list[str]:
        return addresses(self.client)


class Crowd:
    """The workers of a cluster, each doing one of many tasks that need nothing of each other.

    Parameters
    ----------
    client
        As for `Cluster`.
    """

    def __init__(self, client: Any) -> None:
        self.client = connected(client)

    def each(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """What a function gives, in the order of the items; None where it fails.

        A few more tasks than there are workers are under way, so that memory is bounded. A task
        whose worker is lost is given to another.
        """
        rest, waiting = iter(items), deque[tuple[Any, Any]]()
        ahead = 2 * len(some_workers(self.client))
        try:
            while True:
                while len(waiting) < ahead and (item := next(rest, _NOTHING)) is not _NOTHING:
                    waiting.append((item, self._submit(function, item)))
                if not waiting:
                    return
                yield self._result(function, *waiting.popleft())
        finally:
            for _, future in waiting:
                future.release()

    def _submit(self, function: Callable[[Any], Any], item: Any) -> Any:
        return self.client.submit(function, item, pure=False)

    def _result(self, function: Callable[[Any], Any], item: Any, future: Any) -> Any:
        for _ in range(ATTEMPTS):
            try:
                return future.result()
            except losses():
                self.client.wait_for_workers(1, timeout=60)
                future = self._submit(function, item)
            except Exception:  # whoever asked does it without help, and sees what is wrong
                return None
        return None


def _fold(
    function: Callable[..., tuple[Array, ...]], parts: list[Chunks], *small: Any
) -> list[list[Array]]:
    return [[add_tree(array) for array in function(part, *small)] for part in parts]


def _arrays_of(value: Any) -> list[Array]:
    """Arrays of a record, by which its contents are known; of an array, itself."""
    if isinstance(value, np.ndarray):
        return [value]
    fields = getattr(value, "__dataclass_fields__", ())
    parts = [getattr(value, name) for name in fields]
    return [part for part in parts if isinstance(part, np.ndarray)]
