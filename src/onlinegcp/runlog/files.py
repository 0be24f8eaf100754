"""Names and format of the files of a run directory."""

from __future__ import annotations

import os
from pathlib import Path

from onlinegcp.storage.atomic import RUN as RUN
from onlinegcp.storage.atomic import STREAMS

FORMAT = 2  # 1 had all labels in every checkpoint
STEPS = "steps.jsonl"
CHECKPOINT, SYNCED = "checkpoint.npz", "checkpoint.synced.npz"
CHECKPOINT_KIND = "run checkpoint"
# Before the names of arrays of a checkpoint that the judge of a run goes on from, and of those that
# say what each label held.
ALARMS = "alarms."
LABELS_HELD = f"{ALARMS}labels."
# What is known about most of the lines, so that they need not be read again; made anew if lost.
DIGEST, DIGEST_KIND = "digest.npz", "run digest"

PathLike = str | os.PathLike[str]


def holds_run(folder: Path) -> bool:
    """Whether a directory holds a run, of one stream or of many."""
    return (folder / RUN).exists() or (folder / STREAMS).exists()
