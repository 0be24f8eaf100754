"""Two files change their names, at once.

Where a file takes the place of another by a rename, Linux's ext4 starts to write it to disk, as a
precaution for programs that never ask for that. A run that replaces its checkpoint after every
slice asks for it every few seconds, and the files in between need never reach the disk.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

_AT_FDCWD = -100  # paths as the process sees them
_EXCHANGE = 2  # RENAME_EXCHANGE of renameat2


def exchange(one: Path, other: Path) -> bool:
    """Swap the names of two files; whether that was possible here.

    Parameters
    ----------
    one, other
        Files of one directory. Where either is missing, or the file system cannot do it, nothing
        happens.
    """
    call = _renameat2()
    if call is None:
        return False
    return call(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _EXCHANGE) == 0


@cache
def _renameat2() -> Callable[..., int] | None:
    if not sys.platform.startswith("linux"):
        return None
    try:
        found = ctypes.CDLL(None).renameat2
    except (OSError, AttributeError):  # another C library, or an older one
        return None
    path, number = ctypes.c_char_p, ctypes.c_int
    found.argtypes = [number, path, number, path, ctypes.c_uint]
    found.restype = number
    return found
