"""Pieces of work on the workers of a Dask cluster: the only file that knows Dask.

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
from concurrent.futures import CancelledError
from dataclasses import dataclass
from itertools import count, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.errors import BackendError
from onlinegcp.sums.chunks import Chunks, RowChunks, add_tree
from onlinegcp.sums.fingerprint import fingerprint
from onlinegcp.sums.local import LEAST_ADDED, Local, Steps, cores
from onlinegcp.sums.prefixes import ShareSums, first_sums, sums_of_share
from onlinegcp.sums.shares import HasRows, Rows, Run, Share, deal, share

Array = NDArray[Any]

ATTEMPTS = 5  # how often a verb is said again after a worker was lost
LARGE = 1 << 16  # bytes: what is longer is sent once and then called by its name
KEPT = 16  # things that workers keep, and of the largest of them
KEPT_LARGE = 3  # no more than this times: factors before and after, and what goes with them
PATIENCE = "20s"  # for the scheduler to answer
_CLIENTS: dict[str, Any] = {}  # by address
_NOTHING = object()
_NUMBERS = count(1)
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
    shares, workers
        What each of the first workers has, and the addresses of all.
    pieces, places
        For each piece its name on its worker, and the share and the place in it.
    """

    gone: Any
    number: int
    shares: list[Share]
    workers: list[str]
    pieces: list[Any]
    places: list[tuple[int, int]]

    def met(self, piece: int, mode: int) -> Rows:
        """The rows of a mode for which a piece has sums."""
        number, place = self.places[piece]
        return self.shares[number].met(place, mode)


class _Asked:
    """Row sums that a worker has been asked for, and is asked to send line by line of a grid.

    Parameters
    ----------
    submit
        Asks the cluster.
    done
        The sums of the share.
    chunks, sums
        The chunks it has, and what `first_sums` says of them.
    columns
        Chunks of a line.
    """

    def __init__(
        self,
        submit: Callable[..., Any],
        done: Any,
        chunks: list[int],
        sums: list[list[int]],
        columns: int,
    ) -> None:
        self.chunks = chunks
        self.firsts: dict[int, tuple[int, int]] = {}  # chunk and mode of each sum
        self._alone: dict[int, list[int]] = {}  # modes of each chunk
        lines: dict[int, list[int]] = {}
        for place, (chunk, numbers) in enumerate(zip(chunks, sums, strict=True)):
            for mode, number in enumerate(numbers):
                if number >= 0:
                    self.firsts.setdefault(number, (chunk, mode))
                else:
                    self._alone.setdefault(chunk, []).append(mode)
            if chunk in self._alone:
                lines.setdefault(chunk - chunk % columns, []).append(place)
        self._first = submit(_first_of, done)
        self._lines = {
            line: (submit(_others_of, done, places), places) for line, places in lines.items()
        }

    def take_first(self) -> tuple[list[Array], list[tuple[Array, ...]]]:
        """Sums that were added up, and what else the chunks gave."""
        found: tuple[list[Array], list[tuple[Array, ...]]] = self._first.result()
        return found

    def take_others(self, line: int) -> list[tuple[int, dict[int, Array]]]:
        """Other sums by mode, for the chunks of a line that have some."""
        if line not in self._lines:
            return []
        future, places = self._lines.pop(line)
        chunks = [self.chunks[place] for place in places]
        found = [
            (chunk, dict(zip(self._alone[chunk], sums, strict=True)))
            for chunk, sums in zip(chunks, future.result(), strict=True)
        ]
        future.release()
        return found


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
        self._sent: OrderedDict[bytes, tuple[list[Any], int]] = OrderedDict()  # name, and bytes
        self._cells: dict[tuple[int, int], _Dealt] = {}
        self._known: set[str] = set()
        self._facts = facts

    def ready(self) -> None:
        """Refuse workers that would give other bits, before anything is learned."""
        workers = set(_some_workers(self.client))
        if workers <= self._known:
            return
        ours = self._facts()
        for address, theirs in self.client.run(self._facts).items():
            for name, value in ours.items():
                if theirs.get(name) != value:
                    raise BackendError(
                        f"All machines need the same {name}, or results would differ by who did a "
                        f"piece, but worker {address} has {theirs.get(name)!r} and this process "
                        f"{value!r}. {_advice(name)}"
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

        def ask() -> list[Any]:
            dealt = self._dealt(chunks, runs)
            given = self._given(dealt, small)
            return [
                self._submit(_fold, function, dealt.pieces[run], *given[run])
                for run in range(len(runs))
            ]

        found = self._until_done(ask, lambda futures: self.client.gather(futures))
        return [list(parts) for parts in zip(*found, strict=True)]

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

        def ask() -> list[_Asked]:
            dealt = self._dealt(chunks, singles)
            owners = [number for number, _ in dealt.places]
            # What is added to something else comes first nowhere.
            sums = first_sums(chunks, modes, owners) if fresh else [[-1] * len(modes)] * len(owners)
            given, asked = self._given(dealt, small), []
            for number in range(len(dealt.shares)):
                own = [c for c, owner in enumerate(owners) if owner == number]
                pieces, numbers = [dealt.pieces[c] for c in own], [sums[c] for c in own]
                more = (modes, out.shape[1], *given[own[0]])
                done = self._submit(sums_of_share, function, pieces, numbers, *more)
                asked.append(_Asked(self._submit, done, own, numbers, chunks.columns))
            return asked

        def take(asked: list[_Asked]) -> None:
            dealt = self._dealt(chunks, singles)

            def place(chunk: int, mode: int) -> _Place:
                return int(offsets[modes[mode]]), dealt.met(chunk, modes[mode])

            wanted[...] = before
            for one in asked:
                first, rests = one.take_first()
                self._add([(first[n], place(*at)) for n, at in one.firsts.items()], out)
                for c, rest in zip(one.chunks, rests, strict=True):
                    found[c] = rest
            for line in range(0, chunks.count, chunks.columns):
                others = [other for one in asked for other in one.take_others(line)]
                for chunk, some in sorted(others, key=lambda other: other[0]):
                    self._add([(part, place(chunk, mode)) for mode, part in some.items()], out)

        self._until_done(ask, take)
        return found

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

    def _until_done(self, ask: Callable[[], list[Any]], take: Callable[[list[Any]], Any]) -> Any:
        lost: BaseException | None = None
        for _ in range(ATTEMPTS):
            try:
                return take(ask())
            except _lost() as error:
                # Whatever the dead worker held is gone: send it again, to those that live.
                lost = error
                self._sent.clear()
                self._cells.clear()
                self.client.wait_for_workers(1, timeout=60)
        raise BackendError(
            f"A piece of work needs a worker that lives to its end, but {ATTEMPTS} times one was "
            f"lost ({lost}). Look for workers that run out of memory, and start larger ones."
        ) from lost

    def _submit(self, task: Callable[..., Any], *arguments: Any) -> Any:
        return self.client.submit(task, *arguments, pure=False)

    def _dealt(self, chunks: Chunks, runs: list[Run]) -> _Dealt:
        """Runs of chunks on the workers, sent when they are first asked for."""
        key = (id(chunks), len(runs))
        if key not in self._cells:
            workers, known = self._addresses(), self._cells
            if not workers:
                raise TimeoutError("no worker is left")
            shares, pieces, places = list[Share](), [None] * len(runs), [(0, 0)] * len(runs)
            for number, group in enumerate(deal(chunks, runs, len(workers))):
                shares.append(share(chunks, [runs[run] for run in group]))
                own = list(shares[-1].pieces)
                sent = self.client.scatter(own, workers=[workers[number]], hash=False)
                for place, run in enumerate(group):
                    pieces[run], places[run] = sent[place], (number, place)
            # When a slice is learned its cells go, and others may get their number.
            gone = weakref.ref(chunks, lambda _: known.pop(key, None))
            known[key] = _Dealt(gone, next(_NUMBERS), shares, workers, pieces, places)
        return self._cells[key]

    def _given(self, dealt: _Dealt, small: tuple[Any, ...]) -> list[list[Any]]:
        """For every piece, the values that go with it."""
        sent = [self._send(value, dealt) for value in small]
        return [[value[number] for value in sent] for number, _ in dealt.places]

    def _send(self, value: Any, dealt: _Dealt) -> list[Any]:
        """The value itself for every share if it is short, else the name of what a share needs."""
        arrays, shares = _arrays_of(value), dealt.shares
        if sum(array.nbytes for array in arrays) < LARGE:
            return [value] * len(shares)
        parts, number = list[Any](), 0
        if isinstance(value, HasRows) and shares[0].rows is not None:
            number = dealt.number
            if 2 * sum(one.n_rows for one in shares) < len(value.data):
                # Looking at what the shares need is less work than looking at all rows.
                parts = [one.of(value) for one in shares]
                arrays = [part.data for part in parts]
        name = b"".join([b"%d" % number, type(value).__name__.encode(), *map(fingerprint, arrays)])
        if name not in self._sent:
            self._sent[name] = self._sent_anew(value, parts, dealt if number else None)
        self._sent.move_to_end(name)
        sizes = [size for _, size in self._sent.values()]
        while len(sizes) > KEPT or sum(sizes) > KEPT_LARGE * max(sizes):
            self._sent.popitem(last=False)  # what tasks under way need stays until they are done
            sizes.pop(0)
        found = self._sent[name][0]
        return found if number else found * len(shares)

    def _sent_anew(
        self, value: Any, parts: list[Any], dealt: _Dealt | None
    ) -> tuple[list[Any], int]:
        """What every share is given, or what all are, and the bytes it takes a worker."""
        if dealt is None:
            size = sum(array.nbytes for array in _arrays_of(value))
            return [self.client.scatter(value, hash=False, broadcast=True)], size
        found, most = [], 0
        for number, one in enumerate(dealt.shares):
            part, worker = parts[number] if parts else one.of(value), dealt.workers[number]
            found.append(self.client.scatter(part, workers=[worker], hash=False))
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
        return _addresses(self.client)


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
        ahead = 2 * len(_some_workers(self.client))
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
            except _lost():
                self.client.wait_for_workers(1, timeout=60)
                future = self._submit(function, item)
            except Exception:  # whoever asked does it without help, and sees what is wrong
                return None
        return None


def _fold(function: Callable[..., tuple[Array, ...]], part: Chunks, *small: Any) -> list[Array]:
    return [add_tree(array) for array in function(part, *small)]


def _first_of(share: ShareSums) -> tuple[list[Array], list[tuple[Array, ...]]]:
    return share.first, share.rests


def _others_of(share: ShareSums, places: list[int]) -> list[list[Array]]:
    return [share.others[place] for place in places]


def _arrays_of(value: Any) -> list[Array]:
    """Arrays of a record, by which its contents are known; of an array, itself."""
    if isinstance(value, np.ndarray):
        return [value]
    fields = getattr(value, "__dataclass_fields__", ())
    parts = [getattr(value, name) for name in fields]
    return [part for part in parts if isinstance(part, np.ndarray)]


def connected(client: Any) -> Any:
    """The client itself, or the one for an address: one for each, whoever asks."""
    if not isinstance(client, str):
        return client
    known = _CLIENTS.get(client)
    if known is None or known.status in ("closing", "closed"):
        known = _CLIENTS[client] = _connect(client)
    return known


def _addresses(client: Any) -> list[str]:
    return sorted(client.scheduler_info(n_workers=-1)["workers"])


def _some_workers(client: Any) -> list[str]:
    """Addresses of the workers, of which there must be one."""
    found = _addresses(client)
    if not found:
        raise BackendError(
            "The cluster needs at least one worker, but its scheduler has none. Start some "
            "with `dask worker SCHEDULER-ADDRESS`."
        )
    return found


def _lost() -> tuple[type[BaseException], ...]:
    """What is raised when a worker is gone."""
    from distributed import KilledWorker
    from distributed.comm import CommClosedError

    return CancelledError, KilledWorker, CommClosedError, TimeoutError


def _connect(address: str) -> Any:
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise BackendError(
            "A cluster needs the package distributed, which is not installed. Install it with "
            "`pip install 'onlinegcp[cluster]'`."
        ) from error
    kind, _, rest = address.partition(":")
    if kind == "local":
        if not rest.isdigit() or int(rest) < 1:
            raise BackendError(
                f"cluster must be local:N with N processes, or the address of a scheduler, but is "
                f"{address!r}. Write local:4, or tcp://host:8786."
            )
        workers = LocalCluster(
            n_workers=int(rest), threads_per_worker=1, dashboard_address=None, silence_logs=50
        )
        return Client(workers)
    try:
        return Client(address, timeout=PATIENCE)
    except (OSError, ValueError) as error:
        raise BackendError(
            f"The cluster needs a scheduler that answers, but none did at {address!r} ({error}). "
            "Start one with `dask scheduler`, check the address and the firewall, or leave "
            "cluster out to use this machine."
        ) from error


def _advice(name: str) -> str:
    if name.startswith("processor"):
        return (
            "Set NUMBA_CPU_NAME=x86-64-v3 (or what all of them have) and NUMBA_CPU_FEATURES= on "
            "every machine, this one included."
        )
    return "Install the same versions everywhere, for example one container image."
