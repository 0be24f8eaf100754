"""Names and format of the files of a run directory."""

from __future__ import annotations

import os

from onlinegcp.storage.atomic import RUN as RUN

FORMAT = 2  # 1 had all labels in every checkpoint
STEPS = "steps.jsonl"
CHECKPOINT, SYNCED = "checkpoint.npz", "checkpoint.synced.npz"
CHECKPOINT_KIND = "run checkpoint"

PathLike = str | os.PathLike[str]
