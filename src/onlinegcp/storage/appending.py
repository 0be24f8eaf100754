"""Files that only grow: a failed write leaves them as they were, and errors name them."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from onlinegcp.errors import StateError


def append(file: Path, content: bytes) -> None:
    """Add bytes to a file, so that they survive this process; on failure the file is as before.

    What the system has taken over survives any kill, and a power cut once it is on disk: see
    `run.disk`.
    """
    try:
        handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise unwritable(file, error) from error
    try:
        before = os.fstat(handle).st_size
        try:
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(handle, rest) :]
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(handle, before)
            raise unwritable(file, error) from error
    finally:
        os.close(handle)


def force(path: Path) -> None:
    """Wait until a file, or the names in a directory, are on the disk itself."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise unwritable(path, error) from error


def unreadable(file: Path, error: Exception) -> StateError:
    """The error for a file that cannot be read."""
    return StateError(
        f"{file} was to be read, but that failed: {_why(error)}. Check its permissions."
    )


def unwritable(file: Path, error: Exception) -> StateError:
    """The error for a file of a run that cannot be written."""
    return StateError(
        f"{file} was to be written, but that failed: {_why(error)}. Nothing was lost; free some "
        "space or make the directory writable, then continue with update."
    )


def _why(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)
