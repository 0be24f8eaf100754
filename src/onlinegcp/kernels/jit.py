"""The one place where functions are handed to Numba, with one set of options and one cache.

Compiled code is kept on disk in a folder named by a hash of the kernel sources and of the versions
that compile them: Numba notices an edit of the file that holds a function, but not of a callee in
another file, and would run the old code. The folder lies under ``NUMBA_CACHE_DIR`` where that is
set, else under ``~/.cache/onlinegcp``, else (nothing writable) in the temporary directory. Whoever
can write there can have this process run any code, so that it must belong to this user alone; if
not, a new folder is made that lasts as long as the process. Folders of other versions are removed
once nobody has used them for a while.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core import config

from onlinegcp.kernels.own_copies import KernelCompiler

# NaN and infinity stay honest (no nnan, no ninf): a diverging solve must be seen.
FASTMATH = frozenset({"reassoc", "contract", "nsz", "arcp"})

OPTIONS: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "fastmath": set(FASTMATH),
    "error_model": "numpy",
    "pipeline_class": KernelCompiler,
    "no_cfunc_wrapper": True,  # an entry for C, which nobody calls, is a tenth of what is compiled
}


# A folder takes about 10 MB. One that was used within a day is never removed: a program that still
# runs with it may be about to write there.
_DAY = 86400.0
_UNUSED_DAYS = 30.0
_NEWEST_KEPT = 8


def kernel(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a function on first call, with the house options and the house cache.

    Parameters
    ----------
    function
        The function; left out when options are given (``@kernel(inline="always")``).
    **options
        Numba options that differ from the house ones.
    """
    if function is None:
        return lambda inner: kernel(inner, **options)
    with house_cache():
        compiled = numba.njit(**{**OPTIONS, **options})(function)
    store = getattr(compiled, "_cache", None)  # None where NUMBA_DISABLE_JIT is set
    if store is not None and {**OPTIONS, **options}["cache"]:
        save = store.save_overload

        def save_if_possible(*arguments: Any) -> None:
            # A full disk costs the next process the time to compile, and this one nothing.
            with contextlib.suppress(OSError):
                save(*arguments)

        store.save_overload = save_if_possible
    return compiled


@contextlib.contextmanager
def house_cache() -> Iterator[None]:
    """Functions that are handed to Numba in the body keep their code in the house cache."""
    settings: Any = config
    before = settings.CACHE_DIR
    settings.CACHE_DIR = str(cache_directory())
    try:
        yield
    finally:
        settings.CACHE_DIR = before


@cache
def cache_directory() -> Path:
    """Folder of the compiled code, keyed by the sources it was compiled from."""
    name = "kernels-" + _source_hash()
    parents = [Path(tempfile.gettempdir()) / f"onlinegcp-{os.getuid() if _HAS_UID else 0}"]
    if os.environ.get("NUMBA_CACHE_DIR"):
        parents.insert(0, Path(os.environ["NUMBA_CACHE_DIR"]))
    else:
        home = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
        parents.insert(0, Path(home) / "onlinegcp")
    for parent in parents:
        folder = parent / name
        try:
            parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
            private = _is_private(folder)
        except OSError:
            continue
        if private and os.access(folder, os.W_OK):
            _remove_unused(folder)
            return folder
    folder = Path(tempfile.mkdtemp(prefix="onlinegcp-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _is_private(folder: Path) -> bool:
    """Whether nobody but this user, and root, can have put anything into a folder."""
    if not _HAS_UID:
        return True
    user, found = os.getuid(), folder.lstat()
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == user
    if not ours or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return False
    for above in folder.resolve().parents:
        # Whoever owns one of these, or may rename what is in it, can put another in our place.
        found = above.stat()
        others_write = found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX
        if others_write or found.st_uid not in (user, 0):
            return False
    folder.chmod(0o700)
    return True


def _remove_unused(current: Path) -> None:
    """Remove the folders beside `current` that no version has used for long, or that are too many.

    Several processes may do this at once: a folder is renamed first, which only one of them can
    do, so that nobody ever meets a folder half removed under its own name.
    """
    now, beside, folders = time.time(), [], []
    with contextlib.suppress(OSError):
        os.utime(current)  # the date of a folder says when a program last started with it
        beside = list(current.parent.iterdir())
    for folder in beside:
        if re.fullmatch(r"kernels-[0-9a-f]{16}(\.removed-[0-9a-f]{8})?", folder.name):
            with contextlib.suppress(OSError):
                folders.append(((now - folder.stat().st_mtime) / _DAY, folder))
    for place, (days, folder) in enumerate(sorted(folders)):
        unused = days > (1.0 if folder.suffix or place >= _NEWEST_KEPT else _UNUSED_DAYS)
        if not unused or folder == current:
            continue
        with contextlib.suppress(OSError):
            doomed = folder.with_suffix(f".removed-{secrets.token_hex(4)}")
            folder.rename(doomed)
            shutil.rmtree(doomed, ignore_errors=True)


def _source_hash() -> str:
    """Hash of every file whose text may end up in compiled code, and of what compiles it.

    Two environments of one user would overwrite each other's code, and find each other's stamps.
    """
    here = Path(__file__).parent
    compiler = (sys.implementation.cache_tag, numba.__version__, np.__version__)
    digest = hashlib.sha256(repr(compiler).encode())
    # Formulas freeze the constants of the losses: whatever a formula can see belongs to it.
    for folder in (here, here.parent / "losses"):
        for file in sorted(folder.rglob("*.py")):
            digest.update(str(file.relative_to(here.parent)).encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


_HAS_UID = hasattr(os, "getuid")
