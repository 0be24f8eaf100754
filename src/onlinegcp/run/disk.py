"""When a run reaches the disk itself, and what is left of it after a power cut.

Waiting for the disk after every slice would take longer than learning it, and what a process has
written survives its end by `kill -9` anyway. So the system writes when it likes, and every few
seconds all of it is forced to disk. The checkpoint of that moment is kept under a second name until
the next: should a power cut leave the newest one, or the lines before it, in pieces, the run goes
on from there.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import time
from pathlib import Path
from typing import final

from onlinegcp.errors import StateError
from onlinegcp.runlog import CHECKPOINT, STEPS, SYNCED
from onlinegcp.runlog.labels import LABELS
from onlinegcp.storage.appending import force, unwritable

SYNC_SECONDS = 5.0  # of work that a power cut may cost


@final
class DiskSync:
    """Forces a run to disk from time to time.

    Parameters
    ----------
    folder
        The run directory. Hold its lock.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._last = -math.inf
        self._pending = False

    def written(self) -> None:
        """Say that a slice was written; now and then this waits for the disk."""
        self._pending = True
        if time.monotonic() - self._last >= SYNC_SECONDS:
            self.sync()

    def sync(self) -> None:
        """Wait until everything is on disk."""
        if not self._pending:
            return
        for name in (LABELS, STEPS, CHECKPOINT):
            with contextlib.suppress(FileNotFoundError):
                force(self.folder / name)
        _second_name(self.folder / CHECKPOINT, self.folder / SYNCED)
        with contextlib.suppress(StateError):  # not every system can do that for a directory
            force(self.folder)
        self._last, self._pending = time.monotonic(), False


def go_back(folder: Path) -> None:
    """Make the checkpoint that is surely on disk the newest one."""
    _second_name(folder / SYNCED, folder / CHECKPOINT)


def _second_name(file: Path, name: Path) -> None:
    beside = name.with_name(f".{name.name}.second.tmp")
    try:
        beside.unlink(missing_ok=True)
        try:
            os.link(file, beside)
        except OSError:  # some file systems have no links
            shutil.copyfile(file, beside)
            force(beside)
        beside.replace(name)
    except OSError as error:
        raise unwritable(name, error) from error
