"""The one way anything is stored: a npz file of arrays and a JSON record, all or nothing.

A file is written under a temporary name beside its target, flushed to disk and renamed, so that
whatever happens (a kill, a full disk, a power cut) the target is either the old file or the new
one, whole. Every file carries what it holds (`kind`) and a format version.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.errors import DataError, StateError

FORMAT_VERSION = 1
_META = "onlinegcp_meta"


def write_archive(
    path: str | os.PathLike[str],
    kind: str,
    arrays: Mapping[str, NDArray[Any]],
    record: Mapping[str, Any],
) -> None:
    """Store named arrays and a JSON-able record in one file, atomically.

    Parameters
    ----------
    path
        Target, written under exactly this name; an existing file stays until the new one is whole.
    kind
        What the file holds, such as "ktensor"; reading checks it.
    arrays
        Arrays of numbers, booleans or strings. Objects are refused.
    record
        Anything `json.dumps` takes.
    """
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise DataError(
                f"only arrays of numbers or strings can be stored, but {name!r} holds Python "
                f"objects (dtype {array.dtype}). Convert it first, for example with astype(str)."
            )
    # The names are repeated here, because a zip file protects its contents by checksums but not
    # the names it lists them under.
    meta = json.dumps(
        {
            "kind": kind,
            "format": FORMAT_VERSION,
            "arrays": sorted(arrays),
            "record": dict(record),
        }
    )
    target = Path(path)
    try:
        handle, temporary = tempfile.mkstemp(
            dir=target.parent, prefix=f".{target.name}.", suffix=".tmp"
        )
    except OSError as error:
        raise _cannot_write(target, error) from error
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, allow_pickle=False, **{_META: np.array(meta)}, **dict(arrays))
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes private files; give the result the permissions a plain open() would.
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(target)
        _sync_directory(target.parent)
    except OSError as error:
        raise _cannot_write(target, error) from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            Path(temporary).unlink()


def read_archive(
    path: str | os.PathLike[str], kind: str
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The arrays and the record of a file written by `write_archive`.

    Parameters
    ----------
    path
        File to read.
    kind
        What it must hold.

    Returns
    -------
    arrays, record
    """
    source = Path(path)
    if not source.is_file():
        raise StateError(
            f"a saved {kind} was needed at {source}, but there is no such file. Check the path."
        )
    try:
        with np.load(source, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        meta = json.loads(str(arrays.pop(_META)))
        found, version, record = meta["kind"], int(meta["format"]), dict(meta["record"])
        if meta.get("arrays", sorted(arrays)) != sorted(arrays):
            raise ValueError("some of its arrays are not there")
    except Exception as error:  # damaged bytes make the zip and array readers raise anything
        raise StateError(
            f"a saved {kind} was needed, but {source} cannot be read as one: {error}. The file is "
            f"damaged or was not written by onlinegcp; use an earlier copy."
        ) from error
    if version > FORMAT_VERSION:
        raise StateError(
            f"this version of onlinegcp reads format {FORMAT_VERSION} and older, but {source} has "
            f"format {version}. Upgrade onlinegcp to read it."
        )
    if found != kind:
        raise StateError(f"a saved {kind} was needed, but {source} holds a {found}.")
    return arrays, record


def _cannot_write(target: Path, error: OSError) -> StateError:
    kept = "The file already there is unchanged. " if target.exists() else ""
    return StateError(
        f"{target} could not be written: {error.strerror or error}. {kept}"
        f"Free some space or choose another directory."
    )


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def _sync_directory(directory: Path) -> None:
    """Make the rename itself survive a power cut, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
