"""Reading every byte of a run once, to say which files are whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onlinegcp.errors import StateError
from onlinegcp.runlog.files import (
    CHECKPOINT,
    DIGEST,
    DIGEST_KIND,
    RUN,
    STEPS,
    SYNCED,
    PathLike,
)
from onlinegcp.runlog.labels import LABELS
from onlinegcp.runlog.reading import read_checkpoint, read_run_json
from onlinegcp.runlog.shapes import check_step
from onlinegcp.runlog.sources import SOURCES
from onlinegcp.storage.archive import read_archive
from onlinegcp.storage.sealed import fits, unseal


@dataclass(frozen=True)
class Verdict:
    """What was found out about one file.

    Attributes
    ----------
    file
        Its name.
    whole
        Whether nothing is wrong with it.
    text
        What was found, in words.
    """

    file: str
    whole: bool
    text: str


def verify(path: PathLike) -> list[Verdict]:
    """Check every file of a run against its checksums.

    Parameters
    ----------
    path
        The directory. While it is being written the last line may not be whole yet.
    """
    folder = Path(path)
    readers = {
        RUN: _settings,
        **dict.fromkeys((STEPS, LABELS, SOURCES), _lines),
        **dict.fromkeys((CHECKPOINT, SYNCED), _checkpoint),
        DIGEST: _digest,
    }
    present = [name for name in readers if name == RUN or (folder / name).exists()]
    return [verdict(name, readers[name], folder, name) for name in present]


def verdict(name: str, look: Callable[..., str], *where: Any) -> Verdict:
    """What looking at a file says: that it is whole, or why it is not."""
    try:
        return Verdict(name, True, look(*where))
    except (StateError, ValueError, OSError) as error:
        return Verdict(name, False, str(error))


def _settings(folder: Path, name: str) -> str:
    read_run_json(folder)
    _, sealed = unseal((folder / name).read_bytes())
    return "whole" if sealed else "readable; written before there were checksums"


def _some(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _lines(folder: Path, name: str) -> str:
    n_lines = n_sealed = 0
    with (folder / name).open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                raise ValueError(f"line {number} has no end")
            if name == STEPS and line.startswith(b'{"number":%d,' % number) and fits(line):
                n_lines, n_sealed = n_lines + 1, n_sealed + 1  # as it was written
                continue
            try:
                record, sealed = unseal(line)
                if name == STEPS:
                    check_step(record)
                    if record.get("number") != number:
                        raise ValueError(f"it is number {record.get('number')!r}")
            except ValueError as error:
                raise ValueError(f"line {number} is damaged: {error}") from error
            n_lines += 1
            n_sealed += sealed
    rest = n_lines - n_sealed
    old = f", {rest:,} of them written before there were checksums" if rest else ""
    return f"whole, {_some(n_lines, 'line')}{old}"


def _checkpoint(folder: Path, name: str) -> str:
    found = read_checkpoint(folder, name)
    assert found is not None
    steps = found[1].get("n_steps")
    return f"whole, after {_some(steps, 'slice')}" if isinstance(steps, int) else "whole"


def _digest(folder: Path, name: str) -> str:
    try:
        _, record = read_archive(folder / name, DIGEST_KIND)
    except StateError as error:
        raise ValueError(f"{error} Delete it: the next reader makes it anew") from error
    return f"whole, tells of {_some(record.get('n_steps', 0), 'line')}"
