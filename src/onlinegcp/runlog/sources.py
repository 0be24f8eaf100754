"""The lines of sources.jsonl: what a run has read, and by which commands."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from onlinegcp.errors import StateError
from onlinegcp.runlog.files import PathLike
from onlinegcp.runlog.line import encode_step, sealed
from onlinegcp.runlog.reading import read_run_json
from onlinegcp.storage.atomic import replacing
from onlinegcp.storage.sealed import unseal

SOURCES = "sources.jsonl"
# Commands that are told: the first, and the newest.
MOST_COMMANDS = 40

Source = dict[str, Any]


def read_sources(folder: PathLike, n_kept: int | None = None) -> list[Source]:
    """The first `n_kept` lines of sources.jsonl, or all."""
    if n_kept == 0:
        return []
    path = Path(folder) / SOURCES
    try:
        lines = path.read_bytes().splitlines()[:n_kept]
        found = [unseal(line)[0] for line in lines]
    except (OSError, ValueError) as error:
        raise StateError(
            f"the sources of a run must be in {path}, but it cannot be read: {error}. Restore it "
            "from a copy."
        ) from error
    if n_kept is not None and len(found) < n_kept:
        raise StateError(
            f"{path} must hold {n_kept} lines, but has {len(found)}. Restore it from a copy."
        )
    return found


def write_sources(folder: Path, sources: Iterable[Source]) -> None:
    """Replace sources.jsonl by these lines. Hold the lock."""
    with replacing(folder / SOURCES, of_run=True) as file:
        file.writelines(sealed(encode_step(source)) for source in sources)


def told_sources(folder: PathLike) -> list[Source]:
    """The same for those who only tell of it: none where they cannot be read."""
    try:
        return [source for source in read_sources(folder) if isinstance(source, dict)]
    except StateError:
        return []


def commands(folder: PathLike, info: dict[str, Any] | None = None) -> list[str]:
    """The commands that made a run, oldest first: fit, and every update that read something else.

    Runs of older versions know the first one only. Of very many the newest are told.
    """
    info = read_run_json(folder) if info is None else info
    first = [str(word) for word in info.get("command") or ()]
    found = [shlex.join(first)] if first else []
    for source in told_sources(folder):
        words = source.get("command")
        if isinstance(words, list) and words:
            said = shlex.join(map(str, words))
            if not found or found[-1] != said:
                found.append(said)
    if len(found) > MOST_COMMANDS:
        left = len(found) - MOST_COMMANDS
        return [found[0], f"# ... {left:,} more commands", *found[-MOST_COMMANDS + 1 :]]
    return found
