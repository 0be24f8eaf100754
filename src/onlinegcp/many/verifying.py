"""Reading every byte of a run of many streams once, to say which files are whole."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from onlinegcp.many.files import SHARD_KIND, read_settings, shard_files, shard_numbers
from onlinegcp.many.shard_files import parsed, shard_lines, shard_records
from onlinegcp.runlog.files import PathLike
from onlinegcp.runlog.sources import SOURCES, read_sources
from onlinegcp.runlog.verifying import Verdict, verdict
from onlinegcp.storage.archive import read_archive
from onlinegcp.storage.atomic import SHARDS, STREAMS


def verify(path: PathLike) -> list[Verdict]:
    """Check every file of a run of many streams against its checksums."""
    folder = Path(path)
    found = [verdict(STREAMS, _settings, folder)]
    if (folder / SOURCES).exists():
        found.append(verdict(SOURCES, _sources, folder))
    for number in shard_numbers(folder):
        archive, lines = (f"{SHARDS}/{file.name}" for file in shard_files(folder, number))
        found.append(verdict(archive, _archive, folder, number))
        found.append(verdict(lines, _whole_lines, folder, number))
    return found


def _settings(folder: Path) -> str:
    read_settings(folder)
    return "whole"


def _sources(folder: Path) -> str:
    return f"whole, {len(read_sources(folder)):,} lines"


def _archive(folder: Path, number: int) -> str:
    _, record = read_archive(shard_files(folder, number)[0], SHARD_KIND)
    return f"whole, {len(record['streams']):,} streams"


def _whole_lines(folder: Path, number: int) -> str:
    _, n_bytes = shard_records(folder, number)
    numbers: Counter[str] = Counter()
    for line in shard_lines(folder, number, n_bytes):
        step: Any = parsed(line, folder, number)
        numbers[step["stream"]] += 1
        if step["number"] != numbers[step["stream"]]:
            raise ValueError(
                f"a line of {step['stream']!r} is number {step['number']}, but should be "
                f"{numbers[step['stream']]}"
            )
    return f"whole, {sum(numbers.values()):,} lines"
