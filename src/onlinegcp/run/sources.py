"""Where the slices of a run came from, kept in sources.jsonl, and reading them once more.

One line per source. The checkpoint says how many lines count, so that one written just before a
kill does not. Giving a run the same source again, as after an interruption, adds none.
"""

from __future__ import annotations

import contextlib
import json
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onlinegcp import runlog
from onlinegcp.errors import StateError
from onlinegcp.events import from_events
from onlinegcp.events.remote import is_database
from onlinegcp.events.stream import EventStream
from onlinegcp.runlog.sources import Source, read_sources, write_sources
from onlinegcp.slices import Slice
from onlinegcp.storage.secrets import redacted

if TYPE_CHECKING:
    from onlinegcp.run.loop import Run


def describe(stream: Iterable[Any], after: int, command: Sequence[str] | None = None) -> Source:
    """What a stream reads, as a line of sources.jsonl.

    Parameters
    ----------
    stream
        Slices, or a stream of events.
    after
        Slices the run had taken before.
    command
        How this was asked for, if by a command.
    """
    told = {} if command is None else {"command": list(command)}
    if not isinstance(stream, EventStream):
        return {"after": after, "kind": "slices", **told}
    found: Source = {"after": after, **stream.source, **told}
    found["files"] = [[path, *stamp(path)] for path in found["files"]]
    # Through JSON, so that it compares with what a file holds.
    return dict(json.loads(runlog.encode_step(found)))


def stamp(path: str) -> tuple[int | None, int | None]:
    """Size of a file and when it was changed, in nanoseconds; None where there is none."""
    with contextlib.suppress(OSError):
        found = Path(path).stat()
        return found.st_size, found.st_mtime_ns
    return None, None


def note(folder: Path, n_kept: int, source: Source) -> int:
    """Write a source down, unless the last line says the same.

    Parameters
    ----------
    folder
        The run directory. Hold its lock.
    n_kept
        Lines that count; others are dropped.
    source
        From `describe`.

    Returns
    -------
    n_kept
        Lines that count now.
    """
    kept: list[Source] = []
    # A list that was lost costs a curve of the report, and must not keep a run from learning.
    with contextlib.suppress(StateError):
        kept = read_sources(folder, n_kept)
    if kept and _read(kept[-1]) == _read(source):
        return n_kept
    kept.append(source)
    write_sources(folder, kept)
    return len(kept)


def _read(source: Source) -> Source:
    """What was read, however it was asked for."""
    return {name: value for name, value in source.items() if name not in ("after", "command")}


def last_query(run: Run, sources: Sequence[str]) -> str | None:
    """What a database was asked for when the run last read it; None if it never did."""
    if len(sources) != 1 or not is_database(sources[0]):
        return None
    for source in reversed(read_sources(run.path, run.n_sources)):
        if source["kind"] == "database" and source["name"] == redacted(sources[0]):
            return str(source["query"])
    return None


def replay(
    settings: Mapping[str, Any],
    sources: Sequence[Source],
    n_slices: int,
    labels: Sequence[Sequence[str]] = (),
) -> Iterator[Slice]:
    """The slices of a run, from its files again, with the same codes for the same labels.

    Each source goes on where the one before stood, exactly as the run did; one slice is held at a
    time. Fewer slices come out if the files hold less than they did, or other labels.

    Parameters
    ----------
    settings
        Settings of `from_events` the run was made with.
    sources
        From `read_sources`, all of them files.
    n_slices
        Slices the run has taken.
    labels
        First names of the rows of each mode after the last of them, if they are to be compared.
    """
    state: dict[str, Any] | None = None
    ends = [*(source["after"] for source in sources[1:]), n_slices]
    for source, end in zip(sources, ends, strict=True):
        files = [path for path, *_ in source["files"]]
        stream = from_events(files, **settings, **source["options"])
        if state is not None:
            stream.restore(state, again=True)
        try:
            for number in range(source["after"] + 1, end + 1):
                x = next(stream, None)
                if x is None:
                    return
                if number == n_slices and not _begin_with(stream.labels, labels):
                    return
                yield x
            if source is not sources[-1]:
                state = stream.state()
                # At the end of a source the rows of an open bin are known as well.
                if next(stream, None) is None:
                    state = stream.state()
        finally:
            stream.close()


def _begin_with(labels: Sequence[Sequence[str]], wanted: Sequence[Sequence[str]]) -> bool:
    pairs = zip(labels, wanted, strict=False)
    return all(
        len(found) >= len(names) and all(map(operator.eq, found, names)) for found, names in pairs
    )
