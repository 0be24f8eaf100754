"""Labels of a run, beside its checkpoints: a file that only grows, and only when a label is new.

A line names a vocabulary and what came to it. The checkpoint says how many bytes of the file count,
so that labels written just before a kill do not, and a reader never sees half a line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from onlinegcp.storage.appending import append, unreadable, unwritable
from onlinegcp.storage.archive import DamagedFile
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
    lines = []
    for name, labels in grown.items():
        record = {"name": name, "labels": labels[counts.get(name, 0) :]}
        lines.append(seal(json.dumps(record, separators=(",", ":")).encode()) + b"\n")
        counts[name] = len(labels)
    try:
        if file.exists() and file.stat().st_size > end:
            os.truncate(file, end)  # of a slice that was cut off
    except OSError as error:
        raise unwritable(file, error) from error
    append(file, b"".join(lines))
    return {"bytes": end + sum(map(len, lines)), "counts": counts}


def read_labels(folder: Path, kept: Kept) -> dict[str, list[str]]:
    """The labels that a checkpoint counts on, by vocabulary."""
    file, end = folder / LABELS, int(kept["bytes"])
    found: dict[str, list[str]] = {name: [] for name in kept["counts"]}
    content = b""
    if end:
        try:
            with file.open("rb") as stream:
                content = stream.read(end)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise unreadable(file, error) from error
    try:
        for line in content.splitlines():
            record, _ = unseal(line)
            found[record["name"]] += record["labels"]
        whole = {name: len(labels) for name, labels in found.items()} == kept["counts"]
    except (ValueError, KeyError, TypeError):
        whole = False
    if not whole:
        raise DamagedFile(
            f"{file} must hold {sum(kept['counts'].values()):,} labels in its first {end:,} bytes, "
            f"but {sum(map(len, found.values())):,} were found. The file is damaged; restore it "
            "from a copy, or fit again elsewhere."
        )
    return found
