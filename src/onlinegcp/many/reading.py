"""Reading many streams together: what is known about each, and the oddest slices of all."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from onlinegcp import runlog
from onlinegcp.errors import DataError, closest
from onlinegcp.many.files import SHARD_KIND, read_settings, shard_files, shard_numbers
from onlinegcp.many.shard_files import Account, parsed, shard_lines, shard_records
from onlinegcp.runlog.files import PathLike
from onlinegcp.runlog.told import score
from onlinegcp.storage.archive import read_archive

# A label that holds this is escaped within JSON, so that only the field itself is found.
_FLAGGED, _SCORED = b',"flagged":true', b',"anomaly":{'


@final
@dataclass(frozen=True)
class StreamFacts:
    """What is known about a stream.

    Attributes
    ----------
    stream
        Its name.
    shard
        Where it is stored.
    account
        What it has learned, in numbers.
    problem
        Why it stopped, if it did.
    lengths
        Labels of each mode; None where it has none.
    """

    stream: str
    shard: int
    account: Account
    problem: str | None
    lengths: tuple[int, ...] | None


@final
@dataclass
class Oddest:
    """The oddest slices of all streams, and how many there are.

    Attributes
    ----------
    steps
        Their lines, the oddest first; "stream" names the stream.
    scored, flagged
        Slices that were scored, and flagged.
    by_time
        Flagged slices by the time of their bin.
    """

    steps: list[Any] = field(default_factory=list)
    scored: int = 0
    flagged: int = 0
    by_time: Counter[Any] = field(default_factory=Counter)


def facts_of(path: PathLike) -> list[StreamFacts]:
    """What is known about every stream, in the order they are stored."""
    folder = Path(path)
    read_settings(folder)
    found = []
    for number in shard_numbers(folder):
        for record in shard_records(folder, number)[0]:
            labels = record.get("labels")
            lengths = None if labels is None else tuple(map(len, labels))
            account, problem = Account(**record["account"]), record["problem"]
            found.append(StreamFacts(record["stream"], number, account, problem, lengths))
    return found


def oddest(
    path: PathLike,
    top: int,
    *,
    flagged: bool = True,
    within: Callable[[Any], bool] | None = None,
) -> Oddest:
    """The oddest slices of all streams, sorted together; memory follows `top`, not the run.

    Parameters
    ----------
    path
        The run directory; it may be written to meanwhile.
    top
        Most slices to keep.
    flagged
        Only slices that were flagged.
    within
        Whether a time counts; all do by default.
    """
    folder = Path(path)
    read_settings(folder)
    found = Oddest()
    kept: list[tuple[float, int, Any]] = []
    turn = itertools.count()  # no two lines are compared themselves
    for number, line in _lines(folder):
        if _SCORED not in line:
            continue
        odd = _FLAGGED in line
        # Most lines are neither flagged nor asked for, and need not be parsed.
        step = parsed(line, folder, number) if odd or not flagged or within else None
        if step is not None and within is not None and not within(step.get("time")):
            continue
        found.scored += 1
        found.flagged += odd
        if step is None or (flagged and not odd):
            continue
        if odd:
            found.by_time[step.get("time")] += 1
        heapq.heappush(kept, (score(step), -next(turn), step))
        if len(kept) > top:
            heapq.heappop(kept)
    found.steps = [step for _, _, step in sorted(kept, key=lambda item: item[:2], reverse=True)]
    return found


def steps_of(path: PathLike, stream: str) -> Iterator[runlog.Step]:
    """The lines of one stream, in order of time, all in the components of the last one."""
    folder = Path(path)
    # As it stands at the start of a line, so that the lines of others need not be parsed.
    mark = runlog.encode_step({"stream": stream})[:-2] + b","
    yield from _aligned(folder, shard_of(folder, stream), mark)


def all_steps(path: PathLike) -> Iterator[runlog.Step]:
    """The lines of all streams, each in the components of the last one of its stream.

    Those of one shard come after those of another.
    """
    folder = Path(path)
    read_settings(folder)
    for number in shard_numbers(folder):
        yield from _aligned(folder, number, b"")


def factors_of(path: PathLike) -> Iterator[tuple[str, list[Any], list[list[str]]]]:
    """Name, factors and labels of every stream that has learned some."""
    folder = Path(path)
    read_settings(folder)
    for number in shard_numbers(folder):
        arrays, record = read_archive(shard_files(folder, number)[0], SHARD_KIND)
        for k, stored in enumerate(record["streams"]):
            factors: list[Any] = []
            while (name := f"{k}/factor.{len(factors)}") in arrays:
                factors.append(arrays[name])
            names = stored["labels"] or [range(len(factor)) for factor in factors]
            if factors:
                pairs = zip(names, factors, strict=True)
                labels = [list(map(str, of))[: len(factor)] for of, factor in pairs]
                yield stored["stream"], factors, labels


def shard_of(folder: Path, stream: str) -> int:
    """The shard that holds a stream."""
    names = []
    for number in shard_numbers(folder):
        for record in shard_records(folder, number)[0]:
            if record["stream"] == stream:
                return number
            names.append(str(record["stream"]))
    raise DataError(
        f"The stream must be one of the {len(names):,} of {folder}, but {stream!r} is none."
        f"{closest(stream, names)} See them with `onlinegcp inspect {folder}`."
    )


def _aligned(folder: Path, number: int, mark: bytes) -> Iterator[runlog.Step]:
    """The lines of a shard that begin with a mark."""
    _, n_bytes = shard_records(folder, number)
    lines = (line for line in shard_lines(folder, number, n_bytes) if line.startswith(mark))
    aligners = runlog.Aligner.by_stream(lines)
    for line in shard_lines(folder, number, n_bytes):
        if line.startswith(mark):
            step: Any = parsed(line, folder, number)
            if (aligner := aligners.get(step.get("stream"))) is not None:
                aligner.take(step)
            yield step


def _lines(folder: Path) -> Iterator[tuple[int, bytes]]:
    for number in shard_numbers(folder):
        _, n_bytes = shard_records(folder, number)
        for line in shard_lines(folder, number, n_bytes):
            yield number, line
