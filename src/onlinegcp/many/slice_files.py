"""Slices put aside for another process: a few hundred to a file."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from onlinegcp.slices import Slice, as_slice
from onlinegcp.storage.archive import read_archive, write_archive
from onlinegcp.streaming.storage import pack_slices, unpack_slices

_KIND = "slices"
_SLICES = 256  # of a file


def write_slices(slices: Iterable[Any], folder: Path, name: str) -> list[str]:
    """Put slices aside; the files, in order.

    Parameters
    ----------
    slices
        Anything `as_slice` takes, read once.
    folder
        Where to put them.
    name
        What the files are called.
    """
    files: list[str] = []
    rest = map(as_slice, slices)
    for number in itertools.count():
        some = list(itertools.islice(rest, _SLICES))
        if not some:
            return files
        path = folder / f"{name}-{number}.npz"
        arrays: dict[str, Any] = {}
        entries = pack_slices(some, "x", arrays)
        write_archive(path, _KIND, arrays, {"slices": entries}, durable=False)
        files.append(str(path))
    raise AssertionError


def read_slices(files: Sequence[str]) -> Iterator[Slice]:
    """The slices that `write_slices` put aside; `files` are what it returned."""
    for file in files:
        arrays, record = read_archive(file, _KIND)
        yield from unpack_slices(record["slices"], "x", arrays)
