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

from pathlib import Path
from typing import Any

from onlinegcp.runlog.files import PathLike
from onlinegcp.runlog.settings import SettingsFile
from onlinegcp.storage.atomic import SHARDS, STREAMS

STREAMS_JSON = SettingsFile(STREAMS, "a run of many streams", "fit --by", 1)
SHARD_KIND = "shard of streams"


def is_many(path: PathLike) -> bool:
    """Whether a directory holds many streams."""
    return (Path(path) / STREAMS).is_file()


def read_settings(path: PathLike) -> dict[str, Any]:
    """What streams.json holds."""
    folder = Path(path)
    info = STREAMS_JSON.read(folder)
    if not isinstance(info.get("per_shard"), int):
        raise STREAMS_JSON.damaged(folder, "per_shard is no number")
    return info


def shard_files(folder: Path, number: int) -> tuple[Path, Path]:
    """The archive and the lines of a shard."""
    stem = folder / SHARDS / f"{number:05}"
    return stem.with_suffix(".npz"), stem.with_suffix(".jsonl")


def shard_numbers(folder: Path) -> list[int]:
    """Numbers of the shards that are stored."""
    found = (path.stem for path in (folder / SHARDS).glob("*.npz") if not path.name.startswith("."))
    return sorted(int(stem) for stem in found if stem.isdecimal())
