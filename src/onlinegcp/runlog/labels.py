"""Labels of a run, beside its checkpoints: a file that only grows, and only when a label is new.

A line names a vocabulary and what came to it. The checkpoint says how many bytes of the file count,
so that labels written just before a kill do not, and a reader never sees half a line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from onlinegcp.storage.appending import append, unreadable, unwritable
from onlinegcp.storage.archive import DamagedFile
from onlinegcp.storage.labels import LabelColumn, blocks_of, held
from onlinegcp.storage.sealed import seal, unseal

LABELS = "labels.jsonl"

Kept = dict[str, Any]  # "bytes" that count, and "counts" of labels by vocabulary


def append_labels(
    folder: Path, kept: Kept | None, vocabularies: Mapping[str, Sequence[str]]
) -> Kept:
    """Write down the labels that are new; costs nothing where none is.

    Parameters
    ----------
    folder
        The run directory. Hold its lock.
    kept
        What this returned last, None at first.
    vocabularies
        All labels so far, by vocabulary.

    Returns
    -------
    kept
        What the checkpoint must say.
    """
    file, counts = folder / LABELS, {} if kept is None else dict(kept["counts"])
    end = 0 if kept is None else int(kept["bytes"])
    grown = {n: labels for n, labels in vocabularies.items() if len(labels) > counts.get(n, 0)}
    if not grown:
        return {"bytes": end, "counts": counts}
    try:
        if file.exists() and file.stat().st_size > end:
            os.truncate(file, end)  # of a slice that was cut off
    except OSError as error:
        raise unwritable(file, error) from error
    for name, labels in grown.items():
        # Several lines where there are many, so that nobody ever has to hold all of them as text.
        for block in blocks_of(labels[counts.get(name, 0) :]):
            record = {"name": name, "labels": block}
            line = seal(json.dumps(record, separators=(",", ":")).encode()) + b"\n"
            append(file, line)
            end += len(line)
        counts[name] = len(labels)
    return {"bytes": end, "counts": counts}


def read_labels(folder: Path, kept: Kept) -> dict[str, Sequence[str]]:
    """The labels that a checkpoint counts on, by vocabulary: tuples, or `Labels` where many."""
    file, end = folder / LABELS, int(kept["bytes"])
    found = {name: LabelColumn() for name in kept["counts"]}
    try:
        for line in _lines(file, end):
            record, _ = unseal(line)
            found[record["name"]].extend(record["labels"])
        whole = {name: len(labels) for name, labels in found.items()} == kept["counts"]
    except (ValueError, KeyError, TypeError):
        whole = False
    if not whole:
        raise DamagedFile(
            f"{file} must hold {sum(kept['counts'].values()):,} labels in its first {end:,} bytes, "
            f"but {sum(map(len, found.values())):,} were found. The file is damaged; restore it "
            "from a copy, or fit again elsewhere."
        )
    return {name: held(labels) for name, labels in found.items()}


def _lines(file: Path, end: int) -> Iterator[bytes]:
    """The lines that lie in the first bytes of a file, the last one perhaps cut off."""
    try:
        with file.open("rb") as stream:
            while (left := end - stream.tell()) > 0 and (line := stream.readline(left)):
                yield line
    except FileNotFoundError:
        return
    except OSError as error:
        raise unreadable(file, error) from error
