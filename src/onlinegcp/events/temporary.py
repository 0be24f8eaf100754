"""Folders for rows that do not fit into memory, which are gone when they are no longer needed.

A folder is named after its process, so that what a killed one left behind can be told and removed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
import weakref
from pathlib import Path
from typing import final

from onlinegcp.errors import StateError

_PREFIX = "onlinegcp-sort-"  # and the process it belongs to


@final
class TemporaryFolder:
    """A folder of this process; use it as a context, or drop it.

    Parameters
    ----------
    purpose
        What is done with the rows, for the error: "Rows ... are ... on disk".

    Examples
    --------
    >>> with TemporaryFolder("Rows are sorted on disk") as folder:
    ...     folder.path.is_dir()
    True
    >>> folder.path.exists()
    False
    """

    def __init__(self, purpose: str) -> None:
        self._purpose = purpose
        try:
            _sweep()
            self.path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        except OSError as error:
            raise self.full(error) from error
        # Also when its owner is dropped half-way, or the program ends.
        self.remove = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def __enter__(self) -> TemporaryFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def full(self, error: OSError) -> StateError:
        """The error for a folder that cannot be written."""
        return StateError(
            f"{self._purpose}, but the temporary directory {tempfile.gettempdir()} could not be "
            f"written: {error.strerror or error}. Free some space, or set TMPDIR to a larger disk."
        )


def _sweep() -> None:
    """Remove what programs of this user left behind that were killed meanwhile."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        number = folder.name[len(_PREFIX) :].partition("-")[0]
        with contextlib.suppress(OSError):
            ours = folder.lstat().st_uid == os.getuid() and folder.is_dir()
            if ours and number.isdecimal() and not Path(f"/proc/{number}").exists():
                # Where there is no /proc, only what is a day old.
                old = time.time() - folder.stat().st_mtime > 86_400
                if Path("/proc/self").exists() or old:
                    shutil.rmtree(folder, ignore_errors=True)
