"""What many streams were given to read, and whether they read it to the end.

A kill leaves some streams with all of a source and others with nothing of it. Giving it again puts
that right; giving the next one instead would leave a hole that nobody is told of.
"""

from __future__ import annotations

import contextlib
import shlex
from pathlib import Path

from onlinegcp.errors import StateError
from onlinegcp.runlog.sources import SOURCES, Source, read_sources, write_sources


def begin_source(folder: Path, source: Source, *, abandon: bool) -> None:
    """Note a source that is about to be read.

    Parameters
    ----------
    folder
        The run directory. Hold its lock.
    source
        From `run.sources.describe`.
    abandon
        Whether one that was not read to its end may stay so.
    """
    lines = read_sources(folder) if (folder / SOURCES).exists() else []
    if lines and not lines[-1].get("finished"):
        before, now = _paths(lines[-1]), _paths(source)
        if before and not set(before) <= set(now) and not abandon:
            again = shlex.join(["onlinegcp", "update", str(folder), *before])
            raise StateError(
                "the last source must be read to its end before the next, but it was interrupted: "
                f"some streams have it and some do not. Give it again, which learns the rest:\n"
                f"{again}\nor leave it as it is with abandon=True (--abandon)."
            )
        if set(before) <= set(now):
            lines.pop()
    write_sources(folder, [*lines, {**source, "finished": False}])


def end_source(folder: Path) -> None:
    """Note that the last source was read to its end by all streams."""
    lines = read_sources(folder)
    lines[-1]["finished"] = True
    write_sources(folder, lines)


def _paths(source: Source) -> list[str]:
    with contextlib.suppress(KeyError, TypeError, IndexError):
        return [str(file[0]) for file in source["files"]]
    return []
