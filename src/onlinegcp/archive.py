"""The one way anything is stored: a npz file of arrays and a JSON record, all or nothing.

Every file carries what it holds (`kind`) and a format version.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.atomic import replacing
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
    with replacing(path) as file:
        np.savez(file, allow_pickle=False, **{_META: np.array(meta)}, **dict(arrays))


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
        # Opened here, because np.load leaves a damaged file open when it is given a path.
        with source.open("rb") as file, np.load(file, allow_pickle=False) as stored:
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
        raise StateError(
            f"a saved {kind} was needed, but {source} holds a {found}. Give the path of a {kind}."
        )
    return arrays, record
