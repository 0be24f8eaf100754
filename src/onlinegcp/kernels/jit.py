"""The one place where functions are handed to Numba, with one set of options and one cache.

Compiled code is kept on disk in a folder named by a hash of the kernel sources: Numba notices an
edit of the file that holds a function, but not of a callee in another file, and would run the old
code. The folder lies under ``NUMBA_CACHE_DIR`` where that is set, else under
``~/.cache/onlinegcp``, else (nothing writable) in the temporary directory.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core import config

# NaN and infinity stay honest (no nnan, no ninf): a diverging solve must be seen.
FASTMATH = frozenset({"reassoc", "contract", "nsz", "arcp"})

OPTIONS: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "fastmath": set(FASTMATH),
    "error_model": "numpy",
}


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
    settings: Any = config
    before = settings.CACHE_DIR
    settings.CACHE_DIR = str(cache_directory())
    try:
        return numba.njit(**{**OPTIONS, **options})(function)
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
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    return Path(tempfile.mkdtemp(prefix="onlinegcp-"))


def _source_hash() -> str:
    """Hash of every file whose text may end up in compiled code."""
    here = Path(__file__).parent
    digest = hashlib.sha256()
    for file in [*sorted(here.glob("*.py")), here.parent / "losses.py"]:
        if file.exists():
            digest.update(file.name.encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


_HAS_UID = hasattr(os, "getuid")
