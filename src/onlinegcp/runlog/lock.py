"""The lock of a run directory: one process writes to it, any number read."""

from __future__ import annotations

import contextlib
import math
import os
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, final

from onlinegcp.errors import StateError
from onlinegcp.storage.appending import unwritable

LOCK = "lock"
_PAUSE = 0.02  # seconds between two tries

PathLike = str | os.PathLike[str]


@final
@dataclass
class Lock:
    """The right to write to a run, held by one process at a time.

    The system drops it with the process, however that ends, so a stale one cannot exist.

    Parameters
    ----------
    path
        The run directory.

    Examples
    --------
    >>> import tempfile
    >>> with Lock(tempfile.mkdtemp()):
    ...     pass
    """

    path: PathLike
    _handle: int | None = field(default=None, init=False, repr=False)

    def acquire(self, patience: float = 0.06) -> None:
        """Take the lock, or raise a StateError that says who has it.

        Parameters
        ----------
        patience
            Seconds to wait for it: `is_locked` holds it for a moment, and the processes of one that
            was killed end a little after it.
        """
        import fcntl

        file = Path(self.path) / LOCK
        try:
            handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise unwritable(file, error) from error
        try:
            for _ in range(1 + math.ceil(patience / _PAUSE)):
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                time.sleep(_PAUSE)
            else:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(handle, 300).decode("utf-8", "replace").strip() or "another process"
            os.close(handle)
            raise StateError(
                f"only one process may write to a run, but {self.path} is being written by "
                f"{holder}. Wait for it or stop it; report and watch can read meanwhile."
            ) from error
        except OSError as error:
            os.close(handle)
            raise unwritable(file, error) from error
        self._handle = handle
        # A full disk leaves the note empty; the lock holds all the same.
        with contextlib.suppress(OSError):
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)

    @property
    def handle(self) -> int | None:
        """What holds the lock; a process that is given it holds it, too, until it ends."""
        return self._handle

    def release(self) -> None:
        """Give the lock back; the file stays, because removing it would race with the next."""
        if self._handle is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._handle, 0)
            os.close(self._handle)
            self._handle = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def is_locked(path: PathLike) -> bool:
    """Whether some process is writing to the run just now."""
    import fcntl

    try:
        handle = os.open(Path(path) / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # Shared, so that many readers can ask at once.
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False
