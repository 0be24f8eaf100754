"""The directory of many streams: its layout, and its settings.

Such a run is a directory with these files::

    streams.json         written once: settings, the column that tells streams apart
    sources.jsonl        what was read, and whether it was read to its end
    shards/00007.npz     the models of some streams, and what is known about each
    shards/00007.jsonl   their lines, one per slice, only ever appended to
    lock                 held by all processes that write

A shard is stored in two steps: its lines are appended, then its archive, which says how many bytes
of lines count, is replaced. Both wait for the disk. Whatever ends a process in between leaves lines
that do not count, and the next one cuts them off.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onlinegcp.errors import StateError
from onlinegcp.runlog.files import PathLike
from onlinegcp.runlog.line import plain
from onlinegcp.runlog.shapes import check_info
from onlinegcp.storage.appending import unreadable
from onlinegcp.storage.atomic import SHARDS, STREAMS, replacing
from onlinegcp.storage.sealed import seal, unseal

FORMAT = 1
SHARD_KIND = "shard of streams"


def is_many(path: PathLike) -> bool:
    """Whether a directory holds many streams."""
    return (Path(path) / STREAMS).is_file()


def write_settings(folder: Path, info: Mapping[str, Any]) -> None:
    """Write streams.json, all at once."""
    text = json.dumps(plain({**info, "format": FORMAT}), indent=1, allow_nan=False)
    with replacing(folder / STREAMS, of_run=True) as file:
        file.write(seal(text.encode()) + b"\n")


def read_settings(path: PathLike) -> dict[str, Any]:
    """What streams.json holds."""
    folder = Path(path)
    source = folder / STREAMS
    try:
        text = source.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        here = "is no directory" if not folder.is_dir() else f"has no {STREAMS}"
        raise StateError(
            f"a run of many streams was needed, but {folder} {here}. Give the directory that fit "
            "--by wrote with -o."
        ) from error
    except OSError as error:
        raise unreadable(source, error) from error
    try:
        info, _ = unseal(text)
        version = int(info["format"])
        check_info(info)
        if not isinstance(info["per_shard"], int):
            raise ValueError("per_shard is no number")
    except (ValueError, KeyError, TypeError) as error:
        raise StateError(
            f"{source} must be the settings of many streams, but is no such JSON ({error}). The "
            "file is damaged or not ours; restore it from a copy."
        ) from error
    if version > FORMAT:
        raise StateError(
            f"this version of onlinegcp reads runs of many streams of format {FORMAT}, but "
            f"{folder} has format {version}. Upgrade onlinegcp to read it."
        )
    return info


def shard_files(folder: Path, number: int) -> tuple[Path, Path]:
    """The archive and the lines of a shard."""
    stem = folder / SHARDS / f"{number:05}"
    return stem.with_suffix(".npz"), stem.with_suffix(".jsonl")


def shard_numbers(folder: Path) -> list[int]:
    """Numbers of the shards that are stored."""
    found = (path.stem for path in (folder / SHARDS).glob("*.npz") if not path.name.startswith("."))
    return sorted(int(stem) for stem in found if stem.isdecimal())
